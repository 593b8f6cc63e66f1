//! [`OffloadModel::frame_of_plan`]: the energy of a frame when a plan runs on the device: the plan's
//! stages, the radio's phases for what it sends, converting the image, and camera and base over the
//! time from one frame to the next.
//!
//! A plan whose stages overlap takes a frame every max(its period, conversion, 1 / camera rate),
//! any other every max(conversion + its latency, 1 / camera rate). A stage draws what is given
//! ([`StageEnergy`]); where nothing is, the device's power of inference.

use super::{
    CameraUse, Cycles,
    offload::{EnergyParts, OffloadModel},
};
use crate::{
    Plan, Stage, Transfer,
    cost::{Costs, Interval},
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How the device is used while a plan runs.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanUse {
    /// Frequency of the device, GHz.
    pub ghz: f64,
    /// The camera.
    pub camera: CameraUse,
    /// Work of converting an image.
    pub conversion: Cycles,
    /// Names of the processors that are not on the device: what is sent to them goes by radio.
    pub remote: Vec<String>,
}

/// What a stage takes by other sources than the device.
#[derive(Clone, Copy, Debug)]
pub enum StageEnergy<'a> {
    /// Nothing is given.
    Device,
    /// Energies of nodes, and powers of processors, of these costs.
    Costs(&'a Costs),
    /// Powers of processors while they compute, W, by name.
    Powers(&'a [(String, f64)]),
}

/// One frame of a plan on a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFrame {
    /// Time from taking the image to the result, s.
    pub latency_s: f64,
    /// Time from one frame to the next, s.
    pub period_s: f64,
    /// Energy of the device in that time, J.
    pub energy_j: f64,
    /// The same by part.
    pub parts: EnergyParts,
    /// Share of the power of camera and preview that goes into frames that the plan runs on.
    pub sampling_share: f64,
}

impl fmt::Display for PlanFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { energy_j, period_s, parts, .. } = self;
        write!(
            f,
            "a frame on the device takes {energy_j:.3} J, every {period_s:.3} s: stages {:.3}, \
            conversion {:.3}, radio {:.3}, camera {:.3}, base {:.3} J",
            parts.inference_j, parts.conversion_j, parts.radio_j, parts.camera_j, parts.base_j
        )
    }
}

/// What runs for a frame: a plan, or a placement.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// In the order a frame passes through them.
    pub stages: Vec<Stage>,
    /// The transfers between stages.
    pub transfers: Vec<Transfer>,
    /// Time from a frame's input to its results.
    pub latency_ns: Interval,
    /// Time between the results of two frames, where frames overlap.
    pub period_ns: Option<Interval>,
}

impl From<&Plan> for Running {
    fn from(plan: &Plan) -> Self {
        Self {
            stages: plan.stages.clone(),
            transfers: plan.transfers.clone(),
            latency_ns: plan.predicted.latency_ns,
            period_ns: plan.predicted.period_ns,
        }
    }
}

/// Times of a plan on the device, s.
struct Times {
    conversion_s: f64,
    sending_s: f64,
    /// From the last byte sent to the answer.
    answer_s: f64,
    latency_s: f64,
    /// Where stages overlap.
    plan_period_s: Option<f64>,
}

/// Times of one frame with a promotion of the radio, s.
struct Promoted {
    promotion_s: f64,
    latency_s: f64,
    period_s: f64,
    /// From the answer to the next promotion or transmission.
    quiet_s: f64,
}

impl Times {
    fn frame(&self, promotion_s: f64, camera_s: f64) -> Promoted {
        let latency_s = self.conversion_s + self.latency_s + promotion_s;
        let period_s = match self.plan_period_s {
            Some(period_s) => period_s.max(self.conversion_s).max(camera_s),
            None => latency_s.max(camera_s),
        };
        let quiet_s = (period_s - promotion_s - self.sending_s - self.answer_s).max(0.0);
        Promoted { promotion_s, latency_s, period_s, quiet_s }
    }
}

impl OffloadModel {
    /// One frame of a plan, by its point estimates.
    #[must_use]
    pub fn frame_of_plan(
        &self,
        plan: &Running,
        given: StageEnergy<'_>,
        with: &PlanUse,
    ) -> PlanFrame {
        let times = self.times_of(plan, with);
        let sends = times.sending_s > 0.0;
        let camera_s = 1.0 / with.camera.fps;
        let frame = |promotion_s: f64| times.frame(promotion_s, camera_s);
        let frames = match sends {
            true => self.radio.frames(frame, |frame| frame.quiet_s),
            false => vec![frame(0.0)],
        };
        let mean = |of: &dyn Fn(&Promoted) -> f64| {
            frames.iter().map(of).sum::<f64>() / frames.len() as f64
        };
        let period_s = mean(&|frame| frame.period_s);
        let radio_j = |frame: &Promoted| {
            self.radio.frame_j(frame.promotion_s, times.sending_s, times.answer_s, frame.quiet_s)
        };
        let of_stage = |stage: &Stage| self.stage_j(stage, given, with);
        let parts = EnergyParts {
            conversion_j: self.conversion_power.watts(with.ghz) * times.conversion_s,
            inference_j: plan.stages.iter().map(of_stage).sum(),
            radio_j: if sends { mean(&radio_j) } else { 0.0 },
            camera_j: self.camera.watts(with.ghz, with.camera) * period_s,
            base_j: self.base.watts(with.ghz) * period_s,
        };
        PlanFrame {
            latency_s: mean(&|frame| frame.latency_s),
            period_s,
            energy_j: parts.total_j(),
            parts,
            sampling_share: self.camera.detected_j(with.camera) / parts.camera_j,
        }
    }

    fn times_of(&self, plan: &Running, with: &PlanUse) -> Times {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let is_remote = |name: &String| with.remote.contains(name);
        let stages = |remote: bool| {
            let of = |stage: &&Stage| is_remote(&stage.processor) == remote;
            plan.stages.iter().filter(of).map(|s| seconds(s.latency_ns.point())).sum::<f64>()
        };
        let transfers = |remote: bool| {
            let of =
                plan.transfers.iter().filter(|t| !is_remote(&t.from) && is_remote(&t.to) == remote);
            // The radio does not send while the link is set up.
            of.map(|t| seconds(t.latency_ns.point().saturating_sub(t.setup_ns))).sum::<f64>()
        };
        let latency_s = seconds(plan.latency_ns.point());
        let plan_period_s = plan.period_ns.map(|ns| seconds(ns.point()));
        let local_s = stages(false) + transfers(false);
        let sending_s = transfers(true);
        let answer_s = match (sending_s > 0.0, plan_period_s) {
            (false, _) => 0.0,
            (true, Some(_)) => stages(true),
            (true, None) => (latency_s - local_s - sending_s).max(0.0),
        };
        let conversion_s = with.conversion.seconds(with.ghz) + self.others_s;
        Times { conversion_s, sending_s, answer_s, latency_s, plan_period_s }
    }

    /// Energy of a stage on the device, J; 0 for one elsewhere.
    fn stage_j(&self, stage: &Stage, given: StageEnergy<'_>, with: &PlanUse) -> f64 {
        if with.remote.contains(&stage.processor) {
            return 0.0;
        }
        let seconds = stage.latency_ns.point() as f64 / 1e9;
        let known = match given {
            StageEnergy::Device => None,
            StageEnergy::Costs(costs) => given_j(stage, costs),
            StageEnergy::Powers(watts) => {
                let found = watts.iter().rev().find(|(name, _)| *name == stage.processor);
                found.map(|(_, watts)| watts * seconds)
            }
        };
        known.unwrap_or_else(|| self.inference_power.watts(with.ghz) * seconds)
    }
}

/// Energy of a stage by the costs, J; `None` where they have neither energies nor a power.
fn given_j(stage: &Stage, costs: &Costs) -> Option<f64> {
    let at = costs.processors().iter().position(|p| p.name == stage.processor)?;
    let index = |name: &String| costs.nodes().iter().position(|node| node.name == *name);
    let nodes: Vec<usize> = stage.nodes.iter().filter_map(index).collect();
    let is_known = costs.processors()[at].active_w > 0.0
        || nodes.iter().any(|&n| costs.nodes()[n].energy_nj[at].is_some());
    let joules = |&n: &usize| costs.energy_nj(n, at).map_or(0.0, |nj| nj.point() as f64 / 1e9);
    is_known.then(|| nodes.iter().map(joules).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cost::{Link, NodeCosts, ProcessorCosts, TensorCosts},
        energy::{
            Radio,
            nexus6::{self, Measured},
            offload::{Clock, Frame, Place, Use},
        },
        split::{Criterion, Objective, Split},
    };
    use std::collections::BTreeMap;

    /// The study's network as one operator: on the phone, on the server, and an image between them.
    fn costs(device: &OffloadModel, ghz: f64, confined: bool) -> Costs {
        let ns = |seconds: f64| Some(Interval::exact((1e9 * seconds) as u64));
        let node = NodeCosts {
            name: "network".to_owned(),
            latency_ns: vec![
                ns(device.local[0].inference.seconds(ghz)),
                ns(device.remote[0].inference.seconds(1.0)),
            ],
            energy_nj: vec![None, None],
            memory_bytes: 0,
        };
        let image = TensorCosts {
            name: "image".to_owned(),
            size_bytes: device.remote[0].sent_bytes,
            producer: None,
            consumers: vec![0],
            output: false,
            confined,
        };
        let link = Link::of_bandwidth(device.bandwidth_bytes_per_s as u64);
        let processors = ["phone", "server"].map(ProcessorCosts::named).to_vec();
        let links = BTreeMap::from([((0, 1), link)]);
        Costs::new("m", processors, links, vec![node], vec![image], vec![]).expect("costs")
    }

    /// One frame as offloading has it, and as a plan of one operator.
    fn both(device: &OffloadModel, with: &Use, ghz: f64) -> (Frame, PlanFrame) {
        let costs = costs(device, ghz, with.place == Place::Local);
        let split = Split::new(&costs, 0, 1).expect("a split");
        let objective = Objective::least(Criterion::Latency);
        let plan = split.best(&objective).expect("a plan").plan;
        let of_plan = PlanUse {
            ghz,
            camera: with.camera,
            conversion: with.conversion,
            remote: vec!["server".to_owned()],
        };
        let running = Running::from(&plan);
        let found = device.frame_of_plan(&running, StageEnergy::Costs(&costs), &of_plan);
        (device.frame(with), found)
    }

    #[test]
    fn a_plan_of_one_operator_takes_what_offloading_takes() {
        let (device, measured) =
            (nexus6::device().expect("a device"), Measured::shipped().expect("the tables"));
        let radio = Radio { promotion_s: 0.4, promotion_w: 1.0, tail_s: 1.0, ..device.radio };
        let slow_to_wake = OffloadModel { radio, ..device.clone() };
        let network = device.remote[0];
        let busy_s = network.sent_bytes as f64 / device.bandwidth_bytes_per_s
            + device.round_trip_s
            + network.inference.seconds(1.0);
        let ghz = 1.497;
        let mut alternating = 0;
        for (device, place, fps) in [
            (&device, Place::Local, 15.0),
            (&device, Place::Remote, 15.0),
            (&slow_to_wake, Place::Remote, 1.0 / (busy_s + 0.9)),
            (&slow_to_wake, Place::Remote, 1.0 / (busy_s + 1.2)),
            (&slow_to_wake, Place::Remote, 1.0 / (busy_s + 1.5)),
        ] {
            let network = if place == Place::Local { device.local[0] } else { device.remote[0] };
            let as_measured = nexus6::as_measured(&measured, place, network, Clock::Fixed(ghz));
            let camera = CameraUse { fps, ..as_measured.camera };
            let (expected, found) = both(device, &Use { camera, ..as_measured }, ghz);
            let close = |a: f64, b: f64| {
                assert!((a / b - 1.0).abs() < 1e-6, "{place:?}, {fps} frames/s: {a} {b}");
            };
            close(found.energy_j, expected.energy_j());
            close(found.latency_s, expected.latency_s);
            close(found.period_s, expected.period_s);
            close(found.sampling_share, expected.sampling_share);
            let promotion = expected.phases.iter().find(|phase| phase.name == "promotion");
            alternating += usize::from(promotion.is_some_and(|p| (p.seconds - 0.2).abs() < 1e-9));
        }
        assert_eq!(alternating, 1, "quiet for 1.2 s, and after a promotion for 0.8 s");
    }
}
