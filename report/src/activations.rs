//! Activations: time per element, and the effect of input values on it (figure 10 of the mobile ViT
//! study).

use super::{
    Block,
    chart::{Axis, BarSeries, Chart, Series},
    figures,
    hue::Hue,
    leading, paper, source,
    statistics::{geometric_mean, quantile},
    survey::{Row, Survey},
    table::{Cell, Table},
};
use std::collections::{BTreeMap, BTreeSet};
use vitempo::graph::{OpFamily, OpKind};
use vitempo::predictors::metrics::median;

/// Outputs with fewer elements are mostly overhead.
const FEWEST_ELEMENTS: f64 = 10_000.0;
/// Kinds with a colour of their own.
const DRAWN: usize = 8;

pub fn section(surveys: &[Survey]) -> Vec<Block> {
    let missing = "No activation ran as a kernel of its own (the engine fuses them): measure \
        `vitempo sample --space operator-series` on an engine that does not.";
    let values = "No activation was measured with other input values: `vitempo sample --space \
        operator-series --out series/`, then `vitempo profile series/ --out data/`, and again with \
                  `--input-distribution 'constant(0.5)'`, `'constant(2)'`, `'constant(5)'` and so \
                  on.";
    let mut blocks = vec![Block::text(format!(
        "{} Activations that an engine fuses into the operator before are not seen here.",
        paper::TEXT.activations
    ))];
    let of = |survey: &Survey| {
        let rows = activations(survey).count();
        let caption = source(
            &format!("Latency of {rows} activations against elements, in models and alone"),
            &[survey],
        );
        Block::figure(format!("activations-{}", survey.slug), caption, figure(survey), missing)
    };
    blocks.extend(figures(
        leading(surveys.iter().filter(|s| activations(s).next().is_some())).into_iter().map(of),
        missing,
    ));
    blocks.push(Block::table(costs_table(surveys), missing));
    let with_values: Vec<&Survey> =
        surveys.iter().filter(|s| !s.input_effects.is_empty()).collect();
    let caption = source(
        "Latency of GELU with these input values over its latency with the usual ones",
        &with_values,
    );
    blocks.push(Block::figure("gelu-values", caption, gelu_figure(&with_values), values));
    blocks.push(Block::table(values_table(&with_values), values));
    blocks
}

fn activations(survey: &Survey) -> impl Iterator<Item = &Row> {
    survey.rows.iter().filter(|r| r.kind.family() == OpFamily::Activation && r.elements > 0.0)
}

fn figure(survey: &Survey) -> Chart {
    let mut kinds: BTreeMap<&OpKind, Vec<(f64, f64)>> = BTreeMap::new();
    for row in activations(survey) {
        kinds.entry(&row.kind).or_default().push((row.elements, row.latency_ns / 1e3));
    }
    let mut kinds: Vec<(&OpKind, Vec<(f64, f64)>)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, points)| std::cmp::Reverse(points.len()));
    kinds.truncate(DRAWN);
    let series = kinds
        .into_iter()
        .map(|(kind, points)| {
            let hue = Hue::activation(kind);
            Series::new(kind.to_string(), hue.mark(), points).hue(hue)
        })
        .collect();
    Chart::Points { x: Axis::log("elements"), y: Axis::log("latency, us"), series }
}

/// Median ns per element of a kind, over rows with enough elements.
pub fn costs<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeMap<OpKind, Vec<f64>> {
    let mut kinds: BTreeMap<OpKind, Vec<f64>> = BTreeMap::new();
    for row in rows.filter(|r| r.elements >= FEWEST_ELEMENTS) {
        kinds.entry(row.kind.clone()).or_default().push(row.latency_ns / row.elements);
    }
    kinds
}

fn costs_table(surveys: &[Survey]) -> Table {
    let caption = source(
        "Activations on at least 10 000 elements that ran as kernels of their own; one row per \
        distinct operator in a model",
        &surveys.iter().collect::<Vec<_>>(),
    );
    let mut table = Table::new(
        "activations",
        caption,
        [
            "Environment",
            "Activation",
            "Rows",
            "ns per 1000 elements, median",
            "90th percentile",
            "Against relu",
        ],
    );
    for survey in surveys {
        let costs = costs(activations(survey));
        let relu = costs.get(&OpKind::Relu).and_then(|c| median(c));
        for (kind, each) in &costs {
            let Some(cost) = median(each) else { continue };
            table.rows.push(vec![
                Cell::text(&survey.label),
                Cell::text(kind.to_string()),
                Cell::Count(each.len()),
                Cell::Number(1e3 * cost),
                Cell::number(quantile(each, 0.9).map(|c| 1e3 * c)),
                Cell::times(relu.map(|relu| cost / relu)),
            ]);
        }
    }
    table
}

fn gelu_figure(surveys: &[&Survey]) -> Chart {
    let gelu = |s: &Survey| -> BTreeMap<String, f64> {
        let own = s.input_effects.iter().filter(|e| e.kind == OpKind::Gelu);
        own.filter_map(|e| Some((e.distribution.clone(), geometric_mean(&e.ratios)?))).collect()
    };
    let effects: Vec<(&Survey, BTreeMap<String, f64>)> =
        surveys.iter().map(|s| (*s, gelu(s))).filter(|(_, e)| !e.is_empty()).collect();
    let distributions: BTreeSet<&String> = effects.iter().flat_map(|(_, e)| e.keys()).collect();
    let mut groups: Vec<String> = distributions.into_iter().cloned().collect();
    groups.sort_by(|a, b| first_number(a).total_cmp(&first_number(b)).then(a.cmp(b)));
    let series = |(survey, of): &(&Survey, BTreeMap<String, f64>)| BarSeries {
        name: survey.label.clone(),
        values: groups.iter().map(|g| of.get(g).copied()).collect(),
        floors: Vec::new(),
        hue: Hue::Environment(survey.number),
    };
    Chart::Bars {
        value: "times the latency with the usual values".to_owned(),
        series: effects.iter().map(series).collect(),
        groups,
        reference: Some(1.0),
    }
}

/// The first number in `constant(2)`; 0 without one.
fn first_number(distribution: &str) -> f64 {
    let inside = distribution.split(['(', ',', ')']).nth(1).unwrap_or_default();
    inside.trim().parse().unwrap_or(0.0)
}

fn values_table(surveys: &[&Survey]) -> Table {
    let caption = source(
        "Activations with other input values, each against the same operator with the usual ones",
        surveys,
    );
    let mut table = Table::new(
        "input-values",
        caption,
        [
            "Environment",
            "Activation",
            "Input values",
            "Operators",
            "Times the usual latency",
            "Smallest",
            "Largest",
        ],
    );
    for survey in surveys {
        for effect in &survey.input_effects {
            table.rows.push(vec![
                Cell::text(&survey.label),
                Cell::text(effect.kind.to_string()),
                Cell::text(&effect.distribution),
                Cell::Count(effect.ratios.len()),
                Cell::times(geometric_mean(&effect.ratios)),
                Cell::times(effect.ratios.first().copied()),
                Cell::times(effect.ratios.last().copied()),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[test]
    fn costs_are_per_element_and_small_outputs_are_left_out() {
        let row = |elements: f64, latency_ns: f64| Row {
            kind: OpKind::Gelu,
            class: Cow::Borrowed(""),
            model: 0,
            count: 1,
            latency_ns,
            flops: 0.0,
            bytes: 0.0,
            elements,
            window: None,
        };
        let rows = [row(20_000.0, 40_000.0), row(10_000.0, 10_000.0), row(10.0, 1e6)];
        assert_eq!(costs(rows.iter()).get(&OpKind::Gelu), Some(&vec![2.0, 1.0]));
    }

    #[test]
    fn distributions_are_ordered_by_their_numbers() {
        let mut all = ["constant(10)", "constant(2)", "uniform(-3,3)"];
        all.sort_by(|a, b| first_number(a).total_cmp(&first_number(b)));
        assert_eq!(all, ["uniform(-3,3)", "constant(2)", "constant(10)"]);
    }
}
