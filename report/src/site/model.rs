//! [`page`]: a model: what it took in each environment, its forecasts there, and where its time
//! goes.

use super::{
    environment::{forecast, spread},
    frame::{CHAPTERS, Frame, facts, section},
    index::{Entry, Index, Place},
    lists,
    results::is_inside,
    rows::{self, Latencies, Stack, shown},
    study::missing,
};
use crate::{
    forecasts::ForecastParts,
    hue::Hue,
    markup::prose,
    survey::FAMILIES,
    table::{Cell, Table, three_digits},
};
use vitempo::graph::{Latency, OpFamily};

const UP: &str = "../";
const OVERHEAD: &str = "overhead";

pub fn page(index: &Index<'_>, entry: &Entry<'_>) -> String {
    let body = [
        facts(&about(entry)),
        section("latency", "Measured and forecast", &latencies(index, entry)),
        section("time", "Where its time goes", &times(index, entry)),
    ];
    let frame = Frame {
        title: entry.title(),
        up: UP,
        chapter: Some(CHAPTERS[2]),
        lead: vec![sentence(entry)],
        body: body.concat(),
    };
    frame.html()
}

/// What it is, where it is fastest and slowest, and how often the interval held.
fn sentence(entry: &Entry<'_>) -> String {
    let mut measured: Vec<(f64, &str)> = entry
        .places
        .iter()
        .filter_map(|p| Some((p.model.latency_ns?, p.survey.label.as_str())))
        .collect();
    measured.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |(ns, label): &(f64, &str)| format!("{} ({label})", Latency::from_ns(*ns));
    let took = match measured.as_slice() {
        [] => "Its latency was not measured.".to_owned(),
        [one] => format!("It takes {}.", at(one)),
        [first, .., last] => {
            format!("It takes {} to {} in {} environments.", at(first), at(last), measured.len())
        }
    };
    let rows: Vec<_> = entry.places.iter().filter_map(|p| p.forecast.as_ref().ok()).collect();
    let inside = rows.iter().filter(|f| is_inside(&f.row)).count();
    let held = match rows.len() {
        0 => String::new(),
        1 if inside == 1 => " The measured latency lies inside the interval.".to_owned(),
        1 => " The measured latency lies outside the interval.".to_owned(),
        count => format!(" The measured latency lies inside {inside} of {count} intervals."),
    };
    format!("A {}. {took}{held}", entry.group)
}

fn about(entry: &Entry<'_>) -> Vec<(&'static str, String)> {
    let scaled =
        |count: u64, unit: f64, name: &str| format!("{} {name}", three_digits(count as f64 / unit));
    let work = entry.work;
    vec![
        ("FLOPs", work.map_or_else(String::new, |w| scaled(w.flops, 1e9, "G"))),
        ("Multiply-accumulates", work.map_or_else(String::new, |w| scaled(w.macs, 1e9, "G"))),
        ("Parameters", work.map_or_else(String::new, |w| scaled(w.params, 1e6, "million"))),
        ("Input image", entry.side.map_or_else(String::new, |side| format!("{side} pixels wide"))),
        ("Architecture", format!("`{}`", entry.architecture)),
    ]
}

fn latencies(index: &Index<'_>, entry: &Entry<'_>) -> String {
    let rows: Vec<Latencies> = entry.places.iter().map(|place| row(index, place)).collect();
    let caption = "Latency end to end by environment. The forecast is by a bundle that was not \
        trained on this model.";
    let mut table = Table::new(
        "latency",
        "The same as a table. Spread: the longest less the shortest run, relative to the median.",
        [
            "Environment",
            "Measured, ms",
            "Runs",
            "Spread",
            "Forecast, ms",
            "Lower, ms",
            "Upper, ms",
            "Error",
            "Inside",
            "Peak memory, MB",
        ],
    );
    for place in &entry.places {
        let m = place.model;
        let start = [
            Cell::text(&place.survey.label),
            Cell::number(m.latency_ns.map(|ns| ns / 1e6)),
            Cell::Count(m.runs_ns.len()),
            Cell::share(spread(&m.runs_ns, m.latency_ns)),
        ];
        let forecast = forecast(place.forecast.as_ref().ok().map(|f| &f.row));
        let memory = Cell::number(m.peak_memory_bytes.map(|bytes| bytes / 1e6));
        table.rows.push(start.into_iter().chain(forecast).chain([memory]).collect());
    }
    rows::latencies(&rows, caption)
        + &table.without_blanks().html(&|heading, cell| index.cell(UP, heading, cell))
        + &without(index, entry)
}

fn row(index: &Index<'_>, place: &Place<'_>) -> Latencies {
    let m = place.model;
    let ms = |ns: f64| ns / 1e6;
    let least = m.runs_ns.iter().copied().reduce(f64::min);
    let most = m.runs_ns.iter().copied().reduce(f64::max);
    let measured = m.latency_ns.map(|median| {
        [least.unwrap_or(median).min(median), median, most.unwrap_or(median).max(median)].map(ms)
    });
    let found = place.forecast.as_ref().ok().map(|f| f.row.predicted.map(|latency| latency.ms()));
    let ends = found.map(|ends| [ends.lower(), ends.point(), ends.upper()]);
    let first = measured.map_or("not measured".to_owned(), |[_, median, _]| shown(median));
    let second = ends.map(|[low, point, high]| {
        let [low, point, high] = [low, point, high].map(three_digits);
        format!("forecast {point} [{low} .. {high}] ms")
    });
    Latencies {
        who: lists::environment_link(index, UP, place.survey),
        hue: Hue::Environment(place.survey.number),
        measured,
        forecast: ends,
        numbers: std::iter::once(first).chain(second).collect(),
    }
}

/// Why forecasts are missing, with the environments that each reason holds for.
fn without(index: &Index<'_>, entry: &Entry<'_>) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for place in &entry.places {
        let Err(why) = &place.forecast else { continue };
        let link = lists::environment_link(index, UP, place.survey);
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, links)) => links.push(link),
            None => reasons.push((why, vec![link])),
        }
    }
    if reasons.is_empty() {
        return String::new();
    }
    let item = |(why, links): &(&str, Vec<String>)| {
        format!("<li>{}: {}.</li>\n", links.join(", "), prose(why))
    };
    let items: String = reasons.iter().map(item).collect();
    format!("<div class=\"missing\"><p>No forecast:</p>\n<ul>\n{items}</ul></div>\n")
}

/// Measured beside forecast time of operator families, an environment after the other.
fn times(index: &Index<'_>, entry: &Entry<'_>) -> String {
    let shown: String = entry.places.iter().filter_map(|place| of_place(index, place)).collect();
    if shown.is_empty() {
        return missing("No operator of it was timed.");
    }
    shown
}

fn of_place(index: &Index<'_>, place: &Place<'_>) -> Option<String> {
    let measured = index.families.get(place.survey.number)?.get(place.number)?;
    let forecast = place.forecast.as_ref().ok().and_then(|f| f.parts);
    let is_measured = measured.iter().any(|ns| *ns > 0.0);
    if !is_measured && forecast.is_none() {
        return None;
    }
    let mut rows = Vec::new();
    if is_measured {
        rows.push(stack("measured", measured, 0.0));
    }
    if let Some(ForecastParts { families, overhead }) = &forecast {
        rows.push(stack("forecast", families, *overhead));
    }
    let label = &place.survey.label;
    let caption = format!("{label}. Time by operator family; measured is the sum of the kernels.");
    let table = families_table(place, measured, forecast.as_ref());
    Some(format!(
        "{}<details><summary>{}</summary>\n{}</details>\n",
        rows::stacks(&rows, &caption),
        prose(&format!("Numbers of {label}")),
        table.html(&|_, _| None)
    ))
}

fn stack(who: &str, families: &[f64; FAMILIES], overhead: f64) -> Stack {
    let mut parts: Vec<(Hue, String, f64)> = OpFamily::ALL
        .iter()
        .zip(families)
        .map(|(family, ns)| (Hue::Family(*family), family.name().replace('_', " "), *ns))
        .collect();
    parts.push((Hue::Reference, OVERHEAD.to_owned(), overhead));
    let total: f64 = parts.iter().map(|part| part.2).sum();
    Stack { who: who.to_owned(), parts, number: Latency::from_ns(total).to_string() }
}

fn families_table(
    place: &Place<'_>,
    measured: &[f64; FAMILIES],
    forecast: Option<&ForecastParts>,
) -> Table {
    let mut table = Table::new(
        &format!("time-{}", place.survey.number),
        format!(
            "{}: time by operator family. Overhead is what the engine takes besides its kernels, \
             less what timing them costs",
            place.survey.label
        ),
        ["Operators", "Measured, ms", "Forecast, ms", "Difference"],
    );
    for (index, family) in OpFamily::ALL.iter().enumerate() {
        let actual = measured.get(index).copied().filter(|ns| *ns > 0.0);
        let expected = forecast.and_then(|f| f.families.get(index)).copied().filter(|ns| *ns > 0.0);
        if actual.is_none() && expected.is_none() {
            continue;
        }
        let difference = actual.zip(expected).map(|(a, e)| (e / a - 1.0) * 100.0);
        table.rows.push(vec![
            Cell::text(family.name().replace('_', " ")),
            Cell::number(actual.map(|ns| ns / 1e6)),
            Cell::number(expected.map(|ns| ns / 1e6)),
            difference.map_or(Cell::Blank, Cell::Signed),
        ]);
    }
    if let Some(parts) = forecast {
        table.rows.push(vec![
            Cell::text(OVERHEAD),
            Cell::Blank,
            Cell::Number(parts.overhead / 1e6),
            Cell::Blank,
        ]);
    }
    table
}
