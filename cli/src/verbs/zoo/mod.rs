//! `vitempo zoo`: variants of base models that can be stitched, as files.

mod error;
mod make;
mod measure;
mod report;
mod stitch;
mod table;

use super::{error::CliResult, interrupt::interrupted, progress};
use clap::Subcommand;
use std::sync::atomic::Ordering;
use vitempo::zoo::Progress;

/// Makes sparse variants of models, and stitches them
#[derive(Subcommand, Debug)]
pub enum ZooCommand {
    Make(make::MakeArgs),
    Measure(measure::MeasureArgs),
    Report(report::ReportArgs),
    Stitch(stitch::StitchArgs),
}

pub fn run(command: &ZooCommand) -> CliResult {
    match command {
        ZooCommand::Make(args) => make::run(args),
        ZooCommand::Measure(args) => measure::run(args),
        ZooCommand::Report(args) => report::run(args),
        ZooCommand::Stitch(args) => stitch::run(args),
    }
}

/// Calls `compute` with a callback that shows its progress, and stops it when the user interrupts.
fn watched<T>(
    what: &'static str,
    compute: impl FnOnce(&mut dyn FnMut(Progress) -> bool) -> T,
) -> T {
    let (bar, stop) = (progress::bar(0, what), interrupted());
    let computed = compute(&mut |p| {
        progress::advance(&bar, p.done, p.total);
        !stop.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    computed
}
