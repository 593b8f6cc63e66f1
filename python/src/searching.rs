//! [`search()`]: the architectures of a space with the highest score within ceilings for latency and
//! memory, and [`score()`]: the best of a part of a space.

use crate::{
    bundle::Bundle,
    failure::Failure,
    forecast::{MemoryFields, memory_fields},
    interrupt::Interrupt,
    space::Space,
};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyDict, PyList, PyString},
};
use vitempo::{
    graph::Latency,
    memory::MemoryForecast,
    search::{
        self as library, Candidate, Ceilings, Device, Objective, ObjectiveError, Options, Progress,
        ScoreOptions, Scored as Found, Scores, SearchError, devices,
        objective::{Measure, StandIn},
    },
    search_space::{self, Architecture, SpaceError},
};

/// A member of the front: encoding, score, and for each bundle latency, lower and upper end in ms,
/// and memory.
type Member = (String, f64, Vec<(f64, f64, f64)>, Vec<Option<MemoryFields>>);

/// A function of the user's that scores architectures.
struct Scored {
    function: Py<PyAny>,
    interrupt: Interrupt,
}

impl Scored {
    fn scores(&self, architectures: &[Architecture]) -> PyResult<Vec<f64>> {
        Python::attach(|py| {
            let encodings: Vec<String> = architectures.iter().map(Architecture::encode).collect();
            let count = encodings.len();
            let scores: Vec<f64> = self.function.call1(py, (encodings,))?.extract(py)?;
            if scores.len() != count {
                let given = scores.len();
                let message = format!("{given} scores were returned for {count} encodings");
                return Err(PyValueError::new_err(message));
            }
            match scores.iter().position(|score| !score.is_finite()) {
                Some(at) => {
                    let encoding = architectures[at].encode();
                    let message = format!("the score of {encoding} is {}", scores[at]);
                    Err(PyValueError::new_err(message))
                }
                None => Ok(scores),
            }
        })
    }
}

impl Objective for Scored {
    fn name(&self) -> &str {
        "score"
    }

    fn scores(&mut self, architectures: &[Architecture]) -> Result<Vec<f64>, ObjectiveError> {
        Self::scores(self, architectures).map_err(|error| {
            let reason = error.to_string();
            self.interrupt.end_by(error);
            ObjectiveError::Program { command: "the objective".to_owned(), reason }
        })
    }
}

/// Bundles with their ceilings.
struct Bounded {
    bundles: Vec<vitempo::Bundle>,
    latencies: Vec<Latency>,
    memory_bytes: Vec<u64>,
}

impl Bounded {
    fn of(bundles: &[Bound<'_, Bundle>], options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let ceilings: Vec<f64> = option(options, "ceilings")?.extract()?;
        Ok(Self {
            bundles: bundles.iter().map(|bundle| bundle.get().bundle.clone()).collect(),
            latencies: ceilings.into_iter().map(Latency::from_ms).collect(),
            memory_bytes: option(options, "memory_ceilings")?.extract()?,
        })
    }

    fn devices(&self) -> Result<Vec<Device<'_>>, Failure> {
        let Self { latencies, memory_bytes, .. } = self;
        Ok(devices(&self.bundles, Ceilings { latencies, memory_bytes })?)
    }
}

fn option<'py>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    options.get_item(name)?.ok_or_else(|| PyValueError::new_err(name.to_owned()))
}

/// What a search found: how many architectures were evaluated, the front, and both as JSON.
type FoundFront = (u64, Vec<Member>, String);

/// For `vitempo/_search.py`.
#[pyfunction]
pub fn search(
    py: Python<'_>,
    space: &Bound<'_, Space>,
    bundles: Vec<Bound<'_, Bundle>>,
    objective: &Bound<'_, PyAny>,
    options: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
) -> Result<FoundFront, Failure> {
    let interrupt = Interrupt::default();
    let space = &*space.get().space;
    let bounded = Bounded::of(&bundles, options)?;
    let options = Options {
        candidates: option(options, "candidates")?.extract()?,
        population: option(options, "population")?.extract()?,
        seed: option(options, "seed")?.extract()?,
        upper: option(options, "upper")?.extract()?,
    };
    let mut objective = objective_of(objective, space, &interrupt)?;
    let mut report = |now: Progress| {
        let called = progress.as_ref().map_or(Ok(()), |progress| {
            Python::attach(|py| progress.call1(py, (now.candidates, now.best)).map(drop))
        });
        called.map_err(|error| interrupt.end_by(error)).is_ok() && !interrupt.is_pending()
    };
    let found = py.detach(|| -> Result<FoundFront, Failure> {
        let devices = bounded.devices()?;
        let found = library::search(space, &devices, objective.as_mut(), options, &mut report)?;
        let memories = found.front.iter().map(|m| library::memories(&devices, &m.architecture));
        let memories = memories.collect::<Result<Vec<_>, _>>().map_err(SearchError::from)?;
        let json = library::front_json(space, objective.as_ref(), &devices, &found, &memories);
        let front = found.front.iter().zip(&memories).map(|(m, memory)| member(m, memory));
        Ok((found.candidates, front.collect(), json.to_string()))
    });
    interrupt.or(found)
}

/// A stand-in by its name, or a function.
fn objective_of(
    objective: &Bound<'_, PyAny>,
    space: &search_space::Space,
    interrupt: &Interrupt,
) -> PyResult<Box<dyn Objective + Send>> {
    let Ok(name) = objective.cast::<PyString>() else {
        let (function, interrupt) = (objective.clone().unbind(), interrupt.clone());
        return Ok(Box::new(Scored { function, interrupt }));
    };
    match &*name.to_cow()? {
        "flops" => Ok(Box::new(StandIn::new(space, Measure::Flops))),
        "parameters" => Ok(Box::new(StandIn::new(space, Measure::Parameters))),
        other => Err(PyValueError::new_err(format!(
            "objective `{other}`: expected `flops`, `parameters` or a function"
        ))),
    }
}

/// Scores as Python has them: evaluated, within the ceilings, the best, the front. Latencies in ns.
type Numbers = (u64, u64, Vec<Ranked>, Vec<Ranked>);

/// Encoding, score, and for each bundle latency and the ends of its interval, ns.
type Ranked = (String, f64, Vec<(f64, f64, f64)>);

fn numbers(scores: Scores) -> Numbers {
    let members = |of: Vec<library::Member>| -> Vec<Ranked> {
        let ends = |l: [f64; 3]| (l[0], l[1], l[2]);
        let member =
            |m: library::Member| (m.encoding, m.score, m.latencies.into_iter().map(ends).collect());
        of.into_iter().map(member).collect()
    };
    (scores.candidates, scores.within, members(scores.top), members(scores.front))
}

fn scores((candidates, within, top, front): Numbers) -> Scores {
    let members = |of: Vec<Ranked>| -> Vec<library::Member> {
        let member = |(encoding, score, latencies): Ranked| library::Member {
            encoding,
            score,
            latencies: latencies.into_iter().map(|(a, b, c)| [a, b, c]).collect(),
        };
        of.into_iter().map(member).collect()
    };
    Scores { candidates, within, top: members(top), front: members(front) }
}

/// For `vitempo/cluster`: what [`library::score`] finds in a part of a space, which is a list of
/// encodings, or the first of a range of numbers and the one after the last; and the places of
/// encodings that were left out, with the reasons.
#[pyfunction]
pub fn score(
    py: Python<'_>,
    space: &Bound<'_, Space>,
    bundles: Vec<Bound<'_, Bundle>>,
    objective: &Bound<'_, PyAny>,
    part: &Bound<'_, PyAny>,
    options: &Bound<'_, PyDict>,
) -> Result<(Numbers, Vec<(u64, String)>), Failure> {
    let interrupt = Interrupt::default();
    let space = &*space.get().space;
    let bounded = Bounded::of(&bundles, options)?;
    let options = ScoreOptions {
        top: option(options, "top")?.extract()?,
        upper: option(options, "upper")?.extract()?,
        reject: option(options, "reject")?.extract()?,
    };
    let mut objective = objective_of(objective, space, &interrupt)?;
    let part = part_of(part)?;
    let found = py.detach(|| -> Result<Found, Failure> {
        let devices = bounded.devices()?;
        let mut go_on = |_| !interrupt.is_pending();
        let of_space: &mut dyn Iterator<Item = Result<Architecture, SpaceError>> = match &part {
            Part::Texts(texts) => &mut texts.iter().map(|text| space.decode(text)),
            Part::Range(numbers) => {
                &mut numbers.clone().map_while(|number| space.nth(number)).map(Ok)
            }
        };
        Ok(library::score(space, &devices, objective.as_mut(), of_space, options, &mut go_on)?)
    });
    let found = interrupt.or(found)?;
    let rejected = found.rejected.into_iter().map(|r| (r.place, r.reason)).collect();
    Ok((numbers(found.scores), rejected))
}

/// A part of a space.
enum Part {
    Texts(Vec<String>),
    Range(std::ops::Range<u128>),
}

fn part_of(part: &Bound<'_, PyAny>) -> PyResult<Part> {
    if part.cast::<PyList>().is_ok() {
        return Ok(Part::Texts(part.extract()?));
    }
    let (first, end): (u128, u128) = part.extract()?;
    Ok(Part::Range(first..end))
}

/// For `vitempo/cluster`: what [`library::merge`] makes of several parts.
#[pyfunction]
pub fn merge_scores(parts: Vec<Numbers>, top: usize) -> Numbers {
    numbers(library::merge(parts.into_iter().map(scores), top))
}

fn member(candidate: &Candidate, memories: &[Option<MemoryForecast>]) -> Member {
    let ends = |l: &vitempo::graph::Prediction| (l.point().ms(), l.lower().ms(), l.upper().ms());
    let latencies = candidate.latencies.iter().map(ends).collect();
    let memories = memories.iter().map(|memory| memory.as_ref().map(memory_fields)).collect();
    (candidate.architecture.encode(), candidate.score, latencies, memories)
}
