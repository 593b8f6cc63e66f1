//! Latency against FLOPs, for transformers and CNNs: figures 2 and 3 of the mobile ViT study.

use super::{
    Block, architectures,
    chart::{Axis, Chart, Mark, Series},
    figures,
    group::Group,
    hue::Hue,
    leading, models_of, paper, source,
    statistics::{Line, geometric_mean},
    survey::{Model, Survey},
    table::{Cell, Table},
};
use vitempo::predictors::metrics::median;

/// The study compares models below 5 GFLOPs as ptflops counts them, which is 5 GMACs.
const MOST_MACS: u64 = 5_000_000_000;

const ALL_LARGE: &str = "Every model with a graph and an end-to-end latency has more than 5 GMACs; \
    the study compares models of at most 5.";

pub fn section(surveys: &[Survey]) -> Vec<Block> {
    let mut blocks = vec![Block::text(format!(
        "One point is one model: its FLOPs (two for each multiply-accumulate) against its \
        latency. {} Here a real model counts as a ViT when its graph has attention: a \
         product of two computed tensors, or a softmax that something reads. Else it counts as a \
         CNN.",
        paper::TEXT.latency
    ))];
    let missing = "No model has both a graph and an end-to-end latency: measure some with \
        `vitempo profile MODELS --out data/`.";
    let of = |survey: &Survey| {
        let caption = source(&format!("Latency against FLOPs of {}", counts(survey)), &[survey]);
        Block::figure(format!("latency-{}", survey.slug), caption, figure(survey), missing)
    };
    blocks.extend(figures(leading(surveys).into_iter().map(of), missing));
    let table = trends(surveys);
    let is_drawn = surveys.iter().any(|survey| !figure(survey).is_empty());
    blocks.push(Block::table(table, if is_drawn { ALL_LARGE } else { missing }));
    blocks.extend(architectures::blocks(surveys));
    blocks
}

/// `300 synthetic, 52 real ViT`.
pub fn counts(survey: &Survey) -> String {
    counts_where(survey, |model| model.latency_ns.is_some())
}

/// Number of models by group, of those that are shown.
pub fn counts_where(survey: &Survey, is_shown: impl Fn(&Model) -> bool) -> String {
    let of = |group: Group| survey.group(group).filter(|(_, model)| is_shown(model)).count();
    let counts = Group::ALL.into_iter().map(|g| (g, of(g))).filter(|(_, n)| *n > 0);
    let text: Vec<String> = counts.map(|(group, n)| format!("{n} {group}")).collect();
    if text.is_empty() { "no models".to_owned() } else { format!("{} models", text.join(", ")) }
}

/// FLOPs and ns of a group's models, those of at most so many MACs.
fn points(survey: &Survey, group: Group, most_macs: u64) -> Vec<(&Model, f64, f64)> {
    let models = survey.group(group).filter_map(|(_, m)| {
        let work = m.work.filter(|w| w.macs <= most_macs && w.flops > 0)?;
        Some((m, work.flops as f64, m.latency_ns?))
    });
    models.collect()
}

/// FLOPs and ns of a group's models that the study would compare.
fn small(survey: &Survey, group: Group) -> Vec<(f64, f64)> {
    points(survey, group, MOST_MACS).into_iter().map(|(_, flops, ns)| (flops, ns)).collect()
}

pub fn figure(survey: &Survey) -> Chart {
    let marks = [
        (Group::Synthetic, Mark::Ring),
        (Group::Transformer, Mark::Dot),
        (Group::Convolutional, Mark::Triangle),
    ];
    let of = |(group, mark): (Group, Mark)| {
        let found = points(survey, group, u64::MAX);
        let points = found.iter().map(|(_, flops, ns)| (flops / 1e9, ns / 1e6)).collect();
        let models = found.iter().map(|(m, ..)| (m.name.as_str(), m.architecture.as_str()));
        Series { models: models_of(group, models), ..Series::new(group.to_string(), mark, points) }
            .hue(Hue::Group(group))
    };
    Chart::Points {
        x: Axis::log("GFLOPs"),
        y: Axis::log("latency, ms"),
        series: marks.map(of).into(),
    }
}

/// How long a group's models take for their FLOPs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    pub models: usize,
    /// Median and geometric mean of latency over FLOPs, ms per GFLOP.
    pub median: f64,
    pub mean: f64,
    pub line: Option<Line>,
}

/// `None` without models.
pub fn trend(points: &[(f64, f64)]) -> Option<Trend> {
    let ratios: Vec<f64> = points.iter().map(|(flops, ns)| ns * 1e3 / flops).collect();
    let scaled: Vec<(f64, f64)> =
        points.iter().map(|(flops, ns)| (flops / 1e9, ns / 1e6)).collect();
    Some(Trend {
        models: points.len(),
        median: median(&ratios)?,
        mean: geometric_mean(&ratios)?,
        line: Line::fit(&scaled),
    })
}

fn trends(surveys: &[Survey]) -> Table {
    let caption = source(
        "Latency for FLOPs, models of at most 5 GMACs (10 GFLOPs). The line is fitted by least \
        squares",
        &surveys.iter().collect::<Vec<_>>(),
    );
    let headings = [
        "Environment",
        "Models of",
        "Count",
        "ms per GFLOP, median",
        "Line: ms per GFLOP",
        "Line: ms at 0",
        "R²",
        "Against CNNs",
    ];
    let mut table = Table::new("latency-trend", caption, headings);
    for survey in surveys {
        let cnn = trend(&small(survey, Group::Convolutional)).map(|t| t.mean);
        for group in Group::ALL {
            let Some(t) = trend(&small(survey, group)) else { continue };
            table.rows.push(vec![
                Cell::text(&survey.label),
                Cell::text(group.to_string()),
                Cell::Count(t.models),
                Cell::Number(t.median),
                Cell::number(t.line.map(|l| l.slope)),
                Cell::number(t.line.map(|l| l.intercept)),
                Cell::number(t.line.map(|l| l.r2)),
                Cell::times(cnn.map(|cnn| t.mean / cnn)),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_by_hand() {
        // 1, 2 and 4 GFLOPs in 3, 5 and 9 ms: 2 ms per GFLOP and 1 ms at 0; medians of 3, 2.5 and
        // 2.25 ms per GFLOP.
        let found = trend(&[(1e9, 3e6), (2e9, 5e6), (4e9, 9e6)]).expect("three models");
        let line = found.line.expect("a line");
        assert!(
            (found.median - 2.5).abs() < 1e-9
                && (line.slope - 2.0).abs() < 1e-9
                && (line.intercept - 1.0).abs() < 1e-9
        );
        assert_eq!(trend(&[]), None);
    }
}
