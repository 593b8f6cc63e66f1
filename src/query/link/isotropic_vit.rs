//! The parts of an isotropic vision transformer: the whole of it, with fewer blocks.
//!
//! All blocks are equal, and inner blocks have equal neighbours. With K(d) the kernels of the
//! architecture with d blocks, an architecture of d > 3 blocks runs K(3) + (d - 3) (K(3) - K(2)),
//! as long as no fusion extends beyond the next block.

use super::{Class, Form, Link, Window, depths};
use crate::query::numbers::Numbers;
use vitempo_search_space::{
    Activation, Norm,
    isotropic_vit::{Architecture, Pooling},
};

/// An architecture of at most three blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part(Architecture);

impl Part {
    pub(super) fn class(&self) -> Class {
        let Self(a) = self;
        Form {
            attention: true,
            layer_norm: a.norm == Norm::LayerNorm,
            silu: a.activation == Activation::Silu,
            channels: a.channels,
            one_head: a.heads == 1,
            other_tokens: a.pooling == Pooling::ClassToken,
            depth: a.depth,
            before: 0,
        }
        .class()
    }

    pub(super) fn window(&self) -> Window {
        Window { plus: self.0.into(), minus: None }
    }
}

/// The parts of an architecture, each with how often it counts.
pub(super) fn links(a: Architecture) -> impl Iterator<Item = (Link, i64)> {
    let numbers = Numbers::new(
        [a.input_channels, a.image_size, a.image_size],
        [a.channels, a.grid(), a.grid()],
        [a.heads, a.patch_size, a.mlp_ratio],
    );
    depths(a.depth).map(move |(depth, times)| {
        let part = super::Part::IsotropicVit(Part(Architecture { depth, ..a }));
        (Link { numbers, part }, times)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{CLASSES, links};
    use vitempo_search_space::{Architecture, Space};

    #[test]
    fn every_architecture_is_a_sum_of_two_shallow_ones() {
        let space = Space::named("isotropic-vit").expect("a space");
        for architecture in space.sample_many(300, 3).expect("architectures") {
            let Architecture::IsotropicVit(a) = architecture else { panic!("{architecture}") };
            let mut depth = 0;
            for (link, times) in links(&architecture) {
                let window = link.window(&architecture).expect("a window");
                assert!(window.minus.is_none() && window.plus.check().is_ok());
                assert!(usize::from(link.class()) < CLASSES);
                let Architecture::IsotropicVit(mut shallow) = window.plus else {
                    panic!("{}", window.plus)
                };
                depth += times * i64::from(shallow.depth);
                shallow.depth = a.depth;
                assert_eq!(shallow, a);
            }
            assert_eq!(depth, i64::from(a.depth));
        }
    }
}
