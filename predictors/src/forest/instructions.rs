//! [`Instructions`]: which vector instructions a forest is evaluated with. The results are the same
//! to the last bit.

/// A set of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// 512 bits: AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every processor of the target has.
    Portable,
}

impl Instructions {
    /// All that this processor has, the widest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("popcnt");
            all.extend(avx512.then_some(Self::Avx512));
            all.extend(is_x86_feature_detected!("avx2").then_some(Self::Avx2));
        }
        all.push(Self::Portable);
        all
    }

    /// The widest that this processor has.
    #[must_use]
    pub fn best() -> Self {
        Self::available().first().copied().unwrap_or(Self::Portable)
    }
}
