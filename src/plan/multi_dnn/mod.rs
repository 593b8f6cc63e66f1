//! Several models at once: which variant of each runs where, with which priority, when they wait
//! for each other ([`vitempo_planners::multi_dnn`]).
//!
//! | question | where |
//! |---|---|
//! | the request, by names | [`Request`] |
//! | the plan, from measured costs or from forecasts | [`place`], `place_tasks` with the feature `train` |
//! | the plan for models in memory that run whole | [`models`] |
//! | how do all systems compare over the stitching paper's grid of objectives? | [`grid`] |
//! | how much do processors slow each other down, by forecasts? | `contention` |
//! | arrival times of queries from a file | [`trace`] |

pub(crate) mod contention;
mod frame;
pub mod grid;
pub mod models;
pub mod trace;

use super::stitch::{objectives::Objective as Asked, preloading::Budget};
use vitempo_planners::{
    energy::PlanFrame,
    multi_dnn::{
        Arrivals, Contention, Fetches, MultiDnnError, MultiDnnPlan, Objective, Problem, Settings,
        SystemPlan, TaskArrivals, plan, plans_of_systems,
        systems::{Named, Orders},
    },
    stitch::{Order, Slo, StitchError, Zoo, preload::Loaded},
};

/// Default time for which queries arrive, ns.
pub const HORIZON_NS: u64 = 10_000_000_000;

/// Why several models cannot be planned together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlacingError {
    /// The planner refuses the problem.
    #[error(transparent)]
    Plan(#[from] MultiDnnError),
    /// An unknown name.
    #[error("{what} `{name}` is not there; there are {known}")]
    Unknown {
        /// A task or a processor.
        what: &'static str,
        /// The given name.
        name: String,
        /// The known names.
        known: String,
    },
    /// A quantity is given for some processors only.
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
    /// Objectives change, but all queries arrive at the same time.
    #[error("objectives change after {at_ns} ns, but all queries arrive at once")]
    ChangeAtOnce {
        /// When they change first.
        at_ns: u64,
    },
    /// A file of arrivals cannot be used.
    #[error(transparent)]
    Trace(#[from] trace::TraceError),
    /// Tasks, variants or bundles cannot be used.
    #[error(transparent)]
    Stitching(#[from] super::stitch::StitchingError),
    /// Costs that do not fit each other.
    #[error(transparent)]
    Stitch(#[from] StitchError),
}

/// The factor by which a processor is slower while another is busy.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Slowdown {
    pub processor: String,
    pub beside: String,
    pub factor: f64,
}

/// The request, by names.
#[derive(Clone, Debug)]
pub struct Request {
    /// Objectives that replace those of the zoo's source.
    pub objectives: Vec<Asked>,
    /// Arrivals of one task or of all; if empty, one query of each task at once, in every order.
    pub arrivals: Vec<(Option<String>, TaskArrivals)>,
    /// Queries arrive before this time, ns.
    pub horizon_ns: u64,
    /// Slowdowns of every pair of processors, or none.
    pub slowdown: Vec<Slowdown>,
    /// Power while busy, above idle, W: of every processor, or of none.
    pub active_w: Vec<(String, f64)>,
    /// Whether nothing is loaded at the start: the first run of a subgraph then compiles and loads
    /// it.
    pub cold: bool,
    /// Memory budget of all subgraphs of the plan together.
    pub memory: Option<Budget>,
    /// The objective.
    pub objective: Objective,
    /// Queries of each task that wait from the start, for queries per second.
    pub saturation: usize,
    /// The limits of the search.
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

/// A plan, with its inputs.
#[derive(Clone, Debug)]
pub struct Placing {
    /// Costs and accuracies.
    pub zoo: Zoo,
    /// SLOs in the order of tasks.
    pub slos: Vec<Slo>,
    /// The plan.
    pub plan: MultiDnnPlan,
    /// Whether scenarios differ only in the order of arrival.
    pub at_once: bool,
    /// The arrivals of queries.
    pub arrivals: Arrivals,
    /// How busy processors slow each other down.
    pub contention: Contention,
    /// Memory budget of the plan's subgraphs, bytes.
    pub memory_bytes: Option<u64>,
    /// Whether the first run of a subgraph loads it.
    pub cold: bool,
    /// The energy of a frame on a device, where it was asked for
    /// ([`FrameModel::add_to_placing`](super::frame_energy::FrameModel::add_to_placing)).
    pub frame: Option<PlanFrame>,
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
    let problem = problem(&zoo, slos, request)?;
    let plan = plan(&problem, &Orders::of(&zoo)?, request.settings)?;
    Ok(Placing::of(plan, &problem, request))
}

/// A system of the stitching paper with its plan, or why it has none.
pub type PlacedSystem = (Named, Result<Placing, StitchError>);

/// The plans of the stitching paper's systems for a zoo with known costs; of a system that has
/// none, the reason.
///
/// # Errors
/// As [`place`].
pub fn place_systems(
    zoo: &Zoo,
    slos: &[Slo],
    request: &Request,
) -> Result<Vec<PlacedSystem>, PlacingError> {
    let slos = asked(zoo, slos, &request.objectives)?;
    let problem = problem(zoo, slos, request)?;
    let plans = plans_of_systems(&problem, &Orders::of(zoo)?)?.into_iter();
    let placing = |(system, plan): SystemPlan| {
        (system, plan.map(|plan| Placing::of(plan, &problem, request)))
    };
    Ok(plans.map(placing).collect())
}

impl Placing {
    /// A plan with the problem that it is for.
    fn of(plan: MultiDnnPlan, problem: &Problem<'_>, request: &Request) -> Self {
        Self {
            zoo: problem.zoo.clone(),
            slos: problem.slos.clone(),
            plan,
            at_once: request.arrivals.is_empty(),
            arrivals: problem.arrivals.clone(),
            contention: problem.contention.clone(),
            memory_bytes: problem.memory_bytes,
            cold: request.cold,
            frame: None,
        }
    }
}

/// Plans for objectives that change: those of the request first, then from each time on with
/// replaced objectives. Each is planned as if its objectives held all the time.
///
/// # Errors
/// As [`place`]; [`PlacingError::ChangeAtOnce`] where queries have no times.
pub fn place_phases(
    zoo: &Zoo,
    slos: &[Slo],
    request: &Request,
    changes: &[(u64, Asked)],
) -> Result<Vec<(u64, Placing)>, PlacingError> {
    if let (true, Some((at_ns, _))) = (request.arrivals.is_empty(), changes.first()) {
        return Err(PlacingError::ChangeAtOnce { at_ns: *at_ns });
    }
    let mut times: Vec<u64> = changes.iter().map(|(at, _)| *at).filter(|at| *at > 0).collect();
    times.sort_unstable();
    times.dedup();
    let mut placings = vec![(0, place(zoo.clone(), slos, request)?)];
    for at_ns in times {
        // Earlier changes hold on; a later one of the same task replaces them.
        let mut until: Vec<&(u64, Asked)> = changes.iter().filter(|(at, _)| *at <= at_ns).collect();
        until.sort_by_key(|(at, _)| *at);
        let changed = until.into_iter().map(|(_, asked)| asked.clone());
        let objectives = request.objectives.iter().cloned().chain(changed).collect();
        let request = Request { objectives, ..request.clone() };
        placings.push((at_ns, place(zoo.clone(), slos, &request)?));
    }
    Ok(placings)
}

/// The plan for the tasks of a file, with costs as bundles forecast them. Of `stitching`, the
/// processors, objectives, link and read options are used; its objectives are added to those of the
/// request.
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
    let costs = super::stitch::planning::costs(file, stitching, progress)?;
    place(costs.zoo, &costs.slos, &request.or_slowdown(&costs.slowdown))
}

impl Request {
    /// The request, with these slowdowns where it gives none.
    #[must_use]
    pub fn or_slowdown(&self, forecast: &[Slowdown]) -> Self {
        match self.slowdown.is_empty() {
            true => Self { slowdown: forecast.to_vec(), ..self.clone() },
            false => self.clone(),
        }
    }
}

/// Objectives of one task take precedence over those of all tasks, later ones over earlier ones.
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
    if request.cold {
        let order = Orders::of(zoo).map_or_else(|_| Order::new(Vec::new()), |orders| orders.fixed);
        problem.fetches = Some(Fetches::missing(zoo, &order, &Loaded::nothing(zoo))?);
    }
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
        // Tasks with the same rate have different arrival times.
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
