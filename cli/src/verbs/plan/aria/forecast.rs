//! Costs of everything a plan needs, forecast by two bundles: encoder and decoder at every
//! resolution, re-shaped from one file each.

use super::super::super::{
    bundle,
    error::{CliError, CliResult},
    models::{ModelArgs, parse_dimension},
    progress, quantity,
};
use std::path::PathBuf;
use vitempo::Bundle;
use vitempo::graph::{Graph, LatencyModel, OpKind, ResizeError, resized};
use vitempo::planners::aria::{AriaCosts, Baselines, Forecast, Level, RegionEncoder};

/// Resolutions of figure 2 and of the baselines, px; for other patches rounded down to whole ones.
const LEVELS: [(usize, usize); 4] = [(238, 322), (294, 350), (294, 490), (406, 658)];
/// Sizes of regions that the paper mentions, px.
const REGIONS: [(usize, usize); 4] = [(168, 168), (238, 238), (238, 322), (294, 350)];
/// Tokens beside the patches: class, registers.
const MOST_EXTRA_TOKENS: usize = 8;

/// Which models on which processors.
#[derive(clap::Args, Clone, Debug)]
pub struct Models {
    /// The encoder as ONNX, of any input size; weights may be absent
    #[arg(long, value_name = "MODEL.onnx", requires = "gpu", requires = "npu")]
    pub encoder: Option<String>,

    /// The decoder as ONNX, for features of the encoder's size; without it, `--rest` is what a
    /// frame takes beside its regions
    #[arg(long, value_name = "MODEL.onnx", requires = "encoder")]
    pub decoder: Option<String>,

    /// Value of a symbolic dimension, e.g. `--dim batch=1`; may be repeated
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = parse_dimension)]
    pub dimensions: Vec<(String, usize)>,

    /// Bundle for the processor of full frames: a file, or a name that `vitempo bundle list` shows
    #[arg(long, value_name = "NAME", requires = "encoder")]
    pub gpu: Option<PathBuf>,

    /// Bundle for the processor of regions and of the decoder, likewise
    #[arg(long, value_name = "NAME", requires = "encoder")]
    pub npu: Option<PathBuf>,

    /// A resolution of full frames, e.g. 406x658; may be repeated. Default: those of the paper
    #[arg(long = "level", value_name = "HxW", value_parser = parse_size)]
    pub levels: Vec<(usize, usize)>,

    /// A size of regions to try, in pixels, e.g. 238x322; may be repeated. Default: those of the
    /// paper
    #[arg(long = "region", value_name = "HxW", value_parser = parse_size)]
    pub regions: Vec<(usize, usize)>,

    /// Pixels on a side of a patch; default: the stride of the encoder's first convolution
    #[arg(long, value_name = "PIXELS", value_parser = super::super::super::quantity::positive)]
    pub patch: Option<usize>,

    /// What identifying, tracking, warping and scheduling take per frame on the CPU
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "2ms")]
    pub frame_step: u64,

    /// What estimating the patches' flow takes, where a network does it
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "0ms")]
    pub patch_flow: u64,

    /// The decoder's time, where there is no `--decoder`
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "0ms", conflicts_with = "decoder")]
    pub rest: u64,
}

fn parse_size(text: &str) -> Result<(usize, usize), String> {
    let sides = text
        .split_once('x')
        .and_then(|(h, w)| Some((h.trim().parse().ok()?, w.trim().parse().ok()?)));
    sides
        .filter(|(h, w)| (1..=1 << 16).contains(h) && (1..=1 << 16).contains(w))
        .ok_or_else(|| format!("`{text}` is no size; write height x width, e.g. 406x658"))
}

/// The models, read, and what forecasts them.
struct Sources {
    encoder: Graph,
    decoder: Option<Graph>,
    gpu: Bundle,
    npu: Bundle,
    patch: usize,
    /// Patches of the encoder as exported.
    exported: [usize; 2],
}

impl From<ResizeError> for CliError {
    fn from(error: ResizeError) -> Self {
        Self::user(error).hint(
            "choose sizes with --level and --region that the model can have, \
            or export it for the size wanted",
        )
    }
}

impl Models {
    /// Forecasts everything.
    pub fn costs(&self, encoder: &str) -> CliResult<AriaCosts> {
        let sources = self.sources(encoder)?;
        let sizes = |given: &[(usize, usize)], default: &[(usize, usize)]| {
            sizes(given, default, sources.patch)
        };
        let mut levels = sizes(&self.levels, &LEVELS)?;
        levels.sort_by_key(|[rows, cols]| rows * cols);
        let levels = levels
            .into_iter()
            .map(|size| self.level(&sources, size))
            .collect::<CliResult<Vec<_>>>()?;
        let most = levels.iter().map(|l| (l.rows, l.cols)).max().unwrap_or((0, 0));
        let fits = |[rows, cols]: &[usize; 2]| *rows <= most.0 && *cols <= most.1;
        let regions = sizes(&self.regions, &REGIONS)?
            .into_iter()
            .filter(fits)
            .map(|size| sources.region(size))
            .collect::<CliResult<Vec<_>>>()?;
        let exact = |ns: u64| Forecast::exact(ns.max(1) as f64);
        let described = |bundle: &Bundle| bundle.environment().describe();
        Ok(AriaCosts {
            sources: vec![
                format!(
                    "full frames of {}: forecast for {}",
                    sources.encoder.name(),
                    described(&sources.gpu)
                ),
                format!(
                    "regions and decoder ({}): forecast for {}",
                    sources.decoder.as_ref().map_or("none given", Graph::name),
                    described(&sources.npu)
                ),
                "frame step, patch flow and block matching: as given on the command line; by \
                default 2 ms, nothing, and the 9 ms that the paper prints"
                    .to_owned(),
            ],
            patch: sources.patch,
            levels,
            regions,
            frame_step: exact(self.frame_step),
            patch_flow: exact(self.patch_flow),
            baselines: Baselines { block_matching: Forecast::exact(9e6), block_patches: 4 },
        })
    }

    /// The encoder for so many rows and columns of patches each, with its weights where it has
    /// them.
    pub fn encoders(&self, sizes: &[[usize; 2]]) -> CliResult<Vec<Graph>> {
        let path =
            self.encoder.as_deref().ok_or_else(|| CliError::user("--live needs --encoder"))?;
        let sources = self.sources(path)?;
        let named = |size: &[usize; 2]| {
            Ok(sources.encoder_at(*size)?.with_name(format!(
                "{} of {} x {} patches",
                sources.encoder.name(),
                size[0],
                size[1]
            )))
        };
        sizes.iter().map(named).collect()
    }

    fn sources(&self, encoder: &str) -> CliResult<Sources> {
        let (Some(gpu), Some(npu)) = (&self.gpu, &self.npu) else {
            return Err(CliError::user(
                "a plan needs --gpu and --npu: bundles for the processor of full frames and for \
                that of regions",
            ));
        };
        let one = |path: &str| {
            super::super::costs::one_model(&ModelArgs::of(
                vec![path.to_owned()],
                self.dimensions.clone(),
            ))
        };
        let encoder = one(encoder)?.graph;
        let patch = self.patch.or_else(|| patch_of(&encoder)).ok_or_else(|| {
            CliError::user(format!(
                "{}: no convolution cuts its image into patches",
                encoder.name()
            ))
            .hint("say how large a patch is with --patch, e.g. --patch 14")
        })?;
        let [height, width] = image(&encoder)?;
        let decoder = self.decoder.as_deref().map(one).transpose()?.map(|model| model.graph);
        Ok(Sources {
            encoder,
            decoder,
            gpu: bundle::open(gpu)?,
            npu: bundle::open(npu)?,
            patch,
            exported: [height / patch, width / patch],
        })
    }

    fn level(&self, sources: &Sources, size: [usize; 2]) -> CliResult<Level> {
        let [rows, cols] = size;
        let encoder = sources.encoder_at(size)?;
        let what = format!("encoder at {} x {}", rows * sources.patch, cols * sources.patch);
        let decoder = match sources.decoder_at(size)? {
            Some(decoder) => {
                forecast(&sources.npu, &decoder, &format!("decoder for {rows} x {cols} patches"))?
            }
            None => Forecast::exact(self.rest.max(1) as f64),
        };
        let (height, width) = (rows * sources.patch, cols * sources.patch);
        Ok(Level {
            height,
            width,
            rows,
            cols,
            full_frame: forecast(&sources.gpu, &encoder, &what)?,
            alone: forecast(&sources.npu, &encoder, &what)?,
            decoder,
        })
    }
}

impl Sources {
    fn encoder_at(&self, [rows, cols]: [usize; 2]) -> CliResult<Graph> {
        let mut shapes = shapes(&self.encoder);
        let image = image_of(&self.encoder).unwrap_or(0);
        if let Some([.., height, width]) = shapes.get_mut(image).map(Vec::as_mut_slice) {
            (*height, *width) = (rows * self.patch, cols * self.patch);
        }
        Ok(resized(&self.encoder, &shapes, &[])?)
    }

    /// The decoder for features of so many patches: each input grows as the patches do.
    fn decoder_at(&self, size: [usize; 2]) -> CliResult<Option<Graph>> {
        let Some(decoder) = &self.decoder else { return Ok(None) };
        let old = self.exported;
        let mut shapes = shapes(decoder);
        for (shape, id) in shapes.iter_mut().zip(decoder.inputs()) {
            let name = &decoder.value(*id).name;
            grow(shape, old, size).ok_or_else(|| {
                let exported = format!(
                    "{} x {} patches ({} x {} pixels)",
                    old[0],
                    old[1],
                    old[0] * self.patch,
                    old[1] * self.patch
                );
                CliError::user(format!(
                    "{}: input `{name}` is {shape:?}: no part of it has the \
                    {exported} of the encoder",
                    decoder.name()
                ))
                .hint("export encoder and decoder for the same size of image")
            })?;
        }
        Ok(Some(resized(decoder, &shapes, &[[(old[0], size[0]), (old[1], size[1])]])?))
    }

    fn region(&self, size: [usize; 2]) -> CliResult<RegionEncoder> {
        let encoder = self.encoder_at(size)?;
        let [rows, cols] = size;
        let what = format!("encoder for regions of {rows} x {cols} patches");
        Ok(RegionEncoder {
            rows,
            cols,
            cycle: forecast(&self.npu, &encoder, &what)?,
            elsewhere: forecast(&self.gpu, &encoder, &what)?,
        })
    }
}

/// An input of a decoder for other patches: an image or grid whose sides are multiples of the
/// patches, or tokens in one row.
fn grow(shape: &mut [usize], old: [usize; 2], new: [usize; 2]) -> Option<()> {
    if let [_, _, height, width] = shape
        && height.is_multiple_of(old[0])
        && width.is_multiple_of(old[1])
        && *height / old[0] == *width / old[1]
    {
        let times = *height / old[0];
        (*height, *width) = (times * new[0], times * new[1]);
        return Some(());
    }
    let tokens = old[0] * old[1];
    let axis = shape
        .iter()
        .skip(1)
        .position(|extent| (tokens..=tokens + MOST_EXTRA_TOKENS).contains(extent))?
        + 1;
    shape[axis] = shape[axis] - tokens + new[0] * new[1];
    Some(())
}

/// Whole patches of each size, each once.
fn sizes(
    given: &[(usize, usize)],
    default: &[(usize, usize)],
    patch: usize,
) -> CliResult<Vec<[usize; 2]>> {
    let mut all: Vec<[usize; 2]> = Vec::new();
    for &(height, width) in if given.is_empty() { default } else { given } {
        let size = [height / patch, width / patch];
        if size.contains(&0) {
            return Err(CliError::user(format!(
                "{height}x{width} holds no patch of {patch} pixels"
            ))
            .hint("give larger sizes"));
        }
        if !given.is_empty() && (height % patch, width % patch) != (0, 0) {
            progress::say(format!(
                "note: {height}x{width} is rounded down to {} x {} whole patches of {patch} pixels",
                size[0], size[1]
            ));
        }
        if !all.contains(&size) {
            all.push(size);
        }
    }
    Ok(all)
}

fn shapes(graph: &Graph) -> Vec<Vec<usize>> {
    graph
        .inputs()
        .iter()
        .map(|id| graph.value(*id).tensor.as_ref().map(|t| t.shape.to_vec()).unwrap_or_default())
        .collect()
}

/// The input that is an image.
fn image_of(graph: &Graph) -> Option<usize> {
    shapes(graph).iter().position(|shape| shape.len() == 4)
}

fn image(graph: &Graph) -> CliResult<[usize; 2]> {
    let shapes = shapes(graph);
    match image_of(graph).and_then(|index| shapes.get(index)).map(Vec::as_slice) {
        Some(&[_, _, height, width]) => Ok([height, width]),
        _ => Err(CliError::user(format!(
            "{}: no input is an image of [batch, channels, height, width]; inputs are {shapes:?}",
            graph.name()
        ))),
    }
}

/// The stride of the first convolution, if it cuts the image into squares.
fn patch_of(graph: &Graph) -> Option<usize> {
    let first = graph.nodes().iter().find(|node| node.op.kind == OpKind::Conv)?;
    match (first.op.attributes.ints("kernel_shape"), first.op.attributes.ints("strides")) {
        (&[h, w], &[down, across]) if h == w && down == across && h == down && h > 1 => {
            usize::try_from(h).ok()
        }
        _ => None,
    }
}

fn forecast(predictors: &Bundle, graph: &Graph, what: &str) -> CliResult<Forecast> {
    let prediction = predictors.predict(graph)?;
    let environment = predictors.environment().describe();
    let (all, estimated, outside) = (
        prediction.operators.len(),
        prediction.fallbacks().count(),
        prediction.extrapolating().count(),
    );
    bundle::warn_of_estimates(&format!("{what}, {environment}"), estimated, all);
    if 4 * outside > all {
        progress::say(format!(
            "warning: {what}, {environment}: {outside} of {all} kernels are outside of what was \
            measured; the interval may be too narrow"
        ));
    }
    Ok(Forecast::from(&prediction.latency))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_patches_and_wrong_ones_are_named() {
        assert_eq!(parse_size("406x658"), Ok((406, 658)));
        assert!(
            parse_size("406").is_err() && parse_size("0x4").is_err() && parse_size("axb").is_err()
        );
        let of = |given: &[(usize, usize)], patch| {
            sizes(given, &LEVELS, patch).map_err(|e| e.to_string())
        };
        assert_eq!(of(&[], 14), Ok(vec![[17, 23], [21, 25], [21, 35], [29, 47]]));
        assert_eq!(of(&[], 16), Ok(vec![[14, 20], [18, 21], [18, 30], [25, 41]]));
        assert!(of(&[(8, 30)], 16).is_err_and(|e| e.contains("holds no patch")));
    }

    #[test]
    fn inputs_of_decoders_grow_with_the_patches() {
        let grown = |shape: &[usize]| {
            let mut shape = shape.to_vec();
            grow(&mut shape, [16, 16], [29, 47]).map(|()| shape)
        };
        assert_eq!(grown(&[1, 257, 384]), Some(vec![1, 1364, 384]));
        assert_eq!(grown(&[1, 384, 256]), Some(vec![1, 384, 1363]));
        assert_eq!(grown(&[1, 384, 16, 16]), Some(vec![1, 384, 29, 47]));
        assert_eq!(grown(&[1, 3, 224, 224]), Some(vec![1, 3, 406, 658]));
        assert_eq!(grown(&[1, 1369, 384]), None);
    }
}
