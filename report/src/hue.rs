//! [`Hue`]: what a colour stands for. Equal hues have one colour in every figure of a report.
//!
//! The palette has twelve colours, each for light and dark paper: light ones are written into every
//! SVG element, dark ones come from the style sheet of the page. Marks and dashes differ as well,
//! so that no figure needs colours alone.

use super::{chart::Mark, group::Group};
use vitempo::graph::{OpFamily, OpKind};
use vitempo::predictors::Method;

/// Colours on light paper, the same as in `site/style.css`.
pub const PALETTE: [&str; 12] = [
    "#00756d", "#b4530f", "#5a4fbf", "#a3357f", "#0b5cad", "#8a6a00", "#3d7a1f", "#b3202a",
    "#5d6b76", "#7a4f2e", "#00809c", "#6b6d00",
];

/// What the colour of a series stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hue {
    /// The place of the series in a figure that stands alone.
    Place,
    /// An environment, by its number in the report.
    Environment(usize),
    /// A kind of model.
    Group(Group),
    /// An operator family.
    Family(OpFamily),
    /// A kind of activation, the most frequent first.
    Activation(usize),
    /// A way of fitting.
    Method(Method),
    /// Something to compare with: a noise floor, a limit.
    Reference,
}

/// The grey of references.
const GREY: usize = 8;

/// Activations, the most frequent first.
const ACTIVATIONS: [OpKind; 15] = [
    OpKind::Relu,
    OpKind::Gelu,
    OpKind::Silu,
    OpKind::HardSwish,
    OpKind::GeluTanh,
    OpKind::Sigmoid,
    OpKind::HardSigmoid,
    OpKind::Clip,
    OpKind::Tanh,
    OpKind::Erf,
    OpKind::LeakyRelu,
    OpKind::Elu,
    OpKind::PRelu,
    OpKind::Mish,
    OpKind::Softplus,
];

impl Hue {
    /// The hue of a kind of activation.
    pub fn activation(kind: &OpKind) -> Self {
        Self::Activation(ACTIVATIONS.iter().position(|k| k == kind).unwrap_or(ACTIVATIONS.len()))
    }

    /// The mark of points of this hue; those of one colour have different ones.
    pub fn mark(self) -> Mark {
        const MARKS: [Mark; 4] = [Mark::Cross, Mark::Dot, Mark::Triangle, Mark::Ring];
        let number = match self {
            Self::Environment(number) | Self::Activation(number) => number,
            _ => 0,
        };
        MARKS[(number + number / PALETTE.len()) % MARKS.len()]
    }

    /// The number of the colour in the palette, of the series at this place of its figure.
    pub fn colour(self, place: usize) -> usize {
        let numbered = |number: usize| number % PALETTE.len();
        match self {
            Self::Place => numbered(place),
            Self::Environment(number) | Self::Activation(number) => numbered(number),
            Self::Group(Group::Synthetic) => 0,
            Self::Group(Group::Transformer) => 1,
            Self::Group(Group::Convolutional) => 2,
            Self::Group(Group::Real) => 3,
            Self::Method(Method::Gbdt) => 4,
            Self::Method(Method::Lasso) => 5,
            Self::Method(Method::RandomForest) => 6,
            Self::Family(family) => of_family(family),
            Self::Reference => GREY,
        }
    }

    /// Whether its colour was used before, so that a dash has to distinguish the two.
    pub fn is_dashed(self, place: usize) -> bool {
        match self {
            Self::Place => place >= PALETTE.len(),
            Self::Environment(number) | Self::Activation(number) => number >= PALETTE.len(),
            Self::Reference => true,
            _ => false,
        }
    }
}

const fn of_family(family: OpFamily) -> usize {
    match family {
        OpFamily::Convolution => 4,
        OpFamily::MatrixProduct => 1,
        OpFamily::Activation => 6,
        OpFamily::Normalization => 3,
        OpFamily::Elementwise => 5,
        OpFamily::Pooling => 10,
        OpFamily::Movement => 9,
        OpFamily::Conversion => 7,
        OpFamily::Other => GREY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn classes_of_one_kind_have_colours_of_their_own() {
        let colours = |hues: Vec<Hue>| -> usize {
            hues.into_iter().map(|hue| hue.colour(0)).collect::<BTreeSet<_>>().len()
        };
        assert_eq!(colours(Group::ALL.map(Hue::Group).to_vec()), Group::ALL.len());
        assert_eq!(colours(OpFamily::ALL.map(Hue::Family).to_vec()), OpFamily::ALL.len());
        assert_eq!(colours(Method::ALL.map(Hue::Method).to_vec()), Method::ALL.len());
        assert_eq!(colours((0..12).map(Hue::Environment).collect()), 12);
        // The thirteenth has the first colour, and a dash.
        assert_eq!(Hue::Environment(12).colour(5), Hue::Environment(0).colour(9));
        assert!(Hue::Environment(12).is_dashed(0) && !Hue::Environment(0).is_dashed(12));
    }

    #[test]
    fn activations_differ_in_colour_or_mark() {
        let look = |kind: &OpKind| {
            let hue = Hue::activation(kind);
            format!("{} {:?}", hue.colour(0), hue.mark())
        };
        let looks: BTreeSet<String> = ACTIVATIONS.iter().map(look).collect();
        assert_eq!(looks.len(), ACTIVATIONS.len());
    }

    #[test]
    fn the_style_sheet_has_the_same_palette() {
        let style = include_str!("site/style.css");
        for (number, colour) in PALETTE.iter().enumerate() {
            assert!(
                style.contains(&format!(".c{number} {{ --c: light-dark({colour}, ")),
                "{colour}"
            );
        }
    }

    #[test]
    fn every_activation_is_listed() {
        for kind in OpKind::ALL.iter().filter(|k| k.family() == OpFamily::Activation) {
            assert!(ACTIVATIONS.contains(kind), "{kind}");
        }
    }
}
