//! [`svg`]: draws a [`Chart`]. The drawing library makes the SVG's elements and the axes;
//! positions, ticks and legends are ours. Text is `sans-serif` in the reader's own font. The
//! palette suits colour-blind readers (Okabe and Ito), and marks differ in shape as well.

mod intervals;

use super::{
    chart::{Axis, BarSeries, Chart, Mark, Series},
    scale::Scale,
};
use intervals::intervals;
use plotters::{
    coord::{
        Shift,
        ranged1d::{DefaultFormatting, KeyPointHint},
    },
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use std::collections::BTreeSet;

const WIDTH: u32 = 800;
const FONT: &str = "sans-serif";
/// Pixels per character of a label, about.
const CHARACTER: f64 = 7.2;
const LEGEND_LINE: i32 = 19;
const BAR: u32 = 13;

const COLOURS: [RGBColor; 12] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 110),
    RGBColor(200, 185, 40),
    RGBColor(40, 40, 40),
    RGBColor(136, 34, 85),
    RGBColor(120, 120, 40),
    RGBColor(100, 60, 200),
];

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure = DrawingAreaErrorKind<std::io::Error>;
type Panel<'r, 'a> = ChartContext<'r, SVGBackend<'a>, Cartesian2d<Places, Places>>;

/// A scale as the drawing library takes it: places from `low` to `high`, a line at each tick.
struct Places {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Places {
    fn of(scale: &Scale) -> Self {
        Self { low: scale.low, high: scale.high, ticks: scale.ticks.clone() }
    }
}

impl Ranged for Places {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let share = (value - self.low) / (self.high - self.low);
        start + (f64::from(end - start) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

/// The chart as an SVG element that stands alone.
///
/// # Errors
/// A sentence from the drawing library.
pub fn svg(chart: &Chart) -> Result<String, String> {
    sheet(std::slice::from_ref(chart))
}

/// Charts below each other, as an SVG element that stands alone.
///
/// # Errors
/// A sentence from the drawing library.
pub fn sheet(charts: &[Chart]) -> Result<String, String> {
    let parts: Vec<_> = charts.iter().map(|chart| (chart, legend_of(chart))).collect();
    let height_of = |chart: &Chart, names: &[(String, Mark)]| {
        legend_height(names).unsigned_abs() + height(chart)
    };
    let total = parts.iter().map(|(chart, names)| height_of(chart, names)).sum();
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, total)).into_drawing_area();
        let draw = || -> Result<(), Failure> {
            let mut below = root.clone();
            for (chart, names) in &parts {
                let (here, rest) = below.split_vertically(height_of(chart, names));
                paint(&here, chart, names, legend_height(names))?;
                below = rest;
            }
            root.present()
        };
        draw().map_err(|e| e.to_string())?;
    }
    Ok(text)
}

fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

fn height(chart: &Chart) -> u32 {
    match chart {
        Chart::Points { .. } => 420,
        Chart::Bars { groups, series, .. } => {
            70 + (groups.len() * (series.len() * BAR as usize + 10)) as u32
        }
        Chart::Intervals { rows, series, .. } => 70 + (rows.len() * (series.len() * 7 + 12)) as u32,
        Chart::Stacked { rows, .. } => 70 + 24 * rows.len() as u32,
    }
}

fn paint(
    root: &Canvas<'_>,
    chart: &Chart,
    names: &[(String, Mark)],
    above: i32,
) -> Result<(), Failure> {
    root.fill(&WHITE)?;
    let (top, below) = root.split_vertically(above);
    legend(&top, names)?;
    match chart {
        Chart::Points { x, y, series } => {
            let values = |of: fn(&(f64, f64)) -> f64| {
                series.iter().flat_map(move |s| s.points.iter().map(of))
            };
            points(&below, &Scale::of(x, values(|p| p.0)), &Scale::of(y, values(|p| p.1)), series)
        }
        Chart::Bars { value, groups, series, reference } => {
            let values = series
                .iter()
                .flat_map(|s| s.values.iter().chain(&s.floors).copied().flatten())
                .chain(*reference);
            bars(
                &below,
                &Scale::of(&Axis::linear(value), values),
                &Scale::names(groups),
                series,
                *reference,
            )
        }
        Chart::Intervals { value, rows, series } => {
            let ends = series.iter().flat_map(|s| s.values.iter().flatten().flatten().copied());
            intervals(&below, &Scale::of(&Axis::log(value), ends), &Scale::names(rows), series)
        }
        Chart::Stacked { value, rows, parts } => {
            let totals = (0..rows.len()).map(|row| parts.iter().filter_map(|p| p.1.get(row)).sum());
            stacked(&below, &Scale::of(&Axis::linear(value), totals), &Scale::names(rows), parts)
        }
    }
}

/// Names and marks of the series; empty if there is only one.
fn legend_of(chart: &Chart) -> Vec<(String, Mark)> {
    let names: Vec<(String, Mark)> = match chart {
        Chart::Points { series, .. } => series.iter().map(|s| (s.name.clone(), s.mark)).collect(),
        Chart::Bars { series, .. } => series.iter().map(|s| (s.name.clone(), Mark::Dot)).collect(),
        Chart::Intervals { series, .. } => {
            series.iter().map(|s| (s.name.clone(), Mark::Dot)).collect()
        }
        Chart::Stacked { parts, .. } => parts.iter().map(|p| (p.0.clone(), Mark::Dot)).collect(),
    };
    if names.len() > 1 { names } else { Vec::new() }
}

/// Where each name of the legend stands: they fill lines from left to right.
fn legend_places(names: &[(String, Mark)]) -> Vec<(i32, i32)> {
    let (mut x, mut y) = (10, LEGEND_LINE / 2 + 2);
    let mut places = Vec::new();
    for (name, _) in names {
        let width = 28 + (name.chars().count() as f64 * CHARACTER) as i32;
        if x + width > WIDTH as i32 && x > 10 {
            (x, y) = (10, y + LEGEND_LINE);
        }
        places.push((x, y));
        x += width;
    }
    places
}

fn legend_height(names: &[(String, Mark)]) -> i32 {
    legend_places(names).last().map_or(4, |(_, y)| y + LEGEND_LINE / 2)
}

fn legend(top: &Canvas<'_>, names: &[(String, Mark)]) -> Result<(), Failure> {
    for (index, ((name, kind), (x, y))) in names.iter().zip(legend_places(names)).enumerate() {
        mark(top, *kind, (x + 6, y), colour(index))?;
        top.draw(&Text::new(name.clone(), (x + 15, y), text(15, HPos::Left)))?;
    }
    Ok(())
}

fn text(size: i32, at: HPos) -> TextStyle<'static> {
    TextStyle::from((FONT, size).into_font()).pos(Pos::new(at, VPos::Center))
}

/// Axes with ticks and a light grid.
fn panel<'r, 'a>(root: &'r Canvas<'a>, x: &Scale, y: &Scale) -> Result<Panel<'r, 'a>, Failure> {
    let widest = y.ticks.iter().map(|t| y.tick(*t).chars().count()).max().unwrap_or(0);
    let left = (12.0 + widest as f64 * CHARACTER) as u32 + if y.label.is_empty() { 0 } else { 22 };
    let mut chart = ChartBuilder::on(root)
        .margin(8)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(left.min(WIDTH / 2))
        .build_cartesian_2d(Places::of(x), Places::of(y))?;
    let (write_x, write_y) = (|v: &f64| x.tick(*v), |v: &f64| y.tick(*v));
    let mut mesh = chart.configure_mesh();
    mesh.x_label_formatter(&write_x)
        .y_label_formatter(&write_y)
        .bold_line_style(RGBColor(225, 225, 225))
        .axis_style(RGBColor(90, 90, 90))
        .label_style((FONT, 15))
        .axis_desc_style((FONT, 16))
        .x_desc(x.label.clone());
    if !y.label.is_empty() {
        mesh.y_desc(y.label.clone());
    }
    mesh.draw()?;
    Ok(chart)
}

fn mark<CT: CoordTranslate>(
    area: &DrawingArea<SVGBackend<'_>, CT>,
    mark: Mark,
    at: CT::From,
    colour: RGBColor,
) -> Result<(), Failure>
where
    CT::From: Clone,
{
    let solid = colour.mix(0.75).filled();
    match mark {
        Mark::Dot => area.draw(&Circle::new(at, 3, solid)),
        Mark::Ring => area.draw(&Circle::new(at, 3, colour.mix(0.75).stroke_width(1))),
        Mark::Triangle => area.draw(&TriangleMarker::new(at, 4, solid)),
        Mark::Cross => area.draw(&Cross::new(at, 3, colour.mix(0.9).stroke_width(1))),
        Mark::Line => area.draw(&Circle::new(at, 2, colour.filled())),
    }
}

/// Pixels: of points of one series that fall into one square of this side, one is drawn.
const CELL: i32 = 2;

fn points(root: &Canvas<'_>, x: &Scale, y: &Scale, series: &[Series]) -> Result<(), Failure> {
    let chart = panel(root, x, y)?;
    let area = chart.plotting_area();
    for (index, s) in series.iter().enumerate() {
        let (mut placed, mut covered) = (Vec::new(), BTreeSet::new());
        for (number, point) in s.points.iter().enumerate() {
            let Some(at) = x.place(point.0).zip(y.place(point.1)) else { continue };
            placed.push(at);
            let (across, down) = area.map_coordinate(&at);
            if covered.insert((across / CELL, down / CELL)) {
                mark(area, s.mark, at, colour(index))?;
            }
            if let Some(label) = s.labels.get(number) {
                let right = x.high - at.0 < 0.12 * (x.high - x.low);
                let (pixel_x, pixel_y) = area.map_coordinate(&at);
                let (shift, side) = if right { (-6, HPos::Right) } else { (6, HPos::Left) };
                let here = area.get_base_pixel();
                let place = (pixel_x - here.0 + shift, pixel_y - here.1);
                area.strip_coord_spec().draw(&Text::new(label.clone(), place, text(14, side)))?;
            }
        }
        if s.mark == Mark::Line {
            area.draw(&PathElement::new(placed, colour(index).stroke_width(2)))?;
        }
    }
    Ok(())
}

fn bars(
    root: &Canvas<'_>,
    x: &Scale,
    y: &Scale,
    series: &[BarSeries],
    reference: Option<f64>,
) -> Result<(), Failure> {
    let chart = panel(root, x, y)?;
    let area = chart.plotting_area();
    let thickness = 0.84 / series.len().max(1) as f64;
    for (index, s) in series.iter().enumerate() {
        for (group, middle) in y.ticks.iter().enumerate() {
            let top = middle + 0.42 - index as f64 * thickness;
            if let Some(value) = s.values.get(group).copied().flatten().filter(|v| v.is_finite()) {
                let from = reference.unwrap_or(0.0).max(x.low);
                area.draw(&Rectangle::new(
                    [(from, top), (value, top - thickness)],
                    colour(index).mix(0.8).filled(),
                ))?;
            }
            if let Some(floor) = s.floors.get(group).copied().flatten().filter(|v| v.is_finite()) {
                area.draw(&PathElement::new(
                    vec![(floor, top), (floor, top - thickness)],
                    BLACK.stroke_width(2),
                ))?;
            }
        }
    }
    if let Some(at) = reference {
        area.draw(&PathElement::new(vec![(at, y.low), (at, y.high)], BLACK.stroke_width(1)))?;
    }
    Ok(())
}

fn stacked(
    root: &Canvas<'_>,
    x: &Scale,
    y: &Scale,
    parts: &[(String, Vec<f64>)],
) -> Result<(), Failure> {
    let chart = panel(root, x, y)?;
    let area = chart.plotting_area();
    for (row, middle) in y.ticks.iter().enumerate() {
        let mut from = 0.0;
        for (index, (_, lengths)) in parts.iter().enumerate() {
            let length =
                lengths.get(row).copied().filter(|l| l.is_finite() && *l > 0.0).unwrap_or(0.0);
            if length > 0.0 {
                area.draw(&Rectangle::new(
                    [(from, middle + 0.38), (from + length, middle - 0.38)],
                    colour(index).mix(0.85).filled(),
                ))?;
            }
            from += length;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chart_becomes_well_formed_svg_with_one_mark_per_value() {
        let series = vec![
            Series::new("a & b", Mark::Dot, vec![(1.0, 10.0), (100.0, 20.0), (-1.0, 5.0)]),
            Series {
                labels: vec!["<x>".to_owned()],
                ..Series::new("line", Mark::Line, vec![(2.0, 1.0), (3.0, 4.0)])
            },
        ];
        let points = svg(&Chart::Points { x: Axis::log("FLOPs"), y: Axis::linear("ms"), series })
            .expect("an SVG");
        assert!(points.starts_with("<svg ") && points.trim_end().ends_with("</svg>"));
        assert!(points.contains("a &amp; b") && points.contains("&lt;x&gt;"), "text is escaped");
        // Two points of the first series (one has no logarithm), two of the line, two marks of the
        // legend.
        assert_eq!(points.matches("<circle").count(), 6);
        let bars = Chart::Bars {
            value: "x".to_owned(),
            groups: vec!["one".to_owned(), "two".to_owned()],
            series: vec![BarSeries {
                name: "only".to_owned(),
                values: vec![Some(2.0), None],
                floors: vec![Some(1.0)],
            }],
            reference: Some(1.0),
        };
        assert_eq!(
            svg(&bars).map(|s| s.matches("<rect").count()),
            Ok(2),
            "the background and one bar"
        );
        let stacked = Chart::Stacked {
            value: "%".to_owned(),
            rows: vec!["r".to_owned()],
            parts: vec![
                ("p".to_owned(), vec![40.0]),
                ("q".to_owned(), vec![60.0]),
                ("none".to_owned(), vec![0.0]),
            ],
        };
        assert_eq!(svg(&stacked).map(|s| s.matches("<rect").count()), Ok(3));
    }

    #[test]
    fn a_long_legend_takes_several_lines() {
        let names: Vec<(String, Mark)> =
            (0..12).map(|i| (format!("an environment with a name {i}"), Mark::Dot)).collect();
        let places = legend_places(&names);
        assert!(
            places.last().is_some_and(|(_, y)| *y > LEGEND_LINE)
                && places.iter().all(|(x, _)| *x < WIDTH as i32)
        );
    }
}
