//! [`Features`]: the tensor between blocks, as an image or as tokens, and the patch embedding that
//! computes it from an image.

use vitempo_graph::{GraphBuilder, GraphError, TensorSpec, ValueId};

/// Features between two blocks.
#[derive(Clone, Copy)]
pub(crate) struct Features {
    pub x: ValueId,
    pub layout: Layout,
    pub channels: usize,
    pub height: usize,
    pub width: usize,
    /// Tokens in front of those of the image: a class token. None on images.
    pub prefix_tokens: usize,
}

/// How features lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// N, C, H, W.
    Image,
    /// N, T, C.
    Tokens,
}

impl Features {
    /// An image as a model is given it.
    pub fn image(b: &mut GraphBuilder, channels: u16, height: u16, width: u16) -> Self {
        let [channels, height, width] = [channels, height, width].map(usize::from);
        let x = b.input("image", TensorSpec::f32([1, channels, height, width]));
        Self { x, layout: Layout::Image, channels, height, width, prefix_tokens: 0 }
    }

    /// An image cut into patches: a convolution whose kernel and stride are the patch.
    pub fn patch_embed(
        self,
        b: &mut GraphBuilder,
        name: &str,
        channels: usize,
        patch: usize,
    ) -> Result<Self, GraphError> {
        let x = b.conv(name, self.x, channels, patch, patch, 0, 1, true)?;
        let (height, width) = (self.height / patch, self.width / patch);
        Ok(Self { x, channels, height, width, ..self })
    }

    pub fn tokens(&self) -> usize {
        self.prefix_tokens + self.height * self.width
    }

    pub fn with(self, x: ValueId) -> Self {
        Self { x, ..self }
    }

    pub fn into_tokens(self, b: &mut GraphBuilder, name: &str) -> Result<Self, GraphError> {
        if self.layout == Layout::Tokens {
            return Ok(self);
        }
        let flat =
            b.reshape(&format!("{name}.flatten"), self.x, &[1, self.channels, self.tokens()])?;
        let x = b.transpose(&format!("{name}.to_tokens"), flat, &[0, 2, 1])?;
        Ok(Self { x, layout: Layout::Tokens, ..self })
    }

    pub fn into_image(self, b: &mut GraphBuilder, name: &str) -> Result<Self, GraphError> {
        if self.layout == Layout::Image {
            return Ok(self);
        }
        let channels_first = b.transpose(&format!("{name}.from_tokens"), self.x, &[0, 2, 1])?;
        let x = b.reshape(
            &format!("{name}.unflatten"),
            channels_first,
            &[1, self.channels, self.height, self.width],
        )?;
        Ok(Self { x, layout: Layout::Image, ..self })
    }
}
