//! [`AriaModels`]: an encoder and its decoder, from one file each, resized to any number of
//! patches.

use super::{AriaCostsError, FlowError};
use vitempo_graph::{Graph, OpKind, resized};

/// Largest number of tokens that are not patches: class, registers.
pub(super) const MOST_EXTRA_TOKENS: usize = 8;

/// Features per patch of an encoder's output, and whether they come patch by patch, after extra
/// tokens, not channels first.
pub(super) fn features_of_patches(shape: &[usize], patches: usize) -> Option<(usize, bool)> {
    match *shape {
        [1, tokens, width] if (patches..=patches + MOST_EXTRA_TOKENS).contains(&tokens) => {
            Some((width, true))
        }
        [1, width, height, across] if height * across == patches => Some((width, false)),
        _ => None,
    }
}

/// The models of a plan.
#[derive(Clone, Debug)]
pub struct AriaModels {
    encoder: Graph,
    decoder: Option<Graph>,
    patch: usize,
    /// Rows and columns of patches of the encoder as exported.
    exported: [usize; 2],
}

/// What an encoder puts out for a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// Number of features.
    pub width: usize,
    /// Digest of the encoder's weights ([`Graph::weights`]); `None` where it was read without.
    pub weights: Option<String>,
}

impl AriaModels {
    /// An encoder of images and, where there is one, the decoder for features of its size. `patch`:
    /// side of a patch, px; by default the stride of the encoder's first convolution, of which it is
    /// a multiple where the encoder merges patches.
    ///
    /// # Errors
    /// [`AriaCostsError::UnknownPatch`] where neither gives the size of a patch,
    /// [`AriaCostsError::OtherPatch`] where the two contradict each other,
    /// [`AriaCostsError::NoImage`] where the encoder takes no image.
    pub fn new(
        encoder: Graph,
        decoder: Option<Graph>,
        patch: Option<usize>,
    ) -> Result<Self, AriaCostsError> {
        let model = || encoder.name().to_owned();
        let patch = match (patch, patch_of(&encoder)) {
            (Some(patch), Some(side)) if !patch.is_multiple_of(side) => {
                return Err(AriaCostsError::OtherPatch { model: model(), patch, side });
            }
            (given, found) => given
                .or(found)
                .ok_or_else(|| AriaCostsError::UnknownPatch { model: model() })?
                .max(1),
        };
        let [height, width] = image_size(&encoder)?;
        Ok(Self { encoder, decoder, patch, exported: [height / patch, width / patch] })
    }

    /// The encoder as exported.
    #[must_use]
    pub fn encoder(&self) -> &Graph {
        &self.encoder
    }

    /// The decoder as exported.
    #[must_use]
    pub fn decoder(&self) -> Option<&Graph> {
        self.decoder.as_ref()
    }

    /// Side of a patch, px.
    #[must_use]
    pub fn patch(&self) -> usize {
        self.patch
    }

    /// Features of patches in the encoder's first output.
    ///
    /// # Errors
    /// [`FlowError::NoFeatures`] where that has no rows of patches.
    pub fn features(&self) -> Result<Features, FlowError> {
        let [rows, cols] = self.exported;
        let output = self.encoder.outputs().first().map(|id| self.encoder.value(*id));
        let (width, _) = output
            .and_then(|output| features_of_patches(&output.tensor.as_ref()?.shape, rows * cols))
            .ok_or_else(|| FlowError::NoFeatures { model: self.encoder.name().to_owned() })?;
        Ok(Features { width, weights: self.encoder.weights() })
    }

    /// The encoder for this many rows and columns of patches, with its weights where it has them.
    ///
    /// # Errors
    /// [`AriaCostsError::Resize`] naming the node that does not work at that size.
    pub fn encoder_at(&self, [rows, cols]: [usize; 2]) -> Result<Graph, AriaCostsError> {
        let mut shapes = shapes(&self.encoder);
        let image = image_of(&self.encoder).unwrap_or(0);
        if let Some([.., height, width]) = shapes.get_mut(image).map(Vec::as_mut_slice) {
            (*height, *width) = (rows * self.patch, cols * self.patch);
        }
        Ok(resized(&self.encoder, &shapes, &[])?)
    }

    /// The same for several sizes; each has its size in its name.
    ///
    /// # Errors
    /// As [`AriaModels::encoder_at`].
    pub fn encoders(&self, sizes: &[[usize; 2]]) -> Result<Vec<Graph>, AriaCostsError> {
        let named = |&[rows, cols]: &[usize; 2]| {
            let name = format!("{} of {rows} x {cols} patches", self.encoder.name());
            Ok(self.encoder_at([rows, cols])?.with_name(name))
        };
        sizes.iter().map(named).collect()
    }

    /// The decoder for features of this many patches: each input is resized with the patches.
    ///
    /// # Errors
    /// [`AriaCostsError::DecoderInput`] where an input does not match the encoder's patches,
    /// [`AriaCostsError::Resize`] naming the node that does not work at that size.
    pub fn decoder_at(&self, size: [usize; 2]) -> Result<Option<Graph>, AriaCostsError> {
        let Some(decoder) = &self.decoder else { return Ok(None) };
        let old = self.exported;
        let mut shapes = shapes(decoder);
        for (shape, id) in shapes.iter_mut().zip(decoder.inputs()) {
            grow(shape, old, size).ok_or_else(|| AriaCostsError::DecoderInput {
                model: decoder.name().to_owned(),
                input: decoder.value(*id).name.clone(),
                shape: shape.clone(),
                rows: old[0],
                cols: old[1],
                height: old[0] * self.patch,
                width: old[1] * self.patch,
            })?;
        }
        Ok(Some(resized(decoder, &shapes, &[[(old[0], size[0]), (old[1], size[1])]])?))
    }
}

/// Resizes an input of a decoder: an image or grid whose sides are multiples of the patches, or
/// tokens in one row.
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

/// Height and width of the input that is an image, px.
fn image_size(graph: &Graph) -> Result<[usize; 2], AriaCostsError> {
    let shapes = shapes(graph);
    match image_of(graph).and_then(|index| shapes.get(index)).map(Vec::as_slice) {
        Some(&[_, _, height, width]) => Ok([height, width]),
        _ => Err(AriaCostsError::NoImage { model: graph.name().to_owned(), shapes }),
    }
}

/// The stride of the first convolution, if it divides the image into squares.
fn patch_of(graph: &Graph) -> Option<usize> {
    let first = graph.nodes().iter().find(|node| node.op.kind == OpKind::Conv)?;
    match (first.op.attributes.ints("kernel_shape"), first.op.attributes.ints("strides")) {
        (&[h, w], &[down, across]) if h == w && down == across && h == down && h > 1 => {
            usize::try_from(h).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::onnx;

    fn shipped(name: &str) -> Graph {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
        onnx::read_file(&path.join(format!("{name}.onnx")), &onnx::ReadOptions::default())
            .expect("a model that ships")
    }

    #[test]
    fn an_encoder_says_how_large_its_patches_are() {
        let models = AriaModels::new(shipped("vit_tiny_patch16_224"), None, None).expect("models");
        assert_eq!((models.patch(), models.exported), (16, [14, 14]));
        let resized = models.encoders(&[[15, 20]]).expect("an encoder");
        assert_eq!(image_size(&resized[0]).ok(), Some([240, 320]));
        assert!(resized[0].name().ends_with("of 15 x 20 patches"));
        let refused = AriaModels::new(shipped("mobilevit_xxs"), None, None);
        assert!(matches!(refused, Err(AriaCostsError::UnknownPatch { .. })), "{refused:?}");
        let other = |patch| AriaModels::new(shipped("vit_tiny_patch16_224"), None, Some(patch));
        assert!(matches!(other(7), Err(AriaCostsError::OtherPatch { patch: 7, side: 16, .. })));
        assert!(matches!(other(8), Err(AriaCostsError::OtherPatch { .. })));
        assert_eq!(other(32).expect("pairs of patches").patch(), 32);
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
