//! Several models at once: which variant of each runs where, with which priority, when they wait
//! for each other ([`vitempo_planners::multi_dnn`]).
//!
//! | question | where |
//! |---|---|
//! | what is asked, in names | [`Request`] |
//! | the plan, from measured costs or from forecasts | [`place`], `place_tasks` with the feature `train` |
//! | how do all systems do over the stitching paper's grid of objectives? | [`grid`] |
//! | when tasks are asked, from a file | [`trace`] |

pub mod grid;
pub mod trace;

use super::stitch::{objectives::Objective as Asked, preloading::Budget};
use vitempo_planners::{
    multi_dnn::{
        Arrivals, Contention, Fetches, MultiDnnError, MultiDnnPlan, Objective, Problem, Settings,
        TaskArrivals, plan, systems::Orders,
    },
    simulator::constants::Constants,
    stitch::{Slo, Zoo, evaluate::Fetching, preload::Loaded},
};

/// How long queries arrive where nothing else is asked, ns.
pub const HORIZON_NS: u64 = 10_000_000_000;

/// Why several models cannot be planned together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlacingError {
    /// What the planner refuses.
    #[error(transparent)]
    Plan(#[from] MultiDnnError),
    /// A name that is not there.
    #[error("{what} `{name}` is not there; there are {known}")]
    Unknown {
        /// A task or a processor.
        what: &'static str,
        /// As it was given.
        name: String,
        /// Those that are.
        known: String,
    },
    /// Something is known of some processors only.
    #[error("{what} of {which} is not given; it is known of all or of none")]
    Incomplete {
        /// Slowdown or power.
        what: &'static str,
        /// A processor, or a pair of them.
        which: String,
    },
    /// No arrivals for a task, where others have some.
    #[error("task `{0}` is never asked, while others are")]
    NeverAsked(String),
    /// A file of arrivals.
    #[error(transparent)]
    Trace(#[from] trace::TraceError),
    /// Tasks, variants or bundles.
    #[error(transparent)]
    Stitching(#[from] super::stitch::StitchingError),
    /// Costs that do not fit each other.
    #[error(transparent)]
    Stitch(#[from] vitempo_planners::stitch::StitchError),
}

/// How often longer a processor takes while another is busy.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Slowdown {
    pub processor: String,
    pub beside: String,
    pub factor: f64,
}

/// What is asked, in names.
#[derive(Clone, Debug)]
pub struct Request {
    /// Instead of what the zoo's source asks.
    pub objectives: Vec<Asked>,
    /// Of one task or of all; none: one query of each task at once, in every order.
    pub arrivals: Vec<(Option<String>, TaskArrivals)>,
    /// Queries arrive before this time, ns.
    pub horizon_ns: u64,
    /// For every pair, or none.
    pub slowdown: Vec<Slowdown>,
    /// While busy, above idle, W: of every processor, or of none.
    pub active_w: Vec<(String, f64)>,
    /// Nothing is loaded at the start: the first run of a subgraph compiles and loads it.
    pub cold: bool,
    /// Of all subgraphs of the plan together.
    pub memory: Option<Budget>,
    /// What is made best.
    pub objective: Objective,
    /// Queries of each task that wait from the start where queries per second are counted.
    pub saturation: usize,
    /// How long to search.
    pub settings: Settings,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            objectives: Vec::new(),
            arrivals: Vec::new(),
            horizon_ns: HORIZON_NS,
            slowdown: Vec::new(),
            active_w: Vec::new(),
            cold: false,
            memory: None,
            objective: Objective::Violations,
            saturation: 100,
            settings: Settings::default(),
        }
    }
}

/// A plan, with all it was made of.
#[derive(Clone, Debug)]
pub struct Placing {
    /// Costs and accuracies.
    pub zoo: Zoo,
    /// In the order of tasks.
    pub slos: Vec<Slo>,
    /// The plan.
    pub plan: MultiDnnPlan,
    /// Scenarios differ by the order of arrival alone.
    pub at_once: bool,
}

/// The plan for a zoo with known costs; `slos` are those of its source.
///
/// ```no_run
/// use vitempo::plan::{multi_dnn::{Request, place}, stitch::record::Record};
///
/// let record = Record::read("datasets/stitching/record.json".as_ref())?;
/// let placing = place(record.zoo()?, &record.asked(), &Request::default())?;
/// println!("{} of {}", placing.plan.score.violated, placing.plan.score.queries);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`PlacingError`] naming the task, processor or field at fault.
pub fn place(zoo: Zoo, slos: &[Slo], request: &Request) -> Result<Placing, PlacingError> {
    let slos = asked(&zoo, slos, &request.objectives)?;
    let plan = {
        let problem = problem(&zoo, slos.clone(), request)?;
        plan(&problem, &Orders::of(&zoo)?, request.settings)?
    };
    Ok(Placing { slos, plan, at_once: request.arrivals.is_empty(), zoo })
}

/// The plan for the tasks of a file, with costs as bundles forecast them. Of `stitching`, processors,
/// objectives, the link and how models are read count; its objectives are part of those asked.
///
/// # Errors
/// [`PlacingError`] naming the file, task, variant, processor or field at fault.
#[cfg(feature = "train")]
pub fn place_tasks(
    file: &crate::zoo::tasks::TasksFile,
    stitching: &super::stitch::planning::Request,
    request: &Request,
    progress: &mut dyn FnMut(super::stitch::StitchProgress<'_>),
) -> Result<Placing, PlacingError> {
    let (zoo, slos) = super::stitch::planning::costs(file, stitching, progress)?;
    place(zoo, &slos, request)
}

/// Objectives of one task count before those of all; later ones before earlier ones.
fn asked(zoo: &Zoo, slos: &[Slo], objectives: &[Asked]) -> Result<Vec<Slo>, PlacingError> {
    let names: Vec<&str> = zoo.tasks().iter().map(|task| task.name.as_str()).collect();
    for name in objectives.iter().filter_map(|asked| asked.task.as_deref()) {
        index("task", &names, name)?;
    }
    let of = |task: Option<&str>| {
        objectives.iter().rev().find(|asked| asked.task.as_deref() == task).map(|asked| asked.slo)
    };
    let each = names.iter().zip(slos);
    Ok(each.map(|(name, &slo)| of(Some(name)).or_else(|| of(None)).unwrap_or(slo)).collect())
}

fn index(what: &'static str, names: &[&str], name: &str) -> Result<usize, PlacingError> {
    let unknown = || PlacingError::Unknown { what, name: name.to_owned(), known: names.join(", ") };
    names.iter().position(|known| *known == name).ok_or_else(unknown)
}

pub(super) fn problem<'a>(
    zoo: &'a Zoo,
    slos: Vec<Slo>,
    request: &Request,
) -> Result<Problem<'a>, PlacingError> {
    let mut problem = Problem::new(zoo, slos, arrivals(zoo, request)?);
    problem.contention = contention(zoo, &request.slowdown)?;
    problem.active_w = active_w(zoo, &request.active_w)?;
    problem.fetches = request.cold.then(|| {
        let (order, nothing) = (Orders::of(zoo).map(|o| o.fixed), Loaded::nothing(zoo));
        let fetching = Fetching::from(&Constants::default());
        let order = order.unwrap_or_else(|_| vitempo_planners::stitch::Order::new(Vec::new()));
        Fetches::multiples(zoo, &order, &nothing, fetching)
    });
    problem.memory_bytes = request.memory.map(|budget| match budget {
        Budget::Bytes(bytes) => bytes,
        Budget::Share(share) => (Loaded::everything(zoo).memory_bytes() as f64 * share) as u64,
    });
    problem.objective = request.objective;
    problem.saturation = request.saturation;
    Ok(problem)
}

fn arrivals(zoo: &Zoo, request: &Request) -> Result<Arrivals, PlacingError> {
    if request.arrivals.is_empty() {
        return Ok(Arrivals::AtOnce);
    }
    let names: Vec<&str> = zoo.tasks().iter().map(|task| task.name.as_str()).collect();
    for name in request.arrivals.iter().filter_map(|(task, _)| task.as_deref()) {
        index("task", &names, name)?;
    }
    let of = |task: Option<&str>| {
        let given = request.arrivals.iter().rev().find(|(name, _)| name.as_deref() == task);
        given.map(|(_, arrivals)| arrivals.clone())
    };
    let one = |(task, name): (usize, &&str)| match of(Some(name)).or_else(|| of(None)) {
        // Tasks that share a rate do not share their times.
        Some(TaskArrivals::Poisson { per_s, seed }) => {
            Ok(TaskArrivals::Poisson { per_s, seed: seed.wrapping_add(task as u64) })
        }
        Some(arrivals) => Ok(arrivals),
        None => Err(PlacingError::NeverAsked((*name).to_owned())),
    };
    let tasks = names.iter().enumerate().map(one).collect::<Result<_, _>>()?;
    Ok(Arrivals::Over { horizon_ns: request.horizon_ns, tasks })
}

fn processors(zoo: &Zoo) -> Vec<&str> {
    zoo.processors().iter().map(String::as_str).collect()
}

fn contention(zoo: &Zoo, slowdown: &[Slowdown]) -> Result<Contention, PlacingError> {
    if slowdown.is_empty() {
        return Ok(Contention::Unknown);
    }
    let names = processors(zoo);
    let mut factors = vec![vec![None; names.len()]; names.len()];
    for Slowdown { processor, beside, factor } in slowdown {
        let pair = (index("processor", &names, processor)?, index("processor", &names, beside)?);
        factors[pair.0][pair.1] = Some(*factor);
    }
    let mut known = vec![vec![1.0; names.len()]; names.len()];
    for (a, row) in factors.iter().enumerate() {
        for (b, factor) in row.iter().enumerate().filter(|(b, _)| *b != a) {
            let which = || format!("`{}` beside `{}`", names[a], names[b]);
            let missing = || PlacingError::Incomplete { what: "slowdown", which: which() };
            known[a][b] = factor.ok_or_else(missing)?;
        }
    }
    Ok(Contention::Known(known))
}

fn active_w(zoo: &Zoo, given: &[(String, f64)]) -> Result<Option<Vec<f64>>, PlacingError> {
    if given.is_empty() {
        return Ok(None);
    }
    let names = processors(zoo);
    for (name, _) in given {
        index("processor", &names, name)?;
    }
    let of = |name: &&str| {
        let found = given.iter().rev().find(|(known, _)| known == name).map(|(_, watts)| *watts);
        let missing = || PlacingError::Incomplete { what: "power", which: format!("`{name}`") };
        found.ok_or_else(missing)
    };
    names.iter().map(of).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests;
