//! [`LiveSplit`]: both halves of a model on engines, the device's in this process, the server's in
//! another one, behind a link shaped as the costs say.
//!
//! Latencies are of one frame at a time; periods of frames that follow each other, where device,
//! both directions of the link and server each work on another frame. Results are compared with
//! those of the whole model on the device's engine. Times are ns.

use super::{
    bisection::{Difference, LiveBreakPoint, bisect},
    forecast::Forecast,
};
use crate::{
    models::Model,
    plan::{
        costs::{PlanCostsError, nodes_of},
        live::{Engine, interval},
        partition::{Partition, PartitionError, weighted},
    },
};
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use vitempo_graph::{Environment, Graph, onnx::ReadOptions};
use vitempo_planners::cost::{Costs, Interval, Link};
use vitempo_profiler::{
    OutputValues, RunOptions, SweepError, Target, WorkerCommand, conformance, inputs,
    live::named,
    split::{
        Features, FrameTimes, Halves, Lost, Pass, Reach, Shape, Shapes, SplitRig, SplitRunError,
        SplitSettings, Throughput,
    },
    statistics,
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

/// Why a split does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveSplitError {
    /// An end does not start, fails or is lost.
    #[error(transparent)]
    Run(#[from] SplitRunError),
    /// The device's engine is not available.
    #[error("the device: {0}")]
    Device(#[from] SweepError),
    /// A processor of the costs without an engine.
    #[error("processor `{processor}` has no engine")]
    NoEngine {
        /// Its name.
        processor: String,
    },
    /// An engine for a processor that the costs lack, or that has one already.
    #[error("no processor needs the engine of `{name}`: there are `{device}` and `{server}`")]
    UnknownEngine {
        /// The given name.
        name: String,
        /// The device's name.
        device: String,
        /// The server's name.
        server: String,
    },
    /// A link that cannot be shaped like this.
    #[error("the link from `{from}` to `{to}` {reason}")]
    Link {
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The model cannot be cut like this.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// The costs are of another model.
    #[error(transparent)]
    Costs(#[from] PlanCostsError),
    /// The inputs cannot be filled, or results have other shapes.
    #[error("{0}")]
    Values(String),
}

/// Similarity of the results of a split with those of the whole model.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Similarity {
    /// Number of seeded inputs.
    pub inputs: usize,
    /// Mean cosine over inputs and outputs.
    pub cosine: f64,
    /// Largest difference, as a share of the largest value of its output.
    pub apart: f64,
}

/// Measurements of a split.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredSplit {
    /// Frames one at a time.
    pub alone: Vec<FrameTimes>,
    /// Frames that follow each other.
    pub streamed: Vec<FrameTimes>,
    /// Times between results of frames that follow each other.
    pub periods_ns: Vec<u64>,
    /// Frames that were lost with the server.
    pub lost: Vec<Lost>,
    /// Frames that did not begin because the server was lost too often.
    pub not_run: usize,
    /// The real rates of the link; `None` where the server is not used.
    pub link: Option<Throughput>,
    /// `None` where engines compute nothing, or no frame was completed any more.
    pub similarity: Option<Similarity>,
}

impl MeasuredSplit {
    /// Median of something about frames alone, and the middle four fifths.
    pub fn alone(&self, of: impl Fn(&FrameTimes) -> u64) -> Option<Interval> {
        interval(&self.alone.iter().map(of).collect::<Vec<_>>())
    }

    /// The same of periods.
    #[must_use]
    pub fn period_ns(&self) -> Option<Interval> {
        interval(&self.periods_ns)
    }
}

/// What neither engine accounts for: the link both ways, and handing over.
#[must_use]
pub fn between_ns(times: &FrameTimes) -> u64 {
    times.latency_ns.saturating_sub(times.device_ns).saturating_sub(times.server_ns)
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
        let whole = weighted(model, read).map_err(PartitionError::from)?;
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
        let rig = SplitRig::start(settings, whole, halves, shapes, &options.interrupted)?;
        let used = RunOptions { cores: rig.device_cores(), ..device.processor().options };
        let device = Target::from(options.worker.clone()).probe(&device.backend, &used)?;
        let whole = |values: &Vec<Arc<OutputValues>>| rig.whole(values);
        let expected = inputs.iter().map(whole).collect::<Result<_, _>>()?;
        let names = names.map(str::to_owned);
        Ok(Self { rig, options, links, names, device, inputs, expected })
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
        let (mut cosines, mut apart) = (Vec::new(), 0f64);
        let mut inputs = 0;
        for index in 0..self.inputs.len() {
            let pass = self.run(&[split], index, 1)?;
            lost.extend(pass.lost);
            let expected = &self.expected[index];
            let result = |e: &OutputValues| named(&pass.values, &e.name).cloned();
            let found: Option<Vec<OutputValues>> = expected.iter().map(result).collect();
            let Some(found) = found.filter(|found| !found.is_empty()) else { continue };
            let (share, _) =
                conformance::difference(expected, &found).map_err(LiveSplitError::Values)?;
            apart = apart.max(share);
            let pairs = expected.iter().zip(&found);
            cosines.extend(pairs.map(|(a, b)| cosine(&a.values, &b.values)));
            inputs += 1;
        }
        if cosines.is_empty() {
            return Ok(None);
        }
        let cosine = cosines.iter().sum::<f64>() / cosines.len() as f64;
        Ok(Some(Similarity { inputs, cosine, apart }))
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

/// Latency of the one split minus that of the other, over pairs of frames that follow each other.
fn difference(pass: &Pass, slower: usize, bytes_per_s: f64) -> Option<Difference> {
    let is_pair = |pair: &&[FrameTimes]| {
        pair[0].frame + 1 == pair[1].frame && pair[0].frame.is_multiple_of(2)
    };
    let signed = |pair: &[FrameTimes]| {
        let (a, b) = (pair[0].latency_ns as f64, pair[1].latency_ns as f64);
        if pair[0].split == slower { a - b } else { b - a }
    };
    let differences: Vec<f64> = pass.frames.windows(2).filter(is_pair).map(signed).collect();
    // Order statistics take whole numbers from 0.
    let least = differences.iter().copied().fold(f64::INFINITY, f64::min);
    let shifted: Vec<u64> = differences.iter().map(|d| (d - least) as u64).collect();
    let median_ns = statistics::median(&shifted)? + least;
    let range = || Some(*shifted.iter().max()? as f64 / 2.0);
    let of_median = |(low, high): (u64, u64)| (high - low) as f64 / 2.0;
    let noise_ns = statistics::median_interval(&shifted).map(of_median).or_else(range)?;
    Some(Difference { bytes_per_s, median_ns, noise_ns })
}

/// Times between the results of frames that follow each other, once all parts are busy.
fn periods(frames: &[FrameTimes]) -> Vec<u64> {
    let follows = |pair: &&[FrameTimes]| {
        pair[0].frame + 1 == pair[1].frame && pair[0].completed_ns <= pair[1].completed_ns
    };
    let busy = frames.get(IN_FLIGHT.saturating_sub(1)..).unwrap_or_default();
    let period = |pair: &[FrameTimes]| pair[1].completed_ns - pair[0].completed_ns;
    busy.windows(2).filter(follows).map(period).collect()
}

/// The engines of device and server.
fn engines<'a>(names: [&str; 2], engines: &'a [Engine]) -> Result<[&'a Engine; 2], LiveSplitError> {
    let of = |name: &str| {
        let mut found = engines.iter().filter(|engine| engine.name == name);
        let engine = found.next();
        engine.ok_or_else(|| LiveSplitError::NoEngine { processor: name.to_owned() })
    };
    let ends = [of(names[0])?, of(names[1])?];
    match engines.iter().find(|engine| ends.iter().all(|end| !std::ptr::eq(*end, *engine))) {
        Some(other) => Err(LiveSplitError::UnknownEngine {
            name: other.name.clone(),
            device: names[0].to_owned(),
            server: names[1].to_owned(),
        }),
        None => Ok(ends),
    }
}

/// The link to the server and the one back; results come back without cost where the costs have
/// none.
fn links(costs: &Costs, names: [&str; 2]) -> Result<[Link; 2], LiveSplitError> {
    let one = |from: usize, to: usize| {
        let error = |reason| LiveSplitError::Link {
            from: names[from].to_owned(),
            to: names[to].to_owned(),
            reason,
        };
        let link = costs.link(from, to).ok_or_else(|| error("is not in the costs"))?;
        let rate = link.bandwidth_bytes_per_s.point() as f64;
        if !RATES.contains(&rate) {
            return Err(error("has a rate that cannot be shaped: expected 64 kbit/s to 4 Gbit/s"));
        }
        if link.message_ns > 0 || link.conversion_bytes_per_s.is_some() {
            return Err(error("has message_ns or conversion_bytes_per_s, which are not shaped"));
        }
        Ok(*link)
    };
    Ok([one(0, 1)?, one(1, 0)?])
}

/// The link at so many times its bandwidth.
fn shapes(links: &[Link; 2], factor: f64) -> Shapes {
    let shape = |link: &Link| {
        let bytes_per_s = (link.bandwidth_bytes_per_s.point() as f64 * factor).round() as u64;
        Some(Shape { bytes_per_s: bytes_per_s.max(1), setup_ns: link.setup_ns })
    };
    Shapes { there: shape(&links[0]), back: shape(&links[1]) }
}

/// Both halves of a model; one where the other has no node.
fn halves(
    whole: &Graph,
    model: &Model,
    nodes: &[usize],
    on_device: &[bool],
) -> Result<Halves, LiveSplitError> {
    let is_here = |&node: &usize| on_device.get(node).copied().unwrap_or(true);
    let part_of: Vec<usize> = nodes.iter().map(|node| usize::from(!is_here(node))).collect();
    if part_of.iter().all(|&part| part == 0) {
        return Ok(Halves { device: Some(whole.clone()), server: None });
    }
    if part_of.iter().all(|&part| part == 1) {
        return Ok(Halves { device: None, server: Some(whole.clone()) });
    }
    let mut parts = Partition::divide(whole, model, &part_of, &["device", "server"])?;
    let server = parts.pop();
    Ok(Halves { device: parts.pop(), server })
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>()
    };
    let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    if cosine.is_finite() { cosine } else { f64::from(u8::from(a == b)) }
}

/// The forecast of a split beside its measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// What is compared.
    pub what: &'static str,
    /// What the costs say, ns.
    pub forecast_ns: Interval,
    /// What was measured, ns; `None` without samples.
    pub measured_ns: Option<Interval>,
}

impl Compared {
    /// The measurement relative to the forecast: 0.1 for 10 % more.
    #[must_use]
    pub fn off(&self) -> Option<f64> {
        let forecast = self.forecast_ns.point();
        let measured = self.measured_ns?.point() as f64;
        (forecast > 0).then(|| measured / forecast as f64 - 1.0)
    }
}

/// Latency, period, and the parts of the latency.
#[must_use]
pub fn compare(forecast: &Forecast, measured: &MeasuredSplit) -> Vec<Compared> {
    let row = |what, forecast_ns, measured_ns| Compared { what, forecast_ns, measured_ns };
    vec![
        row("latency", forecast.latency_ns, measured.alone(|t| t.latency_ns)),
        row("period", forecast.period_ns, measured.period_ns()),
        row("device", forecast.device_ns, measured.alone(|t| t.device_ns)),
        row("link", forecast.there_ns + forecast.back_ns, measured.alone(between_ns)),
        row("server", forecast.server_ns, measured.alone(|t| t.server_ns)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

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
