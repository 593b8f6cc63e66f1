//! Architectures of FBNet's space (Wu et al., CVPR 2019) at 32 x 32, as HW-NAS-Bench times them: a
//! stem, 22 blocks with nine choices each, and a head.

use super::layer::{Layer, LayerKind as Kind, Shape};

const IMAGE: Shape = [3, 32, 32];
const STEM: usize = 16;
const HEAD: usize = 1504;
const CLASSES: usize = 100;

/// Channels out of each block and its stride.
const BLOCKS: [(usize, usize); 22] = [
    (16, 1),
    (24, 1),
    (24, 1),
    (24, 1),
    (24, 1),
    (32, 2),
    (32, 1),
    (32, 1),
    (32, 1),
    (64, 2),
    (64, 1),
    (64, 1),
    (64, 1),
    (112, 1),
    (112, 1),
    (112, 1),
    (112, 1),
    (184, 2),
    (184, 1),
    (184, 1),
    (184, 1),
    (352, 1),
];

/// Kernel, expansion and groups of each choice; the last one is a skip connection.
const CHOICES: [Option<(usize, usize, usize)>; 9] = [
    Some((3, 1, 1)),
    Some((3, 1, 2)),
    Some((3, 3, 1)),
    Some((3, 6, 1)),
    Some((5, 1, 1)),
    Some((5, 1, 2)),
    Some((5, 3, 1)),
    Some((5, 6, 1)),
    None,
];

/// The layers of an architecture, given the choice of each block; `None` where they are not 22
/// choices among nine.
pub(super) fn layers(choices: &[usize]) -> Option<Vec<Layer>> {
    if choices.len() != BLOCKS.len() {
        return None;
    }
    let stem = Layer::convolution(IMAGE, STEM, 3, 1);
    let mut shape = stem.output;
    let mut layers = vec![stem, Layer::same(Kind::Rectifier, shape)];
    for ((channels, stride), choice) in BLOCKS.into_iter().zip(choices) {
        let output = [channels, shape[1] / stride, shape[2] / stride];
        match CHOICES.get(*choice)? {
            Some(of) => layers.extend(inverted_residual(shape, output, stride, *of)),
            None if shape == output => {}
            None => layers.extend([
                Layer::convolution(shape, channels, 1, stride),
                Layer::same(Kind::Rectifier, output),
            ]),
        }
        shape = output;
    }
    layers.extend(head(shape));
    Some(layers)
}

fn inverted_residual(
    input: Shape,
    output: Shape,
    stride: usize,
    (kernel, expansion, groups): (usize, usize, usize),
) -> Vec<Layer> {
    let grouped = |layer: Layer| Layer { groups, ..layer };
    let wide = input[0] * expansion;
    let expand = grouped(Layer::convolution(input, wide, 1, 1));
    let expanded = expand.output;
    let depthwise = Layer { groups: wide, ..Layer::convolution(expanded, wide, kernel, stride) };
    let filtered = depthwise.output;
    let mut layers = vec![expand, Layer::same(Kind::Rectifier, expanded)];
    if groups > 1 {
        layers.push(Layer::same(Kind::ChannelShuffle, expanded));
    }
    layers.extend([
        depthwise,
        Layer::same(Kind::Rectifier, filtered),
        grouped(Layer::convolution(filtered, output[0], 1, 1)),
    ]);
    if input == output {
        layers.push(Layer::same(Kind::Add, output));
    }
    layers
}

fn head(input: Shape) -> [Layer; 4] {
    let convolution = Layer::convolution(input, HEAD, 1, 1);
    let shape = convolution.output;
    let pooled = [HEAD, 1, 1];
    let pool =
        Layer { output: pooled, kernel: shape[1], ..Layer::same(Kind::GlobalAveragePool, shape) };
    let classifier = Layer { output: [CLASSES, 1, 1], ..Layer::same(Kind::Classifier, pooled) };
    [convolution, Layer::same(Kind::Rectifier, shape), pool, classifier]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_skips_by_hand() {
        let skips = layers(&[8; 22]).expect("an architecture");
        let pointwise = skips.iter().filter(|l| l.kind == Kind::Convolution && l.kernel == 1);
        assert_eq!(pointwise.count(), 7, "six blocks change the shape, and the head");
        assert_eq!(skips.len(), 2 + 6 * 2 + 4);
        assert_eq!(layers(&[8; 21]), None);
        assert_eq!(layers(&[9; 22]), None);
    }
}
