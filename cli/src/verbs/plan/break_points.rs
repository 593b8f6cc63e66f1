//! Which split is best at which bandwidth: a table, CSV and JSON.

use super::super::{
    error::CliResult,
    output::{Report, Table},
};
use serde_json::{Value, json};
use std::fmt::Write;
use vitempo::graph::Latency;
use vitempo::plan::split::{LiveBreakPoint, NotFound};
use vitempo::planners::{
    Evidence,
    cost::Costs,
    energy, rate,
    split::{BandwidthRange, Criterion, Objective},
};

/// Ranges of bandwidth, from the slowest link to the fastest.
pub struct BreakPoints<'a> {
    pub costs: &'a Costs,
    pub objective: &'a Objective,
    pub ranges: Vec<BandwidthRange>,
    /// Between each range and the next, where they were measured.
    pub live: Option<Vec<LiveBreakPoint>>,
}

impl BreakPoints<'_> {
    fn on(&self, range: &BandwidthRange, here: bool) -> Vec<&str> {
        let nodes = self.costs.nodes().iter().zip(&range.on_device);
        nodes.filter(|(_, on)| **on == here).map(|(node, _)| node.name.as_str()).collect()
    }

    /// What a split costs, as a function of the bandwidth.
    fn cost(&self, range: &BandwidthRange) -> String {
        let BandwidthRange { fixed, per_ns_of_byte, .. } = *range;
        match self.objective.minimise {
            Criterion::Latency => {
                let bytes = (1000.0 * per_ns_of_byte).round() / 1000.0;
                format!("{} + {bytes} B / bandwidth", Latency::from_ns(fixed as f64))
            }
            Criterion::DeviceEnergy => {
                format!("{} + {per_ns_of_byte:.3} W B / bandwidth", energy(fixed))
            }
            _ => format!("{fixed} B"),
        }
    }

    fn unit(&self) -> &'static str {
        match self.objective.minimise {
            Criterion::Latency => "ns",
            Criterion::DeviceEnergy => "nJ",
            _ => "B",
        }
    }

    fn slowest(&self) -> f64 {
        self.ranges.first().map_or(0.0, |range| range.from_bytes_per_s)
    }
}

impl Report for BreakPoints<'_> {
    fn table(&self) -> String {
        let minimised = self.objective.minimise.to_string();
        let heading = format!("{}{}", minimised[..1].to_uppercase(), &minimised[1..]);
        let mut table = Table::new(&["From", "To", "Operators on the device", &heading], 2);
        for range in &self.ranges {
            let to = range.to_bytes_per_s;
            table.row([
                rate(range.from_bytes_per_s),
                if to.is_finite() { rate(to) } else { "any speed".to_owned() },
                format!("{} of {}", self.on(range, true).len(), range.on_device.len()),
                self.cost(range),
            ]);
        }
        let mut text = format!("{}\n\n{}", self.costs.model(), table.to_text());
        if self.slowest() > 0.0 {
            let slowest = rate(self.slowest());
            let _ = writeln!(text, "below {slowest} no split keeps the bounds");
        }
        let _ = writeln!(
            text,
            "proven best: least {minimised} at every bandwidth of both directions, which change \
            together   ({})",
            Evidence::CostModel
        );
        if let Some(points) = &self.live {
            let _ = write!(text, "\n{}", points_table(points));
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        let headings =
            ["from_bytes_per_s", "to_bytes_per_s", "on_device", "fixed", "per_ns_of_byte", "unit"];
        let mut table = Table::new(&headings, 0);
        for range in &self.ranges {
            let to = range.to_bytes_per_s;
            table.row([
                range.from_bytes_per_s.to_string(),
                if to.is_finite() { to.to_string() } else { String::new() },
                self.on(range, true).len().to_string(),
                range.fixed.to_string(),
                range.per_ns_of_byte.to_string(),
                self.unit().to_owned(),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let name = |processor: usize| &self.costs.processors()[processor].name;
        let live = |index: usize| {
            let point = self.live.as_ref()?.get(index)?;
            Some(json!({
                "measured_bytes_per_s": point.measured.ok(),
                "not_found": point.measured.err(),
                "between_bytes_per_s": point.range_bytes_per_s,
                "off": point.off(),
                "tried": point.tried,
                "evidence": Evidence::Live,
            }))
        };
        let one = |(index, range): (usize, &BandwidthRange)| {
            let sides = [(0, self.on(range, true)), (1, self.on(range, false))];
            let stages = sides.iter().filter(|(_, nodes)| !nodes.is_empty());
            let stage = |(processor, nodes): &(usize, Vec<&str>)| json!({"processor": name(*processor), "nodes": nodes});
            let to = range.to_bytes_per_s;
            let mut value = json!({
                "model": self.costs.model(),
                "stages": stages.map(stage).collect::<Vec<_>>(),
                "from_bytes_per_s": range.from_bytes_per_s,
                "to_bytes_per_s": to.is_finite().then_some(to),
                "minimised": self.objective.minimise.to_string(),
                "fixed": range.fixed,
                "per_ns_of_byte": range.per_ns_of_byte,
                "unit": self.unit(),
                "evidence": Evidence::CostModel,
            });
            if let (Some(point), Some(object)) = (live(index), value.as_object_mut()) {
                // The break point at the end of this range.
                object.insert("live".to_owned(), point);
            }
            value
        };
        Ok(self.ranges.iter().enumerate().map(one).collect())
    }
}

/// Predicted and measured break points as a table.
fn points_table(points: &[LiveBreakPoint]) -> String {
    let mut table = Table::new(&["Predicted", "Measured", "Between", "Difference", "Tried"], 0);
    for point in points {
        let measured = match point.measured {
            Ok(bytes_per_s) => rate(bytes_per_s),
            Err(NotFound::Faster) => "the first is always faster".to_owned(),
            Err(NotFound::Slower) => "the second is always faster".to_owned(),
            Err(NotFound::Noise) => "within the noise".to_owned(),
            Err(_) => "too far to be shaped".to_owned(),
        };
        let between = |(low, high): (f64, f64)| format!("{} .. {}", rate(low), rate(high));
        let dash = || "-".to_owned();
        table.row([
            rate(point.predicted_bytes_per_s),
            measured,
            point.range_bytes_per_s.map_or_else(dash, between),
            point.off().map_or_else(dash, |off| format!("{:+.1} %", 100.0 * off)),
            point.tried.len().to_string(),
        ]);
    }
    format!(
        "break points between neighbours of this list   ({})\n\n{}",
        Evidence::Live,
        table.to_text()
    )
}
