//! [`forecast`]: forecasts the costs of a plan with two bundles: the encoder at every resolution
//! and at every region size, and the decoder at every resolution. Times are in ns.

use super::{AriaCostsError, AriaModels, Sizes};
use crate::Bundle;
use vitempo_graph::{Graph, LatencyModel};
use vitempo_planners::aria::{AriaCosts, Baselines, Forecast, Level, RegionEncoder};

/// Latency of block matching on the CPU, as the paper prints it, ns.
const BLOCK_MATCHING_NS: f64 = 9e6;
/// Side of a block, patches.
const BLOCK_PATCHES: usize = 4;
/// A note is issued when more than one kernel in this many lies outside the training data.
const OUTSIDE_OF: usize = 4;

/// The bundles, the sizes, and the times that no bundle forecasts.
#[derive(Clone, Debug)]
pub struct CostsRequest<'a> {
    /// The bundle for the processor of full frames.
    pub full_frames: &'a Bundle,
    /// The bundle for the processor of regions and of the decoder.
    pub regions: &'a Bundle,
    /// The sizes to choose from.
    pub sizes: Sizes,
    /// The times that no bundle forecasts.
    pub times: GivenTimes,
}

/// Times that no bundle forecasts; 0 counts as 1 ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenTimes {
    /// Identification, tracking, warping and scheduling on the CPU, per frame, ns.
    pub frame_step_ns: u64,
    /// Patch flow per frame, where a network computes it, ns.
    pub patch_flow_ns: u64,
    /// Decoder per frame, where there is no model of it, ns.
    pub decoder_ns: u64,
    /// A sentence on the origin of these times, for [`AriaCosts::sources`].
    pub source: String,
}

/// A note on the costs; notes come in the order of the forecasts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostNote {
    /// A size was rounded down to whole patches.
    RoundedDown {
        /// Pixels asked for.
        height: usize,
        /// Pixels asked for.
        width: usize,
        /// Whole patches.
        rows: usize,
        /// Whole patches.
        cols: usize,
        /// Side of a patch, px.
        patch: usize,
    },
    /// Kernels were forecast without a predictor of their own.
    Estimated {
        /// The model, its size and the environment.
        what: String,
        /// Kernels without a predictor.
        estimated: usize,
        /// Kernels in all.
        of: usize,
    },
    /// Many kernels lie outside the training data.
    Outside {
        /// The model, its size and the environment.
        what: String,
        /// Kernels outside the training data.
        outside: usize,
        /// Kernels in all.
        of: usize,
    },
}

/// Forecasts all costs of a plan; calls `note` with each note.
///
/// ```
/// use vitempo::{Bundle, graph::onnx, plan::aria::{AriaModels, CostsRequest, GivenTimes, Sizes, forecast}};
///
/// let file = "tests/models/vit_tiny_patch16_224.onnx";
/// let models = AriaModels::new(onnx::read_file(file.as_ref(), &Default::default())?, None, None)?;
/// let bundle = Bundle::open("bundles/epyc-onnxruntime-f32-1t.vtb")?;
/// let request = CostsRequest {
///     full_frames: &bundle,
///     regions: &bundle,
///     sizes: Sizes { levels: vec![(240, 320)], regions: vec![(160, 160)] },
///     times: GivenTimes {
///         frame_step_ns: 2_000_000,
///         patch_flow_ns: 0,
///         decoder_ns: 10_000_000,
///         source: "frame step and decoder: assumed".to_owned(),
///     },
/// };
/// let costs = forecast(&models, &request, &mut |note| println!("{note:?}"))?;
/// assert_eq!((costs.levels[0].rows, costs.levels[0].cols, costs.patch), (15, 20, 16));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`AriaCostsError`] naming the size, input or node that is wrong.
pub fn forecast(
    models: &AriaModels,
    request: &CostsRequest<'_>,
    note: &mut dyn FnMut(CostNote),
) -> Result<AriaCosts, AriaCostsError> {
    let CostsRequest { full_frames, regions, sizes, times } = request;
    let patch = models.patch();
    let levels = sizes
        .of_levels(patch, note)?
        .into_iter()
        .map(|size| level(models, request, size, note))
        .collect::<Result<Vec<_>, _>>()?;
    let of_levels: Vec<_> = levels.iter().map(|level| [level.rows, level.cols]).collect();
    let region_encoders = sizes
        .of_regions(patch, &of_levels, note)?
        .into_iter()
        .map(|size| region(models, request, size, note))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(AriaCosts {
        sources: vec![
            format!(
                "full frames of {}: forecast for {}",
                models.encoder().name(),
                full_frames.environment().describe()
            ),
            format!(
                "regions and decoder ({}): forecast for {}",
                models.decoder().map_or("none given", Graph::name),
                regions.environment().describe()
            ),
            times.source.clone(),
        ],
        patch,
        levels,
        regions: region_encoders,
        frame_step: exact(times.frame_step_ns),
        patch_flow: exact(times.patch_flow_ns),
        baselines: Baselines {
            block_matching: Forecast::exact(BLOCK_MATCHING_NS),
            block_patches: BLOCK_PATCHES,
        },
    })
}

fn exact(ns: u64) -> Forecast {
    Forecast::exact(ns.max(1) as f64)
}

fn level(
    models: &AriaModels,
    request: &CostsRequest<'_>,
    size: [usize; 2],
    note: &mut dyn FnMut(CostNote),
) -> Result<Level, AriaCostsError> {
    let [rows, cols] = size;
    let [height, width] = size.map(|patches| patches * models.patch());
    let encoder = models.encoder_at(size)?;
    let what = format!("encoder at {height} x {width}");
    let decoder = match models.decoder_at(size)? {
        Some(decoder) => {
            let what = format!("decoder for {rows} x {cols} patches");
            of_graph(request.regions, &decoder, &what, note)?
        }
        None => exact(request.times.decoder_ns),
    };
    Ok(Level {
        height,
        width,
        rows,
        cols,
        full_frame: of_graph(request.full_frames, &encoder, &what, note)?,
        alone: of_graph(request.regions, &encoder, &what, note)?,
        decoder,
    })
}

fn region(
    models: &AriaModels,
    request: &CostsRequest<'_>,
    size: [usize; 2],
    note: &mut dyn FnMut(CostNote),
) -> Result<RegionEncoder, AriaCostsError> {
    let [rows, cols] = size;
    let encoder = models.encoder_at(size)?;
    let what = format!("encoder for regions of {rows} x {cols} patches");
    Ok(RegionEncoder {
        rows,
        cols,
        cycle: of_graph(request.regions, &encoder, &what, note)?,
        elsewhere: of_graph(request.full_frames, &encoder, &what, note)?,
    })
}

fn of_graph(
    bundle: &Bundle,
    graph: &Graph,
    what: &str,
    note: &mut dyn FnMut(CostNote),
) -> Result<Forecast, AriaCostsError> {
    let (_, prediction) = bundle.predict_known(graph)?;
    let of = prediction.operators.len();
    let (estimated, outside) = (prediction.fallbacks().count(), prediction.extrapolating().count());
    let what = || format!("{what}, {}", bundle.environment().describe());
    if estimated > 0 {
        note(CostNote::Estimated { what: what(), estimated, of });
    }
    if OUTSIDE_OF * outside > of {
        note(CostNote::Outside { what: what(), outside, of });
    }
    Ok(Forecast::from(&prediction.latency))
}
