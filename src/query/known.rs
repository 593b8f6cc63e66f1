//! [`Known`]: the state of a class of parts: its template and the groups of its rows, or that it
//! has none.

use super::{
    link::{Class, coarse, is_coarse},
    numbers::Numbers,
    table::{Group, Key},
    template::Template,
};

/// The state of a class.
pub(super) enum Known {
    Nothing,
    /// A coarse class whose finer ones differ.
    Split,
    /// No template, or one that disagreed.
    Irregular,
    Template(Lookup),
}

/// Where a class's rows are.
pub(super) struct Lookup {
    pub(super) template: Template,
    /// Groups, each with the bits it depends on.
    pub(super) groups: Vec<(Group, u128)>,
}

impl Lookup {
    /// The rows of a part with these numbers.
    pub(super) fn keys(&self, Numbers(bits): Numbers) -> impl Iterator<Item = Key> {
        self.groups.iter().map(move |&(group, mask)| Key { group, numbers: Numbers(bits & mask) })
    }
}

/// What is known of a class, or of the coarse one where that is enough; and which of them it is.
pub(super) fn known_of(classes: &[Known], class: Class) -> (Class, &Known) {
    let whole = coarse(class);
    match &classes[usize::from(whole)] {
        Known::Split => (class, &classes[usize::from(class)]),
        known => (whole, known),
    }
}

/// What becomes of a class whose template is missing or wrong: the finer ones have their turn,
/// where there are any.
pub(super) fn unlearned(class: Class) -> Known {
    if is_coarse(class) { Known::Split } else { Known::Irregular }
}
