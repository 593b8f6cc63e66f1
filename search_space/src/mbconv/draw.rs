//! Draws from a space of inverted residuals: one member at random, one that differs from a given
//! one in a single respect, and one with stages of two.
//!
//! Every choice is uniform over its values; kernel, expansion and squeeze are choices of each
//! block.

use super::definition::{MbConv, StageRange};
use super::{Architecture, Block, Blocks, Stage, Stages};
use crate::Generator;
use crate::generator::one_of;

impl MbConv {
    /// One member at random.
    pub(super) fn draw_any(&self, generator: &mut Generator) -> Architecture {
        let (image_size, stem) = (one_of(&self.sizes, generator), one_of(&self.stems, generator));
        let activation = one_of(&self.activations, generator);
        let mut stages = Stages::new();
        for range in &self.stages {
            stages.push(range.draw(generator));
        }
        Architecture {
            image_size,
            input_channels: self.input_channels,
            classes: self.classes,
            stem,
            head: self.head,
            activation,
            stages,
        }
    }

    /// `parent` with one choice drawn again; the result may equal the parent.
    pub(super) fn changed(&self, parent: &Architecture, generator: &mut Generator) -> Architecture {
        let mut child = *parent;
        match generator.below(3 + child.stages.len() as u64) {
            0 => child.image_size = one_of(&self.sizes, generator),
            1 => child.stem = one_of(&self.stems, generator),
            2 => child.activation = one_of(&self.activations, generator),
            stage => {
                let position = stage as usize - 3;
                self.stages[position].change(&mut child.stages[position], generator);
            }
        }
        child
    }
}

impl StageRange {
    fn draw(&self, generator: &mut Generator) -> Stage {
        let (channels, activation) =
            (one_of(&self.channels, generator), one_of(&self.activations, generator));
        let mut blocks = Blocks::new();
        for _ in 0..one_of(&self.depths, generator) {
            blocks.push(self.block(generator));
        }
        Stage { channels, stride: self.stride, activation, blocks }
    }

    /// A block of a checked space: its values are those that a block can have.
    fn block(&self, generator: &mut Generator) -> Block {
        let kernel = one_of(&self.kernels, generator);
        let expansion = one_of(&self.expansions, generator);
        Block::new(kernel, expansion, one_of(&self.squeezes, generator)).unwrap_or(Block::SMALLEST)
    }

    /// Draws one choice of a stage again: its channels, activation, depth, or one choice of one
    /// block. A deeper stage keeps its blocks, a shallower one its first.
    fn change(&self, stage: &mut Stage, generator: &mut Generator) {
        match generator.below(6) {
            0 => stage.channels = one_of(&self.channels, generator),
            1 => stage.activation = one_of(&self.activations, generator),
            2 => {
                let depth = usize::from(one_of(&self.depths, generator));
                stage.blocks.truncate(depth);
                while stage.blocks.len() < depth {
                    stage.blocks.push(self.block(generator));
                }
            }
            respect => {
                let fresh = self.block(generator);
                let position = generator.below(stage.blocks.len() as u64) as usize;
                if let Some(block) = stage.blocks.get_mut(position) {
                    *block = block.with(fresh, respect - 3);
                }
            }
        }
    }
}

impl Block {
    /// Stands for a block that cannot be.
    const SMALLEST: Self = match Self::new(3, 1, false) {
        Some(block) => block,
        None => panic!("a kernel of 3 is odd"),
    };

    /// With the kernel (0), the expansion (1), or the squeeze of another block.
    fn with(self, other: Self, respect: u64) -> Self {
        let (mut kernel, mut expansion, mut squeeze) =
            (self.kernel(), self.expansion(), self.squeeze());
        match respect {
            0 => kernel = other.kernel(),
            1 => expansion = other.expansion(),
            _ => squeeze = other.squeeze(),
        }
        Self::new(kernel, expansion, squeeze).unwrap_or(self)
    }
}

impl Architecture {
    /// Image size, stem and each stage from either parent.
    pub(super) fn crossed(&self, other: &Self, generator: &mut Generator) -> Self {
        let mut take = || generator.below(2) == 0;
        let image_size = if take() { self.image_size } else { other.image_size };
        let (stem, activation) =
            if take() { (self.stem, self.activation) } else { (other.stem, other.activation) };
        let mut stages = Stages::new();
        for (position, stage) in self.stages.iter().enumerate() {
            let twin = other.stages.get(position).unwrap_or(stage);
            stages.push(if take() { *stage } else { *twin });
        }
        Self { image_size, stem, activation, stages, ..*self }
    }
}
