//! The answer of `POST /predict`: a forecast or a problem for every pair of model and bundle, as
//! JSON or as an Arrow table.

use super::{
    Limits,
    arrow_rows::ArrowRows,
    forecast::{Forecast, Forecaster},
    form::Form,
    memory::Memory,
    metrics::Tally,
    pieces::{Pieces, too_much},
    pool::Abandoned,
    problem::Problem,
    question::{Item, Questions},
    registry::{Bundles, RegisteredBundle},
    request::{Asked, Settings, Subject},
};
use axum::http::StatusCode;
use serde::Serialize;
use std::{
    io::{BufWriter, Write},
    sync::Arc,
};
use vitempo::search_space::Space;

/// Architectures that are forecast together; between two such batches it is asked whether anybody
/// still waits.
const TOGETHER: usize = 256;
/// The same for models that are forecast by their graphs.
const GRAPHS: usize = 64;
/// And most bytes of such models together, beyond the first: graphs take more memory than files.
const GRAPH_BYTES: usize = 4 << 20;

/// Forecasts, and their counts.
#[derive(Debug)]
pub struct Answer {
    /// `{"results": [...]}`, or an Arrow stream.
    pub document: Pieces,
    /// Which of both.
    pub form: Form,
    /// By bundle.
    pub tallies: Vec<(Arc<RegisteredBundle>, Tally)>,
}

/// One model with one bundle.
#[derive(Serialize)]
struct Row<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<String>,
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
/// 404 for a bundle that is not there, 406 for a table of operators, 413 when too much is asked for
/// at once, 422 for a space that is not there and for an upload that cannot be read, 503 where there
/// is no memory for the answer or no bundle. What is wrong with one model of a list stands in the answer.
pub fn answer(
    asked: &Asked,
    registry: &Bundles,
    spaces: &[Space],
    limits: &Limits,
    memory: &Memory,
    abandoned: &Abandoned,
) -> Result<Answer, Problem> {
    if asked.settings.form == Form::Arrow {
        fits_table(&asked.settings)?;
    }
    let registered = bundles(&asked.settings, registry)?;
    let space = space(asked.space.as_deref(), spaces)?;
    let sizes = asked.settings.sizes.len().max(1);
    let forecasts = asked.subjects.len().saturating_mul(sizes).saturating_mul(registered.len());
    if forecasts > limits.forecasts {
        return Err(too_much(format!(
            "the request asks for {forecasts} forecasts; at most {} are allowed",
            limits.forecasts
        )));
    }
    let forecasters: Vec<Forecaster> = registered
        .into_iter()
        .map(|registered| Forecaster::new(registered, &asked.settings))
        .collect();
    let mut tallies = vec![Tally::default(); forecasters.len()];
    let options = asked.options(limits.model, abandoned.stop());
    let pieces = Pieces::new(memory.clone(), limits.answer_bytes);
    let mut rows = match asked.settings.form {
        Form::Json => Rows::Json(Json::begin(pieces)?),
        Form::Arrow => Rows::Arrow(ArrowRows::begin(pieces, &forecasters)?),
    };
    let by_graphs = asked.settings.is_by_graphs();
    let mut reader = Questions::new(space, &options, &asked.settings);
    let all = Item::all(asked);
    let mut place = 0;
    for items in batches(&all, by_graphs) {
        abandoned.check()?;
        let questions: Vec<_> = items.iter().map(|item| reader.question(item)).collect();
        if let ([Item { subject: Subject::Onnx(_), .. }, ..], [Err(problem), ..]) =
            (items, questions.as_slice())
            && (all.len() == 1 || reader.is_unreadable())
        {
            return Err(problem.clone());
        }
        let mut columns: Vec<_> = forecasters
            .iter()
            .map(|forecaster| forecaster.forecasts(&questions, space, &options).into_iter())
            .collect();
        for item in items {
            for (which, ((forecaster, tally), column)) in
                forecasters.iter().zip(&mut tallies).zip(&mut columns).enumerate()
            {
                let outcome = column.next().unwrap_or_else(|| {
                    Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "a forecast is missing"))
                });
                count(tally, &outcome);
                match &mut rows {
                    Rows::Json(json) => json.row(item, forecaster, outcome)?,
                    Rows::Arrow(rows) => rows.row(place, which, &outcome)?,
                }
            }
            place += 1;
        }
    }
    let document = match rows {
        Rows::Json(json) => json.finish()?,
        Rows::Arrow(rows) => rows.finish()?,
    };
    let registered = forecasters.into_iter().map(|f| f.registered);
    let form = asked.settings.form;
    Ok(Answer { document, form, tallies: registered.zip(tallies).collect() })
}

/// # Errors
/// 406 naming the setting that only a document answers.
fn fits_table(settings: &Settings) -> Result<(), Problem> {
    let wanted = [
        (settings.breakdown, "breakdown", "a table has no rows for operators"),
        (settings.memory, "memory", "a table has no columns for memory"),
    ];
    wanted.into_iter().find(|(is_wanted, ..)| *is_wanted).map_or(Ok(()), |(_, field, detail)| {
        Err(Problem::new(StatusCode::NOT_ACCEPTABLE, detail)
            .field(field)
            .hint(format!("accept application/json, or leave `{field}` out")))
    })
}

/// The answer as it is written.
enum Rows {
    Json(Json),
    Arrow(ArrowRows),
}

fn count(tally: &mut Tally, outcome: &Result<Forecast, Problem>) {
    match outcome {
        Ok(forecast) => {
            tally.forecast += 1;
            tally.fallback += u64::from(forecast.coverage.fallback > 0);
            tally.extrapolating += u64::from(forecast.extrapolating);
        }
        Err(_) => tally.refused += 1,
    }
}

/// Architectures in large batches if their graphs are not needed, models in small ones.
fn batches<'a>(items: &'a [Item<'a>], by_graphs: bool) -> impl Iterator<Item = &'a [Item<'a>]> {
    let is_looked_up =
        |item: &&Item<'_>| matches!(item.subject, Subject::Encoding(_)) && item.size().is_none();
    let architectures = items.iter().take_while(|item| !by_graphs && is_looked_up(item)).count();
    let (architectures, mut models) = items.split_at(architectures);
    let groups = std::iter::from_fn(move || {
        let (group, rest) = models.split_at(graphs(models));
        models = rest;
        (!group.is_empty()).then_some(group)
    });
    architectures.chunks(TOGETHER).chain(groups)
}

/// How many of the models are forecast together.
fn graphs(models: &[Item<'_>]) -> usize {
    let mut bytes = 0usize;
    let fits = |model: &&Item<'_>| {
        let is_first = bytes == 0;
        bytes = bytes.saturating_add(model.subject.bytes().max(1));
        is_first || bytes <= GRAPH_BYTES
    };
    models.iter().take(GRAPHS).take_while(fits).count()
}

/// The bundles that are named; all, if none is.
fn bundles(settings: &Settings, registry: &Bundles) -> Result<Vec<Arc<RegisteredBundle>>, Problem> {
    if registry.is_empty() {
        return Err(Problem::busy("no bundle is loaded"));
    }
    let names = &settings.bundles;
    if names.is_empty() {
        return Ok(registry.values().cloned().collect());
    }
    let found = |(index, name): (usize, &String)| {
        let unknown = || {
            let known: Vec<&str> = registry.keys().map(String::as_str).collect();
            let problem =
                Problem::new(StatusCode::NOT_FOUND, format!("there is no bundle `{name}`"));
            problem
                .field(settings.bundle_field(index))
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

/// The document as it is written; numbers and names are joined before they become pieces.
struct Json {
    out: BufWriter<Pieces>,
    separator: &'static str,
}

impl Json {
    fn begin(pieces: Pieces) -> Result<Self, Problem> {
        let mut json = Self { out: BufWriter::new(pieces), separator: "" };
        json.text("{\"results\":[")?;
        Ok(json)
    }

    fn text(&mut self, text: &str) -> Result<(), Problem> {
        self.out.write_all(text.as_bytes()).map_err(|_| self.out.get_mut().refusal())
    }

    fn finish(mut self) -> Result<Pieces, Problem> {
        self.text("]}")?;
        self.out.into_inner().map_err(|error| error.into_inner().get_mut().refusal())
    }

    fn row(
        &mut self,
        item: &Item<'_>,
        forecaster: &Forecaster,
        outcome: Result<Forecast, Problem>,
    ) -> Result<(), Problem> {
        self.text(self.separator)?;
        self.separator = ",";
        let outcome = match outcome {
            Ok(forecast) => Outcome::Forecast { environment: &forecaster.environment, forecast },
            Err(problem) => Outcome::Refusal { problem },
        };
        let bundle = forecaster.registered.bundle.name();
        let size = item.size().map(|size| size.to_string());
        let row = Row { model: item.subject.name(), size, bundle, outcome };
        serde_json::to_writer(&mut self.out, &row).map_err(|error| match error.io_error_kind() {
            Some(_) => self.out.get_mut().refusal(),
            None => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_bundle_there_is_no_answer() {
        for names in [vec![], vec!["a".to_owned()]] {
            let settings = Settings { bundles: names, ..Settings::default() };
            let refused = bundles(&settings, &Bundles::new());
            let problem = refused.map_err(|p| serde_json::to_value(p).unwrap_or_default());
            let problem = problem.err().unwrap_or_default();
            assert_eq!(
                (&problem["status"], &problem["detail"]),
                (&503.into(), &"no bundle is loaded".into())
            );
        }
    }

    #[test]
    fn batches_are_bounded_by_number_and_bytes() {
        let model = |size: usize| Subject::Base64("m".to_owned(), "A".repeat(size));
        let at = |subjects: &[Subject], sizes: &str, by_graphs| {
            let settings = Settings::read(sizes).unwrap_or_default();
            let asked = Asked { settings, space: None, subjects: subjects.to_vec() };
            let items = Item::all(&asked);
            batches(&items, by_graphs).map(<[Item<'_>]>::len).collect::<Vec<_>>()
        };
        let sizes = |subjects: &[Subject], by_graphs| at(subjects, "", by_graphs);
        let encodings = vec![Subject::Encoding("hv1".to_owned()); 300];
        assert_eq!(sizes(&encodings, false), [256, 44]);
        assert_eq!(sizes(&encodings, true), [64, 64, 64, 64, 44]);
        assert_eq!(at(&encodings[..60], "size=64&size=32x8", false), [64, 56]);
        assert_eq!(sizes(&vec![model(4); 65], false), [64, 1]);
        let large = [model(5 << 20), model(3 << 20), model(1 << 20), model(1 << 20), model(0)];
        assert_eq!(sizes(&large, false), [1, 2, 2]);
        assert_eq!(at(&large[..2], "size=64&size=32", false), [1, 1, 1, 1]);
        assert_eq!(sizes(&[], false), [0; 0]);
    }
}
