//! Depthwise convolution against channels, per engine (figure 11 of the mobile ViT study):
//! convolutions that differ in their channels alone.

use super::{
    Block,
    chart::{Axis, Chart, Mark, Series},
    hue::Hue,
    paper, source,
    survey::{Row, Survey, Window},
    table::{Cell, Table},
};
use std::collections::{BTreeMap, BTreeSet};
use vitempo::predictors::metrics::median;

/// Fewest numbers of channels that make a curve.
const FEWEST_POINTS: usize = 6;
const DRAWN: usize = 9;
/// With fewer channels the fixed cost of a convolution dominates.
const FEWEST_CHANNELS: u32 = 16;

pub fn section(surveys: &[Survey]) -> Vec<Block> {
    let missing = "Too few depthwise convolutions differ in their channels alone: `vitempo sample \
        --space operator-series --out series/`, then `vitempo profile series/ --out data/` on \
        each engine.";
    let mut blocks = vec![Block::text(paper::TEXT.depthwise)];
    let Some(shape) = densest(surveys) else {
        blocks.push(Block::Missing(missing.to_owned()));
        return blocks;
    };
    let curves: Vec<(&Survey, Curve)> = surveys
        .iter()
        .map(|s| (s, curve(s, shape)))
        .filter(|(_, c)| c.len() >= FEWEST_POINTS)
        .collect();
    let used: Vec<&Survey> = curves.iter().map(|(s, _)| *s).collect();
    let side = (shape.kernel as f64).sqrt().round();
    let what = format!(
        "Depthwise convolution, {side}x{side} with stride {}, to {}x{} pixels, by channels",
        shape.stride, shape.height, shape.width
    );
    blocks.push(Block::figure("depthwise", source(&what, &used), figure(&curves), missing));
    let of_remainder =
        format!("{what}: ns per 1000 outputs, the median over numbers of channels of each kind");
    blocks.push(Block::table(table(&curves, shape, source(&of_remainder, &used)), missing));
    for survey in surveys {
        let sizes = sizes(survey, shape);
        if sizes.len() > 1 {
            let what = format!(
                "Depthwise convolution, {side}x{side} with stride {}, by channels and size of its \
                output",
                shape.stride
            );
            let id = format!("depthwise-{}", survey.slug);
            blocks.push(Block::figure(id, source(&what, &[survey]), by_size(&sizes), missing));
        }
    }
    blocks
}

/// The curves of one survey that differ from a shape in the size of the output alone.
fn sizes(survey: &Survey, shape: Window) -> Vec<(Window, Curve)> {
    let alike = |w: Window| Window { height: shape.height, width: shape.width, ..w } == shape;
    let shapes: BTreeSet<Window> = depthwise(survey)
        .map(|(_, window)| Window { channels: 0, ..window })
        .filter(|window| alike(*window))
        .collect();
    let curves = shapes.into_iter().map(|shape| (shape, curve(survey, shape)));
    curves.filter(|(_, curve)| curve.len() >= FEWEST_POINTS).take(DRAWN).collect()
}

fn by_size(curves: &[(Window, Curve)]) -> Chart {
    let series = |(shape, curve): &(Window, Curve)| {
        Series::new(format!("{}x{}", shape.height, shape.width), Mark::Line, points(curve))
    };
    over_channels(curves.iter().map(series).collect())
}

/// Channels, and latency in us.
fn points(curve: &Curve) -> Vec<(f64, f64)> {
    curve.iter().map(|(channels, ns)| (f64::from(*channels), ns / 1e3)).collect()
}

/// Latency of one convolution, ns, by channels: the median where several models have it.
type Curve = BTreeMap<u32, f64>;

fn depthwise(survey: &Survey) -> impl Iterator<Item = (&Row, Window)> {
    survey
        .rows
        .iter()
        .filter(|r| r.class == "depthwise")
        .filter_map(|r| Some((r, r.window?)))
        .filter(|(_, w)| w.channels >= FEWEST_CHANNELS)
}

/// The shape without channels (they are 0 in it) for which the most numbers of channels were
/// measured.
fn densest(surveys: &[Survey]) -> Option<Window> {
    let mut channels: BTreeMap<Window, BTreeMap<u32, ()>> = BTreeMap::new();
    for (_, window) in surveys.iter().flat_map(depthwise) {
        channels.entry(Window { channels: 0, ..window }).or_default().insert(window.channels, ());
    }
    channels
        .into_iter()
        .filter(|(_, c)| c.len() >= FEWEST_POINTS)
        .max_by_key(|(_, c)| c.len())
        .map(|(shape, _)| shape)
}

fn curve(survey: &Survey, shape: Window) -> Curve {
    let mut all: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (row, window) in depthwise(survey).filter(|(_, w)| Window { channels: 0, ..*w } == shape) {
        all.entry(window.channels).or_default().push(row.latency_ns);
    }
    all.into_iter().filter_map(|(channels, ns)| Some((channels, median(&ns)?))).collect()
}

fn figure(curves: &[(&Survey, Curve)]) -> Chart {
    let series = |(survey, curve): &(&Survey, Curve)| {
        Series::new(survey.label.clone(), Mark::Line, points(curve))
            .hue(Hue::Environment(survey.number))
    };
    over_channels(curves.iter().take(DRAWN).map(series).collect())
}

fn over_channels(series: Vec<Series>) -> Chart {
    Chart::Points { x: Axis::linear("channels"), y: Axis::suited("latency, us", &series), series }
}

/// The largest power of two that divides a number of channels.
fn remainder(channels: u32) -> &'static str {
    match channels {
        c if c.is_multiple_of(32) => "multiples of 32",
        c if c.is_multiple_of(16) => "of 16 only",
        c if c.is_multiple_of(8) => "of 8 only",
        _ => "other",
    }
}

/// Median ns per 1000 outputs, by what the channels divide by.
fn per_output(curve: &Curve, shape: Window) -> BTreeMap<&'static str, f64> {
    let outputs = f64::from(shape.height) * f64::from(shape.width);
    let mut all: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for (channels, ns) in curve {
        all.entry(remainder(*channels))
            .or_default()
            .push(1e3 * ns / (outputs * f64::from((*channels).max(1))));
    }
    all.into_iter().filter_map(|(kind, each)| Some((kind, median(&each)?))).collect()
}

fn table(curves: &[(&Survey, Curve)], shape: Window, caption: String) -> Table {
    let kinds = ["multiples of 32", "of 16 only", "of 8 only", "other"];
    let headings = ["Environment", "Channels measured", "from", "to"].into_iter().chain(kinds);
    let mut table = Table::new("depthwise", caption, headings);
    for (survey, curve) in curves {
        let costs = per_output(curve, shape);
        let ends = [curve.keys().next(), curve.keys().last()]
            .map(|c| c.map_or(Cell::Blank, |c| Cell::Count(*c as usize)));
        let start = [Cell::text(&survey.label), Cell::Count(curve.len())].into_iter().chain(ends);
        table.rows.push(start.chain(kinds.map(|k| Cell::number(costs.get(k).copied()))).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_line_each() {
        let shape = Window { channels: 0, height: 64, width: 72, kernel: 9, stride: 1 };
        let curve = Curve::from([(16, 1000.0), (32, 3000.0)]);
        let chart = by_size(&[(shape, curve.clone()), (Window { height: 48, ..shape }, curve)]);
        let Chart::Points { series, .. } = chart else { panic!("points") };
        assert_eq!(series.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["64x72", "48x72"]);
        assert_eq!(series[0].points, [(16.0, 1.0), (32.0, 3.0)]);
    }

    #[test]
    fn costs_per_output_by_remainder() {
        let shape = Window { channels: 0, height: 10, width: 10, kernel: 9, stride: 1 };
        let curve =
            Curve::from([(32, 6400.0), (64, 6400.0), (48, 4800.0), (24, 2400.0), (5, 500.0)]);
        let costs = per_output(&curve, shape);
        // Per 1000 outputs: 6400 ns / 3200 and / 6400 average to 1.5 us; the others take 1 us.
        assert_eq!(
            costs,
            BTreeMap::from([
                ("multiples of 32", 1500.0),
                ("of 16 only", 1000.0),
                ("of 8 only", 1000.0),
                ("other", 1000.0)
            ])
        );
    }
}
