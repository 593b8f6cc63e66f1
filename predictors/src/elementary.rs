//! Logarithms, exponentials and powers with the same bits on every platform.
//!
//! The standard library takes them from the system, and systems differ in the last bits. Forecasts
//! go through this module, so that a browser, a phone and a server give equal ones.

/// `e` to the power of `x`.
pub(crate) fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// The natural logarithm of `x`.
pub(crate) fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// The binary logarithm of `x`.
pub(crate) fn log2(x: f64) -> f64 {
    libm::log2(x)
}

/// `x` to the power of `exponent`.
pub(crate) fn powf(x: f64, exponent: f64) -> f64 {
    libm::pow(x, exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results that systems round differently, or that FMA instructions would change.
    #[test]
    fn bits_are_those_of_every_platform() {
        let sum = (1..2000).fold([0_u64; 4], |sums, i| {
            let x = f64::from(i) * 0.0137;
            let of = [exp(x - 13.0), ln(x * 1e5), log2(x + 1.0), powf(x, 0.37)];
            std::array::from_fn(|k| sums[k].rotate_left(5) ^ of[k].to_bits())
        });
        let expected = [
            8_626_301_608_581_898_122,
            13_131_968_258_519_113_445,
            1_445_187_980_202_044_201,
            8_187_924_028_298_465_148,
        ];
        assert_eq!(sum, expected);
    }
}
