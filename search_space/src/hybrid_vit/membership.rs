//! Whether an architecture lies in a hybrid space, and if not, in which respect.

use super::definition::{HybridVit, MixerKind, StageRange};
use super::{Activation, Architecture, Norm, Stage, TokenMixer};

/// In which respect an architecture is outside a space.
pub(crate) struct Fault {
    pub what: String,
    pub value: String,
    pub allowed: String,
}

impl HybridVit {
    /// The first respect in which `architecture` is outside, if there is one.
    pub(crate) fn fault(&self, architecture: &Architecture) -> Option<Fault> {
        let whole = outside("height", architecture.height, &self.heights)
            .or_else(|| outside("width", architecture.width, &self.widths))
            .or_else(|| outside("input_channels", architecture.input_channels, &[self.input_channels]))
            .or_else(|| outside("classes", architecture.classes, &[self.classes]))
            .or_else(|| outside("merged_stages", architecture.merged_stages, &self.merged_stages));
        if whole.is_some() {
            return whole;
        }
        let first = usize::from(architecture.merged_stages) - 1;
        let ranges = &self.stages[first..];
        outside("the number of stages", architecture.stages.len(), &[ranges.len()])
            .or_else(|| architecture.stages.iter().zip(ranges).enumerate().find_map(|(i, (stage, range))| named(range.fault(stage), first + i + 1)))
            .or_else(|| not_rising(&architecture.stages, first))
    }
}

impl StageRange {
    fn fault(&self, stage: &Stage) -> Option<Fault> {
        let Ok(channel) = self.channels.binary_search(&stage.channels) else {
            return outside("channels", stage.channels, &self.channels);
        };
        let mixer = match stage.token_mixer {
            TokenMixer::SepConv { .. } if !self.token_mixers.contains(&MixerKind::SepConv) => Some(fault("token_mixer", "sep_conv", "attention")),
            TokenMixer::Attention { .. } if !self.token_mixers.contains(&MixerKind::Attention) => Some(fault("token_mixer", "attention", "sep_conv")),
            TokenMixer::SepConv { kernel, expansion } => outside("kernel", kernel, &self.kernels).or_else(|| outside("expansion", expansion, &self.expansions)),
            TokenMixer::Attention { heads, reduction } => {
                outside("heads", heads, &self.heads[channel]).or_else(|| outside("reduction", reduction, &self.reductions))
            }
        };
        mixer
            .or_else(|| outside("depth", stage.depth, &self.depths))
            .or_else(|| outside("mlp_ratio", stage.mlp_ratio, &self.mlp_ratios))
            .or_else(|| match stage.norm {
                norm if self.norms.contains(&norm) => None,
                Norm::BatchNorm => Some(fault("norm", "batch_norm", "layer_norm")),
                Norm::LayerNorm => Some(fault("norm", "layer_norm", "batch_norm")),
            })
            .or_else(|| match stage.activation {
                activation if self.activations.contains(&activation) => None,
                Activation::Gelu => Some(fault("activation", "gelu", "silu")),
                Activation::Silu => Some(fault("activation", "silu", "gelu")),
            })
    }
}

fn fault(what: &str, value: impl ToString, allowed: &str) -> Fault {
    Fault { what: what.to_owned(), value: value.to_string(), allowed: allowed.to_owned() }
}

fn named(fault: Option<Fault>, stage: usize) -> Option<Fault> {
    fault.map(|f| Fault { what: format!("{} of stage {stage}", f.what), ..f })
}

fn outside<T: PartialEq + ToString>(what: &str, value: T, allowed: &[T]) -> Option<Fault> {
    (!allowed.contains(&value)).then(|| {
        let list: Vec<String> = allowed.iter().map(T::to_string).collect();
        fault(what, value, &list.join(", "))
    })
}

fn not_rising(stages: &[Stage], first: usize) -> Option<Fault> {
    let fall = stages.windows(2).position(|pair| pair[0].channels >= pair[1].channels)?;
    let allowed = format!("more than the {} of the stage before", stages[fall].channels);
    Some(fault(&format!("channels of stage {}", first + fall + 2), stages[fall + 1].channels, &allowed))
}
