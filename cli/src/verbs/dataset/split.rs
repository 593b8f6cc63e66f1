//! `vitempo dataset split`: architectures to train on and to test on.

use crate::verbs::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table},
};
use std::path::PathBuf;
use vitempo::{
    datasets::{Split, SplitSize},
    training::HELD_OUT,
};

#[derive(clap::Args, Debug)]
pub struct SplitArgs {
    /// Dataset folder or lake
    #[arg(value_name = "FOLDER")]
    data: PathBuf,
    /// Share of the synthetic architectures that becomes test; each keeps its side when models are
    /// added
    #[arg(long, default_value_t = HELD_OUT, conflicts_with_all = ["train", "test"])]
    test_fraction: f64,
    /// Exactly so many training architectures
    #[arg(long, requires = "test")]
    train: Option<usize>,
    /// Exactly so many test architectures
    #[arg(long, requires = "train")]
    test: Option<usize>,
    /// Seed of the split
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// File to write the split to
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Divides, saves and prints.
pub fn run(args: &SplitArgs) -> CliResult {
    let size = match (args.train, args.test) {
        (Some(train), Some(test)) => SplitSize::Counts { train, test },
        _ => SplitSize::TestFraction(args.test_fraction),
    };
    let split = vitempo::datasets::split(&super::load(&args.data)?, size, args.seed)?;
    split.save(&args.out)?;
    output::print(&Divided(split), args.format)
}

struct Divided(Split);

impl Report for Divided {
    fn table(&self) -> String {
        let s = &self.0;
        format!(
            "{} architectures to train on, {} synthetic and {} real ones to test on (seed {})\n",
            s.train.len(),
            s.test.len(),
            s.real.len(),
            s.seed
        )
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(&["architecture", "side"], 2);
        for (side, architectures) in
            [("train", &self.0.train), ("test", &self.0.test), ("real", &self.0.real)]
        {
            architectures.iter().for_each(|a| table.row([a.clone(), side.to_owned()]));
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        serde_json::to_value(&self.0).map_err(CliError::ours)
    }
}
