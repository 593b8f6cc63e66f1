//! [`choices`]: in which single numbers a hybrid vision transformer may differ from another without
//! leaving its space, for programs in which a person changes an architecture step by step.

use vitempo_search_space::{
    Activation, Architecture, Norm, Space,
    hybrid_vit::{self, Stage, TokenMixer},
};

/// Largest number that is tried; channels and sides of images are below it.
const LARGEST: u16 = 2048;
/// Largest number that is tried for kernels, expansions, heads, reductions and ratios.
const LARGEST_SMALL: u8 = 32;

/// One choice of an architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What is chosen, e.g. `channels`.
    pub name: &'static str,
    /// The stage, counted from 1; `None` where it concerns the whole architecture.
    pub stage: Option<usize>,
    /// What it may be while all other choices stay, in rising order; at least what it is.
    pub alternatives: Vec<Alternative>,
    /// Which of them it is.
    pub current: usize,
}

/// A value of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// The value.
    pub value: String,
    /// The architecture that has it.
    pub architecture: Architecture,
}

/// The choices of an architecture of the family `hybrid-vit` that have more than one value in
/// `space`; none for other families, and for architectures outside of the space.
#[must_use]
pub fn choices(space: &Space, architecture: &Architecture) -> Vec<Choice> {
    let Architecture::HybridVit(of) = architecture else { return Vec::new() };
    let mut found = vec![
        choice("height", None, numbers(|n| hybrid_vit::Architecture { height: n, ..*of })),
        choice("width", None, numbers(|n| hybrid_vit::Architecture { width: n, ..*of })),
    ];
    for (index, stage) in of.stages.iter().enumerate() {
        let with = |changed: Stage| {
            let mut architecture = *of;
            architecture.stages[index] = changed;
            architecture
        };
        found.extend(
            of_stage(stage, with).map(|(name, values)| choice(name, Some(index + 1), values)),
        );
    }
    found.iter_mut().for_each(|choice| choice.keep(space, architecture));
    found.retain(|choice| choice.alternatives.len() > 1);
    found
}

type Values = Vec<(String, hybrid_vit::Architecture)>;

fn choice(name: &'static str, stage: Option<usize>, values: Values) -> Choice {
    let alternative = |(value, of): (String, hybrid_vit::Architecture)| Alternative {
        value,
        architecture: of.into(),
    };
    Choice { name, stage, alternatives: values.into_iter().map(alternative).collect(), current: 0 }
}

impl Choice {
    /// Keeps what is in the space, and finds the architecture itself.
    fn keep(&mut self, space: &Space, architecture: &Architecture) {
        self.alternatives.retain(|alternative| space.includes(&alternative.architecture));
        let current = self.alternatives.iter().position(|a| a.architecture == *architecture);
        match current {
            Some(current) => self.current = current,
            None => self.alternatives.clear(),
        }
    }
}

/// The choices of one stage; `with` is the architecture with the stage changed.
fn of_stage(
    stage: &Stage,
    with: impl Fn(Stage) -> hybrid_vit::Architecture,
) -> impl Iterator<Item = (&'static str, Values)> {
    let mixer = |token_mixer: TokenMixer| with(Stage { token_mixer, ..*stage });
    let mixer_choices: [(&'static str, Values); 2] = match stage.token_mixer {
        TokenMixer::SepConv { kernel, expansion } => [
            ("kernel", small(|kernel| mixer(TokenMixer::SepConv { kernel, expansion }))),
            ("expansion", small(|expansion| mixer(TokenMixer::SepConv { kernel, expansion }))),
        ],
        TokenMixer::Attention { heads, reduction } => [
            ("heads", small(|heads| mixer(TokenMixer::Attention { heads, reduction }))),
            ("reduction", small(|reduction| mixer(TokenMixer::Attention { heads, reduction }))),
        ],
    };
    let norms = [("batch norm", Norm::BatchNorm), ("layer norm", Norm::LayerNorm)];
    let activations = [("GELU", Activation::Gelu), ("SiLU", Activation::Silu)];
    let named = [
        ("channels", numbers(|channels| with(Stage { channels, ..*stage }))),
        ("mlp_ratio", small(|mlp_ratio| with(Stage { mlp_ratio, ..*stage }))),
        ("norm", norms.map(|(name, norm)| (name.into(), with(Stage { norm, ..*stage }))).into()),
        (
            "activation",
            activations
                .map(|(name, activation)| (name.into(), with(Stage { activation, ..*stage })))
                .into(),
        ),
    ];
    named.into_iter().chain(mixer_choices)
}

fn numbers(with: impl Fn(u16) -> hybrid_vit::Architecture) -> Values {
    (1..=LARGEST).map(|number| (number.to_string(), with(number))).collect()
}

fn small(with: impl Fn(u8) -> hybrid_vit::Architecture) -> Values {
    (1..=LARGEST_SMALL).map(|number| (number.to_string(), with(number))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alternative_is_in_the_space_and_differs_in_one_choice() {
        let space = Space::named("hybrid-vit").unwrap_or_else(|e| panic!("{e}"));
        for seed in 0..20 {
            let architecture = space.sample(seed);
            let found = choices(&space, &architecture);
            assert!(found.iter().any(|choice| choice.name == "height"), "{architecture}");
            for choice in &found {
                assert_eq!(choice.alternatives[choice.current].architecture, architecture);
                for alternative in &choice.alternatives {
                    assert!(space.contains(&alternative.architecture).is_ok());
                }
            }
            let heights = &found[0].alternatives;
            let heights: Vec<&str> = heights.iter().map(|a| a.value.as_str()).collect();
            assert!(
                heights.iter().all(|h| ["224", "256", "288", "384"].contains(h)),
                "{heights:?}"
            );
        }
    }

    #[test]
    fn other_families_and_outsiders_have_no_choices() {
        let hybrid = Space::named("hybrid-vit").unwrap_or_else(|e| panic!("{e}"));
        let plain = Space::named("isotropic-vit").unwrap_or_else(|e| panic!("{e}"));
        assert!(choices(&plain, &plain.sample(1)).is_empty());
        assert!(choices(&plain, &hybrid.sample(1)).is_empty());
    }
}
