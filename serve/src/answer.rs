//! The answer of `POST /predict`: a forecast or a problem for every pair of model and bundle.

use super::{
    Limits,
    forecast::{Forecast, Forecaster},
    metrics::Tally,
    pool::Abandoned,
    problem::Problem,
    registry::{Bundles, RegisteredBundle},
    request::{Asked, Subject},
};
use axum::http::StatusCode;
use serde::Serialize;
use std::sync::Arc;
use vitempo::search_space::Space;

/// Largest answer, in bytes.
const LARGEST: usize = 256 << 20;
/// Architectures that are forecast together; between two such batches the job ends if its client is
/// gone.
const TOGETHER: usize = 256;
/// The same for models that are forecast by their graphs.
const GRAPHS: usize = 64;

/// Forecasts as JSON, and their counts.
#[derive(Debug)]
pub struct Answer {
    /// `{"results": [...]}`
    pub json: Vec<u8>,
    /// By bundle.
    pub tallies: Vec<(Arc<RegisteredBundle>, Tally)>,
}

/// One model with one bundle.
#[derive(Serialize)]
struct Row<'a> {
    model: &'a str,
    bundle: &'a str,
    #[serde(flatten)]
    outcome: Outcome<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome<'a> {
    Forecast {
        environment: &'a str,
        #[serde(flatten)]
        forecast: Forecast,
    },
    Refusal {
        problem: Problem,
    },
}

/// Answers a request.
///
/// # Errors
/// 404 for an unknown bundle, 413 for too many forecasts, 422 for an unknown space and for an
/// upload that cannot be read. An error in one model of a list is part of the answer.
pub fn answer(
    asked: &Asked,
    registry: &Bundles,
    spaces: &[Space],
    limits: &Limits,
    abandoned: &Abandoned,
) -> Result<Answer, Problem> {
    let registered = bundles(&asked.settings.bundles, registry)?;
    let space = space(asked.space.as_deref(), spaces)?;
    let forecasts = asked.subjects.len().saturating_mul(registered.len());
    if forecasts > limits.forecasts {
        return Err(too_much(format!(
            "the request asks for {forecasts} forecasts; at most {} are allowed",
            limits.forecasts
        )));
    }
    let forecasters: Vec<Forecaster> = registered
        .into_iter()
        .map(|registered| Forecaster::new(registered, asked.settings.breakdown))
        .collect();
    let mut tallies = vec![Tally::default(); forecasters.len()];
    let options = asked.options(limits.model, abandoned.stop());
    let mut json = b"{\"results\":[".to_vec();
    for subjects in batches(&asked.subjects, asked.settings.breakdown) {
        abandoned.check()?;
        let questions: Vec<_> = subjects
            .iter()
            .map(|subject| subject.question(space, &options, asked.settings.breakdown))
            .collect();
        if let ([Subject::Onnx(_)], [Err(problem)]) = (subjects, questions.as_slice()) {
            return Err(problem.clone());
        }
        let mut columns: Vec<_> = forecasters
            .iter()
            .map(|forecaster| forecaster.forecasts(&questions, space, &options).into_iter())
            .collect();
        for subject in subjects {
            for ((forecaster, tally), column) in
                forecasters.iter().zip(&mut tallies).zip(&mut columns)
            {
                let outcome = column.next().unwrap_or_else(|| {
                    Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "a forecast is missing"))
                });
                write(&mut json, subject.name(), forecaster, outcome, tally)?;
            }
        }
    }
    // Each row ends with a comma.
    if json.last() == Some(&b',') {
        json.pop();
    }
    json.extend_from_slice(b"]}");
    Ok(Answer {
        json,
        tallies: forecasters.into_iter().map(|f| f.registered).zip(tallies).collect(),
    })
}

/// Architectures in large batches if their graphs are not needed, models in small ones.
fn batches(subjects: &[Subject], each_operator: bool) -> impl Iterator<Item = &[Subject]> {
    let architectures = subjects
        .iter()
        .take_while(|subject| !each_operator && matches!(subject, Subject::Encoding(_)))
        .count();
    let (architectures, models) = subjects.split_at(architectures);
    architectures.chunks(TOGETHER).chain(models.chunks(GRAPHS))
}

/// The bundles of these names; all, if none is named.
fn bundles(names: &[String], registry: &Bundles) -> Result<Vec<Arc<RegisteredBundle>>, Problem> {
    if names.is_empty() {
        return Ok(registry.values().cloned().collect());
    }
    let found = |(index, name): (usize, &String)| {
        let unknown = || {
            let known: Vec<&str> = registry.keys().map(String::as_str).collect();
            let problem =
                Problem::new(StatusCode::NOT_FOUND, format!("there is no bundle `{name}`"));
            problem
                .field(format!("bundles[{index}]"))
                .hint(format!("there are: {}", known.join(", ")))
        };
        registry.get(name).cloned().ok_or_else(unknown)
    };
    names.iter().enumerate().map(found).collect()
}

fn space<'a>(name: Option<&str>, spaces: &'a [Space]) -> Result<&'a Space, Problem> {
    let found = spaces.iter().find(|space| name.is_none_or(|name| name == space.name()));
    found.ok_or_else(|| {
        let known: Vec<&str> = spaces.iter().map(Space::name).collect();
        let problem = Problem::unprocessable(format!(
            "there is no search space `{}`",
            name.unwrap_or_default()
        ));
        problem.field("space").hint(format!("there are: {}", known.join(", ")))
    })
}

fn too_much(detail: String) -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
        .hint("send several requests, name fewer bundles, or leave the breakdown out")
}

/// Appends a row and a comma.
fn write(
    json: &mut Vec<u8>,
    model: &str,
    forecaster: &Forecaster,
    outcome: Result<Forecast, Problem>,
    tally: &mut Tally,
) -> Result<(), Problem> {
    let outcome = match outcome {
        Ok(forecast) => {
            tally.forecast += 1;
            tally.fallback += u64::from(forecast.coverage.fallback > 0);
            tally.extrapolating += u64::from(forecast.extrapolating);
            Outcome::Forecast { environment: &forecaster.environment, forecast }
        }
        Err(problem) => {
            tally.refused += 1;
            Outcome::Refusal { problem }
        }
    };
    let row = Row { model, bundle: forecaster.registered.bundle.name(), outcome };
    serde_json::to_writer(&mut *json, &row)
        .map_err(|e| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    json.push(b',');
    if json.len() > LARGEST {
        Err(too_much(format!("the answer would be larger than {LARGEST} bytes")))
    } else {
        Ok(())
    }
}
