//! Options for the models and bundles of a plan, and the notes on their forecasts.

use super::super::super::{
    bundle,
    error::{CliError, CliResult},
    models::{ModelArgs, parse_dimension},
    progress, quantity,
};
use std::path::PathBuf;
use vitempo::graph::Graph;
use vitempo::plan::aria::{
    AriaCostsError, AriaModels, CostNote, CostsRequest, GivenTimes, Sizes, forecast,
};
use vitempo::planners::aria::AriaCosts;

/// The models, and the bundle of each processor.
#[derive(clap::Args, Clone, Debug)]
pub struct Models {
    /// The encoder as ONNX, of any input size; weights may be absent
    #[arg(long, value_name = "MODEL.onnx", requires = "gpu", requires = "npu")]
    pub encoder: Option<String>,

    /// The decoder as ONNX, for features of the encoder's size; without it, `--rest` is its time
    #[arg(long, value_name = "MODEL.onnx", requires = "encoder")]
    pub decoder: Option<String>,

    /// Value of a symbolic dimension, e.g. `--dim batch=1`; may be repeated
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = parse_dimension, requires = "encoder", conflicts_with = "costs")]
    pub dimensions: Vec<(String, usize)>,

    /// Bundle for the processor of full frames: a file, or a name that `vitempo bundle list` shows
    #[arg(long, value_name = "NAME", requires = "encoder")]
    pub gpu: Option<PathBuf>,

    /// Bundle for the processor of regions and of the decoder, in the same form
    #[arg(long, value_name = "NAME", requires = "encoder")]
    pub npu: Option<PathBuf>,

    /// A resolution of full frames, e.g. 406x658; may be repeated. Default: those of the paper
    #[arg(long = "level", value_name = "HxW", value_parser = parse_size, requires = "encoder", conflicts_with = "costs")]
    pub levels: Vec<(usize, usize)>,

    /// A size of regions to try, in pixels, e.g. 238x322; may be repeated. Default: those of the
    /// paper
    #[arg(long = "region", value_name = "HxW", value_parser = parse_size, requires = "encoder", conflicts_with = "costs")]
    pub regions: Vec<(usize, usize)>,

    /// Side of a patch, px; default: the stride of the encoder's first convolution
    #[arg(long, value_name = "PIXELS", value_parser = quantity::positive, requires = "encoder", conflicts_with = "costs")]
    pub patch: Option<usize>,

    /// Time of identification, tracking, warping and scheduling per frame on the CPU
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "2ms", requires = "encoder", conflicts_with = "costs")]
    pub frame_step: u64,

    /// Time of the patch flow per frame, where a network computes it
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "0ms", requires = "encoder", conflicts_with = "costs")]
    pub patch_flow: u64,

    /// Time of the decoder per frame, where there is no `--decoder`
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "0ms", requires = "encoder", conflicts_with_all = ["decoder", "costs"])]
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

impl From<AriaCostsError> for CliError {
    fn from(error: AriaCostsError) -> Self {
        let hint = match error {
            AriaCostsError::Prediction(error) => return error.into(),
            AriaCostsError::UnknownPatch { .. } => {
                "say how large a patch is with --patch, e.g. --patch 14"
            }
            AriaCostsError::OtherPatch { .. } => {
                "leave --patch out, or give a multiple, where the encoder merges patches"
            }
            AriaCostsError::NoPatchFits { .. } => "give larger sizes",
            AriaCostsError::RegionTooLarge { .. } => {
                "give a smaller --region, or a --level that holds it"
            }
            AriaCostsError::DecoderInput { .. } => {
                "export encoder and decoder for the same size of image"
            }
            AriaCostsError::Resize(_) => {
                "choose sizes with --level and --region that the model can have, \
                or export it for the size wanted"
            }
            _ => return Self::user(error),
        };
        Self::user(error).hint(hint)
    }
}

/// Prints a note on costs.
fn say(note: CostNote) {
    progress::say(match note {
        CostNote::RoundedDown { height, width, rows, cols, patch } => format!(
            "note: {height}x{width} is rounded down to {rows} x {cols} whole patches of {patch} \
            pixels"
        ),
        CostNote::Estimated { what, estimated, of } => {
            return bundle::warn_of_estimates(&what, estimated, of);
        }
        CostNote::Outside { what, outside, of } => format!(
            "warning: {what}: {outside} of {of} kernels are outside of what was measured; the \
            interval may be too narrow"
        ),
        _ => return,
    });
}

impl Models {
    /// Reads encoder and decoder, with the values of their weights if they are to run.
    pub fn read(&self, encoder: &str, to_run: bool) -> CliResult<AriaModels> {
        let one = |path: &str| -> CliResult<Graph> {
            let named = ModelArgs::of(vec![path.to_owned()], self.dimensions.clone());
            let model = super::super::costs::one_model(&named)?;
            if to_run { Ok(model.weighted(&named.read_options())?) } else { Ok(model.graph) }
        };
        let decoder = self.decoder.as_deref().map(one).transpose()?;
        Ok(AriaModels::new(one(encoder)?, decoder, self.patch)?)
    }

    /// Forecasts all costs.
    pub fn costs(&self, models: &AriaModels) -> CliResult<AriaCosts> {
        let (Some(gpu), Some(npu)) = (&self.gpu, &self.npu) else {
            return Err(CliError::user(
                "a plan needs --gpu and --npu: bundles for the processor of full frames and for \
                that of regions",
            ));
        };
        let request = CostsRequest {
            full_frames: &bundle::open(gpu)?,
            regions: &bundle::open(npu)?,
            sizes: Sizes { levels: self.levels.clone(), regions: self.regions.clone() },
            times: GivenTimes {
                frame_step_ns: self.frame_step,
                patch_flow_ns: self.patch_flow,
                decoder_ns: self.rest,
                source: "frame step, patch flow and block matching: as given on the command line; \
                    by default 2 ms, nothing, and the 9 ms that the paper prints"
                    .to_owned(),
            },
        };
        Ok(forecast(models, &request, &mut say)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("406x658"), Ok((406, 658)));
        for text in ["406", "0x4", "axb"] {
            assert!(parse_size(text).is_err_and(|e| e.contains("no size")), "{text}");
        }
    }
}
