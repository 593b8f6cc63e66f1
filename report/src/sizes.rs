//! [`plot`]: a model over sizes of images, a figure with latency, FLOPs and bytes.

use crate::{
    chart::{Axis, Chart, Mark, Series},
    draw,
};
use vitempo::{graph::Latency, inspection::KindRow, sweep::Sweep};

/// Classes with a line of their own: those that move the most bytes at the last size.
const MOST_CLASSES: usize = 8;

/// The figure as SVG, three charts over the number of pixels, on logarithmic axes: latencies in ms
/// (forecasts as lines, the ends of their intervals as crosses, measurements as rings), FLOPs and
/// bytes of the classes of operators.
#[must_use]
pub fn plot(sweep: &Sweep) -> String {
    draw::sheet(&charts(sweep))
}

fn charts(sweep: &Sweep) -> [Chart; 3] {
    [
        Chart::Points { x: pixels(), y: Axis::log("latency, ms"), series: latencies(sweep) },
        Chart::Points {
            x: pixels(),
            y: Axis::log("FLOPs"),
            series: of_classes(sweep, |class| class.flops),
        },
        Chart::Points {
            x: pixels(),
            y: Axis::log("bytes moved"),
            series: of_classes(sweep, |class| class.bytes_moved),
        },
    ]
}

fn pixels() -> Axis {
    Axis::log("pixels of an image")
}

fn latencies(sweep: &Sweep) -> Vec<Series> {
    let mut bundles: Vec<&str> = Vec::new();
    for forecast in sweep.rows.iter().flat_map(|row| &row.forecasts) {
        if !bundles.contains(&forecast.bundle.as_str()) {
            bundles.push(&forecast.bundle);
        }
    }
    let mut series = Vec::new();
    for bundle in bundles {
        let (mut points, mut ends, mut measured) = (Vec::new(), Vec::new(), Vec::new());
        for row in &sweep.rows {
            let at = |latency: Latency| (row.pixels() as f64, latency.ms());
            let found = row.forecasts.iter().zip(&row.measured).find(|(f, _)| f.bundle == bundle);
            let Some((forecast, found)) = found else { continue };
            points.push(at(forecast.latency.point()));
            let known = [forecast.latency.lower(), forecast.latency.upper()].into_iter();
            ends.extend(known.filter(|end| end.is_finite()).map(at));
            measured.extend(found.map(|found| at(found.median)));
        }
        series.push(Series::new(format!("{bundle}: forecast"), Mark::Line, points));
        series.push(Series::new("interval", Mark::Cross, ends));
        if !measured.is_empty() {
            series.push(Series::new("measured", Mark::Ring, measured));
        }
    }
    series
}

fn of_classes(sweep: &Sweep, amount: fn(&KindRow) -> u64) -> Vec<Series> {
    let mut classes: Vec<&KindRow> =
        sweep.rows.last().map_or(Vec::new(), |row| row.classes.iter().collect());
    classes.sort_by_key(|class| std::cmp::Reverse(class.bytes_moved));
    classes.truncate(MOST_CLASSES);
    let line = |class: &KindRow| {
        let at = |row: &vitempo::sweep::SizeRow| {
            let found = row.classes.iter().find(|other| other.kind == class.kind)?;
            Some((row.pixels() as f64, amount(found) as f64))
        };
        Series::new(class.kind.as_str(), Mark::Line, sweep.rows.iter().filter_map(at).collect())
    };
    classes.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use vitempo::{bundle::Selection, graph::onnx::ReadOptions, models, sweep::sweep};

    #[test]
    fn three_charts_stand_below_each_other() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let options = ReadOptions::default();
        let file = root.join("tests/models/vit_tiny_patch16_224.onnx");
        let model = models::read(&file, &options).expect("a model that ships");
        let bundles = Selection::of(&[root.join("bundles/epyc-rten-f32-1t.vtb")]);
        let sizes = ["112", "224", "336x448"].map(|size| size.parse().expect("a size"));
        let swept = sweep(&model, &sizes, &bundles.expect("a bundle that ships"), &options);
        let [Chart::Points { series, .. }, _, Chart::Points { series: bytes, .. }] = charts(&swept)
        else {
            panic!("points")
        };
        assert_eq!(series.iter().map(|s| s.points.len()).collect::<Vec<_>>(), [3, 6]);
        assert_eq!(series[0].points[2].0, 336.0 * 448.0);
        assert!(bytes.iter().any(|s| s.name == "Attention" && s.points.len() == 3));
        let svg = plot(&swept);
        assert_eq!(svg.matches("<svg").count(), 1, "one element");
        for label in ["latency, ms", "FLOPs", "bytes moved", "epyc-rten-f32-1t: forecast"] {
            assert!(svg.contains(label), "{label}");
        }
    }
}
