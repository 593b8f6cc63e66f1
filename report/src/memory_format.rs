//! The effect of memory format on convolution: the same models in environments that differ in
//! nothing else (figure 9 of the mobile ViT study). A factor is time channels first over time in
//! the other format, per model, then the geometric mean over models.

use super::{
    Block,
    chart::{BarSeries, Chart},
    hue::Hue,
    paper, source,
    statistics::{geometric_mean, quantile},
    survey::Survey,
    table::{Cell, Table},
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use vitempo::graph::{MemoryFormat, OpFamily, OpKind};

/// Rows of a table that are no convolution class.
const WITH_CONVERSIONS: &str = "all, with changes of format";
const END_TO_END: &str = "whole model";

pub fn section(surveys: &[Survey]) -> Vec<Block> {
    let missing = "No two environments differ in memory format alone: measure the same models \
        with `--memory-format channels-first` and again with `channels-last` or `blocked`.";
    let found = compared(surveys);
    let used: Vec<&Survey> = surveys
        .iter()
        .filter(|s| found.iter().any(|c| c.label == s.label || c.base == s.label))
        .collect();
    let most = found.iter().flat_map(|c| c.factors.values().map(Vec::len)).max().unwrap_or(0);
    let caption = source(
        &format!(
            "How many times as fast in another memory format as channels first: geometric means \
            over up to {most} models (or networks around single operators) that both ran"
        ),
        &used,
    );
    vec![
        Block::text(format!(
            "{} Below, convolutions by class: a stem has at most four input channels, a pointwise \
            one a 1x1 kernel. Time for changes of format is in a row of its own.",
            paper::TEXT.memory_format
        )),
        Block::figure("memory-format", caption.clone(), figure(&found), missing),
        Block::table(table(&found, caption), missing),
    ]
}

/// One environment against the one that differs from it by running channels first.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Place of the environment in the report.
    pub number: usize,
    pub label: String,
    pub base: String,
    /// The format in which most models ran, if it differs from the label.
    pub executed: Option<MemoryFormat>,
    /// One factor per model, by convolution class.
    pub factors: BTreeMap<String, Vec<f64>>,
}

/// Same dataset, device, engine, settings, threads and precision.
pub fn same_but_format(a: &Survey, b: &Survey) -> bool {
    let key = |s: &Survey| {
        let e = &s.environment;
        (
            s.folder.clone(),
            e.device.clone(),
            e.processor,
            e.framework.clone(),
            e.framework_version.clone(),
            e.threads,
            e.precision,
            e.isa.clone(),
            e.settings.clone(),
        )
    };
    key(a) == key(b)
}

/// Asked to, or by the engine's own choice.
fn runs_channels_first(survey: &Survey) -> bool {
    let asked = survey.environment.memory_format;
    asked.or(survey.executed) == Some(MemoryFormat::ChannelsFirst)
}

fn compared(surveys: &[Survey]) -> Vec<Compared> {
    let is_base = |base: &&Survey| {
        let asked = |s: &Survey| s.environment.memory_format.is_some() && runs_channels_first(s);
        runs_channels_first(base)
            && (asked(base) || !surveys.iter().any(|s| asked(s) && same_but_format(s, base)))
    };
    let against = |base: &Survey| {
        let others = surveys.iter().filter(|s| !runs_channels_first(s) && same_but_format(s, base));
        others
            .map(|s| Compared {
                number: s.number,
                label: s.label.clone(),
                base: base.label.clone(),
                executed: s.executed,
                factors: factors(base, s),
            })
            .collect::<Vec<_>>()
    };
    surveys.iter().filter(is_base).flat_map(against).filter(|c| !c.factors.is_empty()).collect()
}

/// Times of each whole model, or of each network around a single operator, ns, by class and by the
/// rows that are none.
fn times(survey: &Survey, whole: bool) -> HashMap<(&str, &str), BTreeMap<String, f64>> {
    let mut by_class =
        survey.times(|row| (row.kind == OpKind::Conv).then(|| row.class.to_string()));
    let converted = survey.times(|row| {
        (row.kind == OpKind::Conv || row.kind.family() == OpFamily::Conversion).then_some(())
    });
    for ((model, classes), converted) in survey.models.iter().zip(&mut by_class).zip(&converted) {
        if classes.is_empty() {
            continue;
        }
        classes.extend(converted.get(&()).map(|ns| (WITH_CONVERSIONS.to_owned(), *ns)));
        classes.extend(model.latency_ns.map(|ns| (END_TO_END.to_owned(), ns)));
    }
    let of_models = survey.models.iter().zip(by_class).filter(|(m, _)| m.group.is_some() == whole);
    of_models.map(|(m, classes)| ((m.name.as_str(), m.architecture.as_str()), classes)).collect()
}

/// Time in `base` over time in `other`, by class: of the whole models that both ran, or, where they
/// share none, of networks around single operators.
fn factors(base: &Survey, other: &Survey) -> BTreeMap<String, Vec<f64>> {
    let of_models = factors_of(base, other, true);
    if of_models.is_empty() { factors_of(base, other, false) } else { of_models }
}

fn factors_of(base: &Survey, other: &Survey, whole: bool) -> BTreeMap<String, Vec<f64>> {
    let (slow, fast) = (times(base, whole), times(other, whole));
    let mut factors: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for model in &base.models {
        let key = (model.name.as_str(), model.architecture.as_str());
        let Some((slow, fast)) = slow.get(&key).zip(fast.get(&key)) else { continue };
        for (class, ns) in slow {
            if let Some(other_ns) = fast.get(class).filter(|n| **n > 0.0) {
                factors.entry(class.clone()).or_default().push(ns / other_ns);
            }
        }
    }
    factors
}

fn classes(found: &[Compared]) -> Vec<String> {
    let all: BTreeSet<&String> = found.iter().flat_map(|c| c.factors.keys()).collect();
    let (own, rest): (Vec<&String>, Vec<&String>) =
        all.into_iter().partition(|c| *c != WITH_CONVERSIONS && *c != END_TO_END);
    own.into_iter().chain(rest).cloned().collect()
}

fn figure(found: &[Compared]) -> Chart {
    let classes = classes(found);
    let series = |c: &Compared| BarSeries {
        name: c.label.clone(),
        values: classes.iter().map(|class| geometric_mean(c.factors.get(class)?)).collect(),
        floors: Vec::new(),
        hue: Hue::Environment(c.number),
    };
    Chart::Bars {
        value: "times as fast as channels first".to_owned(),
        series: found.iter().map(series).collect(),
        groups: classes,
        reference: Some(1.0),
    }
}

fn table(found: &[Compared], caption: String) -> Table {
    let headings = [
        "Environment",
        "Ran in",
        "Convolutions",
        "Models",
        "Times as fast",
        "10th percentile",
        "90th percentile",
    ];
    let mut table = Table::new("memory-format", caption, headings);
    let classes = classes(found);
    for c in found {
        for class in &classes {
            let Some(factors) = c.factors.get(class) else { continue };
            table.rows.push(vec![
                Cell::text(&c.label),
                Cell::text(c.executed.map_or("-", MemoryFormat::name)),
                Cell::text(class),
                Cell::Count(factors.len()),
                Cell::times(geometric_mean(factors)),
                Cell::times(quantile(factors, 0.1)),
                Cell::times(quantile(factors, 0.9)),
            ]);
        }
    }
    table
}
