//! [`sentences`]: what a report is about, in sentences made from its data.

use super::{
    index::{Index, why_none},
    results::Errors,
};
use crate::{
    group::Group,
    survey::{Survey, day},
};
use std::collections::BTreeSet;
use vitempo::graph::Origin;

/// What was measured, and how well it is forecast; then where forecasts for phones come from.
pub fn sentences(index: &Index<'_>, results: &[(&Survey, Errors)]) -> Vec<String> {
    let found = format!("{} {}", measured(index), forecast(index, results));
    vec![found, super::overview::PHONES.to_owned()]
}

fn measured(index: &Index<'_>) -> String {
    let of = |is_real: bool| {
        let models = index.surveys.iter().flat_map(|s| &s.models);
        let own = models
            .filter(|m| m.group.is_some_and(|group| (group != Group::Synthetic) == is_real))
            .map(|m| (&m.name, &m.architecture));
        own.collect::<BTreeSet<_>>().len()
    };
    let models = super::lists::whole(of(true), of(false));
    let environments = match index.surveys.len() {
        1 => "one environment".to_owned(),
        count => format!("{count} environments"),
    };
    format!(
        "{models} were {} in {environments} on {}{}.",
        origins(index.surveys),
        machines(index.surveys),
        dates(index.surveys)
    )
}

fn origins(surveys: &[Survey]) -> String {
    let name = |origin: Origin| match origin {
        Origin::Measured => "measured",
        Origin::Imported => "imported",
        Origin::Simulated => "simulated",
    };
    let names: BTreeSet<&str> = surveys.iter().map(|s| name(s.origin)).collect();
    names.into_iter().collect::<Vec<_>>().join(" or ")
}

fn machines(surveys: &[Survey]) -> String {
    let names: BTreeSet<&str> = surveys.iter().map(|s| s.environment.device.as_str()).collect();
    match names.len() {
        0..=3 => names.into_iter().collect::<Vec<_>>().join(" and "),
        count => format!("{count} devices"),
    }
}

/// `, 21 November 2026 to 2 December 2026`; empty where no date is known.
pub fn dates(surveys: &[Survey]) -> String {
    let known = || surveys.iter().filter_map(|s| s.started_ms);
    let first = known().map(|(first, _)| first).min().map(day);
    let last = known().map(|(_, last)| last).max().map(day);
    match first.zip(last) {
        None => String::new(),
        Some((first, last)) if first == last => format!(", {first}"),
        Some((first, last)) => format!(", {first} to {last}"),
    }
}

fn forecast(index: &Index<'_>, results: &[(&Survey, Errors)]) -> String {
    if results.is_empty() {
        let reason = index.surveys.iter().find_map(|s| why_none(s, index.topics));
        return reason.map_or_else(String::new, |why| format!("No forecast was evaluated: {why}."));
    }
    let errors = range(results.iter().map(|(_, e)| e.mape));
    let floors = range(results.iter().filter_map(|(_, e)| e.floor));
    let beside = floors.map_or_else(String::new, |floors| {
        format!(", where two measurements of one model differ by {floors}")
    });
    let by = if results.len() > 1 { " by environment" } else { "" };
    format!(
        "Forecasts of the real ones, by predictors that never saw them, are off by a mean of \
         {}{by}{beside}.",
        errors.unwrap_or_default()
    )
}

/// `3.4 to 5.8 %`, or `3.4 %`.
fn range(values: impl Iterator<Item = f64>) -> Option<String> {
    let all: Vec<f64> = values.collect();
    let low = all.iter().copied().reduce(f64::min)?;
    let high = all.iter().copied().reduce(f64::max)?;
    let (low, high) = (format!("{low:.1}"), format!("{high:.1}"));
    Some(if low == high { format!("{low} %") } else { format!("{low} to {high} %") })
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn a_range_of_one_is_a_number() {
        let shown = |values: &[f64]| range(values.iter().copied());
        assert_eq!(shown(&[3.44, 5.81, 4.0]).as_deref(), Some("3.4 to 5.8 %"));
        assert_eq!(shown(&[3.44, 3.41]).as_deref(), Some("3.4 %"));
        assert_eq!(shown(&[]), None);
    }
}
