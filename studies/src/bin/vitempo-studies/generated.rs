//! `vitempo-studies generated`: a lake of any size that nobody measured.

use super::print::Failure;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use vitempo::Bundle;
use vitempo_studies::generated::{Generated, generate};

/// How often it says how far it is.
const REPORT: Duration = Duration::from_secs(10);

/// Appends sampled models to a lake, whose operators take what a bundle forecasts, times noise
///
/// Nothing is measured, and the rows say so. For measuring how training and lakes scale.
///
/// Example: vitempo-studies generated --bundle epyc-onnxruntime-f32-1t --rows 1000000 --out lake/
#[derive(clap::Args, Debug)]
pub struct GeneratedArgs {
    /// Bundle that says how long operators take
    #[arg(long, value_name = "NAME")]
    bundle: PathBuf,
    /// Space, or inventory of operators, to sample; several in turns
    #[arg(long = "space", value_name = "NAME", default_values = ["hybrid-vit", "mbconv", "operators", "operator-blocks"])]
    spaces: Vec<String>,
    /// Fewest rows of operators
    #[arg(long)]
    rows: u64,
    /// Standard deviation of the logarithm of a latency
    #[arg(long, default_value_t = 0.03)]
    noise: f64,
    /// Seed of samples and noise
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Lake, which may have other rows already
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

pub fn run(args: &GeneratedArgs) -> Result<(), Failure> {
    let bundle = Bundle::open(&args.bundle).map_err(Failure::new)?;
    let wanted =
        Generated { spaces: &args.spaces, rows: args.rows, noise: args.noise, seed: args.seed };
    let mut said = Instant::now();
    let found = generate(&bundle, &args.out, &wanted, &mut |progress| {
        if said.elapsed() >= REPORT {
            said = Instant::now();
            eprintln!("{} of {} rows ...", progress.rows, args.rows);
        }
    });
    let found = found.map_err(Failure::new)?;
    println!("{} models and networks, {} rows of operators", found.models, found.rows);
    Ok(())
}
