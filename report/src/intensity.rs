//! Arithmetic intensity: FLOPs per byte against achieved FLOP/s by operator kind (after the
//! roofline model), and how intense whole models are (figure 5 of the mobile ViT study). Bytes are
//! those of tensors, each read or written once; caches make true traffic differ.

use super::{
    Block,
    chart::{Axis, BarSeries, Chart, Mark, Series},
    figures,
    group::Group,
    hue::Hue,
    leading, paper, source,
    statistics::quantile,
    survey::{Row, Survey},
    table::{Cell, Table},
};
use std::collections::BTreeMap;
use vitempo::graph::{OpFamily, OpKind};

/// Kinds with less of the time are left out of figures.
const LEAST_SHARE: f64 = 0.003;
/// Shorter operators, ns, do not show the speed of a processor.
const LONG_ENOUGH_NS: f64 = 20_000.0;

pub fn section(surveys: &[Survey]) -> Vec<Block> {
    let missing = "No operator with FLOPs was timed in a whole model: profile models on an engine \
        that reports operator times.";
    let mut blocks = vec![Block::text(format!(
        "{} Here FLOPs and bytes are counted from tensor shapes, each tensor read or written \
        once. The line is the best of the environment: the 99th percentile of \
         FLOP/s and of bytes per second over its operators.",
        paper::TEXT.intensity
    ))];
    let of = |survey: &Survey| {
        let caption = source(
            &format!(
                "Achieved FLOP/s against FLOPs per byte, one point per operator kind over {}",
                super::latency::counts(survey)
            ),
            &[survey],
        );
        Block::figure(format!("intensity-{}", survey.slug), caption, roofline(survey), missing)
    };
    blocks.extend(figures(leading(surveys).into_iter().map(of), missing));
    if let Some(survey) = leading(surveys).first() {
        let caption = source(
            "How intense whole models are: FLOPs per byte of all kernels that ran",
            &[survey],
        );
        blocks.push(Block::figure("intensity-models", caption, histogram(survey), missing));
    }
    blocks.push(Block::table(table(&leading(surveys)), missing));
    blocks
}

/// All rows of one kind together.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    pub kind: OpKind,
    /// Of operator time.
    pub share: f64,
    pub flops: f64,
    pub bytes: f64,
    pub time_ns: f64,
}

impl Rate {
    pub fn intensity(&self) -> f64 {
        self.flops / self.bytes
    }
}

/// By kind, those that take the most time first.
pub fn rates<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<Rate> {
    let mut kinds: BTreeMap<&OpKind, Rate> = BTreeMap::new();
    for row in rows {
        let empty =
            || Rate { kind: row.kind.clone(), share: 0.0, flops: 0.0, bytes: 0.0, time_ns: 0.0 };
        let rate = kinds.entry(&row.kind).or_insert_with(empty);
        let count = row.count as f64;
        (rate.flops, rate.bytes, rate.time_ns) = (
            rate.flops + row.flops * count,
            rate.bytes + row.bytes * count,
            rate.time_ns + row.time_ns(),
        );
    }
    let total: f64 = kinds.values().map(|r| r.time_ns).sum();
    let mut rates: Vec<Rate> =
        kinds.into_values().map(|r| Rate { share: r.time_ns / total, ..r }).collect();
    rates.sort_by(|a, b| b.time_ns.total_cmp(&a.time_ns));
    rates
}

fn roofline(survey: &Survey) -> Chart {
    let rates: Vec<Rate> = rates(survey.model_rows())
        .into_iter()
        .filter(|r| r.share >= LEAST_SHARE && r.flops > 0.0 && r.bytes > 0.0)
        .collect();
    let family = |family: &OpFamily| {
        let own: Vec<&Rate> = rates.iter().filter(|r| r.kind.family() == *family).collect();
        let mut series = Series::new(
            family.name().replace('_', " "),
            Mark::Dot,
            own.iter().map(|r| (r.intensity(), r.flops / r.time_ns)).collect(),
        )
        .hue(Hue::Family(*family));
        series.labels = own.iter().map(|r| r.kind.to_string()).collect();
        series
    };
    let mut series: Vec<Series> =
        OpFamily::ALL.iter().map(family).filter(|s| !s.points.is_empty()).collect();
    let xs = rates.iter().map(Rate::intensity);
    if let Some(roof) = Roof::of(survey.rows.iter()).filter(|_| !series.is_empty()) {
        series.push(
            Series::new(
                "best seen",
                Mark::Line,
                roof.corners(xs.clone().fold(f64::INFINITY, f64::min), xs.fold(0.0, f64::max)),
            )
            .hue(Hue::Reference),
        );
    }
    Chart::Points { x: Axis::log("FLOPs per byte"), y: Axis::log("GFLOP/s"), series }
}

/// The most that was achieved.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Roof {
    flops_per_ns: f64,
    bytes_per_ns: f64,
}

impl Roof {
    fn of<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<Self> {
        let long: Vec<&Row> = rows.filter(|r| r.latency_ns >= LONG_ENOUGH_NS).collect();
        let best = |of: fn(&Row) -> f64| {
            quantile(&long.iter().map(|r| of(r) / r.latency_ns).collect::<Vec<_>>(), 0.99)
                .filter(|b| *b > 0.0)
        };
        Some(Self { flops_per_ns: best(|r| r.flops)?, bytes_per_ns: best(|r| r.bytes)? })
    }

    /// The roof's line between two intensities.
    fn corners(self, low: f64, high: f64) -> Vec<(f64, f64)> {
        let ridge = self.flops_per_ns / self.bytes_per_ns;
        let at = |x: f64| (x, (x * self.bytes_per_ns).min(self.flops_per_ns));
        let mut xs = vec![low.min(ridge), ridge, high.max(ridge)];
        xs.dedup();
        xs.into_iter().map(at).collect()
    }
}

/// FLOPs per byte of every model of a group.
fn intensities(survey: &Survey, group: Group) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); survey.models.len()];
    for row in &survey.rows {
        if let Some(sum) = sums.get_mut(row.model) {
            *sum = (sum.0 + row.flops * row.count as f64, sum.1 + row.bytes * row.count as f64);
        }
    }
    survey
        .group(group)
        .filter_map(|(index, _)| sums.get(index).filter(|s| s.1 > 0.0).map(|s| s.0 / s.1))
        .collect()
}

/// Share of values in bins between powers of the square root of two.
fn histogram(survey: &Survey) -> Chart {
    let groups: Vec<(Group, Vec<f64>)> = Group::ALL
        .into_iter()
        .map(|g| (g, intensities(survey, g)))
        .filter(|(_, v)| !v.is_empty())
        .collect();
    let bin = |v: f64| (2.0 * v.max(1e-9).log2()).floor() as i64;
    let bins: Vec<i64> = groups.iter().flat_map(|(_, v)| v.iter().map(|v| bin(*v))).collect();
    let (low, high) =
        (bins.iter().min().copied().unwrap_or(0), bins.iter().max().copied().unwrap_or(-1));
    let edge = |b: i64| super::table::three_digits(2f64.powf(b as f64 / 2.0));
    let share = |values: &[f64], b: i64| {
        100.0 * values.iter().filter(|v| bin(**v) == b).count() as f64 / values.len() as f64
    };
    let series = |(group, values): &(Group, Vec<f64>)| BarSeries {
        name: format!("{group} ({} models)", values.len()),
        values: (low..=high).map(|b| Some(share(values, b))).collect(),
        floors: Vec::new(),
        hue: Hue::Group(*group),
    };
    Chart::Bars {
        value: "share of models, %".to_owned(),
        groups: (low..=high).map(|b| format!("{} to {} FLOP/B", edge(b), edge(b + 1))).collect(),
        series: groups.iter().map(series).collect(),
        reference: None,
    }
}

fn table(surveys: &[&Survey]) -> Table {
    let caption = source("Operator kinds with at least 0.3 % of the time of whole models", surveys);
    let mut table = Table::new(
        "intensity",
        caption,
        ["Environment", "Operator", "Share of time", "FLOPs per byte", "GFLOP/s", "GB/s"],
    );
    for survey in surveys {
        for rate in rates(survey.model_rows()).into_iter().filter(|r| r.share >= LEAST_SHARE) {
            table.rows.push(vec![
                Cell::text(&survey.label),
                Cell::text(rate.kind.to_string()),
                Cell::share(rate.share),
                if rate.bytes > 0.0 { Cell::Number(rate.intensity()) } else { Cell::Blank },
                Cell::Number(rate.flops / rate.time_ns),
                Cell::Number(rate.bytes / rate.time_ns),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn row(kind: OpKind, flops: f64, bytes: f64, latency_ns: f64, count: usize) -> Row {
        Row {
            kind,
            class: Cow::Borrowed(""),
            model: 0,
            count,
            latency_ns,
            flops,
            bytes,
            elements: 1.0,
            window: None,
        }
    }

    #[test]
    fn kinds_add_up() {
        let rows = [
            row(OpKind::Conv, 600.0, 10.0, 30.0, 2),
            row(OpKind::Add, 10.0, 120.0, 40.0, 1),
            row(OpKind::Conv, 0.0, 0.0, 0.0, 5),
        ];
        let found = rates(rows.iter());
        assert_eq!(found.iter().map(|r| r.kind.name()).collect::<Vec<_>>(), ["conv", "add"]);
        assert!(
            (found[0].share - 0.6).abs() < 1e-12 && (found[0].intensity() - 60.0).abs() < 1e-12
        );
        assert!((found[0].flops / found[0].time_ns - 20.0).abs() < 1e-12);
    }

    #[test]
    fn the_roof_has_its_ridge_where_both_limits_meet() {
        let rows = [
            row(OpKind::Conv, 4e6, 1e4, 4e4, 1),
            row(OpKind::Add, 1e5, 2e5, 2e4, 1),
            row(OpKind::Add, 9e9, 9e9, 1.0, 1),
        ];
        let roof = Roof::of(rows.iter()).expect("long operators");
        assert!(
            (roof.flops_per_ns - 100.0).abs() < 1e-9 && (roof.bytes_per_ns - 10.0).abs() < 1e-9,
            "the operator of 1 ns says nothing"
        );
        assert_eq!(roof.corners(1.0, 100.0), [(1.0, 10.0), (10.0, 100.0), (100.0, 100.0)]);
        assert_eq!(Roof::of([].iter()), None);
    }
}
