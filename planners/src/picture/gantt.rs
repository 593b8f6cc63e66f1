//! Gantt charts: one row per processor, one bar per task, coloured by frame or stage.

use super::svg::{Svg, colour};
use crate::{Plan, simulator::Span};

const LABEL: f64 = 90.0;
const CHART: f64 = 900.0;
const ROW: f64 = 26.0;
const MARGIN: f64 = 30.0;

/// Bars of a chart: row, start and end in ns, colour index, title.
struct Bar {
    row: usize,
    start_ns: u64,
    end_ns: u64,
    colour: usize,
    title: String,
}

/// The tasks of a simulation's processors, frame by frame. `processors` are the row labels, by
/// index.
#[must_use]
pub fn gantt(processors: &[String], spans: &[Span]) -> String {
    let bar = |span: &Span| Bar {
        row: span.processor,
        start_ns: span.start_ns,
        end_ns: span.end_ns,
        colour: span.frame as usize,
        title: format!("stream {} stage {} frame {}", span.stream, span.stage, span.frame),
    };
    draw(processors, &spans.iter().map(bar).collect::<Vec<_>>())
}

/// A plan's stages for a few frames in steady state, transfers left out: a frame enters every
/// period (after all stages, where frames do not overlap).
#[must_use]
pub fn stages(plan: &Plan, frames: u64) -> String {
    let mut processors: Vec<String> = Vec::new();
    for stage in &plan.stages {
        if !processors.contains(&stage.processor) {
            processors.push(stage.processor.clone());
        }
    }
    let period = plan.predicted.period_ns.unwrap_or(plan.predicted.latency_ns).point();
    let mut bars = Vec::new();
    for frame in 0..frames {
        let mut start_ns = frame.saturating_mul(period);
        for stage in &plan.stages {
            let received: u64 = plan
                .transfers
                .iter()
                .filter(|t| t.to == stage.processor)
                .map(|t| t.latency_ns.point())
                .sum();
            start_ns = start_ns.saturating_add(received);
            let end_ns = start_ns.saturating_add(stage.latency_ns.point());
            let row = processors.iter().position(|p| *p == stage.processor).unwrap_or(0);
            let title = format!("frame {frame}: {} operators", stage.nodes.len());
            bars.push(Bar { row, start_ns, end_ns, colour: frame as usize, title });
            start_ns = end_ns;
        }
    }
    draw(&processors, &bars)
}

fn draw(rows: &[String], bars: &[Bar]) -> String {
    let begin = bars.iter().map(|b| b.start_ns).min().unwrap_or(0);
    let end = bars.iter().map(|b| b.end_ns).max().unwrap_or(1).max(begin + 1);
    let x = |ns: u64| LABEL + CHART * (ns - begin) as f64 / (end - begin) as f64;
    let y = |row: usize| MARGIN + ROW * row as f64;
    let mut svg = Svg::new(LABEL + CHART + MARGIN, y(rows.len()) + MARGIN);
    for (row, label) in rows.iter().enumerate() {
        svg.text((8.0, y(row) + 0.6 * ROW), label);
    }
    for bar in bars {
        svg.rectangle(
            (x(bar.start_ns), y(bar.row) + 2.0),
            (x(bar.end_ns) - x(bar.start_ns), ROW - 4.0),
            colour(bar.colour),
            &bar.title,
        );
    }
    let axis = y(rows.len()) + 4.0;
    svg.line((LABEL, axis), (LABEL + CHART, axis), "#333333", 1.0);
    for tick in 0..=4u64 {
        let ns = begin + (end - begin) / 4 * tick;
        svg.line((x(ns), axis), (x(ns), axis + 4.0), "#333333", 1.0);
        svg.text(
            (x(ns) - 12.0, axis + 16.0),
            &vitempo_graph::Latency::from_ns(ns as f64).to_string(),
        );
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_span_is_a_bar() {
        let span = |processor, frame, start_ns, end_ns| Span {
            processor,
            stream: 0,
            stage: 0,
            frame,
            start_ns,
            end_ns,
        };
        let picture = gantt(
            &["npu".to_owned(), "cpu".to_owned()],
            &[span(0, 0, 0, 500), span(1, 0, 500, 1000)],
        );
        assert_eq!(picture.matches("<rect x=").count(), 2);
        assert!(
            picture.contains(r#"x="90.0" y="32.0" width="450.0""#)
                && picture.contains(">npu<")
                && picture.contains(">1.00 us<"),
            "{picture}"
        );
        assert!(gantt(&[], &[]).ends_with("</svg>\n"));
    }
}
