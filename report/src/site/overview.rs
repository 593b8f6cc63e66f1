//! [`page`]: the overview: what was measured, how good forecasts are, three figures, and links to
//! all other pages.

use super::{
    Section,
    frame::{Frame, section},
    index::{Index, why_none},
    lists,
    plain::TITLE,
    results::{Errors, mean},
    rows::{self, Bar, Stack},
    study::{drawn, missing},
};
use crate::{
    Figure, breakdown,
    chart::{Axis, Chart, Mark, ModelKey, Series},
    group::Group,
    hue::Hue,
    latency, leading, source,
    survey::Survey,
    table::{Cell, Table},
};
use vitempo::graph::OpFamily;

const UP: &str = "";

pub const PHONES: &str = "Forecasts for phones, boards and laptops come from bundles that ship \
    with vitempo, adapted from latencies that others published; `vitempo bundle list` names them.";

pub fn page(index: &Index<'_>, sections: &[Section]) -> String {
    let results: Vec<(&Survey, Errors)> =
        index.surveys.iter().filter_map(|s| Some((s, Errors::real(s)?))).collect();
    let body = [
        headline(&results),
        section("results", "How good are the forecasts?", &errors(index, &results)),
        section("latency", latency_heading(&results), &latencies(index, &results)),
        section("time", "Where does the time go?", &times(index)),
        section("environments", "Environments", &lists::environments(index)),
        section("studies", "Studies", &lists::studies(index, sections)),
        section("models", "Models", &lists::models(index)),
    ];
    let frame = Frame {
        title: TITLE,
        up: UP,
        chapter: None,
        lead: super::summary::sentences(index, &results),
        body: body.concat(),
    };
    frame.html()
}

/// Three numbers, each beside what it is to be held against.
fn headline(results: &[(&Survey, Errors)]) -> String {
    let of = |value: fn(&Errors) -> Option<f64>| mean(results.iter().filter_map(|r| value(&r.1)));
    let percent = |value: f64| format!("{value:.1}\u{a0}%");
    let (Some(error), Some(within), Some(inside), Some(level)) = (
        of(|e| Some(e.mape)),
        of(|e| Some(100.0 * e.within_10)),
        of(|e| Some(100.0 * e.inside)),
        of(|e| Some(100.0 * e.level)),
    ) else {
        return String::new();
    };
    let floor = of(|e| e.floor).map_or_else(
        || "No model was measured twice.".to_owned(),
        |floor| format!("Two measurements of one model differ by {}.", percent(floor)),
    );
    let cards = [
        (percent(error), "mean error on real models never trained on", floor),
        (
            percent(within),
            "of these forecasts are within 10 %",
            "Every model counts, the worst too.".to_owned(),
        ),
        (
            percent(inside),
            "of measured latencies lie inside the interval",
            format!("The interval promises {level:.0}\u{a0}%."),
        ),
    ];
    let card = |(number, what, beside): (String, &str, String)| {
        format!(
            "<li><span class=\"big\">{number}</span> <span>{what}</span> \
             <span class=\"quiet small\">{beside}</span></li>\n"
        )
    };
    let over = match results.len() {
        1 => String::new(),
        count => format!(
            "<p class=\"quiet small\">Means over {count} environments; each is in the table \
             below.</p>\n"
        ),
    };
    format!("<ul class=\"headline\">\n{}</ul>\n{over}", cards.map(card).concat())
}

fn errors(index: &Index<'_>, results: &[(&Survey, Errors)]) -> String {
    if results.is_empty() {
        let mut reasons: Vec<String> =
            index.surveys.iter().filter_map(|s| why_none(s, index.topics)).collect();
        reasons.sort_unstable();
        reasons.dedup();
        return missing(&format!("No forecast was evaluated: {}.", reasons.join("; ")));
    }
    let groups: Vec<(String, Vec<Bar>)> =
        index.surveys.iter().map(|s| bars(index, s)).filter(|(_, bars)| !bars.is_empty()).collect();
    let surveys: Vec<&Survey> = results.iter().map(|(survey, _)| *survey).collect();
    let caption = source(
        "Mean error of forecasts by environment and kind of model; the tick is the noise floor, \
         the mean difference between two measurements of one model",
        &surveys,
    );
    rows::bars(&groups, "%", &caption)
        + &table(results).html(&|heading, cell| index.cell(UP, heading, cell))
}

/// The link to an environment's page.
fn link(index: &Index<'_>, survey: &Survey) -> String {
    lists::environment_link(index, UP, survey)
}

fn bars(index: &Index<'_>, survey: &Survey) -> (String, Vec<Bar>) {
    let bar = |group: Group| {
        let errors = Errors::group(survey, group)?;
        let floor = errors.floor.map(|floor| format!(" (floor {floor:.1} %)")).unwrap_or_default();
        Some(Bar {
            hue: Hue::Group(group),
            name: group.to_string(),
            value: errors.mape,
            floor: errors.floor,
            number: format!("{:.1} %{floor}", errors.mape),
        })
    };
    (link(index, survey), Group::ALL.into_iter().filter_map(bar).collect())
}

fn table(results: &[(&Survey, Errors)]) -> Table {
    let headings = [
        "Environment",
        "Real models",
        "Error",
        "Noise floor",
        "Within 10 %",
        "Inside the interval",
        "Interval promises",
        "Synthetic models",
        "Error, synthetic",
        "Noise floor, synthetic",
    ];
    let caption = "Errors end to end, all real models of an environment together. The forecast is \
        by boosted trees that were trained on synthetic models and, where there are any, networks \
        around single operators; no model here was used for training.";
    let mut table = Table::new("results", caption, headings);
    for (survey, real) in results {
        let synthetic = Errors::group(survey, Group::Synthetic);
        table.rows.push(vec![
            Cell::text(&survey.label),
            Cell::Count(real.models),
            Cell::Percent(real.mape),
            Cell::percent(real.floor),
            Cell::share(real.within_10),
            Cell::share(real.inside),
            Cell::share(real.level),
            synthetic.map_or(Cell::Blank, |s| Cell::Count(s.models)),
            Cell::percent(synthetic.map(|s| s.mape)),
            Cell::percent(synthetic.and_then(|s| s.floor)),
        ]);
    }
    table
}

fn latency_heading(results: &[(&Survey, Errors)]) -> &'static str {
    if results.is_empty() { "How long do models take?" } else { "Forecast against measured" }
}

/// Forecast against measured; without forecasts, latency against FLOPs.
fn latencies(index: &Index<'_>, results: &[(&Survey, Errors)]) -> String {
    let shown = leading(results.iter().map(|(survey, _)| *survey));
    if !shown.is_empty() {
        let what = "Forecast against measured latency of real models, none of which was used for \
            training; on the line they are equal";
        let figure = Figure {
            name: "forecasts".to_owned(),
            caption: source(what, &shown),
            chart: against_measured(&shown),
        };
        return drawn(index, UP, &figure);
    }
    let of = |survey: &Survey| Figure {
        name: format!("latency-{}", survey.number),
        caption: source(
            &format!("Latency against FLOPs of {}", latency::counts(survey)),
            &[survey],
        ),
        chart: latency::figure(survey),
    };
    let figures: Vec<String> = leading(index.surveys)
        .into_iter()
        .map(of)
        .filter(|figure| !figure.chart.is_empty())
        .take(1)
        .map(|figure| drawn(index, UP, &figure))
        .collect();
    if figures.is_empty() {
        return missing("No model has both a graph and an end-to-end latency.");
    }
    figures.concat()
}

fn against_measured(surveys: &[&Survey]) -> Chart {
    let marks = [Mark::Ring, Mark::Cross, Mark::Triangle];
    let mut series: Vec<Series> = Vec::new();
    for (survey, mark) in surveys.iter().zip(marks) {
        let forecasts = || survey.evaluations.iter().flat_map(|e| &e.forecasts).map(|f| &f.row);
        let points = forecasts().map(|row| (row.actual_ns / 1e6, row.predicted.point().ms()));
        series.push(Series {
            models: forecasts().map(|row| ModelKey::new(&row.name, &row.architecture)).collect(),
            ..Series::new(&survey.label, mark, points.collect())
                .hue(Hue::Environment(survey.number))
        });
    }
    let all = || series.iter().flat_map(|s| &s.points).map(|p| p.0).filter(|ms| *ms > 0.0);
    let ends = [all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max)];
    let line = ends.map(|ms| (ms, ms)).to_vec();
    series.push(Series::new("equal", Mark::Line, line).hue(Hue::Reference));
    Chart::Points { x: Axis::log("measured, ms"), y: Axis::log("forecast, ms"), series }
}

fn times(index: &Index<'_>) -> String {
    let surveys = leading(index.surveys);
    let rows: Vec<Stack> = surveys
        .iter()
        .flat_map(|survey| {
            let groups = [Group::Transformer, Group::Convolutional, Group::Synthetic];
            groups.into_iter().filter_map(move |group| shares(&link(index, survey), survey, group))
        })
        .collect();
    if rows.is_empty() {
        return missing("No operator was timed in a whole model.");
    }
    let caption = source(
        "Share of operator time by operator family, the mean over models; environments with the \
         most models",
        &surveys,
    );
    rows::stacks(&rows, &caption)
}

/// The mean shares of a group of models, `who` in front of it; `None` where no operator was timed.
pub fn shares(who: &str, survey: &Survey, group: Group) -> Option<Stack> {
    let found = breakdown::of_group(survey, group)?;
    let parts: Vec<(Hue, String, f64)> = OpFamily::ALL
        .iter()
        .zip(found.shares)
        .map(|(family, share)| {
            (Hue::Family(*family), family.name().replace('_', " "), 100.0 * share)
        })
        .collect();
    let most = parts.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
    Some(Stack {
        number: format!("{} {:.0} %", most.1, most.2),
        who: format!("{who} <span class=\"quiet small\">{} {group}</span>", found.models),
        parts,
    })
}
