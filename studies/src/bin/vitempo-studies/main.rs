//! `vitempo-studies`: prints what papers print beside what vitempo computes, evaluates adaptation
//! on published latencies, and runs placements, pairs of models and plans for several models.

mod active;
mod arguments;
mod aria;
mod contention;
mod encoder;
mod fleet;
mod frames;
mod generated;
mod loading;
mod memory;
mod paper;
mod placements;
mod preloading;
mod print;
mod published;
mod shares;
mod systems;

use clap::Parser;
use print::Failure;
use std::process::ExitCode;

/// Prints what papers print beside what vitempo computes, evaluates adaptation on published
/// latencies, and runs placements, pairs of models and plans for several models
#[derive(Parser, Debug)]
#[command(name = "vitempo-studies", version)]
enum Studies {
    Active(active::ActiveArgs),
    Aria(aria::AriaArgs),
    Contention(contention::ContentionArgs),
    Encoder(encoder::EncoderArgs),
    Fleet(fleet::FleetArgs),
    Frames(frames::FramesArgs),
    Generated(generated::GeneratedArgs),
    Loading(loading::LoadingArgs),
    Memory(memory::MemoryArgs),
    Paper(paper::PaperArgs),
    Placements(placements::PlacementsArgs),
    Preloading(preloading::PreloadingArgs),
    Published(published::PublishedArgs),
    Shares(shares::SharesArgs),
    Systems(systems::SystemsArgs),
    /// Runs models on behalf of another process of this program
    #[command(hide = true)]
    Worker,
}

fn main() -> ExitCode {
    let done = match Studies::parse() {
        Studies::Active(args) => active::run(&args),
        Studies::Aria(args) => aria::run(&args),
        Studies::Fleet(args) => fleet::run(&args),
        Studies::Frames(args) => frames::run(&args),
        Studies::Generated(args) => generated::run(&args),
        Studies::Contention(args) => contention::run(&args),
        Studies::Encoder(args) => encoder::run(&args),
        Studies::Loading(args) => loading::run(&args),
        Studies::Memory(args) => memory::run(&args),
        Studies::Paper(args) => paper::run(&args),
        Studies::Placements(args) => placements::run(&args),
        Studies::Preloading(args) => preloading::run(&args),
        Studies::Published(args) => published::run(&args),
        Studies::Shares(args) => shares::run(&args),
        Studies::Systems(args) => systems::run(&args),
        Studies::Worker => vitempo::profiler::worker::main().map_err(Failure::new),
    };
    let Err(Failure { message, hint }) = done else { return ExitCode::SUCCESS };
    eprintln!("error: {message}");
    if let Some(hint) = hint {
        eprintln!("hint: {hint}");
    }
    ExitCode::FAILURE
}
