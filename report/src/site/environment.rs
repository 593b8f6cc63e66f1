//! [`page`]: an environment: its machine, errors and noise floors, figures, and a table of its
//! models.

use super::{
    frame::{CHAPTERS, Frame, facts, paragraph, section},
    index::{Entry, Index, Place, why_none},
    lists,
    overview::shares,
    results::{Errors, is_inside},
    rows,
    study::{drawn, missing},
};
use crate::{
    Figure,
    accuracy::{self, best_fed},
    group::Group,
    latency, source,
    survey::Survey,
    table::{Cell, Table},
};
use vitempo::{
    graph::{Environment, MemoryFormat},
    predictors::{Method, ModelRow},
};

const UP: &str = "../";

pub fn page(index: &Index<'_>, survey: &Survey) -> String {
    let e = &survey.environment;
    let lead = format!("{} ran {} on {}.", e.framework, lists::counts(survey), e.device);
    let body = [
        facts(&about(survey)),
        section("errors", "Errors of forecasts", &errors(index, survey)),
        section("figures", "Figures", &figures(index, survey)),
        section("models", "Models", &models(index, survey)),
    ];
    let frame = Frame {
        title: &survey.label,
        up: UP,
        chapter: Some(CHAPTERS[0]),
        lead: vec![lead],
        body: body.concat(),
    };
    frame.html()
}

fn about(survey: &Survey) -> Vec<(&'static str, String)> {
    let e: &Environment = &survey.environment;
    let format = survey.executed.map_or_else(String::new, |f| f.name().replace('_', " "));
    let asked = e.memory_format.map(MemoryFormat::name).unwrap_or_default().replace('_', " ");
    vec![
        ("Machine", format!("{} ({} {} cores)", e.device, e.cores_available, e.processor)),
        ("Engine", format!("{} {}", e.framework, e.framework_version)),
        ("Precision", e.precision.name().to_owned()),
        ("Threads", e.threads.to_string()),
        ("Cores", e.cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        ("Memory format asked for", asked),
        ("Convolutions ran in", format),
        ("Instruction set", e.isa.replace(',', ", ")),
        ("Operating system", e.os.clone()),
        ("Power mode", e.power_mode.clone().unwrap_or_default()),
        ("When", survey.when()),
        ("Sessions", survey.sessions.to_string()),
        ("Failed runs", survey.failed.to_string()),
        ("Dataset", survey.folder.clone()),
        ("Identifier", format!("`{}`", e.id())),
    ]
}

fn errors(index: &Index<'_>, survey: &Survey) -> String {
    if let Some(why) = why_none(survey, index.topics) {
        return missing(&format!("No forecast was evaluated: {why}."));
    }
    let caption = source(
        "Errors end to end of boosted trees, by kind of model. No model here was used for training",
        &[survey],
    );
    let headings = [
        "Models",
        "Count",
        "Error",
        "Noise floor",
        "Within 10 %",
        "Inside the interval",
        "Interval promises",
    ];
    let mut table = Table::new("errors", caption, headings);
    let row = |name: String, errors: Errors| {
        vec![
            Cell::text(name),
            Cell::Count(errors.models),
            Cell::Percent(errors.mape),
            Cell::percent(errors.floor),
            Cell::share(errors.within_10),
            Cell::share(errors.inside),
            Cell::share(errors.level),
        ]
    };
    for group in Group::ALL {
        table.rows.extend(Errors::group(survey, group).map(|e| row(group.to_string(), e)));
    }
    table.rows.extend(Errors::real(survey).map(|e| row("all real".to_owned(), e)));
    table.html(&|_, _| None)
}

fn figures(index: &Index<'_>, survey: &Survey) -> String {
    let counts = latency::counts(survey);
    let figure = |name: &str, what: String, chart| Figure {
        name: name.to_owned(),
        caption: source(&what, &[survey]),
        chart,
    };
    let found = [
        figure("latency", format!("Latency against FLOPs of {counts}"), latency::figure(survey)),
        figure(
            "errors",
            "Error of each forecast against the measured latency".to_owned(),
            accuracy::errors(survey),
        ),
    ];
    let drawn: Vec<String> = found
        .iter()
        .filter(|figure| !figure.chart.is_empty())
        .map(|figure| drawn(index, UP, figure))
        .collect();
    let stacks: Vec<_> =
        Group::ALL.into_iter().filter_map(|group| shares("", survey, group)).collect();
    if drawn.is_empty() && stacks.is_empty() {
        return missing("No whole model was timed.");
    }
    let caption =
        source("Share of operator time by operator family, the mean over models", &[survey]);
    let stacked = if stacks.is_empty() { String::new() } else { rows::stacks(&stacks, &caption) };
    drawn.concat() + &stacked
}

fn models(index: &Index<'_>, survey: &Survey) -> String {
    let link = format!(
        "<p>Every whole model, sampled ones too: <a href=\"{0}.csv\">{0}.csv</a>.</p>\n",
        crate::markup::escape(&survey.slug)
    );
    let (real, synthetic) = (real(index, survey), synthetic(survey));
    let shown = |table: Table| {
        if table.rows.is_empty() {
            return String::new();
        }
        table.without_blanks().html(&|heading, cell| index.cell(UP, heading, cell))
    };
    let none = if real.rows.is_empty() {
        paragraph("No model was measured here but sampled ones.")
    } else {
        String::new()
    };
    none + &shown(real) + &shown(synthetic) + &link
}

const HEADINGS: [&str; 11] = [
    "Model",
    "Kind",
    "GFLOPs",
    "Measured, ms",
    "Runs",
    "Spread",
    "Forecast, ms",
    "Lower, ms",
    "Upper, ms",
    "Error",
    "Inside",
];

fn real(index: &Index<'_>, survey: &Survey) -> Table {
    let caption = source(
        "Real models: latency end to end, and the forecast by a bundle that was not trained on \
         them. Spread: the longest less the shortest run, relative to the median. Inside: whether \
         the measured latency lies between the ends of the interval",
        &[survey],
    );
    let mut table = Table::new("models", caption, HEADINGS);
    let here = |entry: &Entry<'_>| {
        let of = |place: &&Place<'_>| place.survey.number == survey.number;
        entry.places.iter().find(of).map(|place| row(entry, place))
    };
    table.rows = index.models.iter().filter_map(here).collect();
    table
}

fn row(entry: &Entry<'_>, place: &Place<'_>) -> Vec<Cell> {
    let model = place.model;
    let ms = |ns: f64| ns / 1e6;
    let start = [
        Cell::Link {
            text: entry.title().to_owned(),
            page: format!("{UP}models/{}.html", entry.slug),
        },
        Cell::text(entry.group.to_string()),
        Cell::number(entry.work.map(|w| w.flops as f64 / 1e9)),
        Cell::number(model.latency_ns.map(ms)),
        Cell::Count(model.runs_ns.len()),
        Cell::share(spread(&model.runs_ns, model.latency_ns)),
    ];
    start.into_iter().chain(forecast(place.forecast.as_ref().ok().map(|f| &f.row))).collect()
}

/// The longest run less the shortest, relative to the median.
pub fn spread(runs: &[f64], median: Option<f64>) -> Option<f64> {
    let least = runs.iter().copied().reduce(f64::min)?;
    let most = runs.iter().copied().reduce(f64::max)?;
    median.filter(|median| *median > 0.0 && runs.len() > 1).map(|median| (most - least) / median)
}

/// Forecast, both ends, error, and whether the measured latency lies inside.
pub fn forecast(row: Option<&ModelRow>) -> [Cell; 5] {
    let Some(row) = row else {
        return [const { Cell::Blank }; 5];
    };
    let ends = row.predicted.map(|latency| latency.ms());
    let error = (ends.point() / (row.actual_ns / 1e6) - 1.0) * 100.0;
    [
        Cell::Number(ends.point()),
        Cell::Number(ends.lower()),
        Cell::Number(ends.upper()),
        Cell::Signed(error),
        Cell::text(if is_inside(row) { "yes" } else { "no" }),
    ]
}

/// The synthetic models that were held out.
fn synthetic(survey: &Survey) -> Table {
    let caption = source(
        "Synthetic models that were held out; the others are training data and have no forecast",
        &[survey],
    );
    let headings =
        ["Model", "Measured, ms", "Forecast, ms", "Lower, ms", "Upper, ms", "Error", "Inside"];
    let mut table = Table::new("synthetic", caption, headings);
    let evaluated = best_fed(survey, Method::Gbdt);
    let rows = evaluated.and_then(|e| e.sets.get(&Group::Synthetic)).into_iter();
    table.rows = rows
        .flat_map(|evaluation| &evaluation.models)
        .map(|row| {
            let start = [Cell::text(&row.name), Cell::Number(row.actual_ns / 1e6)];
            start.into_iter().chain(forecast(Some(row))).collect()
        })
        .collect();
    table
}
