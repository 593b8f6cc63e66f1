//! What the mobile ViT study printed, for comparison: `paper.json` holds its tables, [`TEXT`] what
//! its text says of its figures.

use serde::Deserialize;
use std::sync::LazyLock;

/// One line of tables 2 and 3: mean absolute percentage errors, percent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OperatorErrors {
    /// `synthetic` or `real`.
    pub set: String,
    pub framework: String,
    /// `cpu` or `gpu`.
    pub processor: String,
    pub method: String,
    pub conv: f64,
    pub linear: f64,
    pub activation: f64,
    pub e2e: f64,
}

/// One line of table 4: end-to-end errors by number of models trained on, percent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SizeErrors {
    pub set: String,
    pub framework: String,
    pub models: usize,
    pub lasso: f64,
    #[serde(rename = "random-forest")]
    pub random_forest: f64,
    pub gbdt: f64,
}

/// The largest error of figures 15 and 16 on one device, percent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Worst {
    pub device: String,
    pub synthetic: f64,
    pub real: f64,
}

/// The printed tables.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Paper {
    pub source: String,
    pub operators: Vec<OperatorErrors>,
    pub sizes: Vec<SizeErrors>,
    pub worst: Vec<Worst>,
}

/// The file ships inside the program; a test reads it, so that it is never empty.
pub static PAPER: LazyLock<Paper> =
    LazyLock::new(|| serde_json::from_str(include_str!("paper.json")).unwrap_or_default());

/// The study's findings, section by section.
pub struct Text {
    pub latency: &'static str,
    pub breakdown: &'static str,
    pub intensity: &'static str,
    pub memory: &'static str,
    pub memory_format: &'static str,
    pub activations: &'static str,
    pub depthwise: &'static str,
    pub quantization: &'static str,
    pub importance: &'static str,
}

pub const TEXT: Text = Text {
    latency: "On its phones the study found ViTs slower than CNNs of the same FLOPs: at 5 GFLOPs \
        by 1.75 times (figure 3).",
    breakdown: "On the study's phones most of a CNN's time is convolution and much of a ViT's \
        linear layers, with a visible share of activations, GELU above all (figure 4).",
    intensity: "The study measured lower arithmetic intensity for ViTs than for CNNs by hardware \
        counters, and more of a speed-up for ViTs from faster memory (figures 5 and 6).",
    memory: "The study's ViTs need more memory than CNNs of the same size, and more so at higher \
        resolution: a plain ViT-S 14 % more than a narrow ResNet-18 at 224 pixels, 43 % more at \
        512 (figure 7); it counts intermediate tensors as its engine reports them. Here, memory is \
        what loading and running a model add to a process of its own, weights included.",
    memory_format: "In PyTorch Mobile convolutions were 2.21 and 1.58 times as fast channels last \
        as channels first on 64x64 and 48x48 images (figure 9).",
    activations: "On phones GELU took 2.85 times as long for inputs of 2 as for inputs of 1, \
        because libm computes erf differently there (figure 10).",
    depthwise: "In PyTorch Mobile depthwise convolution has spikes where channels are a multiple \
        of 32, in TFLite it grows with the channels and is faster (figure 11).",
    quantization: "Quantised in PyTorch Mobile, the study's ViTs are slower on large cores, \
        linear layers and normalisation most of all; in TFLite most operators gain, activations \
        above all, and normalisation loses (figure 12).",
    importance: "On a Snapdragon 855 FLOPs alone decide channels-last convolutions, while \
        channels-first ones also depend on the sizes of input and output, which are copied and \
        reordered (figure 14).",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_tables_are_complete() {
        assert_eq!((PAPER.operators.len(), PAPER.sizes.len(), PAPER.worst.len()), (18, 12, 6));
        assert!(!PAPER.source.is_empty());
    }

    #[test]
    fn tables_2_and_4_agree_on_900_models() {
        for row in PAPER.operators.iter().filter(|r| r.processor == "cpu") {
            let size = PAPER
                .sizes
                .iter()
                .find(|s| s.models == 900 && s.set == row.set && s.framework == row.framework)
                .expect("the same set");
            let same = match row.method.as_str() {
                "lasso" => size.lasso,
                "gbdt" => size.gbdt,
                _ => size.random_forest,
            };
            assert!((same - row.e2e).abs() < 1e-9, "{row:?}");
        }
    }
}
