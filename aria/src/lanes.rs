//! Sums over features: the loops that take time, written once over [`Lanes`] and compiled for each set of [`Instructions`](crate::Instructions).

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Rows that queries are compared with at a time.
pub(crate) const ROWS: usize = 4;

/// A register of numbers.
///
/// # Safety
/// All functions: only where the processor has the instructions of the register, and pointers to at least `COUNT` numbers.
pub(crate) trait Lanes: Copy {
    const COUNT: usize;
    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// `self * by + plus`.
    unsafe fn multiply_add(self, by: Self, plus: Self) -> Self;
    /// Sums over the numbers of four registers.
    unsafe fn totals(four: &[Self; 4]) -> [f32; 4];
}

#[cfg(target_arch = "x86_64")]
impl Lanes for __m512 {
    const COUNT: usize = 16;
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, by: Self, plus: Self) -> Self {
        unsafe { _mm512_fmadd_ps(self, by, plus) }
    }
    #[inline(always)]
    unsafe fn totals(four: &[Self; 4]) -> [f32; 4] {
        unsafe {
            let mut halves = [_mm256_setzero_ps(); 4];
            for (half, whole) in halves.iter_mut().zip(four) {
                let upper = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(*whole)));
                *half = _mm256_add_ps(_mm512_castps512_ps256(*whole), upper);
            }
            __m256::totals(&halves)
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for __m256 {
    const COUNT: usize = 8;
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm256_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, by: Self, plus: Self) -> Self {
        unsafe { _mm256_fmadd_ps(self, by, plus) }
    }
    #[inline(always)]
    unsafe fn totals(four: &[Self; 4]) -> [f32; 4] {
        unsafe {
            let pairs = [_mm256_hadd_ps(four[0], four[1]), _mm256_hadd_ps(four[2], four[3])];
            let halves = _mm256_hadd_ps(pairs[0], pairs[1]);
            let sums = _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps::<1>(halves));
            let mut out = [0.0; 4];
            _mm_storeu_ps(out.as_mut_ptr(), sums);
            out
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for __m128 {
    const COUNT: usize = 4;
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { _mm_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { _mm_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, by: Self, plus: Self) -> Self {
        unsafe { _mm_add_ps(_mm_mul_ps(self, by), plus) }
    }
    #[inline(always)]
    unsafe fn totals(four: &[Self; 4]) -> [f32; 4] {
        unsafe {
            let [mut a, mut b, mut c, mut d] = *four;
            _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
            let mut out = [0.0; 4];
            _mm_storeu_ps(out.as_mut_ptr(), _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d)));
            out
        }
    }
}

/// What every processor of the target has.
#[cfg(target_arch = "x86_64")]
pub(crate) type Portable = __m128;
/// What every processor of the target has.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) type Portable = Four;

/// Four numbers, which the compiler keeps in one register where there are some.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[derive(Clone, Copy)]
pub(crate) struct Four([f32; 4]);

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Lanes for Four {
    const COUNT: usize = 4;
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; 4])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Self(unsafe { from.cast::<[f32; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, by: Self, plus: Self) -> Self {
        let fused = cfg!(target_arch = "aarch64");
        Self(std::array::from_fn(|i| if fused { self.0[i].mul_add(by.0[i], plus.0[i]) } else { self.0[i] * by.0[i] + plus.0[i] }))
    }
    #[inline(always)]
    unsafe fn totals(four: &[Self; 4]) -> [f32; 4] {
        let mut out = [0.0; 4];
        for (out, Self([a, b, c, d])) in out.iter_mut().zip(four) {
            *out = (a + c) + (b + d);
        }
        out
    }
}

/// `fn name(instructions, arguments...)`: runs `body::<Lanes>(arguments...)`, compiled for the instructions.
macro_rules! vectorised {
    ($visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $out:ty)? = $body:ident) => {
        $visibility fn $name(instructions: $crate::Instructions, $($argument: $type),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx2,fma")]
            fn avx512($($argument: $type),*) $(-> $out)? {
                // SAFETY: this function is for the instructions that the registers need.
                unsafe { $body::<std::arch::x86_64::__m512>($($argument),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($argument: $type),*) $(-> $out)? {
                // SAFETY: as above.
                unsafe { $body::<std::arch::x86_64::__m256>($($argument),*) }
            }
            match instructions.0 {
                // SAFETY: `Instructions` are only made where the processor has them.
                #[cfg(target_arch = "x86_64")]
                $crate::instructions::Set::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::instructions::Set::Avx2 => unsafe { avx2($($argument),*) },
                // SAFETY: these lanes need no instructions beyond the target's.
                $crate::instructions::Set::Portable => unsafe { $body::<$crate::lanes::Portable>($($argument),*) },
            }
        }
    };
}
pub(crate) use vectorised;

/// Inner product of two rows, as far as the shorter goes.
///
/// # Safety
/// As [`Lanes`].
#[inline(always)]
pub(crate) unsafe fn dot<L: Lanes>(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let whole = length - length % L::COUNT;
    // SAFETY: every load begins at least a register's length before the end of both rows.
    let mut sum = unsafe {
        let mut sums = [L::splat(0.0); 4];
        let mut at = 0;
        while at + 4 * L::COUNT <= whole {
            for (k, sum) in sums.iter_mut().enumerate() {
                let from = at + k * L::COUNT;
                *sum = L::load(a.as_ptr().add(from)).multiply_add(L::load(b.as_ptr().add(from)), *sum);
            }
            at += 4 * L::COUNT;
        }
        while at < whole {
            sums[0] = L::load(a.as_ptr().add(at)).multiply_add(L::load(b.as_ptr().add(at)), sums[0]);
            at += L::COUNT;
        }
        let [a, b, c, d] = L::totals(&sums);
        (a + b) + (c + d)
    };
    for (a, b) in a[whole..length].iter().zip(&b[whole..length]) {
        sum += a * b;
    }
    sum
}

/// Inner products of `Q` queries with [`ROWS`] rows, as far as the shortest goes: each number loaded serves several products.
///
/// # Safety
/// As [`Lanes`].
#[inline(always)]
pub(crate) unsafe fn dots<L: Lanes, const Q: usize>(queries: [&[f32]; Q], rows: [&[f32]; ROWS]) -> [[f32; ROWS]; Q] {
    let length = queries.iter().chain(&rows).map(|row| row.len()).min().unwrap_or(0);
    let whole = length - length % L::COUNT;
    // SAFETY: every load begins at least a register's length before the end of all rows.
    let mut products = unsafe {
        let mut sums = [[L::splat(0.0); ROWS]; Q];
        let mut at = 0;
        while at < whole {
            let mut loaded = [L::splat(0.0); ROWS];
            for (loaded, row) in loaded.iter_mut().zip(&rows) {
                *loaded = L::load(row.as_ptr().add(at));
            }
            for (sums, query) in sums.iter_mut().zip(&queries) {
                let query = L::load(query.as_ptr().add(at));
                for (sum, row) in sums.iter_mut().zip(&loaded) {
                    *sum = query.multiply_add(*row, *sum);
                }
            }
            at += L::COUNT;
        }
        let mut products = [[0.0; ROWS]; Q];
        for (products, sums) in products.iter_mut().zip(&sums) {
            *products = L::totals(sums);
        }
        products
    };
    if whole == length {
        return products;
    }
    for (products, query) in products.iter_mut().zip(&queries) {
        for (product, row) in products.iter_mut().zip(&rows) {
            *product += query[whole..length].iter().zip(&row[whole..length]).map(|(a, b)| a * b).sum::<f32>();
        }
    }
    products
}

/// What is added up while rows are blended: squares of what comes out; its products with another row, and the squares of that.
#[derive(Clone, Copy)]
struct Sums<L> {
    squares: L,
    products: L,
    others: L,
}

/// `out` becomes the weighted sum of four rows, as far as the shortest goes. Returns the squared length of `out` and, if `COMPARED`, its inner product with
/// `other`, and the squared length of that: what was computed is used while it is in registers.
///
/// # Safety
/// As [`Lanes`].
#[inline(always)]
pub(crate) unsafe fn blend<L: Lanes, const COMPARED: bool>(rows: [&[f32]; 4], weights: [f32; 4], out: &mut [f32], other: &[f32]) -> [f32; 3] {
    let shortest = rows.iter().map(|row| row.len()).min().unwrap_or(0).min(out.len());
    let length = if COMPARED { shortest.min(other.len()) } else { shortest };
    let whole = length - length % L::COUNT;
    // SAFETY: every load and store begins at least a register's length before the end of all rows.
    let [mut square, mut product, mut others] = unsafe {
        let mut spread = [L::splat(0.0); 4];
        for (spread, weight) in spread.iter_mut().zip(weights) {
            *spread = L::splat(weight);
        }
        let nothing = L::splat(0.0);
        // Two of each, so that a sum need not wait for the last one.
        let mut sums = [Sums { squares: nothing, products: nothing, others: nothing }; 2];
        let mut at = 0;
        while at < whole {
            for sums in &mut sums {
                if at < whole {
                    blend_at::<L, COMPARED>(&rows, &spread, out, other, at, sums);
                }
                at += L::COUNT;
            }
        }
        let one = L::splat(1.0);
        let [a, b] = sums;
        let totals =
            L::totals(&[a.squares.multiply_add(one, b.squares), a.products.multiply_add(one, b.products), a.others.multiply_add(one, b.others), nothing]);
        [totals[0], totals[1], totals[2]]
    };
    for at in whole..length {
        let mixed: f32 = rows.iter().zip(weights).map(|(row, weight)| row[at] * weight).sum();
        out[at] = mixed;
        square += mixed * mixed;
        if COMPARED {
            product += mixed * other[at];
            others += other[at] * other[at];
        }
    }
    [square, product, others]
}

/// One register's length of [`blend`].
///
/// # Safety
/// As [`Lanes`]; all rows go on for a register's length after `at`.
#[inline(always)]
unsafe fn blend_at<L: Lanes, const COMPARED: bool>(rows: &[&[f32]; 4], weights: &[L; 4], out: &mut [f32], other: &[f32], at: usize, sums: &mut Sums<L>) {
    // SAFETY: as for this function.
    unsafe {
        let mut mixed = L::splat(0.0);
        for (row, weight) in rows.iter().zip(weights) {
            mixed = L::load(row.as_ptr().add(at)).multiply_add(*weight, mixed);
        }
        mixed.store(out.as_mut_ptr().add(at));
        sums.squares = mixed.multiply_add(mixed, sums.squares);
        if COMPARED {
            let other = L::load(other.as_ptr().add(at));
            sums.products = mixed.multiply_add(other, sums.products);
            sums.others = other.multiply_add(other, sums.others);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The lanes of targets without registers of ours; the others are tested where they are used.
    #[test]
    fn plain_lanes_add_up() {
        let mut random = Random::new(1);
        for length in [0, 3, 4, 16, 21, 70] {
            let rows: Vec<Vec<f32>> = (0..5).map(|_| (0..length).map(|_| random.normal() as f32).collect()).collect();
            let expected = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            let four = [&rows[1][..], &rows[2], &rows[3], &rows[4]];
            // SAFETY: plain lanes need nothing of the processor.
            let (alone, products) = unsafe { (dot::<Four>(&rows[0], &rows[1]), dots::<Four, 1>([&rows[0]], four)) };
            assert!((alone - expected(&rows[0], &rows[1])).abs() < 1e-4);
            for (product, row) in products[0].iter().zip(four) {
                assert!((product - expected(&rows[0], row)).abs() < 1e-4);
            }
            let mut out = vec![0.0; length];
            // SAFETY: as above.
            let [square, product, other] = unsafe { blend::<Four, true>(four, [0.1, 0.2, 0.3, 0.4], &mut out, &rows[0]) };
            assert!((other - expected(&rows[0], &rows[0])).abs() < 1e-4);
            assert!((product - expected(&out, &rows[0])).abs() < 1e-4);
            let mixed = |at: usize| 0.1 * four[0][at] + 0.2 * four[1][at] + 0.3 * four[2][at] + 0.4 * four[3][at];
            assert!(out.iter().enumerate().all(|(at, value)| (value - mixed(at)).abs() < 1e-5));
            assert!((square - expected(&out, &out)).abs() < 1e-4);
        }
    }
}
