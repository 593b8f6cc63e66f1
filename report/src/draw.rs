//! [`svg`]: draws a [`Chart`] as an SVG element. Text is in the reader's own font. Elements have
//! their colours as attributes, so that the element stands alone as a file, and classes, by which a
//! page gives them the colours of light or dark paper. There are no `style` attributes, which a
//! strict content security policy refuses.

mod bars;
mod canvas;
mod intervals;
mod legend;
mod panel;
mod points;

use super::{
    chart::{Axis, Chart, ModelKey},
    scale::Scale,
};
use canvas::Canvas;
use legend::Legend;
use panel::Panel;

/// Width of every figure, pixels.
const WIDTH: f64 = 800.0;
/// Thickness of a bar, pixels.
const BAR: f64 = 13.0;
/// Pixels between a panel and the edges of the figure for its axes.
const AROUND: f64 = 70.0;

/// The page of a point's model; `None` where it has none.
pub type Target<'a> = &'a dyn Fn(&ModelKey) -> Option<String>;

/// The chart as an SVG element that stands alone.
#[must_use]
pub fn svg(chart: &Chart) -> String {
    sheet(std::slice::from_ref(chart))
}

/// Charts below each other, as an SVG element that stands alone.
#[must_use]
pub fn sheet(charts: &[Chart]) -> String {
    drawn(charts, "", &|_| None)
}

/// The chart as a picture within a page, with a name for those who do not see it; points of models
/// are links.
#[must_use]
pub fn inline(chart: &Chart, label: &str, target: Target<'_>) -> String {
    let attributes = format!(" role=\"img\" aria-label=\"{}\"", super::markup::escape(label));
    drawn(std::slice::from_ref(chart), &attributes, target)
}

fn drawn(charts: &[Chart], attributes: &str, target: Target<'_>) -> String {
    let parts: Vec<(&Chart, Legend)> =
        charts.iter().map(|chart| (chart, Legend::of(chart))).collect();
    let total = parts.iter().map(|(chart, legend)| legend.height() + height(chart)).sum();
    let mut canvas = Canvas::new(WIDTH, total, attributes);
    let mut top = 0.0;
    for (chart, legend) in &parts {
        legend.draw(&mut canvas, top);
        top += legend.height();
        paint(&mut canvas, chart, top, target);
        top += height(chart);
    }
    canvas.finish()
}

fn height(chart: &Chart) -> f64 {
    match chart {
        Chart::Points { .. } => 420.0,
        Chart::Bars { groups, series, .. } => {
            AROUND + groups.len() as f64 * (series.len() as f64 * BAR + 10.0)
        }
        Chart::Intervals { rows, series, .. } => {
            AROUND + rows.len() as f64 * (series.len() as f64 * 7.0 + 12.0)
        }
        Chart::Stacked { rows, .. } => AROUND + 24.0 * rows.len() as f64,
    }
}

fn paint(canvas: &mut Canvas, chart: &Chart, top: f64, target: Target<'_>) {
    let mut panel = |x: Scale, y: Scale| Panel::draw(canvas, x, y, top, height(chart));
    match chart {
        Chart::Points { x, y, series } => {
            let values = |of: fn(&(f64, f64)) -> f64| {
                series.iter().flat_map(move |s| s.points.iter().map(of))
            };
            let panel = panel(Scale::of(x, values(|p| p.0)), Scale::of(y, values(|p| p.1)));
            points::points(canvas, &panel, series, target);
        }
        Chart::Bars { value, groups, series, reference } => {
            let values = series
                .iter()
                .flat_map(|s| s.values.iter().chain(&s.floors).copied().flatten())
                .chain(*reference);
            let panel = panel(Scale::of(&Axis::linear(value), values), Scale::names(groups));
            bars::bars(canvas, &panel, series, *reference);
        }
        Chart::Intervals { value, rows, series } => {
            let ends = series.iter().flat_map(|s| s.values.iter().flatten().flatten().copied());
            let panel = panel(Scale::of(&Axis::log(value), ends), Scale::names(rows));
            intervals::intervals(canvas, &panel, series);
        }
        Chart::Stacked { value, rows, parts } => {
            let total = |row: usize| parts.iter().filter_map(|p| p.lengths.get(row)).sum::<f64>();
            let totals = (0..rows.len()).map(total);
            let panel = panel(Scale::of(&Axis::linear(value), totals), Scale::names(rows));
            bars::stacked(canvas, &panel, parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chart::{BarSeries, Mark, Part, Series},
        hue::Hue,
    };

    #[test]
    fn every_value_has_a_mark_and_text_is_escaped() {
        let series = vec![
            Series::new("a & b", Mark::Dot, vec![(1.0, 10.0), (100.0, 20.0), (-1.0, 5.0)]),
            Series {
                labels: vec!["<x>".to_owned()],
                ..Series::new("line", Mark::Line, vec![(2.0, 1.0), (3.0, 4.0)])
            },
        ];
        let points = svg(&Chart::Points { x: Axis::log("FLOPs"), y: Axis::linear("ms"), series });
        assert!(points.starts_with("<svg ") && points.trim_end().ends_with("</svg>"));
        assert!(points.contains("a &amp; b") && points.contains("&lt;x&gt;"), "text is escaped");
        assert!(!points.contains(" style="), "a strict policy refuses style attributes");
        // The first one's mark in the legend, then a path per series with two dots each: one of
        // the first has no logarithm.
        let dots: Vec<usize> = points
            .split("<path ")
            .filter(|path| path.contains("dots"))
            .map(|path| path.matches('M').count())
            .collect();
        assert_eq!(dots, [1, 2, 2], "{points}");
    }

    #[test]
    fn bars_have_a_rectangle_each() {
        let bars = Chart::Bars {
            value: "x".to_owned(),
            groups: vec!["one".to_owned(), "two".to_owned()],
            series: vec![BarSeries {
                name: "only".to_owned(),
                values: vec![Some(2.0), None],
                floors: vec![Some(1.0)],
                hue: Hue::Place,
            }],
            reference: Some(1.0),
        };
        assert_eq!(svg(&bars).matches("<rect").count(), 2, "the background and one bar");
        let part = |name: &str, length| Part {
            name: name.to_owned(),
            lengths: vec![length],
            hue: Hue::Place,
        };
        let stacked = Chart::Stacked {
            value: "%".to_owned(),
            rows: vec!["r".to_owned()],
            parts: vec![part("p", 40.0), part("q", 60.0), part("none", 0.0)],
        };
        assert_eq!(svg(&stacked).matches("<rect").count(), 3);
    }

    #[test]
    fn named_points_say_what_they_are_and_lead_to_their_page() {
        let series = vec![Series {
            models: ["<b>", "two"].map(|name| ModelKey::new(name, "a")).to_vec(),
            ..Series::new("models", Mark::Ring, vec![(1.0, 1.0), (2.0, 2.0)])
        }];
        let chart = Chart::Points { x: Axis::linear("x"), y: Axis::linear("y"), series };
        let drawn = inline(&chart, "a \"figure\"", &|model| {
            (model.name == "two").then(|| "two.html?a&b".to_owned())
        });
        assert!(drawn.contains("aria-label=\"a &quot;figure&quot;\""), "{drawn}");
        assert!(drawn.contains("<title>&lt;b&gt;: x 1.00, y 1.00</title>"), "{drawn}");
        assert_eq!(drawn.matches("<a href=\"two.html?a&amp;b\" tabindex=\"-1\">").count(), 1);
        assert!(!svg(&chart).contains("<a "), "a file of its own has no pages");
    }
}
