//! `vitempo predict --sizes`: one model over sizes of images.

use super::{
    super::{
        error::{CliError, CliResult},
        files,
        output::{self, Report, Table, ns, si},
        plan::twice::refuse_twice,
    },
    PredictArgs, lines, say_left_out,
};
use serde_json::json;
use std::fmt::Write;
use vitempo::bundle::Selection;
use vitempo::forecast::DeviceForecast;
use vitempo::inspection::KindRow;
use vitempo::sweep::{Measured, SizeRow, Sweep, sweep};
use vitempo_report::sizes::plot;

pub fn run(args: &PredictArgs, bundles: &Selection) -> CliResult {
    refuse_twice("--sizes", &args.over_sizes)?;
    let models = args.models.read()?;
    let [model] = models.as_slice() else {
        return Err(CliError::user(format!("--sizes shows one model; these are {}", models.len()))
            .hint("give one file, or repeat --size for a forecast of each model at each size"));
    };
    lines::warn_of_missing(model);
    let mut swept = sweep(model, &args.over_sizes, bundles, &args.models.read_options());
    if let Some(folder) = &args.measured {
        swept.add_measured(folder)?;
    }
    let missing = warn(&swept);
    if swept.rows.is_empty()
        && let Some((_, error)) = swept.unfit.pop()
    {
        return Err(error.into());
    }
    if let Some(file) = &args.plot {
        files::write(file, plot(&swept).as_bytes())?;
    }
    output::print(&OverSizes(&swept), args.format)?;
    match missing {
        0 => Ok(()),
        count => Err(CliError::user(format!("{count} sizes or forecasts left out"))),
    }
}

/// Warns of what is missing, and counts it.
fn warn(swept: &Sweep) -> usize {
    for (size, error) in &swept.unfit {
        say_left_out(size, error);
    }
    for error in &swept.unopened {
        say_left_out("a bundle", error);
    }
    for (size, bundle, error) in &swept.left_out {
        say_left_out(format!("{size} on {bundle}"), error);
    }
    swept.unfit.len() + swept.unopened.len() + swept.left_out.len()
}

struct OverSizes<'a>(&'a Sweep);

/// A size with a forecast of it.
type Pair<'a> = (&'a SizeRow, &'a DeviceForecast, Option<Measured>);

impl<'a> OverSizes<'a> {
    fn pairs(&self) -> impl Iterator<Item = Pair<'a>> {
        let of_row = |row: &'a SizeRow| {
            row.forecasts.iter().zip(&row.measured).map(move |(f, measured)| (row, f, *measured))
        };
        self.0.rows.iter().flat_map(of_row)
    }

    fn latencies(&self) -> String {
        let mut headings =
            vec!["Size", "Bundle", "Latency", "Lower", "Upper", "Level", "Fallback", "Outside"];
        let measured = self.pairs().any(|(_, _, measured)| measured.is_some());
        if measured {
            headings.extend(["Measured", "Rounds", "Error"]);
        }
        let mut table = Table::new(&headings, 2);
        for (row, f, found) in self.pairs() {
            let (p, c) = (f.latency, &f.coverage);
            let mut cells = vec![row.size.to_string(), f.bundle.clone()];
            cells.extend([p.point(), p.lower()].map(|latency| latency.to_string()));
            cells.extend(lines::upper_and_level(p));
            cells.extend([c.fallback, c.extrapolating].map(|count| count.to_string()));
            if measured {
                cells.extend(measured_cells(f, found));
            }
            table.row(cells);
        }
        table.to_text()
    }

    /// The growth of attention beside that of its scores, the squares of the tokens.
    fn attention(&self) -> String {
        let first = self.0.rows.iter().map(|row| row.attention).find(|found| found.count > 0);
        let Some(first) = first else { return String::new() };
        let mut table = Table::new(
            &["Size", "Attentions", "Queries", "Scores", "x first", "Bytes moved", "x first"],
            1,
        );
        let times = |now: u64, first: u64| format!("{:.2}", now as f64 / first.max(1) as f64);
        for row in &self.0.rows {
            let a = row.attention;
            table.row([
                row.size.to_string(),
                a.count.to_string(),
                a.queries.to_string(),
                si(a.scores),
                times(a.scores, first.scores),
                si(a.bytes_moved),
                times(a.bytes_moved, first.bytes_moved),
            ]);
        }
        let note = "Scores: queries times keys, over heads and layers.";
        format!("\nAttention\n{}{note}\n", table.to_text())
    }

    fn classes(&self, title: &str, total: fn(&SizeRow) -> u64, of: fn(&KindRow) -> u64) -> String {
        let rows = &self.0.rows;
        let sizes = rows.iter().map(|row| row.size.to_string());
        let headings: Vec<String> = std::iter::once(title.to_owned()).chain(sizes).collect();
        let mut table = Table::new(&headings, 1);
        table.row(std::iter::once("all".to_owned()).chain(rows.iter().map(|row| si(total(row)))));
        let mut names: Vec<&str> = Vec::new();
        for class in rows.iter().rev().flat_map(|row| &row.classes) {
            if of(class) > 0 && !names.contains(&class.kind.as_str()) {
                names.push(&class.kind);
            }
        }
        for name in names {
            let amount = |row: &SizeRow| {
                let found = row.classes.iter().find(|class| class.kind == name);
                found.map_or("-".to_owned(), |class| si(of(class)))
            };
            table.row(std::iter::once(name.to_owned()).chain(rows.iter().map(amount)));
        }
        format!("\n{}", table.to_text())
    }
}

fn measured_cells(f: &DeviceForecast, found: Option<Measured>) -> [String; 3] {
    let Some(found) = found else { return ["-", "-", "-"].map(str::to_owned) };
    let error = f.latency.point().ns() / found.median.ns() - 1.0;
    [found.median.to_string(), found.rounds.to_string(), format!("{:+.1} %", error * 100.0)]
}

impl Report for OverSizes<'_> {
    fn table(&self) -> String {
        let mut text = format!("{}\n\n", self.0.model);
        text += &self.latencies();
        text += "Fallback: operators without a trained predictor. Outside: operators outside of the \
            training data.\n";
        let missing = self.0.rows.first().and_then(|row| lines::missing(&row.model.graph));
        text.extend(missing.map(|missing| format!("Missing: {missing}\n")));
        text += &self.attention();
        text += &self.classes("FLOPs", |row| row.work.flops, |class| class.flops);
        text += &self.classes("Bytes moved", SizeRow::bytes_moved, |class| class.bytes_moved);
        let _ = writeln!(
            text,
            "Each operator reads and writes its tensors; engines that fuse move fewer."
        );
        text
    }

    fn csv(&self) -> CliResult<String> {
        let headings = [
            "model",
            "size",
            "bundle",
            "latency_ns",
            "lower_ns",
            "upper_ns",
            "level",
            "measured_ns",
            "measured_lowest_ns",
            "measured_highest_ns",
            "rounds",
            "pixels",
            "flops",
            "bytes_moved",
            "attention_bytes",
            "attention_scores",
        ];
        let mut table = Table::new(&headings, 3);
        for (row, f, found) in self.pairs() {
            let p = f.latency;
            let measured = found.map_or(vec![String::new(); 4], |m| {
                vec![ns(m.median), ns(m.lowest), ns(m.highest), m.rounds.to_string()]
            });
            let counts = [
                row.pixels() as u64,
                row.work.flops,
                row.bytes_moved(),
                row.attention.bytes_moved,
                row.attention.scores,
            ];
            table.row(
                [self.0.model.clone(), row.size.to_string(), f.bundle.clone()]
                    .into_iter()
                    .chain([p.point(), p.lower(), p.upper()].map(ns))
                    .chain([p.level.to_string()])
                    .chain(measured)
                    .chain(counts.map(|count| count.to_string())),
            );
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let left_out = self.0.left_out.iter();
        let unfit = self.0.unfit.iter();
        Ok(json!({
            "model": self.0.model,
            "sizes": self.0.rows.iter().map(row_json).collect::<Vec<_>>(),
            "left_out": unfit
                .map(|(size, error)| json!({"size": size.to_string(), "reason": error.to_string()}))
                .chain(left_out.map(|(size, bundle, error)| {
                    json!({"size": size.to_string(), "bundle": bundle, "reason": error.to_string()})
                }))
                .collect::<Vec<_>>(),
        }))
    }
}

fn row_json(row: &SizeRow) -> serde_json::Value {
    let class = |c: &KindRow| json!({"class": c.kind, "count": c.count, "flops": c.flops, "bytes_moved": c.bytes_moved});
    let forecast = |(f, found): (&DeviceForecast, &Option<Measured>)| {
        json!({
            "bundle": f.bundle,
            "environment": f.environment.id(),
            "latency_ns": f.latency,
            "coverage": f.coverage,
            "measured": found.map(|m| json!({
                "median_ns": m.median.ns(), "lowest_ns": m.lowest.ns(),
                "highest_ns": m.highest.ns(), "rounds": m.rounds,
            })),
        })
    };
    let a = row.attention;
    json!({
        "size": row.size.to_string(), "height": row.size.height(), "width": row.size.width(),
        "macs": row.work.macs, "flops": row.work.flops, "bytes_moved": row.bytes_moved(),
        "classes": row.classes.iter().map(class).collect::<Vec<_>>(),
        "attention": {"count": a.count, "queries": a.queries, "scores": a.scores, "bytes_moved": a.bytes_moved},
        "forecasts": row.forecasts.iter().zip(&row.measured).map(forecast).collect::<Vec<_>>(),
    })
}
