//! `vitempo-studies aria`: depth and labels that a trained network shows within a deadline.

mod flow;
mod phone;

use super::print::{self, Failure, Format, Table};
use clap::Parser as _;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use vitempo::{
    Bundle,
    aria::{
        Criterion, FAR_APART,
        scene::{Scene, Score, Shown},
    },
    graph::files::write_whole,
    planners::aria::Requirements,
    quantity,
};
use vitempo_studies::aria::{
    AriaStudyError, FRAMES_PER_S, Find, LEVELS, OnEngine, OnPhone, Plan, Precision, REGIONS,
    SKIPPED, Scenes, Trained, Way, frames, on_phone, pictures, resolutions, shown, shown_of, top,
    ways,
};

/// Prints errors of depth and labels that a trained network shows of held-out scenes: by
/// resolution, and by ARIA, its parts and baselines within a deadline
///
/// Example: vitempo-studies aria datasets/aria --scenes 1 --frames 40
#[derive(clap::Args, Debug)]
pub struct AriaArgs {
    /// Folder with encoder.onnx and decoder.onnx
    #[arg(value_name = "FOLDER")]
    network: PathBuf,
    /// Engine that runs the network
    #[arg(long, value_name = "NAME", default_value = "onnxruntime")]
    backend: String,
    /// Bundle of the processor of full frames
    #[arg(long, value_name = "NAME", default_value = "epyc-onnxruntime-f32-2t")]
    gpu: PathBuf,
    /// Bundle of the processor of regions
    #[arg(long, value_name = "NAME", default_value = "epyc-onnxruntime-f32-1t")]
    npu: PathBuf,
    /// Longest latency of a frame
    #[arg(long, value_name = "TIME", default_value = "8.5ms", value_parser = time)]
    target: Duration,
    /// Camera frames per second
    #[arg(long, value_name = "FPS", default_value_t = 100.0)]
    camera: f64,
    /// Scenes of each of the four kinds
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    scenes: u64,
    /// Camera frames of each scene; the first 10 do not count, but with --resolutions
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    frames: u64,
    /// Number of the first held-out scene
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,
    /// Cosine similarity of features below which a patch is dynamic
    #[arg(long, value_name = "COSINE", default_value_t = Criterion::AROUND.threshold)]
    threshold: f32,
    /// Standard deviation of a Gaussian over the similarities of the patches around, in patches,
    /// before the threshold; 0 judges each patch alone
    #[arg(long, value_name = "PATCHES", default_value_t = Criterion::AROUND.smoothing)]
    smoothing: f32,
    /// Patches that touch are a region only where one of them has a similarity below this
    #[arg(long, value_name = "COSINE", default_value_t = Criterion::AROUND.region_below)]
    region_below: f32,
    /// Fewest camera frames between full frames that are compared to find regions; 1: the latest two
    #[arg(long, value_name = "FRAMES", default_value_t = FAR_APART)]
    apart: u64,
    /// Recorded frames instead of rendered scenes: a folder with intrinsics.csv, poses.csv and
    /// pictures, as `frames` makes it
    #[arg(
        long,
        value_name = "FOLDER",
        conflicts_with_all = ["resolutions", "flow", "scenes", "frames", "first"]
    )]
    recorded: Option<PathBuf>,
    /// Print errors by resolution alone
    #[arg(
        long,
        conflicts_with_all = [
            "flow", "gpu", "npu", "target", "camera", "threshold", "smoothing", "region_below",
            "apart"
        ]
    )]
    resolutions: bool,
    /// Train a patch flow for this many steps, and print its error beside flows in closed form
    #[arg(long, value_name = "STEPS")]
    flow: Option<usize>,
    /// What the flow learns from
    #[arg(long, value_enum, default_value_t, requires = "flow")]
    teacher: flow::Taught,
    /// Write the trained flow into this file; `FOLDER/flow.json` is one of the systems' flows
    #[arg(long, value_name = "FILE.json", requires = "flow")]
    flow_out: Option<PathBuf>,
    /// Run every system on the paper's phone, simulated, at 33.3 ms and 30 frames per second: times,
    /// heat and frequency are the simulator's, the network sees the frames; a scene of each kind, of
    /// five times the frames
    #[arg(
        long,
        conflicts_with_all = [
            "flow", "recorded", "resolutions", "gpu", "npu", "target", "camera", "scenes"
        ]
    )]
    phone: bool,
    /// Write a page with everything into this folder: by resolution and precision, by system, on the
    /// phone, and by flow
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["phone", "recorded", "resolutions", "format"])]
    page: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn time(text: &str) -> Result<Duration, String> {
    quantity::duration(text, "7ms").map_err(|e| e.to_string())
}

pub fn run(args: &AriaArgs) -> Result<(), Failure> {
    let trained = Trained::read(&args.network)
        .map_err(|e| Failure::new(e).hint("train one (studies/README.md), or use datasets/aria"))?;
    let scenes = Scenes {
        of_each_kind: args.scenes,
        frames: args.frames,
        seed: Scene::HELD_OUT + args.first,
    };
    let bundles = || {
        let [gpu, npu] = [&args.gpu, &args.npu].map(Bundle::open);
        Ok::<_, Failure>([gpu.map_err(Failure::new)?, npu.map_err(Failure::new)?])
    };
    if let Some(path) = &args.flow_out {
        check_folder(path)?;
    }
    if let (Some(_), None, Some(flag)) = (args.flow, &args.page, of_systems(args)) {
        let error = format!("{flag} has no effect on training a flow");
        return Err(Failure::new(error).hint(format!("leave {flag} out, or add --page FOLDER")));
    }
    if let Some(least) = least_frames(args).filter(|least| args.frames < *least) {
        let error = format!("--frames {}: no frame is counted", args.frames);
        return Err(Failure::new(error).hint(format!("--frames {least} or more")));
    }
    if let Some(folder) = &args.page {
        let [gpu, npu] = bundles()?;
        let files = page(args, &trained, [&gpu, &npu], scenes).map_err(Failure::new)?;
        std::fs::create_dir_all(folder).map_err(Failure::new)?;
        for (name, bytes) in files {
            let path = folder.join(name);
            write_whole(&path, &bytes)
                .map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
        }
        return print::write(&format!("{}\n", folder.join("report.md").display()));
    }
    let table = if let Some(steps) = args.flow {
        flow::table(args, &trained, steps).map_err(Failure::new)?
    } else if args.phone {
        let mut network = on_engine(args, &trained).map_err(Failure::new)?;
        phone::table(&phones(args, &mut network, &trained, scenes).map_err(Failure::new)?)
    } else if args.resolutions {
        by_resolution(args, &trained, scenes).map_err(Failure::new)?
    } else {
        let [gpu, npu] = bundles()?;
        let ways = planned(args, &trained, [&gpu, &npu]).map_err(Failure::new)?;
        let mut network = on_engine(args, &trained).map_err(Failure::new)?;
        by_system(args, &mut network, &trained, &ways, scenes).map_err(Failure::new)?
    };
    match args.format {
        Format::Table => print::write(&table.to_text()),
        Format::Csv => print::write(&table.to_csv()?),
        Format::Json => print::write_json(&table.to_json()),
    }
}

/// The least number of frames of a scene of which some are counted; none where no scene is shown.
fn least_frames(args: &AriaArgs) -> Option<u64> {
    if args.phone {
        return Some(SKIPPED / LONGER + 1);
    }
    let shows = args.page.is_some() || !(args.resolutions || args.flow.is_some());
    (shows && args.recorded.is_none()).then_some(SKIPPED + 1)
}

/// A flag given that only systems within a deadline read.
fn of_systems(given: &AriaArgs) -> Option<&'static str> {
    #[derive(clap::Parser)]
    struct Usual {
        #[command(flatten)]
        args: AriaArgs,
    }
    let usual = Usual::parse_from(["aria", "FOLDER"]).args;
    let differs = [
        ("--gpu", given.gpu != usual.gpu),
        ("--npu", given.npu != usual.npu),
        ("--target", given.target != usual.target),
        ("--camera", given.camera != usual.camera),
        ("--frames", given.frames != usual.frames),
        ("--threshold", given.threshold != usual.threshold),
        ("--smoothing", given.smoothing != usual.smoothing),
        ("--region-below", given.region_below != usual.region_below),
        ("--apart", given.apart != usual.apart),
    ];
    differs.into_iter().find_map(|(flag, differs)| differs.then_some(flag))
}

/// Training takes minutes: a file that cannot be written is an error before it.
fn check_folder(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        let error = format!("cannot write {}: the folder does not exist", path.display());
        return Err(Failure::new(error));
    }
    Ok(())
}

/// Steps of training of a patch flow, where none are given.
const FLOW_STEPS: usize = 3000;

/// Everything, as Markdown with figures: names of files and their contents.
fn page(
    args: &AriaArgs,
    trained: &Trained,
    bundles: [&Bundle; 2],
    scenes: Scenes,
) -> Result<Vec<(String, Vec<u8>)>, AriaStudyError> {
    let resolutions = by_resolution(args, trained, scenes)?;
    let steps = args.flow.unwrap_or(FLOW_STEPS);
    let flows = flow::table(args, trained, steps)?;
    let (ways, mut network) = (planned(args, trained, bundles)?, on_engine(args, trained)?);
    let systems = by_system(args, &mut network, trained, &ways, scenes)?;
    let phones = phones(args, &mut network, trained, scenes)?;
    let (drawn, figures) = phone::drawn(&phones);
    let (columns, example) = example(&mut network, trained, &ways)?;
    let AriaArgs { network, backend, gpu, npu, target, camera, threshold, smoothing, .. } = args;
    let Scenes { of_each_kind, frames, .. } = scenes;
    let text = format!(
        "# ARIA with a trained network

Made by `vitempo-studies aria {} --scenes {of_each_kind} --frames {frames} --page FOLDER`: \
{of_each_kind} held-out scenes of each of four kinds, {frames} frames each, the network on \
{backend}. Deadline {:.1} ms, camera {camera} frames per second, full frames by `{}`, regions by \
`{}`; the network is in no bundle. Level of evidence: quality computed on an engine, pace from \
forecasts.

## By resolution and precision (figure 2)

Every frame whole, without a deadline.

{}
## Within the deadline (figures 13, 15 and 18)

RMSE and mIoU are against the truth, then against the network's own output for every frame whole at \
the highest resolution. Age: camera frames since the latest full frame. Asked: regions that asked \
for a cycle. Whole: share of frames that were shown whole, because the picture had moved by more \
than half a patch since the latest full frame (not the paper's). Precision and recall: of patches of regions found from features (a similarity below \
{threshold}, smoothed over {smoothing} patches); false: regions in which nothing moved; missed: \
groups of patches that moved and are in no region.

{}
## One frame (figure 14)

Frame 40 of the first crowded scene. From left to right: {columns}. Above: depth, near things yellow; \
below: labels.

![What systems show of one frame](example.png)

## On the paper's phone, simulated (figures 12, 13, 15 to 17 and 19)

Every system at {:.1} ms and {FRAMES_PER_S:.0} frames per second, {} s: a held-out scene of each kind. \
Latencies, heat and frequencies are those of the simulated phone, whose numbers are the paper's or \
estimates ([page](../report.md)); its four resolutions are the network's here, of about the same \
shares of the highest. The network finds the regions and shows the frames, as many full frames and \
cycles as the simulator had time for. RMSE, mIoU and age are of frames that ran, but for the first \
{SKIPPED} of each scene. Slowdown: of full frames by heat. Level of evidence: simulation of the times, \
quality computed on an engine.

{}
{}
{}## Patch flow (section 4.3.1)

Learned on the network's features in {steps} steps with the paper's loss, beside flows in closed \
form, on held-out pairs of frames.

{}",
        network.display(),
        target.as_secs_f64() * 1e3,
        gpu.display(),
        npu.display(),
        resolutions.to_markdown(),
        systems.to_markdown(),
        PHONE_TARGET_NS / 1e6,
        phones.first().map_or(0, |system| system.seconds.len()),
        phone::table(&phones).to_markdown(),
        phone::parts(&phones).to_markdown(),
        drawn,
        flows.to_markdown(),
    );
    let texts = std::iter::once(("report.md".to_owned(), text)).chain(figures);
    let example = ("example.png".to_owned(), example);
    Ok(texts.map(|(name, text)| (name, text.into_bytes())).chain([example]).collect())
}

/// The names of the columns of a picture of one frame, and the picture as PNG.
fn example(
    network: &mut OnEngine,
    trained: &Trained,
    ways: &[Way],
) -> Result<(String, Vec<u8>), AriaStudyError> {
    let (names, image) = pictures::sheet(network, ways, trained.models.patch())?;
    let mut png = std::io::Cursor::new(Vec::new());
    image.write_to(&mut png, image::ImageFormat::Png)?;
    Ok((names.join("; "), png.into_inner()))
}

/// The paper's deadline.
const PHONE_TARGET_NS: f64 = 33.3e6;
/// Frames of a scene on the phone, in those of a scene within the deadline.
const LONGER: u64 = 5;

fn phones(
    args: &AriaArgs,
    network: &mut OnEngine,
    trained: &Trained,
    scenes: Scenes,
) -> Result<Vec<OnPhone>, AriaStudyError> {
    let scenes = Scenes { of_each_kind: 1, frames: LONGER * scenes.frames, ..scenes };
    let patch = trained.models.patch();
    let plan = Plan::phone(patch, Requirements::for_target(PHONE_TARGET_NS))?;
    let progress = &mut |name: &str| eprintln!("{name}");
    on_phone(network, &plan, scenes, patch, find(args), progress)
}

fn find(args: &AriaArgs) -> Find {
    let AriaArgs { threshold, smoothing, region_below, apart, .. } = *args;
    Find { criterion: Criterion { threshold, smoothing, region_below }, apart }
}

/// Frames from one that is scored to the next, by resolution.
const STEP: u64 = 10;

fn by_resolution(
    args: &AriaArgs,
    trained: &Trained,
    scenes: Scenes,
) -> Result<Table, AriaStudyError> {
    let mut table = Table::new(&["Patches", "Precision", "RMSE, m", "mIoU"], 2);
    let grids = grids(&LEVELS)?;
    for (precision, name) in [(Precision::F32, "f32"), (Precision::Int8, "int8")] {
        let mut network = trained.on(&args.backend, precision, &grids, &grids)?;
        for (grid, score) in resolutions(&mut network, scenes, STEP, trained.models.patch())? {
            let [rmse, miou] = figures(&score);
            table.row([format!("{} x {}", grid.rows(), grid.cols()), name.to_owned(), rmse, miou]);
        }
    }
    Ok(table)
}

/// The network on an engine, at every size of frames and regions.
fn on_engine(args: &AriaArgs, trained: &Trained) -> Result<OnEngine, AriaStudyError> {
    let levels = grids(&LEVELS)?;
    let encoders = [levels.clone(), grids(&REGIONS)?].concat();
    trained.on(&args.backend, Precision::F32, &encoders, &levels)
}

/// What is compared within the deadline.
fn planned(
    args: &AriaArgs,
    trained: &Trained,
    bundles: [&Bundle; 2],
) -> Result<Vec<Way>, AriaStudyError> {
    let target_ns = args.target.as_secs_f64() * 1e9;
    let requirements =
        Requirements { frame_ns: 1e9 / args.camera, ..Requirements::for_target(target_ns) };
    let plan = Plan::new(trained, bundles, requirements)?;
    ways(&plan, find(args), flow::learned(args, trained)?)
}

fn by_system(
    args: &AriaArgs,
    network: &mut OnEngine,
    trained: &Trained,
    all: &[Way],
    scenes: Scenes,
) -> Result<Table, AriaStudyError> {
    let patch = trained.models.patch();
    let found = match &args.recorded {
        Some(folder) => shown_of(network, &frames::read(folder, top()?, patch)?, all)?,
        None => shown(network, scenes, patch, all)?,
    };
    let headings = [
        "System",
        "Plan",
        "RMSE, m",
        "mIoU",
        "RMSE to reference",
        "mIoU to reference",
        "Age",
        "Cycles",
        "Asked",
        "Whole",
        "Precision",
        "Recall",
        "False",
        "Missed",
    ];
    let mut table = Table::new(&headings, 2);
    all.iter().zip(&found).for_each(|(way, shown)| table.row(row(way, shown)));
    Ok(table)
}

fn grids(sizes: &[[usize; 2]]) -> Result<Vec<vitempo::aria::Grid>, AriaStudyError> {
    sizes.iter().map(|[rows, cols]| Ok(vitempo::aria::Grid::new(*rows, *cols)?)).collect()
}

/// RMSE and mIoU; recorded frames have no labels to compare with, and may have no depth.
fn figures(score: &Score) -> [String; 2] {
    [score.depth_rmse_m(), score.label_miou()]
        .map(|figure| figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.4}")))
}

fn row(way: &Way, shown: &Shown) -> Vec<String> {
    let [[rmse, miou], [off, same]] = [&shown.score, &shown.against_reference].map(figures);
    let a_frame = |count: u64| match count {
        0 => "-".to_owned(),
        count => format!("{:.2}", count as f64 / shown.frames.max(1) as f64),
    };
    let found = &shown.found;
    let regions = if found.patches.moved == 0 {
        [const { String::new() }; 4]
    } else {
        [
            format!("{:.3}", found.patches.precision()),
            format!("{:.3}", found.patches.recall()),
            format!("{} of {}", found.false_regions, found.regions),
            format!("{} of {}", found.missed, found.moved),
        ]
    };
    let shown = [shown.full_ages, shown.cycles, shown.asked, shown.whole].map(a_frame);
    [
        vec![way.name.clone(), way.pace.clone(), rmse, miou, off, same],
        shown.to_vec(),
        regions.to_vec(),
    ]
    .concat()
}
