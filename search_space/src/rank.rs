//! Numbers the architectures of a space: [`Space::nth`] gives the architecture of a number, so that
//! a range of numbers is a part of the space, without a list of it.
//!
//! A number is read digit by digit, the last choice first, in a mixed radix: the number of values
//! of each choice. Neighbours differ in the last choices, so that a range shares most operators.

use crate::{Architecture, Space};

/// What is left of a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rank(pub u128);

impl Rank {
    /// Takes off one digit: a number below `radix`.
    pub fn digit(&mut self, radix: u128) -> u128 {
        let radix = radix.max(1);
        let digit = self.0 % radix;
        self.0 /= radix;
        digit
    }

    /// Takes off the choice of one of several values; of a list that a checked space holds, so
    /// never an empty one.
    pub fn one_of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.digit(from.len() as u128) as usize]
    }

    /// Which of several groups the number falls into, by their sizes; what is left is the number
    /// within the group.
    pub fn group(&mut self, sizes: impl IntoIterator<Item = u128>) -> Option<usize> {
        for (index, size) in sizes.into_iter().enumerate() {
            if self.0 < size {
                return Some(index);
            }
            self.0 -= size;
        }
        None
    }
}

impl Space {
    /// The architecture with this number, from 0 to below [`Space::size`]; `None` beyond, and in a
    /// space whose size saturates. Each architecture has one number.
    ///
    /// ```
    /// use vitempo_search_space::Space;
    ///
    /// let space = Space::named("isotropic-vit")?;
    /// assert_ne!(space.nth(0), space.nth(1));
    /// assert_eq!(space.nth(space.size()), None);
    /// # Ok::<(), vitempo_search_space::SpaceError>(())
    /// ```
    #[must_use]
    pub fn nth(&self, number: u128) -> Option<Architecture> {
        let size = self.size();
        (number < size && size < u128::MAX).then(|| self.nth_of_family(Rank(number))).flatten()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Generator, Space};
    use std::collections::HashSet;

    /// Small spaces of each family, with every kind of choice.
    fn small() -> [Space; 3] {
        let change = |name: &str, changes: &[(&str, &str)]| {
            let mut text = Space::toml(name).expect("a space").to_owned();
            for (from, to) in changes {
                assert!(text.contains(from), "{name}: {from}");
                text = text.replace(from, to);
            }
            Space::parse("small", &text).expect("a space")
        };
        [
            change(
                "hybrid-vit",
                &[
                    ("{ min = 2, max = 4 }", "[5, 6]"),
                    ("[224, 256, 288, 384]", "[256, 384]"),
                    ("{ min = 256, max = 768, step = 8 }", "[256, 400, 768]"),
                    ("{ min = 384, max = 1024, step = 8 }", "[384, 512, 1024]"),
                    ("[1, 3, 5, 7]", "[3, 5]"),
                    ("{ min = 1, max = 4 }", "[4]"),
                    ("[\"batch_norm\", \"layer_norm\"]", "[\"layer_norm\"]"),
                    ("{ max = 12, min_channels = 16 }", "{ max = 4, min_channels = 100 }"),
                ],
            ),
            change(
                "isotropic-vit",
                &[("min = 128, max = 768, step = 32", "min = 128, max = 192, step = 64")],
            ),
            change(
                "mbconv",
                &[
                    ("{ min = 128, max = 224, step = 16 }", "[160, 224]"),
                    ("{ min = 2, max = 4 }", "{ min = 1, max = 2 }"),
                    ("[3, 5, 7]", "[3]"),
                    ("[3, 4, 6]", "[3, 6]"),
                    ("[\"hard_swish\"]", "[\"relu\", \"silu\"]"),
                    ("channels = [160, 192]", "channels = [160]"),
                    ("channels = [40, 48]", "channels = [40]"),
                    ("channels = [112, 136]", "channels = [136]"),
                    ("channels = [80, 96]", "channels = [80]"),
                ],
            ),
        ]
    }

    #[test]
    fn numbers_count_a_space_without_gaps_or_repetitions() {
        for space in small() {
            let size = space.size();
            assert!((1000..3_000_000).contains(&size), "{}: {size}", space.name());
            let all: HashSet<_> = (0..size).map(|n| space.nth(n).expect("a member")).collect();
            assert_eq!(all.len() as u128, size, "{}", space.name());
            assert!(all.iter().all(|architecture| space.includes(architecture)));
            assert_eq!(space.nth(size), None);
        }
    }

    #[test]
    fn numbers_of_large_spaces_are_members_that_differ() {
        let mut generator = Generator::new(5);
        for name in Space::names() {
            let space = Space::named(name).expect("a space");
            let mut number = || {
                let high = u128::from(generator.bits()) << 64;
                (high | u128::from(generator.bits())) % space.size()
            };
            let numbers: HashSet<u128> = (0..2000).map(|_| number()).collect();
            let found: HashSet<_> =
                numbers.iter().map(|&n| space.nth(n).expect("a member")).collect();
            assert!(found.len() == numbers.len() && found.iter().all(|a| space.includes(a)));
            assert!(space.nth(space.size() - 1).is_some() && space.nth(u128::MAX).is_none());
        }
    }
}
