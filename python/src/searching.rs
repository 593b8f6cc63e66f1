//! [`search()`]: the architectures of a space with the highest score within ceilings for latency and
//! memory.

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
    types::{PyDict, PyString},
};
use vitempo::{
    graph::Latency,
    search::{
        Candidate, Ceilings, Device, Objective, ObjectiveError, Options, Progress, SearchError,
        devices,
        objective::{Measure, StandIn},
    },
    search_space::Architecture,
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

/// For `vitempo/_search.py`: how many architectures were evaluated, and the front.
#[pyfunction]
pub fn search(
    py: Python<'_>,
    space: &Bound<'_, Space>,
    bundles: Vec<Bound<'_, Bundle>>,
    objective: &Bound<'_, PyAny>,
    options: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
) -> Result<(u64, Vec<Member>), Failure> {
    let interrupt = Interrupt::default();
    let space = &*space.get().space;
    let bundles: Vec<vitempo::Bundle> = bundles.iter().map(|b| b.get().bundle.clone()).collect();
    let option =
        |name: &str| options.get_item(name)?.ok_or_else(|| PyValueError::new_err(name.to_owned()));
    let ceilings: Vec<f64> = option("ceilings")?.extract()?;
    let ceilings: Vec<Latency> = ceilings.into_iter().map(Latency::from_ms).collect();
    let memory_bytes: Vec<u64> = option("memory_ceilings")?.extract()?;
    let options = Options {
        candidates: option("candidates")?.extract()?,
        population: option("population")?.extract()?,
        seed: option("seed")?.extract()?,
        upper: option("upper")?.extract()?,
    };
    let mut objective: Box<dyn Objective + Send> = match objective.cast::<PyString>() {
        Ok(name) => match &*name.to_cow()? {
            "flops" => Box::new(StandIn::new(space, Measure::Flops)),
            "parameters" => Box::new(StandIn::new(space, Measure::Parameters)),
            other => {
                let message =
                    format!("objective `{other}`: expected `flops`, `parameters` or a function");
                return Err(PyValueError::new_err(message).into());
            }
        },
        Err(_) => {
            Box::new(Scored { function: objective.clone().unbind(), interrupt: interrupt.clone() })
        }
    };
    let mut report = |now: Progress| {
        let called = progress.as_ref().map_or(Ok(()), |progress| {
            Python::attach(|py| progress.call1(py, (now.candidates, now.best)).map(drop))
        });
        called.map_err(|error| interrupt.end_by(error)).is_ok() && !interrupt.is_pending()
    };
    let found = py.detach(|| -> Result<(u64, Vec<Member>), Failure> {
        let ceilings = Ceilings { latencies: &ceilings, memory_bytes: &memory_bytes };
        let devices = devices(&bundles, ceilings)?;
        let found =
            vitempo::search::search(space, &devices, objective.as_mut(), options, &mut report)?;
        let front = found.front.iter().map(|candidate| member(candidate, &devices));
        Ok((found.candidates, front.collect::<Result<_, _>>()?))
    });
    interrupt.or(found)
}

fn member(candidate: &Candidate, devices: &[Device<'_>]) -> Result<Member, Failure> {
    let ends = |l: &vitempo::graph::Prediction| (l.point().ms(), l.lower().ms(), l.upper().ms());
    let latencies = candidate.latencies.iter().map(ends).collect();
    let architecture = &candidate.architecture;
    let memory = |device: &Device<'_>| -> Result<_, Failure> {
        let forecast = device.memory(architecture).map_err(SearchError::from)?;
        Ok(forecast.as_ref().map(memory_fields))
    };
    let memories = devices.iter().map(memory).collect::<Result<_, _>>()?;
    Ok((architecture.encode(), candidate.score, latencies, memories))
}
