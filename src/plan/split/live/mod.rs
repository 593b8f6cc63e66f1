//! [`LiveSplit`]: both halves of a model on engines, the device's in this process, the server's in
//! another one, behind a link shaped as the costs say.
//!
//! Latencies are of one frame at a time; periods of frames that follow each other, where device,
//! both directions of the link and server each work on another frame. Results are compared with
//! those of the whole model on the device's engine. Times are ns.

mod compared;
mod difference;
mod error;
mod measured;
mod setup;
mod similarity;

pub use compared::{Compared, compare};
pub use error::LiveSplitError;
pub use measured::{MeasuredSplit, between_ns};
pub use similarity::Similarity;

use super::bisection::{Difference, LiveBreakPoint, bisect};
use crate::{
    models::Model,
    plan::{
        costs::nodes_of,
        live::{Engine, tolerance},
        partition::PartitionError,
    },
};
use difference::difference;
use measured::periods;
use setup::{engines, halves, links, shapes};
use similarity::cosine;
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use vitempo_graph::{Environment, Precision, onnx::ReadOptions};
use vitempo_planners::cost::{Costs, Link};
use vitempo_profiler::{
    OutputValues, RunOptions, Target, WorkerCommand, conformance, inputs,
    live::named,
    split::{Features, Lost, Pass, Reach, Shapes, SplitRig, SplitRunError, SplitSettings},
};

/// Frames before those that count.
pub const WARMUPS: usize = 3;
/// Frames under way at a time while periods are measured: one for each end and direction of the
/// link, and two that wait.
pub const IN_FLIGHT: usize = 6;
/// Bandwidths at which a link can be shaped, bytes per second: 64 kbit/s to 4 Gbit/s.
pub const RATES: std::ops::RangeInclusive<f64> = 8e3..=5e8;

/// How a split runs.
#[derive(Clone, Debug)]
pub struct SplitOptions {
    /// One per processor of the costs, by its name.
    pub engines: Vec<Engine>,
    /// How the server is reached.
    pub reach: Reach,
    /// Precision in which tensors are sent to the server.
    pub features: Features,
    /// Frames that are measured, for latency and for period.
    pub frames: usize,
    /// Seeded inputs whose results are compared with those of the whole model.
    pub inputs: usize,
    /// As [`SplitSettings::timeout`].
    pub timeout: Duration,
    /// Starts a worker that describes the device's engine.
    pub worker: WorkerCommand,
    /// Set it from another thread to stop.
    pub interrupted: Arc<AtomicBool>,
}

/// An end of the split: its engine, and where it runs.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct End {
    /// Name of the processor.
    pub processor: String,
    /// The engine and its environment, with the cores that it has.
    pub environment: Environment,
}

/// Engines with the halves of one or several splits of a model.
#[derive(Debug)]
pub struct LiveSplit {
    rig: SplitRig,
    options: SplitOptions,
    links: [Link; 2],
    names: [String; 2],
    device: Environment,
    /// Seeded inputs, and the whole model's results for each.
    inputs: Vec<Vec<Arc<OutputValues>>>,
    expected: Vec<Vec<OutputValues>>,
    tolerance: f64,
}

impl LiveSplit {
    /// Starts both engines with the halves of these splits; each has for every node of the costs
    /// whether it is on the device.
    ///
    /// # Errors
    /// [`LiveSplitError`] naming the end, the link or the node at fault.
    pub fn start(
        model: &Model,
        read: &ReadOptions,
        costs: &Costs,
        splits: &[&[bool]],
        options: SplitOptions,
    ) -> Result<Self, LiveSplitError> {
        let names = [0, 1].map(|p| costs.processors().get(p).map_or("", |p| p.name.as_str()));
        let [device, server] = engines(names, &options.engines)?;
        let links = links(costs, names)?;
        let nodes = nodes_of(costs, &model.graph)?;
        let whole = model.weighted(read).map_err(PartitionError::from)?;
        let halves = |on_device: &&[bool]| halves(&whole, model, &nodes, on_device);
        let halves = splits.iter().map(halves).collect::<Result<Vec<_>, _>>()?;
        let run = RunOptions::default();
        let seeded = |index: usize| {
            let values = inputs::of_graph(&whole, run.inputs, run.seed.wrapping_add(index as u64));
            values.map(|values| values.into_iter().map(Arc::new).collect::<Vec<_>>())
        };
        let inputs = (0..options.inputs.max(1)).map(seeded).collect::<Result<Vec<_>, _>>();
        let inputs = inputs.map_err(LiveSplitError::Values)?;
        let settings = SplitSettings {
            device: device.processor(),
            server: server.processor(),
            reach: options.reach.clone(),
            features: options.features,
            timeout: options.timeout,
        };
        let shapes = shapes(&links, 1.0);
        let tolerance = tolerance(&whole).max(explained_by(options.features));
        let rig = SplitRig::start(settings, whole, halves, shapes, &options.interrupted)?;
        let used = RunOptions { cores: rig.device_cores(), ..device.processor().options };
        let device = Target::from(options.worker.clone()).probe(&device.backend, &used)?;
        let whole = |values: &Vec<Arc<OutputValues>>| rig.whole(values);
        let expected = inputs.iter().map(whole).collect::<Result<_, _>>()?;
        let names = names.map(str::to_owned);
        Ok(Self { rig, options, links, names, device, inputs, expected, tolerance })
    }

    /// The device's end, and the server's where a split needs it.
    #[must_use]
    pub fn ends(&self) -> Vec<End> {
        let end = |index: usize, environment: Environment| End {
            processor: self.names[index].clone(),
            environment,
        };
        let server = self.rig.server().map(|(environment, cores)| {
            end(1, Environment { cores: cores.to_vec(), ..environment.clone() })
        });
        std::iter::once(end(0, self.device.clone())).chain(server).collect()
    }

    /// Both directions of the link as they are declared.
    #[must_use]
    pub fn declared(&self) -> Shapes {
        shapes(&self.links, 1.0)
    }

    /// Bytes of the tensors that a split sends per frame, and of the results that come back.
    #[must_use]
    pub fn tensor_bytes(&self, split: usize) -> [u64; 2] {
        self.rig.tensor_bytes(split)
    }

    /// The difference of results, as a share of the largest value of an output, that the precisions
    /// of the model and of what is sent explain.
    #[must_use]
    pub const fn tolerance(&self) -> f64 {
        self.tolerance
    }

    /// Measures a split on the link as it is declared: the link itself, frames one at a time,
    /// frames that follow each other, and results.
    ///
    /// # Errors
    /// [`LiveSplitError::Run`] where an engine fails, or the server is lost before the first frame.
    pub fn measure(&mut self, split: usize) -> Result<MeasuredSplit, LiveSplitError> {
        let stop = Arc::clone(&self.options.interrupted);
        self.rig.shape(shapes(&self.links, 1.0), &stop)?;
        let frames = self.options.frames.max(1);
        let uses_server = self.rig.tensor_bytes(split) != [0; 2];
        let mut lost = self.run(&[split; WARMUPS], 0, 1)?.lost;
        let link = match if uses_server { self.rig.throughput(&stop) } else { Ok(None) } {
            Ok(link) => link,
            Err(SplitRunError::Lost { reason, .. }) => {
                lost.push(Lost { frame: WARMUPS, reason });
                None
            }
            Err(error) => return Err(error.into()),
        };
        let alone = self.run(&vec![split; frames], 0, 1)?;
        lost.extend(alone.lost);
        let mut not_run = alone.not_run;
        let streamed = self.run(&vec![split; IN_FLIGHT + frames], 0, IN_FLIGHT)?;
        lost.extend(streamed.lost);
        not_run += streamed.not_run;
        let similarity = self.similarity(split, &mut lost)?;
        let periods_ns = periods(&streamed.frames);
        let (alone, streamed) = (alone.frames, streamed.frames);
        Ok(MeasuredSplit { alone, streamed, periods_ns, lost, not_run, link, similarity })
    }

    /// The results of a split for every seeded input, beside those of the whole model.
    fn similarity(
        &mut self,
        split: usize,
        lost: &mut Vec<Lost>,
    ) -> Result<Option<Similarity>, LiveSplitError> {
        let (mut cosines, mut apart, mut output) = (Vec::new(), 0f64, String::new());
        let mut inputs = 0;
        for index in 0..self.inputs.len() {
            let pass = self.run(&[split], index, 1)?;
            lost.extend(pass.lost);
            let expected = &self.expected[index];
            let result = |e: &OutputValues| named(&pass.values, &e.name).cloned();
            let found: Option<Vec<OutputValues>> = expected.iter().map(result).collect();
            let Some(found) = found.filter(|found| !found.is_empty()) else { continue };
            let (share, name) =
                conformance::difference(expected, &found).map_err(LiveSplitError::Values)?;
            if share >= apart {
                // A record is JSON, which has no infinite numbers.
                (apart, output) = (share.min(f64::MAX), name);
            }
            let pairs = expected.iter().zip(&found);
            cosines.extend(pairs.map(|(a, b)| cosine(&a.values, &b.values)));
            inputs += 1;
        }
        if cosines.is_empty() {
            return Ok(None);
        }
        let cosine = cosines.iter().sum::<f64>() / cosines.len() as f64;
        Ok(Some(Similarity { inputs, cosine, apart, output }))
    }

    /// Measures at which bandwidth two splits are equally fast; frames of both alternate, and
    /// `done` is called with every measurement. The first split is the one for slower links.
    ///
    /// # Errors
    /// As [`LiveSplit::measure`].
    pub fn break_point(
        &mut self,
        [slower, faster]: [usize; 2],
        predicted_bytes_per_s: f64,
        done: &mut dyn FnMut(&Difference),
    ) -> Result<LiveBreakPoint, LiveSplitError> {
        if !RATES.contains(&predicted_bytes_per_s) {
            return Ok(LiveBreakPoint::out_of_reach(predicted_bytes_per_s));
        }
        let stop = Arc::clone(&self.options.interrupted);
        let own = self.links[0].bandwidth_bytes_per_s.point() as f64;
        self.run(&[slower, faster], 0, 1)?;
        bisect(predicted_bytes_per_s, &RATES, |bytes_per_s| {
            self.rig.shape(shapes(&self.links, bytes_per_s / own), &stop)?;
            let sequence: Vec<usize> =
                (0..2 * self.options.frames.max(2)).map(|i| [slower, faster][i % 2]).collect();
            let pass = self.run(&sequence, 0, 1)?;
            let difference =
                difference(&pass, slower, bytes_per_s).ok_or_else(|| SplitRunError::Lost {
                    times: pass.lost.len(),
                    reason: "no two frames were completed".to_owned(),
                })?;
            done(&difference);
            Ok(difference)
        })
    }

    fn run(
        &mut self,
        sequence: &[usize],
        input: usize,
        in_flight: usize,
    ) -> Result<Pass, LiveSplitError> {
        let inputs = self.inputs.get(input).map_or(&[][..], Vec::as_slice);
        Ok(self.rig.run(sequence, inputs, in_flight, &self.options.interrupted)?)
    }
}

/// The difference of results that the precision of what is sent explains.
fn explained_by(features: Features) -> f64 {
    match features {
        Features::F32 => 0.0,
        Features::F16 => conformance::tolerance(Precision::F16),
        Features::Int8 => conformance::tolerance(Precision::I8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_profiler::split::FrameTimes;

    fn times(frame: usize, split: usize, latency_ns: u64, completed_ns: u64) -> FrameTimes {
        FrameTimes {
            frame,
            split,
            latency_ns,
            completed_ns,
            device_ns: 1,
            server_ns: 2,
            sent_bytes: 3,
            received_bytes: 4,
        }
    }

    #[test]
    fn pairs_that_lost_a_frame_do_not_count() {
        let frames =
            vec![times(0, 7, 50, 0), times(1, 9, 60, 0), times(3, 9, 1, 0), times(4, 7, 80, 0)];
        let pass = Pass { frames: [frames, vec![times(5, 9, 60, 0)]].concat(), ..Pass::default() };
        let found = difference(&pass, 7, 5.0);
        let expected = Difference { bytes_per_s: 5.0, median_ns: 5.0, noise_ns: 15.0 };
        assert_eq!(found, Some(expected), "-10 and 20");
        assert_eq!(difference(&Pass::default(), 7, 5.0), None);
    }

    #[test]
    fn periods_begin_when_all_parts_are_busy_and_skip_what_was_lost() {
        let mut frames: Vec<FrameTimes> =
            (0..9).map(|frame| times(frame, 0, 5, 100 * frame as u64)).collect();
        assert_eq!(periods(&frames), [100; 3]);
        frames.remove(6);
        assert_eq!(periods(&frames), [100]);
        // Another connection, whose clock begins again.
        frames[6].completed_ns = 3;
        assert_eq!(periods(&frames), [797]);
        assert_eq!(periods(&frames[..3]), [0; 0]);
    }

    #[test]
    fn what_neither_engine_accounts_for_is_the_link() {
        assert_eq!(between_ns(&times(0, 0, 10, 0)), 7);
        assert_eq!(between_ns(&times(0, 0, 2, 0)), 0);
    }
}
