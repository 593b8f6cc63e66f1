//! Shapes from features. Images are given by one side and the channels, tokens by their number and
//! width, other tensors by all their extents.
//!
//! vitempo writes shapes channels first; TensorFlow Lite's tensors of four dimensions have their
//! channels last.

use super::{conventions::Framework, features::Features};

const CHANNELS_IN: &[&str] = &["input_channel", "in_channels", "input_channels"];
const SIDE_IN: &[&str] = &["input_shape", "input_size_hw"];
const SIDE_OUT: &[&str] = &["output_shape"];

/// The channels that go in.
pub(super) fn channels_in(features: &Features) -> Option<usize> {
    features.size(CHANNELS_IN)
}

/// Height and width of the input image and of the output image.
pub(super) fn sides(
    features: &Features,
    framework: Framework,
) -> (Option<[usize; 2]>, Option<[usize; 2]>) {
    let side = |names| match channels_first(features.sizes(names)?, framework).as_slice() {
        [side] => Some([*side, *side]),
        [height, width] | [_, _, height, width] => Some([*height, *width]),
        _ => None,
    };
    (side(SIDE_IN), side(SIDE_OUT))
}

/// Shape of the input tensor.
pub(super) fn input(features: &Features, framework: Framework) -> Option<Vec<usize>> {
    tensor(features, SIDE_IN, channels_in(features), framework)
}

/// Shape of the output tensor, where all its extents are given.
pub(super) fn output(features: &Features, framework: Framework) -> Option<Vec<usize>> {
    let extents = features.sizes(SIDE_OUT)?;
    (extents.len() > 2).then(|| channels_first(extents, framework))
}

/// Every tensor given by all its extents, inputs only, in the order of their names: the operands of
/// a product.
pub(super) fn operands(features: &Features, framework: Framework) -> Vec<Vec<usize>> {
    let given = features.iter().filter(|(name, _)| name.contains("shape") && !name.contains("out"));
    let sizes = given.filter_map(|(name, _)| features.sizes(&[name]));
    sizes
        .filter(|extents| extents.len() > 1)
        .map(|extents| channels_first(extents, framework))
        .collect()
}

fn tensor(
    features: &Features,
    names: &[&str],
    channels: Option<usize>,
    framework: Framework,
) -> Option<Vec<usize>> {
    let extents = features.sizes(names);
    match (extents.as_deref(), channels) {
        (Some([side]), Some(channels)) if is_tokens(features, *side, channels) => {
            Some(vec![1, *side, channels])
        }
        (Some([side]), Some(channels)) => Some(vec![1, channels, *side, *side]),
        (Some([height, width]), Some(channels)) => Some(vec![1, channels, *height, *width]),
        (Some([width]), None) => Some(vec![1, *width]),
        (Some(extents), _) => Some(channels_first(extents.to_vec(), framework)),
        (None, Some(channels)) => Some(vec![1, channels]),
        (None, None) => None,
    }
}

/// Whether the number of elements, where it is given, is that of tokens and not that of a square
/// image.
fn is_tokens(features: &Features, length: usize, channels: usize) -> bool {
    let elements = features.size(&["input_size", "flops"]);
    length > 1 && elements.is_some() && elements == length.checked_mul(channels)
}

fn channels_first(mut extents: Vec<usize>, framework: Framework) -> Vec<usize> {
    if framework == Framework::TfLite && extents.len() == 4 {
        extents[1..].rotate_right(1);
    }
    extents
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn images_tokens_and_others() {
        let cases = [
            ("{'input_channel': 64, 'input_shape': 56, 'flops': 200704}", vec![1, 64, 56, 56]),
            ("{'input_channel': 192, 'input_shape': 197, 'input_size': 37824}", vec![1, 197, 192]),
            ("{'Input_shape': '-', 'Input_channel': 2048}", vec![1, 2048]),
            ("{'Input_shape': '[1, 14, 7, 64]'}", vec![1, 64, 14, 7]),
            ("{'Input_shape': '(12, 197, 64)'}", vec![12, 197, 64]),
            ("{'Input_shape': '14x7', 'Input_channel': 64}", vec![1, 64, 14, 7]),
        ];
        for (text, shape) in cases {
            assert_eq!(
                input(&Features::parse(text).unwrap(), Framework::TfLite),
                Some(shape),
                "{text}"
            );
        }
        let features = Features::parse("{'input_shape': [1, 14, 7, 64]}").unwrap();
        assert_eq!(input(&features, Framework::TorchMobile), Some(vec![1, 14, 7, 64]));
        assert_eq!(input(&Features::default(), Framework::TorchMobile), None);
    }
}
