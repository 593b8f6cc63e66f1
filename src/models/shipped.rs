//! Real models that are part of the library, without weights: architectures of timm (Apache-2.0).

use vitempo_graph::{
    Graph,
    onnx::{self, OnnxError, ReadOptions},
};

/// A model file that is part of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShippedModel {
    /// Name of the architecture in timm.
    pub name: &'static str,
    /// Contents of its ONNX file.
    pub bytes: &'static [u8],
}

impl ShippedModel {
    /// Reads its operators.
    ///
    /// # Errors
    /// [`OnnxError`] names the model.
    pub fn graph(&self) -> Result<Graph, OnnxError> {
        onnx::read_bytes(self.name, self.bytes, &ReadOptions::default())
    }
}

macro_rules! shipped {
    ($name:literal) => {
        ShippedModel {
            name: $name,
            bytes: include_bytes!(concat!("../../tests/models/", $name, ".onnx")),
        }
    };
}

/// Every model that ships: a plain transformer and two hybrids.
pub static SHIPPED: [ShippedModel; 3] =
    [shipped!("vit_tiny_patch16_224"), shipped!("mobilevit_xxs"), shipped!("edgenext_xx_small")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_models_are_read() {
        for model in &SHIPPED {
            let graph = model.graph().unwrap_or_else(|e| panic!("{e}"));
            assert!(graph.nodes().len() > 100, "{}: {} operators", model.name, graph.nodes().len());
        }
    }
}
