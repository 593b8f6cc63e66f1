//! `vitempo-studies shares`: what share of the time a class of operators must have before its
//! predictor matters.

use super::print::{self, Failure, Format, Table, percent};
use serde_json::json;
use std::path::PathBuf;
use vitempo::Bundle;
use vitempo_studies::shares::{Kept, SHARES, Shares, shares};

/// Prints errors of classes of operators, of the models where a class has a share of the time
///
/// Example: vitempo-studies shares datasets/measured/epyc --bundle epyc-onnxruntime-f32-1t
#[derive(clap::Args, Debug)]
pub struct SharesArgs {
    /// Dataset with measured models
    #[arg(value_name = "FOLDER")]
    data: PathBuf,
    /// A bundle for an environment of the dataset
    #[arg(long, value_name = "NAME")]
    bundle: PathBuf,
    /// Sampled models, too; by default real ones alone
    #[arg(long)]
    synthetic: bool,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &SharesArgs) -> Result<(), Failure> {
    let bundle = Bundle::open(&args.bundle).map_err(Failure::new)?;
    let found = shares(&bundle, &args.data, !args.synthetic).map_err(Failure::new)?;
    match args.format {
        Format::Table => print::write(&format!(
            "{}, {} models\n\nError of a class in the models where it has at least this share \
            (models)\n{}\nThe same errors as a share of all operators' time\n{}",
            found.bundle,
            found.models,
            table(&found, |kept| format!("{} ({})", percent(kept.mape), kept.models)).to_text(),
            table(&found, |kept| percent(kept.of_whole)).to_text()
        )),
        Format::Csv => print::write(&table(&found, |kept| format!("{:.6}", kept.mape)).to_csv()?),
        Format::Json => {
            let kept = |kept: &Option<Kept>| {
                kept.map(|k| json!({"models": k.models, "mape": k.mape, "of_whole": k.of_whole}))
            };
            let classes = found.classes.iter().map(|class| {
                json!({
                    "class": class.class,
                    "mean_share": class.mean_share,
                    "kept": class.kept.iter().map(kept).collect::<Vec<_>>(),
                })
            });
            print::write_json(&json!({
                "bundle": found.bundle,
                "models": found.models,
                "shares": SHARES,
                "classes": classes.collect::<Vec<_>>(),
            }))
        }
    }
}

fn table(found: &Shares, cell: fn(&Kept) -> String) -> Table {
    let shares = SHARES.iter().map(|share| match share {
        0.0 => "any".to_owned(),
        share => format!("{:.0} %", 100.0 * share),
    });
    let headings: Vec<String> =
        ["Class", "Mean share"].map(str::to_owned).into_iter().chain(shares).collect();
    let mut table = Table::new(&headings, 1);
    for class in &found.classes {
        let kept = class.kept.iter().map(|kept| kept.as_ref().map_or("-".to_owned(), cell));
        table.row([class.class.clone(), percent(class.mean_share)].into_iter().chain(kept));
    }
    table
}
