//! [`Instructions`]: which vector instructions the kernels run with, chosen at run time.
//!
//! Kernels sum in as many lanes as a register has, with fused multiply-adds where the processor has
//! them. Cosine similarities therefore differ between instruction sets by rounding alone: by less
//! than [`TOLERANCE`] for up to 4096 features. Portable code is compiled for the target's baseline
//! (NEON on 64-bit Arm).

/// Most difference between the cosine similarities that two sets of instructions give.
pub const TOLERANCE: f32 = 1e-5;

/// A set of vector instructions that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instructions(pub(crate) Set);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// 512 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every processor of the target has.
    Portable,
}

impl Instructions {
    /// What every processor of the target has.
    pub const PORTABLE: Self = Self(Set::Portable);

    /// All that this processor has, the widest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            all.extend(
                (avx2
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw"))
                .then_some(Self(Set::Avx512)),
            );
            all.extend(avx2.then_some(Self(Set::Avx2)));
        }
        all.push(Self::PORTABLE);
        all
    }

    /// The widest that this processor has.
    #[must_use]
    pub fn best() -> Self {
        Self::available().first().copied().unwrap_or(Self::PORTABLE)
    }

    /// The name as people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "AVX2",
            Set::Portable => "portable",
        }
    }
}
