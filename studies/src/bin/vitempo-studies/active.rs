//! `vitempo-studies active`: error over measuring time, by the order of measuring.

use super::print::{self, Failure, Format, Table};
use serde_json::json;
use std::path::PathBuf;
use vitempo::predictors::Method;
use vitempo_studies::active::{
    Curve, Mean, Order, Pool, Protocol, Record, Summary, replay, summary,
};

/// Replays the measuring of a dataset: networks that shrink the expected error most come first, or
/// come at random
///
/// Nothing is measured. A second run goes on where the first one stopped; with a complete record it
/// only trains the active order again.
///
/// Example: vitempo-studies active datasets/measured/epyc-zen3 --environment ID --record active.json
#[derive(clap::Args, Debug)]
pub struct ActiveArgs {
    /// Dataset with synthetic models and networks around operators
    #[arg(value_name = "FOLDER")]
    dataset: PathBuf,
    /// Environment to replay, if the dataset has several
    #[arg(long, value_name = "ID")]
    environment: Option<String>,
    /// Measuring times at which a bundle is trained, s, ascending
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "5,10,20,40,80,160")]
    budgets: Vec<f64>,
    /// Number of random orders
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// lasso, random-forest or gbdt
    #[arg(long, default_value = "gbdt")]
    method: Method,
    /// Errors at each budget, kept as soon as they are there
    #[arg(long, value_name = "FILE.json")]
    record: PathBuf,
    /// Format of the output; a table is Markdown
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &ActiveArgs) -> Result<(), Failure> {
    let is_ascending = args.budgets.is_sorted_by(|a, b| a < b);
    if !is_ascending || args.budgets.iter().any(|b| !b.is_finite() || *b <= 0.0) {
        return Err(Failure::new("--budgets are seconds above zero, each larger than the last"));
    }
    let pool = Pool::read(&args.dataset, args.environment.as_deref()).map_err(|error| {
        Failure::new(error).hint("--environment takes one that `vitempo dataset inspect` shows")
    })?;
    let protocol =
        Protocol { budgets_s: args.budgets.clone(), seeds: args.seeds, method: args.method };
    let say = |next: &str| eprintln!("{next} ...");
    let record = replay(&pool, &protocol, &args.record, &say).map_err(Failure::new)?;
    let found = summary(&record);
    match args.format {
        Format::Table => print::write(&markdown(&record, &found)),
        Format::Csv => print::write(&rows(&found).to_csv()?),
        Format::Json => print::write_json(&json!({ "record": record })),
    }
}

fn rows(found: &Summary) -> Table {
    let headings =
        ["order", "budget_s", "seconds", "networks", "models", "mape", "spread", "real_mape"];
    let mut table = Table::new(&headings, 1);
    for Curve { order, points } in &found.curves {
        for point in points {
            table.row(cells(*order, point));
        }
    }
    table
}

fn cells(order: Order, p: &Mean) -> [String; 8] {
    let one = |value: f64| format!("{value:.1}");
    let real = p.real_mape.map_or_else(|| "-".to_owned(), one);
    [
        order.name().to_owned(),
        one(p.budget_s),
        one(p.seconds),
        format!("{:.0}", p.networks),
        format!("{:.0}", p.models),
        one(p.synthetic_mape),
        one(p.spread),
        real,
    ]
}

/// One row per budget, and what the active order needs for the error of a random one.
fn markdown(record: &Record, found: &Summary) -> String {
    let mut text = format!(
        "{} ({}): {} networks and models in the pool, {:.0} s; {} synthetic models held out, {} real \
        ones\n\n| order | measuring | networks | models | synthetic | over seeds | real |\n\
        |---|---|---|---|---|---|---|\n",
        record.dataset,
        record.environment,
        record.pool.0,
        record.pool.1,
        record.held_out,
        record.real
    );
    for Curve { order, points } in &found.curves {
        for point in points {
            let [order, _, seconds, networks, models, mape, spread, real] = cells(*order, point);
            text += &format!(
                "| {order} | {seconds} s | {networks} | {models} | {mape} % | +- {spread} % | {real} % |\n"
            );
        }
    }
    text += "\n| the error of | at | active needs |\n|---|---|---|\n";
    for (order, budget_s, share) in &found.shares {
        let share = share.map_or_else(
            || "more than all budgets".to_owned(),
            |share| format!("{:.0} % of the time", 100.0 * share),
        );
        text += &format!("| {} | {budget_s:.0} s | {share} |\n", order.name());
    }
    text
}
