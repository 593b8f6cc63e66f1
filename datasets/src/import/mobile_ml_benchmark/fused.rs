//! The operators that a GPU kernel fuses, from its name:
//! `convolution_2d_16_linked_:_add_17_linked_:_relu_18` adds a residual and ends in a ReLU.

use vitempo_graph::{Attribute, Attributes};

/// Names of activations in kernels' names, and vitempo's.
const ACTIVATIONS: [(&str, &str); 9] = [
    ("relu6", "clip"),
    ("relu", "relu"),
    ("sigmoid", "sigmoid"),
    ("hard_swish", "hard_swish"),
    ("tanh", "tanh"),
    ("gelu", "gelu"),
    ("elu", "elu"),
    ("prelu", "prelu"),
    ("clip", "clip"),
];

/// Attributes `activation` and `residual` of a convolution or matrix product.
pub(super) fn attributes(kernel: &str) -> Attributes {
    let mut attributes = Attributes::new();
    for part in kernel.split("_linked_:_").skip(1) {
        let name = part.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
        if name == "add" {
            attributes.set("residual", Attribute::Int(1));
        } else if let Some((_, activation)) = ACTIVATIONS.iter().find(|(known, _)| *known == name) {
            attributes.set("activation", Attribute::Text((*activation).to_owned()));
        }
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_fused() {
        assert_eq!(attributes("convolution_winograd_4x4_6x6_1"), Attributes::new());
        let linked = attributes("convolution_2d_16_linked_:_add_17_linked_:_relu_18");
        assert_eq!((linked.int("residual"), linked.text("activation")), (Some(1), Some("relu")));
        assert_eq!(
            attributes("fully_connected_8_linked_:_hard_swish_9_linked_:_mul_10")
                .text("activation"),
            Some("hard_swish")
        );
    }
}
