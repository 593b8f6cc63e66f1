//! `vitempo-studies encoder`: a layer of a transformer's encoder over sizes of images.

use super::print::{self, Failure, Format, Table};
use serde_json::{Value, json};
use std::path::PathBuf;
use vitempo::{Bundle, graph::ImageSize};
use vitempo_studies::encoder::{Class, LayerLatency, LayerRow, Layers, PerClass, layers};

/// Prints what a layer of an encoder moves and takes at sizes of images, by class of operator:
/// table 2 and figure 4 of ARIA
///
/// Example: vitempo-studies encoder dinov2_small.onnx --bundle here.vtb --measured data/
#[derive(clap::Args, Debug)]
pub struct EncoderArgs {
    /// The encoder, ONNX
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// Heights and widths of images
    #[arg(
        long,
        value_name = "HxW,...",
        value_delimiter = ',',
        default_value = "238x322,294x490,406x658"
    )]
    sizes: Vec<ImageSize>,
    /// Bundles that forecast it; may be repeated
    #[arg(long = "bundle", value_name = "NAME")]
    bundles: Vec<PathBuf>,
    /// Dataset with measurements of it, from `vitempo profile --size`
    #[arg(long, value_name = "FOLDER", requires = "bundles")]
    measured: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &EncoderArgs) -> Result<(), Failure> {
    let open = |path: &PathBuf| Bundle::open(path).map_err(Failure::new);
    let bundles = args.bundles.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let found = layers(&args.model, &args.sizes, &bundles, args.measured.as_deref())
        .map_err(Failure::new)?;
    match args.format {
        Format::Table => print::write(&format!(
            "{}, a layer of {}\n\n{}\n{}",
            found.model,
            found.rows.first().map_or(0, |row| row.layers),
            bytes(&found).to_text(),
            latencies(&found).to_text()
        )),
        Format::Csv if bundles.is_empty() => print::write(&bytes(&found).to_csv()?),
        Format::Csv => print::write(&latencies(&found).to_csv()?),
        Format::Json => print::write_json(&found.rows.iter().map(row_json).collect()),
    }
}

fn cells(numbers: &PerClass) -> Vec<String> {
    Class::ALL.iter().map(|class| format!("{:.2}", numbers[*class])).collect()
}

fn headings<'a>(first: &[&'a str], last: &[&'a str]) -> Vec<&'a str> {
    first.iter().copied().chain(Class::ALL.map(Class::name)).chain(last.iter().copied()).collect()
}

/// Megabytes by class, beside the paper's, and the growth over the first size beside that of N^2.
fn bytes(found: &Layers) -> Table {
    let mut table = Table::new(&headings(&["MB of a layer", "Tokens", ""], &["N^2, x first"]), 3);
    let Some(first) = found.rows.first() else { return table };
    for row in &found.rows {
        let squares = (row.tokens as f64 / first.tokens as f64).powi(2);
        let start =
            |what: &str| vec![row.size.to_string(), row.tokens.to_string(), what.to_owned()];
        let end = vec![format!("{squares:.2}")];
        table.row([start("tensors, 16 bits"), cells(&row.megabytes), end.clone()].concat());
        table.row([start("x first"), growth(&row.megabytes, &first.megabytes), end].concat());
        if let (Some(printed), Some(first)) = (&row.printed, &first.printed) {
            let none = vec![String::new()];
            table.row([start("the paper, NPU"), cells(printed), none.clone()].concat());
            table.row([start("x first"), growth(printed, first), none].concat());
        }
    }
    table
}

fn growth(now: &PerClass, first: &PerClass) -> Vec<String> {
    let times = |class: &Class| match first[*class] {
        0.0 => "-".to_owned(),
        base => format!("{:.2}", now[*class] / base),
    };
    Class::ALL.iter().map(times).collect()
}

fn latencies(found: &Layers) -> Table {
    let last = ["End to end", "Lower", "Upper", "Rounds"];
    let mut table = Table::new(&headings(&["ms of a layer", "Bundle", ""], &last), 3);
    for row in &found.rows {
        for of in &row.latencies {
            let start = |what: &str| vec![row.size.to_string(), of.bundle.clone(), what.to_owned()];
            let p = of.forecast;
            let ends = [p.point(), p.lower(), p.upper()].map(|l| l.to_string());
            let end = [ends.to_vec(), vec![String::new()]].concat();
            table.row([start("forecast"), cells(&of.forecast_ms), end].concat());
            let Some(measured) = &of.measured else { continue };
            let each = measured.ms.as_ref().map_or(vec!["-".to_owned(); 6], cells);
            let ends = measured.end_to_end.map(|l| l.to_string()).to_vec();
            let end = [ends, vec![measured.rounds.to_string()]].concat();
            table.row([start("measured"), each, end].concat());
        }
    }
    table
}

fn classes_json(numbers: &PerClass) -> Value {
    Class::ALL.iter().map(|class| (class.name().to_owned(), json!(numbers[*class]))).collect()
}

fn row_json(row: &LayerRow) -> Value {
    let latency = |of: &LayerLatency| {
        let p = of.forecast;
        json!({
            "bundle": of.bundle,
            "latency_ns": {"point": p.point().ns(), "lower": p.lower().ns(), "upper": p.upper().ns(), "level": p.level},
            "layer_ms": classes_json(&of.forecast_ms),
            "measured": of.measured.as_ref().map(|m| json!({
                "rounds": m.rounds,
                "median_ns": m.end_to_end[0].ns(),
                "lowest_ns": m.end_to_end[1].ns(),
                "highest_ns": m.end_to_end[2].ns(),
                "layer_ms": m.ms.as_ref().map(classes_json),
            })),
        })
    };
    json!({
        "size": row.size.to_string(),
        "tokens": row.tokens,
        "layers": row.layers,
        "megabytes": classes_json(&row.megabytes),
        "printed": row.printed.as_ref().map(classes_json),
        "latencies": row.latencies.iter().map(latency).collect::<Vec<_>>(),
    })
}
