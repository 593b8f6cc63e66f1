//! [`Pool`]: parts of a space's architectures by class, from which templates are made.

use super::{
    link::{BLOCK, CLASSES, Class, Link, coarse, links},
    numbers::{ATOMS, Atom, Quantity},
};
use std::collections::BTreeSet;
use vitempo_search_space::{Architecture, Generator, Space};

/// Architectures drawn: enough that classes of one in ten thousand parts have examples.
const DRAWN: usize = 1 << 16;
/// Parts kept of each class.
const KEPT: usize = 48;
/// Examples of a template.
const EXAMPLES: usize = 8;
/// Examples that check it.
pub(super) const CHECKS: usize = 4;
const SEED: u64 = 0x7ab1e;
/// What engines pad to whole blocks: examples must show both what happens to the rest and that
/// there is none.
const PADDED: [Quantity; 4] =
    [Quantity::Channels, Quantity::ChannelsBefore, Quantity::MlpChannels, Quantity::MixerChannels];

/// Parts by class, and one architecture they are from.
pub(super) struct Pool {
    links: Vec<Vec<Link>>,
    like: Option<Architecture>,
}

impl Pool {
    /// Draws from a space; always the same.
    pub(super) fn draw(space: &Space) -> Self {
        let mut generator = Generator::new(SEED);
        let mut pool = Self { links: vec![Vec::new(); CLASSES], like: None };
        for _ in 0..DRAWN {
            let architecture = space.draw(&mut generator);
            for (link, _) in links(&architecture) {
                let class = &mut pool.links[usize::from(link.class())];
                if class.len() < KEPT && class.iter().all(|known| known.numbers != link.numbers) {
                    class.push(link);
                }
            }
            pool.like = Some(architecture);
        }
        pool
    }

    /// Parts of a class, or of all in a coarse one, that differ from each other in as much as
    /// possible, then some to check with; and an architecture with the space's channels and
    /// classes.
    pub(super) fn examples(&self, class: Class) -> (Vec<Link>, Option<Architecture>) {
        let within = |own: Class| own == class || coarse(own) == class;
        let mut rest: Vec<&Link> = self
            .links
            .iter()
            .zip(0..)
            .filter(|(_, own)| within(*own))
            .flat_map(|(links, _)| links)
            .collect();
        let mut seen: BTreeSet<(u128, i64)> = BTreeSet::new();
        let mut chosen = Vec::new();
        while chosen.len() < EXAMPLES && !rest.is_empty() {
            let numbers =
                |link: &Link| ATOMS.map(|atom: Atom| (atom.mask(), link.numbers.get(atom)));
            let whole = |link: &Link| {
                PADDED.map(|quantity| {
                    (quantity.mask() + 1, quantity.of(link.numbers) % i64::from(BLOCK))
                })
            };
            let values = |link: &Link| {
                numbers(link).into_iter().chain(whole(link)).chain([(0, i64::from(link.class()))])
            };
            let news = |link: &Link| values(link).filter(|value| !seen.contains(value)).count();
            let best =
                (0..rest.len()).max_by_key(|&i| (news(rest[i]), std::cmp::Reverse(i))).unwrap_or(0);
            let link = rest.remove(best);
            seen.extend(values(link));
            chosen.push(*link);
        }
        let every = (rest.len() / CHECKS).max(1);
        chosen.extend(rest.into_iter().step_by(every).take(CHECKS));
        (chosen, self.like)
    }
}
