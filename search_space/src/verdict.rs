//! [`Verdict`]: the result of a check whether an architecture lies in a space, with the choice that
//! does not; and the comparisons that families use.

use crate::values::Values;
use crate::{Activation, Norm};
use std::fmt::Display;

/// The result of a check: why an architecture is outside a space.
pub(crate) trait Verdict: Sized {
    fn outside(what: &str, value: &dyn Display, allowed: &dyn Fn() -> String) -> Self;

    /// The same, of a stage.
    fn of_stage(self, stage: usize) -> Self;
}

/// No reason: searches only need to know whether.
pub(crate) struct Outside;

impl Verdict for Outside {
    fn outside(_: &str, _: &dyn Display, _: &dyn Fn() -> String) -> Self {
        Self
    }

    fn of_stage(self, _: usize) -> Self {
        self
    }
}

/// The choice that is outside, as text.
pub(crate) struct Fault {
    pub what: String,
    pub value: String,
    pub allowed: String,
}

impl Verdict for Fault {
    fn outside(what: &str, value: &dyn Display, allowed: &dyn Fn() -> String) -> Self {
        Self { what: what.to_owned(), value: value.to_string(), allowed: allowed() }
    }

    fn of_stage(self, stage: usize) -> Self {
        Self { what: format!("{} of stage {stage}", self.what), ..self }
    }
}

/// One of two words where only the other is allowed.
pub(crate) fn instead<V: Verdict>(what: &str, value: &str, allowed: &str) -> V {
    V::outside(what, &value, &|| allowed.to_owned())
}

/// A number that is none of those allowed.
pub(crate) fn outside<V: Verdict, T: Copy + Into<usize> + Display>(
    what: &str,
    value: T,
    allowed: &Values<T>,
) -> Option<V> {
    let list = || allowed.iter().map(T::to_string).collect::<Vec<_>>().join(", ");
    if allowed.include(value) { None } else { Some(V::outside(what, &value, &list)) }
}

/// A value that is not the only one allowed.
pub(crate) fn other<V: Verdict, T: PartialEq + Display>(
    what: &str,
    value: T,
    allowed: T,
) -> Option<V> {
    if value == allowed { None } else { Some(V::outside(what, &value, &|| allowed.to_string())) }
}

/// A kind of normalisation that is none of those allowed.
pub(crate) fn other_norm<V: Verdict>(norm: Norm, allowed: &[Norm]) -> Option<V> {
    match norm {
        norm if allowed.contains(&norm) => None,
        Norm::BatchNorm => Some(instead("norm", "batch_norm", "layer_norm")),
        Norm::LayerNorm => Some(instead("norm", "layer_norm", "batch_norm")),
    }
}

/// An activation that is none of those allowed.
pub(crate) fn other_activation<V: Verdict>(
    activation: Activation,
    allowed: &[Activation],
) -> Option<V> {
    match activation {
        activation if allowed.contains(&activation) => None,
        Activation::Gelu => Some(instead("activation", "gelu", "silu")),
        Activation::Silu => Some(instead("activation", "silu", "gelu")),
    }
}
