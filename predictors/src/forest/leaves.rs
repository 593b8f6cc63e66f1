//! Adds the value of each leaf to the rows that reach it.

use super::thresholds::Mask;

/// Leaves of a small tree: their values fit four vector registers of 512 bits.
pub(super) const FEW: usize = 32;
/// Most leaves of a tree whose leaves are numbered in a byte.
pub(super) const MANY: usize = 128;
/// Bits of the number of a leaf.
const BITS: usize = MANY.ilog2() as usize;

/// The bits of a byte as eight bytes.
const SPREAD: [u64; 256] = {
    let mut spread = [0; 256];
    let mut i = 0;
    while i < 256 * 8 {
        spread[i / 8] |= ((i as u64 / 8) >> (i % 8) & 1) << (8 * (i % 8));
        i += 1;
    }
    spread
};

/// Per bit of the number of a leaf, the rows whose leaf has it; `reached[l]` are the rows in leaf
/// `l`. Overwrites `reached`.
#[inline(always)]
pub(super) fn numbers<const N: usize>(reached: &mut [Mask<N>], leaves: usize) -> [Mask<N>; BITS] {
    let mut planes = [[0; N]; BITS];
    let mut width = leaves.next_power_of_two();
    for plane in &mut planes {
        if width < 2 {
            break;
        }
        width /= 2;
        let mut odd = [0; N];
        for pair in 0..width {
            let (even_rows, odd_rows) = (reached[2 * pair], reached[2 * pair + 1]);
            for w in 0..N {
                odd[w] |= odd_rows[w];
                reached[pair][w] = even_rows[w] | odd_rows[w];
            }
        }
        *plane = odd;
    }
    planes
}

/// Adds to the first `rows` rows of each word, and perhaps to others, the value of their leaf.
#[inline(always)]
pub(super) fn add<const N: usize, const L: usize>(
    planes: &[Mask<N>; BITS],
    values: &[f64; L],
    rows: usize,
    sums: &mut [[f64; 64]; N],
) {
    for (word, sums) in sums.iter_mut().enumerate() {
        for (byte, sums) in
            sums.as_chunks_mut::<8>().0.iter_mut().take(rows.div_ceil(8)).enumerate()
        {
            let spread =
                |bit: usize| SPREAD[(planes[bit][word] >> (8 * byte)) as usize & 255] << bit;
            let numbers = (0..L.ilog2() as usize).map(spread).fold(0, |a, b| a | b).to_le_bytes();
            for (sum, leaf) in sums.iter_mut().zip(numbers) {
                *sum += values[usize::from(leaf) % L];
            }
        }
    }
}

/// The same for small trees: looked up in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn add_avx512<const N: usize>(
    planes: &[Mask<N>; BITS],
    values: &[f64; FEW],
    rows: usize,
    sums: &mut [[f64; 64]; N],
) {
    use std::arch::x86_64::*;
    // SAFETY: eight numbers from each of four places in 32.
    let table: [__m512d; 4] =
        std::array::from_fn(|i| unsafe { _mm512_loadu_pd(values[8 * i..8 * i + 8].as_ptr()) });
    let [ones, twos, fours, eights, sixteens, ..] = planes;
    for (word, sums) in sums.iter_mut().enumerate() {
        let numbers = _mm512_maskz_set1_epi8(ones[word], 1);
        let numbers = _mm512_mask_add_epi8(numbers, twos[word], numbers, _mm512_set1_epi8(2));
        let numbers = _mm512_mask_add_epi8(numbers, fours[word], numbers, _mm512_set1_epi8(4));
        let numbers = _mm512_mask_add_epi8(numbers, eights[word], numbers, _mm512_set1_epi8(8));
        let mut bytes = [0u8; 64];
        // SAFETY: 64 bytes.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), numbers) };
        let upper = sixteens[word].to_le_bytes();
        for ((numbers, sums), upper) in bytes
            .as_chunks::<8>()
            .0
            .iter()
            .zip(sums.as_chunks_mut::<8>().0)
            .zip(upper)
            .take(rows.div_ceil(8))
        {
            let numbers = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(i64::from_le_bytes(*numbers)));
            let low = _mm512_permutex2var_pd(table[0], numbers, table[1]);
            let high = _mm512_permutex2var_pd(table[2], numbers, table[3]);
            let leaves = _mm512_mask_blend_pd(upper, low, high);
            // SAFETY: `sums` are eight numbers.
            unsafe {
                _mm512_storeu_pd(
                    sums.as_mut_ptr(),
                    _mm512_add_pd(_mm512_loadu_pd(sums.as_ptr()), leaves),
                );
            };
        }
    }
}
