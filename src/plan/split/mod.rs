//! Splits a model between a device and a server behind a link: [`costs()`] of both, then [`best`],
//! [`pareto`] or [`over_bandwidth`], then the halves as files ([`write_halves`]). Searches end with
//! a [`Budget`] (by default [`budget`]).
//!
//! With the feature `profile`, `live` runs both halves on engines over a shaped link, and finds
//! break points over bandwidth on it; `with_features` counts the bytes of another precision.
//!
//! ```
//! use vitempo::{Bundle, graph::onnx, plan::split, planners::split::{Criterion, Objective}};
//!
//! let model = "tests/models/mobilevit_xxs.onnx".as_ref();
//! let graph = onnx::read_file(model, &onnx::ReadOptions::default())?;
//! let device = Bundle::open("bundles/adapted/pixel4-tflite-cpu-f32.vtb")?;
//! let server = Bundle::open("bundles/epyc-onnxruntime-f32-2t.vtb")?;
//!
//! let connection = split::Connection::of_bandwidth(2_500_000);
//! let power = split::DevicePower::default();
//! let costs = split::costs(&graph, &device, &server, &connection, power)?.costs;
//! let best = split::best(&costs, &Objective::least(Criterion::Latency), split::budget())?;
//! println!("{}", best.plan);
//! # assert_eq!(best.on_device.len(), graph.nodes().len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "profile")]
mod bisection;
#[cfg(feature = "profile")]
mod features;
#[cfg(feature = "profile")]
mod forecast;
#[cfg(feature = "profile")]
pub mod live;
#[cfg(feature = "profile")]
pub mod record;

#[cfg(feature = "profile")]
pub use bisection::{BreakPointOf, Difference, LiveBreakPoint, NotFound, bisect, break_points_of};
#[cfg(feature = "profile")]
pub use features::{FeaturesError, with_features};
#[cfg(feature = "profile")]
pub use forecast::Forecast;

use super::{
    costs::{self, ForecastCosts, ForecastProcessor, Links, PlanCostsError},
    parts::{self, WritePartsError},
};
use std::path::{Path, PathBuf};
use vitempo_graph::{Budget, Graph, LatencyModel};
use vitempo_planners::{
    cost::{Costs, Link, ProcessorCosts},
    split::{
        BandwidthRange, Bound, Criterion, Front, Objective, STEPS, Split, SplitError, SplitPlan,
    },
};

/// Index of the device among the processors of the costs.
const DEVICE: usize = 0;
/// Index of the server.
const SERVER: usize = 1;

/// Why a split cannot be planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanSplitError {
    /// The costs lack a server.
    #[error("the costs have one processor; a split needs a device and a server")]
    OneProcessor,
    /// The costs have more than a device and a server.
    #[error(
        "the costs have a third processor, `{processor}`; a split is between two, the first and \
        the second: leave it out"
    )]
    ThirdProcessor {
        /// Its name.
        processor: String,
    },
    /// No split is possible, or none within the bounds.
    #[error(transparent)]
    Split(#[from] SplitError),
}

/// The link between device and server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Connection {
    /// Bandwidth in both directions, bytes per second.
    pub bytes_per_s: u64,
    /// Time added once per inference that uses the server, ns.
    pub round_trip_ns: u64,
    /// Time added once per tensor, either way, ns: what its ends take to hand it over.
    pub hand_over_ns: u64,
    /// Power that the device draws while it sends, W.
    pub transmit_w: f64,
}

impl Connection {
    /// A link of which only the bandwidth is known.
    #[must_use]
    pub const fn of_bandwidth(bytes_per_s: u64) -> Self {
        Self { bytes_per_s, round_trip_ns: 0, hand_over_ns: 0, transmit_w: 0.0 }
    }

    /// The link to the server, and the one back.
    fn links(self) -> Links {
        let back = Link { message_ns: self.hand_over_ns, ..Link::of_bandwidth(self.bytes_per_s) };
        let there = Link { setup_ns: self.round_trip_ns, transmit_w: self.transmit_w, ..back };
        Links::from([((DEVICE, SERVER), there), ((SERVER, DEVICE), back)])
    }
}

/// Power that the device draws, W; 0 where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DevicePower {
    /// While it computes.
    pub active_w: f64,
    /// While it waits.
    pub idle_w: f64,
}

/// Bounds on a split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Latency at most, ns.
    pub latency_ns: Option<u64>,
    /// Energy of the device at most, nJ.
    pub device_energy_nj: Option<u64>,
    /// Memory on the device at most, bytes.
    pub device_memory_bytes: Option<u64>,
}

impl Limits {
    /// The least of a criterion within these bounds.
    #[must_use]
    pub fn objective(&self, minimise: Criterion) -> Objective {
        let bounds = [
            (Criterion::Latency, self.latency_ns),
            (Criterion::DeviceEnergy, self.device_energy_nj),
            (Criterion::DeviceMemory, self.device_memory_bytes),
        ];
        let bound = |(criterion, most): (Criterion, Option<u64>)| {
            most.map(|at_most| Bound { criterion, at_most })
        };
        Objective { minimise, bounds: bounds.into_iter().filter_map(bound).collect() }
    }
}

/// Costs of a model on a device and on a server.
///
/// # Errors
/// As [`costs::of_graph`]; the processors are called `device` and `server`.
pub fn costs(
    graph: &Graph,
    device: &dyn LatencyModel,
    server: &dyn LatencyModel,
    connection: &Connection,
    power: DevicePower,
) -> Result<ForecastCosts, PlanCostsError> {
    let processor = ProcessorCosts {
        active_w: power.active_w,
        idle_w: power.idle_w,
        ..ProcessorCosts::named("device")
    };
    let processors = [
        ForecastProcessor { processor, bundle: device },
        ForecastProcessor::named("server", server),
    ];
    costs::of_graph(graph, &processors, connection.links())
}

/// The problem of where to cut: the first processor of the costs is the device, the second the
/// server.
///
/// # Errors
/// [`PlanSplitError`] where there is one processor only, no link, or a contradiction.
pub fn between(costs: &Costs) -> Result<Split<'_>, PlanSplitError> {
    match costs.processors() {
        [_, _] => Ok(Split::new(costs, DEVICE, SERVER)?),
        [_, _, third, ..] => Err(PlanSplitError::ThirdProcessor { processor: third.name.clone() }),
        _ => Err(PlanSplitError::OneProcessor),
    }
}

/// The default budget of one search: it counts steps, so that every machine finds the same split.
#[must_use]
pub fn budget() -> Budget {
    Budget::new(vitempo_graph::Limits { steps: STEPS, ..vitempo_graph::Limits::NONE })
}

/// The best split.
///
/// # Errors
/// As [`between`], or [`SplitError::Impossible`] when no split satisfies the bounds.
pub fn best(
    costs: &Costs,
    objective: &Objective,
    budget: Budget,
) -> Result<SplitPlan, PlanSplitError> {
    Ok(between(costs)?.within(budget).best(objective)?)
}

/// The Pareto front of splits within the bounds, of latency and the device's energy, or bytes sent
/// if the costs have no energy.
///
/// # Errors
/// As [`best`].
pub fn pareto(costs: &Costs, bounds: &[Bound], budget: Budget) -> Result<Front, PlanSplitError> {
    let split = between(costs)?.within(budget);
    let energy = split.is_energy_known();
    let second = if energy { Criterion::DeviceEnergy } else { Criterion::BytesSent };
    Ok(split.pareto(Criterion::Latency, second, bounds)?)
}

/// The best split for every range of bandwidths, within the bounds, from the slowest link to the
/// fastest.
/// The bandwidths of both directions change together.
///
/// # Errors
/// As [`best`].
pub fn over_bandwidth(
    costs: &Costs,
    objective: &Objective,
    budget: Budget,
) -> Result<Vec<BandwidthRange>, PlanSplitError> {
    Ok(between(costs)?.within(budget).over_bandwidth(objective)?)
}

/// For every node the index of its processor.
#[must_use]
pub fn processors(split: &SplitPlan) -> Vec<usize> {
    split.on_device.iter().map(|&here| if here { DEVICE } else { SERVER }).collect()
}

/// Cuts the model's file into `MODEL.device.onnx` and `MODEL.server.onnx` in a folder, with the
/// model's own weights where it has them; `nodes` has the index of each of its nodes in the costs
/// ([`costs::nodes_of`]). Returns their paths; `None` where the whole model runs on one side: no
/// files are written.
///
/// # Errors
/// As [`parts::write`].
pub fn write_halves(
    model: &Path,
    graph: &Graph,
    nodes: &[usize],
    split: &SplitPlan,
    folder: &Path,
) -> Result<Option<Vec<PathBuf>>, WritePartsError> {
    let is_one_sided = split.on_device.windows(2).all(|pair| pair[0] == pair[1]);
    if is_one_sided {
        return Ok(None);
    }
    let (names, of_costs) = (["device", "server"], processors(split));
    let part_of: Vec<usize> = nodes.iter().map(|&node| of_costs[node]).collect();
    parts::write(model, graph, &part_of, &names, folder).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_given_become_bounds() {
        let limits =
            Limits { latency_ns: Some(7), device_memory_bytes: Some(9), ..Limits::default() };
        let expected = Objective::least(Criterion::BytesSent)
            .keeping(Criterion::Latency, 7)
            .keeping(Criterion::DeviceMemory, 9);
        assert_eq!(limits.objective(Criterion::BytesSent), expected);
        let without = Limits::default().objective(Criterion::Latency);
        assert_eq!(without, Objective::least(Criterion::Latency));
    }

    #[test]
    fn sending_pays_for_the_round_trip_and_receiving_does_not() {
        let connection = Connection { round_trip_ns: 5, ..Connection::of_bandwidth(8) };
        let links = connection.links();
        let [there, back] = [(0, 1), (1, 0)].map(|pair| links[&pair]);
        assert_eq!((there.setup_ns, back.setup_ns), (5, 0));
        assert_eq!(back, Link::of_bandwidth(8));
    }
}
