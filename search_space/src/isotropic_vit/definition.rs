//! [`IsotropicVit`]: the checked contents of an isotropic space's TOML, and the check whether it
//! contains an architecture.

use super::{Architecture, Pooling};
use crate::checker::{Checker, Heads};
use crate::choices::Choices;
use crate::values::Values;
use crate::verdict::{Verdict, instead, other, other_activation, other_norm, outside};
use crate::{Activation, Norm, SpaceError};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A checked space: no list is empty.
#[derive(Clone, Debug)]
pub(crate) struct IsotropicVit {
    pub name: String,
    pub classes: u32,
    pub input_channels: u16,
    pub sizes: Values<u16>,
    pub patch_sizes: Values<u8>,
    /// Sizes of an image and of the patches that divide it.
    pub grids: Vec<(u16, u8)>,
    pub channels: Values<u16>,
    /// For each of `channels`, the numbers of heads it allows.
    pub heads: Vec<Values<u8>>,
    pub depths: Values<u8>,
    pub mlp_ratios: Values<u8>,
    pub norms: Vec<Norm>,
    pub activations: Vec<Activation>,
    pub poolings: Vec<Pooling>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    #[serde(rename = "family")]
    _family: IgnoredAny,
    name: String,
    classes: u32,
    channels: Choices,
    heads: Heads,
    depths: Choices,
    mlp_ratios: Choices,
    norms: Vec<Norm>,
    activations: Vec<Activation>,
    poolings: Vec<Pooling>,
    input: Input,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    channels: u32,
    sizes: Choices,
    patch_sizes: Choices,
}

impl IsotropicVit {
    /// Reads and checks a definition; `file` is what errors call it.
    pub(super) fn checked(file: &str, text: &str) -> Result<Self, SpaceError> {
        let check = Checker::new(file);
        let definition: Definition = check.definition(text)?;
        let channels = check.numbers("channels", &definition.channels, 1, 16_384)?;
        let sizes: Values<u16> =
            check.numbers("input.sizes", &definition.input.sizes, 1, 16_384)?;
        let patch_sizes: Values<u8> =
            check.numbers("input.patch_sizes", &definition.input.patch_sizes, 1, 255)?;
        let grids = sizes
            .iter()
            .flat_map(|&size| patch_sizes.iter().map(move |&patch| (size, patch)))
            .filter(|&(size, patch)| size.is_multiple_of(patch.into()))
            .collect::<Vec<_>>();
        let unused = |size: &&u16| grids.iter().all(|(used, _)| used != *size);
        if let Some(size) = sizes.iter().find(unused) {
            return check.refuse(
                "input.sizes",
                format!("has {size}"),
                "multiples of one of input.patch_sizes",
            );
        }
        let unused = |patch: &&u8| grids.iter().all(|(_, used)| used != *patch);
        if let Some(patch) = patch_sizes.iter().find(unused) {
            return check.refuse(
                "input.patch_sizes",
                format!("has {patch}"),
                "divisors of one of input.sizes",
            );
        }
        Ok(Self {
            name: check.name(&definition.name)?,
            classes: check.number("classes", definition.classes, 1_000_000)?,
            input_channels: check.number("input.channels", definition.input.channels, 1_024)?,
            sizes,
            patch_sizes,
            grids,
            heads: check.heads("heads", &definition.heads, &channels)?,
            channels,
            depths: check.numbers("depths", &definition.depths, 1, 64)?,
            mlp_ratios: check.numbers("mlp_ratios", &definition.mlp_ratios, 1, 64)?,
            norms: check.words("norms", &definition.norms, "batch_norm, layer_norm")?,
            activations: check.words("activations", &definition.activations, "gelu, silu")?,
            poolings: check.words("poolings", &definition.poolings, "class_token, average")?,
        })
    }

    /// Number of architectures; saturates.
    pub(super) fn count(&self) -> u128 {
        let widths: usize = self.heads.iter().map(|heads| heads.len()).sum();
        let choices = [
            self.grids.len(),
            widths,
            self.depths.len(),
            self.mlp_ratios.len(),
            self.norms.len(),
            self.activations.len(),
            self.poolings.len(),
        ];
        choices.iter().fold(1, |product: u128, &n| product.saturating_mul(n as u128))
    }

    /// The first respect in which `architecture` is outside, if there is one.
    pub(super) fn first_fault<V: Verdict>(&self, architecture: &Architecture) -> Option<V> {
        let a = architecture;
        outside("image_size", a.image_size, &self.sizes)
            .or_else(|| outside("patch_size", a.patch_size, &self.patch_sizes))
            .or_else(|| uneven(a))
            .or_else(|| other("input_channels", a.input_channels, self.input_channels))
            .or_else(|| other("classes", a.classes, self.classes))
            .or_else(|| match self.channels.position(a.channels) {
                None => outside("channels", a.channels, &self.channels),
                Some(channel) => outside("heads", a.heads, &self.heads[channel]),
            })
            .or_else(|| outside("depth", a.depth, &self.depths))
            .or_else(|| outside("mlp_ratio", a.mlp_ratio, &self.mlp_ratios))
            .or_else(|| other_norm(a.norm, &self.norms))
            .or_else(|| other_activation(a.activation, &self.activations))
            .or_else(|| match a.pooling {
                pooling if self.poolings.contains(&pooling) => None,
                Pooling::ClassToken => Some(instead("pooling", "class_token", "average")),
                Pooling::Average => Some(instead("pooling", "average", "class_token")),
            })
    }
}

/// Patches that do not divide the image.
fn uneven<V: Verdict>(a: &Architecture) -> Option<V> {
    let allowed = || format!("divisors of the image's {} pixels", a.image_size);
    let even = a.image_size.is_multiple_of(a.patch_size.into());
    (!even).then(|| V::outside("patch_size", &a.patch_size, &allowed))
}
