//! What a smaller precision gains, by operator family and kind: environments that differ in
//! precision alone (figure 12 of the mobile ViT study). A factor is time in f32 over time in the
//! other precision, per model, then the geometric mean over models.

use super::{
    Block,
    chart::{BarSeries, Chart},
    group::Group,
    hue::Hue,
    paper, source,
    statistics::{geometric_mean, quantile},
    survey::{Survey, family_index},
    table::{Cell, Table},
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use vitempo::graph::{OpFamily, OpKind, Precision};

/// Families and kinds with less of a model's time in f32 are left out of its factors.
const LEAST_SHARE: f64 = 0.005;

pub fn section(surveys: &[Survey]) -> Vec<Block> {
    let missing = "No two environments differ in precision alone: measure the same models in f32 \
        and again with `--precision int8` or `bf16`.";
    let pairs = pairs(surveys);
    let used: Vec<&Survey> = surveys
        .iter()
        .filter(|s| pairs.iter().any(|(a, b)| a.label == s.label || b.label == s.label))
        .collect();
    let families = |s: &Survey| s.times(|row| Some(row.kind.family()));
    let kinds = |s: &Survey| s.times(|row| Some(row.kind.clone()));
    let by_family: Vec<(&Survey, BTreeMap<OpFamily, Vec<f64>>)> =
        pairs.iter().map(|(full, small)| (*small, factors(full, small, &families))).collect();
    let by_kind: Vec<(&Survey, BTreeMap<OpKind, Vec<f64>>)> =
        pairs.iter().map(|(full, small)| (*small, factors(full, small, &kinds))).collect();
    let most = by_family.iter().flat_map(|(_, of)| of.values().map(Vec::len)).max().unwrap_or(0);
    let what = format!(
        "How many times as fast as in f32: geometric means over up to {most} models that both \
        ran; families and kinds with at least 0.5 % of a model's time in f32"
    );
    vec![
        Block::text(format!(
            "{} Kernels that change element types are conversion: they have no \
             counterpart in f32, so their share of the time is shown.",
            paper::TEXT.quantization
        )),
        Block::figure("quantization", source(&what, &used), figure(&by_family), missing),
        Block::table(models_table(&pairs, &used), missing),
        Block::table(
            factors_table("quantization-families", &by_family, source(&what, &used)),
            missing,
        ),
        Block::table(factors_table("quantization-kinds", &by_kind, source(&what, &used)), missing),
    ]
}

/// Environments of one dataset in f32 and in a smaller precision, equal otherwise; where formats
/// differ, the f32 one in the same format goes first, else any.
fn pairs(surveys: &[Survey]) -> Vec<(&Survey, &Survey)> {
    let equal_otherwise = |a: &Survey, b: &Survey| {
        let key = |s: &Survey| {
            let e = &s.environment;
            (
                s.folder.clone(),
                e.device.clone(),
                e.processor,
                e.framework.clone(),
                e.framework_version.clone(),
                e.threads,
                e.isa.clone(),
                e.settings.clone(),
            )
        };
        key(a) == key(b)
    };
    let full = |small: &Survey| {
        let candidates: Vec<&Survey> = surveys
            .iter()
            .filter(|s| s.environment.precision == Precision::F32 && equal_otherwise(s, small))
            .collect();
        let same = candidates
            .iter()
            .find(|s| s.environment.memory_format == small.environment.memory_format);
        same.or_else(|| candidates.first()).copied()
    };
    surveys
        .iter()
        .filter(|s| s.environment.precision != Precision::F32)
        .filter_map(|small| Some((full(small)?, small)))
        .collect()
}

/// Times by key for every model of a survey.
type Times<'a, K> = &'a dyn Fn(&Survey) -> Vec<BTreeMap<K, f64>>;

/// Time in `full` over time in `small` by key; models that both ran.
fn factors<K: Ord + Clone>(
    full: &Survey,
    small: &Survey,
    times: Times<'_, K>,
) -> BTreeMap<K, Vec<f64>> {
    let (slow, fast) = (times(full), times(small));
    let place: HashMap<(&str, &str), usize> = small
        .models
        .iter()
        .enumerate()
        .map(|(i, m)| ((m.name.as_str(), m.architecture.as_str()), i))
        .collect();
    let mut factors: BTreeMap<K, Vec<f64>> = BTreeMap::new();
    for (model, slow) in full.models.iter().zip(&slow).filter(|(m, _)| m.group.is_some()) {
        let total: f64 = slow.values().sum();
        let Some(fast) = place
            .get(&(model.name.as_str(), model.architecture.as_str()))
            .and_then(|i| fast.get(*i))
        else {
            continue;
        };
        for (key, ns) in slow.iter().filter(|(_, ns)| **ns >= LEAST_SHARE * total) {
            if let Some(other) = fast.get(key).filter(|n| **n > 0.0) {
                factors.entry(key.clone()).or_default().push(ns / other);
            }
        }
    }
    factors
}

fn figure(found: &[(&Survey, BTreeMap<OpFamily, Vec<f64>>)]) -> Chart {
    let families: Vec<OpFamily> = OpFamily::ALL
        .into_iter()
        .filter(|f| *f != OpFamily::Conversion && found.iter().any(|(_, of)| of.contains_key(f)))
        .collect();
    let series = |(survey, of): &(&Survey, BTreeMap<OpFamily, Vec<f64>>)| BarSeries {
        name: survey.label.clone(),
        values: families.iter().map(|f| geometric_mean(of.get(f)?)).collect(),
        floors: Vec::new(),
        hue: Hue::Environment(survey.number),
    };
    let groups = families.iter().map(|f| f.name().replace('_', " ")).collect();
    Chart::Bars {
        value: "times as fast as in f32".to_owned(),
        groups,
        series: found.iter().map(series).collect(),
        reference: Some(1.0),
    }
}

/// Latencies end to end of the models of a group that both ran: f32 over the other.
fn end_to_end(full: &Survey, small: &Survey, group: Group) -> Vec<f64> {
    let fast: HashMap<(&str, &str), f64> = small
        .models
        .iter()
        .filter_map(|m| Some(((m.name.as_str(), m.architecture.as_str()), m.latency_ns?)))
        .collect();
    full.group(group)
        .filter_map(|(_, m)| {
            Some(m.latency_ns? / fast.get(&(m.name.as_str(), m.architecture.as_str()))?)
        })
        .collect()
}

/// Mean share of conversions in the operator time of a group's models.
fn conversions(survey: &Survey, group: Group) -> Option<f64> {
    let breakdown = super::breakdown::of_group(survey, group)?;
    breakdown.shares.get(family_index(&OpKind::Quantize)).copied()
}

fn models_table(pairs: &[(&Survey, &Survey)], used: &[&Survey]) -> Table {
    let caption =
        source("End to end: how many times as fast as in f32, models that both ran", used);
    let headings = [
        "Environment",
        "Models of",
        "Count",
        "Times as fast",
        "10th percentile",
        "90th percentile",
        "Slower",
        "Conversions, share of time",
    ];
    let mut table = Table::new("quantization", caption, headings);
    for (full, small) in pairs {
        for group in Group::ALL {
            let factors = end_to_end(full, small, group);
            let Some(mean) = geometric_mean(&factors) else { continue };
            table.rows.push(vec![
                Cell::text(&small.label),
                Cell::text(group.to_string()),
                Cell::Count(factors.len()),
                Cell::Times(mean),
                Cell::times(quantile(&factors, 0.1)),
                Cell::times(quantile(&factors, 0.9)),
                Cell::share(
                    factors.iter().filter(|f| **f < 1.0).count() as f64 / factors.len() as f64,
                ),
                Cell::share(conversions(small, group)),
            ]);
        }
    }
    table
}

/// One row per family or kind, one column per environment.
fn factors_table<K: Ord + Clone + std::fmt::Display>(
    name: &str,
    found: &[(&Survey, BTreeMap<K, Vec<f64>>)],
    caption: String,
) -> Table {
    let keys: BTreeSet<&K> = found.iter().flat_map(|(_, of)| of.keys()).collect();
    let headings =
        std::iter::once("Operator".to_owned()).chain(found.iter().map(|(s, _)| s.label.clone()));
    let mut table = Table::new(name, caption, headings);
    for key in keys {
        let cells =
            found.iter().map(|(_, of)| Cell::times(of.get(key).and_then(|f| geometric_mean(f))));
        table.rows.push(
            std::iter::once(Cell::text(key.to_string().replace('_', " "))).chain(cells).collect(),
        );
    }
    table
}
