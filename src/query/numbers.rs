//! [`Numbers`]: the numbers of the encoding that the kernels of one part depend on, in 128 bits;
//! and [`Quantity`], one term of a kernel's shape.

use vitempo_search_space::mbconv::squeezed;

/// One number of a part or of what it reads. `First` and `Second` are expansion and kernel,
/// heads and reduction, or heads and patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Atom {
    ChannelsBefore,
    HeightBefore,
    WidthBefore,
    Channels,
    Height,
    Width,
    First,
    Second,
    MlpRatio,
}

/// Every atom, in the order of their bits.
pub(super) const ATOMS: [Atom; 9] = [
    Atom::ChannelsBefore,
    Atom::HeightBefore,
    Atom::WidthBefore,
    Atom::Channels,
    Atom::Height,
    Atom::Width,
    Atom::First,
    Atom::Second,
    Atom::MlpRatio,
];

/// First bit of each atom, and the end.
const BITS: [u32; 10] = [0, 16, 32, 48, 64, 80, 96, 104, 112, 120];

impl Atom {
    /// The bits it takes.
    pub(super) const fn mask(self) -> u128 {
        let (from, to) = (BITS[self as usize], BITS[self as usize + 1]);
        ((1 << (to - from)) - 1) << from
    }
}

/// All atoms of one part; those that do not matter may be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Numbers(pub u128);

impl Numbers {
    /// From the features read (channels, height, width), the part's own, and two numbers of
    /// its mixer or patches and the MLP ratio.
    pub(super) fn new(before: [u16; 3], own: [u16; 3], choices: [u8; 3]) -> Self {
        let wide = before.into_iter().chain(own).map(u128::from);
        let values = wide.chain(choices.into_iter().map(u128::from));
        Self(values.zip(BITS).fold(0, |bits, (value, from)| bits | value << from))
    }

    pub(super) fn get(self, atom: Atom) -> i64 {
        ((self.0 & atom.mask()) >> BITS[atom as usize]) as i64
    }
}

/// Something that extents, groups and windows of kernels are products of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Quantity {
    One,
    Channels,
    ChannelsBefore,
    Height,
    Width,
    HeightBefore,
    WidthBefore,
    /// Pixels of a stage.
    Tokens,
    TokensBefore,
    MlpChannels,
    /// Channels between the pointwise convolutions of a separable one.
    MixerChannels,
    Kernel,
    HalfKernel,
    /// Height and width with the border that a depthwise kernel needs.
    HeightBordered,
    WidthBordered,
    Heads,
    HeadChannels,
    Reduction,
    HeightReduced,
    WidthReduced,
    TokensReduced,
    /// Pixels and a class token.
    TokensAndOne,
    /// Channels up to a whole block of 16 or 8.
    ChannelsBy16,
    ChannelsBeforeBy16,
    MlpChannelsBy16,
    MixerChannelsBy16,
    ChannelsBy8,
    ChannelsBeforeBy8,
    MlpChannelsBy8,
    MixerChannelsBy8,
    /// Channels inside of an inverted residual: those it reads times its expansion.
    HiddenChannels,
    HiddenChannelsBy16,
    HiddenChannelsBy8,
    /// Channels inside of its squeeze-and-excitation module.
    Squeezed,
    SqueezedBy16,
    SqueezedBy8,
    /// Height and width of what is read, with the border that a depthwise kernel needs.
    HeightBeforeBordered,
    WidthBeforeBordered,
}

use Quantity as Q;

const SHARED: [Quantity; 16] = [
    Q::One,
    Q::Channels,
    Q::ChannelsBefore,
    Q::Height,
    Q::Width,
    Q::HeightBefore,
    Q::WidthBefore,
    Q::Tokens,
    Q::TokensBefore,
    Q::MlpChannels,
    Q::ChannelsBy16,
    Q::ChannelsBeforeBy16,
    Q::MlpChannelsBy16,
    Q::ChannelsBy8,
    Q::ChannelsBeforeBy8,
    Q::MlpChannelsBy8,
];
const OF_CONVOLUTION: [Quantity; 7] = [
    Q::MixerChannels,
    Q::Kernel,
    Q::HalfKernel,
    Q::HeightBordered,
    Q::WidthBordered,
    Q::MixerChannelsBy16,
    Q::MixerChannelsBy8,
];
const OF_ATTENTION: [Quantity; 6] =
    [Q::Heads, Q::HeadChannels, Q::Reduction, Q::HeightReduced, Q::WidthReduced, Q::TokensReduced];
/// Of an isotropic vision transformer: `Kernel` is the patch.
const OF_ISOTROPIC: [Quantity; 4] = [Q::Heads, Q::HeadChannels, Q::TokensAndOne, Q::Kernel];

/// Of a stem or an inverted residual.
const OF_MBCONV: [Quantity; 12] = [
    Q::HiddenChannels,
    Q::Kernel,
    Q::HalfKernel,
    Q::Squeezed,
    Q::HeightBordered,
    Q::WidthBordered,
    Q::HeightBeforeBordered,
    Q::WidthBeforeBordered,
    Q::HiddenChannelsBy16,
    Q::SqueezedBy16,
    Q::HiddenChannelsBy8,
    Q::SqueezedBy8,
];

impl Quantity {
    /// Those that a stem or an inverted residual has, the plainest first.
    pub(super) fn of_mbconv() -> Vec<Self> {
        let own = SHARED.into_iter().filter(|q| q.mask() & Atom::MlpRatio.mask() == 0);
        own.chain(OF_MBCONV).collect()
    }

    /// Those that a stage of attention has, the plainest first.
    pub(super) fn of_attention() -> Vec<Self> {
        [&SHARED[..], &OF_ATTENTION].concat()
    }

    /// Those that a stage of separable convolution has, the plainest first.
    pub(super) fn of_convolution() -> Vec<Self> {
        [&SHARED[..], &OF_CONVOLUTION].concat()
    }

    /// Those that an isotropic vision transformer has, the plainest first.
    pub(super) fn of_isotropic() -> Vec<Self> {
        [&SHARED[..], &OF_ISOTROPIC].concat()
    }

    /// Its value; 0 where the numbers it comes from are not there.
    pub(super) fn of(self, numbers: Numbers) -> i64 {
        let get = |atom| numbers.get(atom);
        let over = |atom, by| get(atom).checked_div(get(by)).unwrap_or(0);
        let up_to = |value: i64, block: i64| (value + block - 1) / block * block;
        let border = |atom| get(atom) + get(Atom::Second) - 1;
        match self {
            Q::One => 1,
            Q::Channels => get(Atom::Channels),
            Q::ChannelsBefore => get(Atom::ChannelsBefore),
            Q::Height => get(Atom::Height),
            Q::Width => get(Atom::Width),
            Q::HeightBefore => get(Atom::HeightBefore),
            Q::WidthBefore => get(Atom::WidthBefore),
            Q::Tokens => get(Atom::Height) * get(Atom::Width),
            Q::TokensBefore => get(Atom::HeightBefore) * get(Atom::WidthBefore),
            Q::MlpChannels => get(Atom::Channels) * get(Atom::MlpRatio),
            Q::MixerChannels => get(Atom::Channels) * get(Atom::First),
            Q::Kernel | Q::Reduction => get(Atom::Second),
            Q::HalfKernel => get(Atom::Second) / 2,
            Q::HeightBordered => border(Atom::Height),
            Q::WidthBordered => border(Atom::Width),
            Q::Heads => get(Atom::First),
            Q::HeadChannels => over(Atom::Channels, Atom::First),
            Q::HeightReduced => over(Atom::Height, Atom::Second),
            Q::WidthReduced => over(Atom::Width, Atom::Second),
            Q::TokensReduced => Q::HeightReduced.of(numbers) * Q::WidthReduced.of(numbers),
            Q::TokensAndOne => Q::Tokens.of(numbers) + 1,
            Q::ChannelsBy16 => up_to(get(Atom::Channels), 16),
            Q::ChannelsBeforeBy16 => up_to(get(Atom::ChannelsBefore), 16),
            Q::MlpChannelsBy16 => up_to(Q::MlpChannels.of(numbers), 16),
            Q::MixerChannelsBy16 => up_to(Q::MixerChannels.of(numbers), 16),
            Q::ChannelsBy8 => up_to(get(Atom::Channels), 8),
            Q::ChannelsBeforeBy8 => up_to(get(Atom::ChannelsBefore), 8),
            Q::MlpChannelsBy8 => up_to(Q::MlpChannels.of(numbers), 8),
            Q::MixerChannelsBy8 => up_to(Q::MixerChannels.of(numbers), 8),
            Q::HiddenChannels => get(Atom::ChannelsBefore) * get(Atom::First),
            Q::HiddenChannelsBy16 => up_to(Q::HiddenChannels.of(numbers), 16),
            Q::HiddenChannelsBy8 => up_to(Q::HiddenChannels.of(numbers), 8),
            Q::Squeezed => squeezed(Q::HiddenChannels.of(numbers) as usize) as i64,
            Q::SqueezedBy16 => up_to(Q::Squeezed.of(numbers), 16),
            Q::SqueezedBy8 => up_to(Q::Squeezed.of(numbers), 8),
            Q::HeightBeforeBordered => border(Atom::HeightBefore),
            Q::WidthBeforeBordered => border(Atom::WidthBefore),
        }
    }

    /// The bits of the atoms it comes from.
    pub(super) fn mask(self) -> u128 {
        let atoms: &[Atom] = match self {
            Q::One => &[],
            Q::Channels | Q::ChannelsBy16 | Q::ChannelsBy8 => &[Atom::Channels],
            Q::ChannelsBefore | Q::ChannelsBeforeBy16 | Q::ChannelsBeforeBy8 => {
                &[Atom::ChannelsBefore]
            }
            Q::Height => &[Atom::Height],
            Q::Width => &[Atom::Width],
            Q::HeightBefore => &[Atom::HeightBefore],
            Q::WidthBefore => &[Atom::WidthBefore],
            Q::Tokens | Q::TokensAndOne => &[Atom::Height, Atom::Width],
            Q::TokensBefore => &[Atom::HeightBefore, Atom::WidthBefore],
            Q::MlpChannels | Q::MlpChannelsBy16 | Q::MlpChannelsBy8 => {
                &[Atom::Channels, Atom::MlpRatio]
            }
            Q::MixerChannels | Q::MixerChannelsBy16 | Q::MixerChannelsBy8 | Q::HeadChannels => {
                &[Atom::Channels, Atom::First]
            }
            Q::Kernel | Q::HalfKernel | Q::Reduction => &[Atom::Second],
            Q::HeightBordered | Q::HeightReduced => &[Atom::Height, Atom::Second],
            Q::WidthBordered | Q::WidthReduced => &[Atom::Width, Atom::Second],
            Q::TokensReduced => &[Atom::Height, Atom::Width, Atom::Second],
            Q::Heads => &[Atom::First],
            Q::HiddenChannels
            | Q::HiddenChannelsBy16
            | Q::HiddenChannelsBy8
            | Q::Squeezed
            | Q::SqueezedBy16
            | Q::SqueezedBy8 => &[Atom::ChannelsBefore, Atom::First],
            Q::HeightBeforeBordered => &[Atom::HeightBefore, Atom::Second],
            Q::WidthBeforeBordered => &[Atom::WidthBefore, Atom::Second],
        };
        atoms.iter().fold(0, |mask, atom| mask | atom.mask())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Numbers {
        Numbers::new([24, 56, 72], [88, 28, 36], [4, 7, 3])
    }

    #[test]
    fn atoms_come_back_and_do_not_overlap() {
        let values = ATOMS.map(|atom| numbers().get(atom));
        assert_eq!(values, [24, 56, 72, 88, 28, 36, 4, 7, 3]);
        let widest = Numbers::new([u16::MAX; 3], [u16::MAX; 3], [u8::MAX; 3]);
        assert_eq!(ATOMS.iter().map(|a| a.mask().count_ones()).sum::<u32>(), widest.0.count_ones());
    }

    #[test]
    fn quantities_need_the_atoms_they_name_and_no_others() {
        let every = [
            Quantity::of_convolution(),
            Quantity::of_attention(),
            Quantity::of_isotropic(),
            Quantity::of_mbconv(),
        ];
        for quantity in every.concat() {
            let all = quantity.of(numbers());
            assert_eq!(quantity.of(Numbers(numbers().0 & quantity.mask())), all, "{quantity:?}");
            for atom in ATOMS.into_iter().filter(|a| a.mask() & quantity.mask() != 0) {
                assert_ne!(
                    quantity.of(Numbers(numbers().0 & quantity.mask() & !atom.mask())),
                    all,
                    "{quantity:?} without {atom:?}"
                );
            }
        }
        assert_eq!(
            [Q::MixerChannelsBy16, Q::TokensReduced, Q::HeadChannels, Q::HalfKernel]
                .map(|q| q.of(numbers())),
            [352, 20, 22, 3]
        );
    }
}
