//! Sums over features: the loops that take time, written once over [`SimdVector`] and compiled for
//! each set of [`Instructions`](crate::Instructions).

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Rows that queries are compared with at a time.
pub(crate) const ROWS: usize = 4;

/// Numbers in a line of the cache.
const LINE: usize = 16;

/// Prefetches the cache line of numbers that are needed soon; beyond their end it prefetches some
/// other line, which is harmless.
#[inline(always)]
fn prefetch(numbers: &[f32], at: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this reads nothing, wherever it points.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(numbers.as_ptr().wrapping_add(at).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (numbers, at);
}

/// Has all of a row brought near.
#[inline(always)]
pub(crate) fn prefetch_row(row: &[f32]) {
    (0..row.len()).step_by(LINE).for_each(|at| prefetch(row, at));
}

/// A register of numbers.
///
/// # Safety
/// All functions: only where the processor has the instructions of the register, and pointers to at
/// least `COUNT` numbers of 32 bits, or twice as many integers of 16.
pub(crate) trait SimdVector: Copy {
    const COUNT: usize;
    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// `self * by + plus`.
    unsafe fn multiply_add(self, by: Self, plus: Self) -> Self;
    /// Sums over the numbers of four registers.
    unsafe fn totals(four: &[Self; 4]) -> [f32; 4];
    /// A register of twice as many integers of 16 bits.
    type Integers: Copy;
    /// A register of `COUNT` sums of products of those.
    type Sums: Copy;
    /// Two registers, rounded to integers side by side.
    unsafe fn store_rounded(two: [Self; 2], to: *mut i16);
    unsafe fn load_integers(from: *const i16) -> Self::Integers;
    unsafe fn no_sums() -> Self::Sums;
    /// The products of two registers added up in pairs, and `plus`.
    unsafe fn products(a: Self::Integers, b: Self::Integers, plus: Self::Sums) -> Self::Sums;
    /// Sums over the sums of four registers.
    unsafe fn integer_totals(four: &[Self::Sums; 4]) -> [i32; 4];
}

#[cfg(target_arch = "x86_64")]
impl SimdVector for __m512 {
    const COUNT: usize = 16;
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller has AVX-512 F and BW; only registers are written.
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller has AVX-512 F and BW; `from` has `COUNT` numbers, and no alignment is
        // needed.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller has AVX-512 F and BW; `to` has room for `COUNT` numbers, and no
        // alignment is needed.
        unsafe { _mm512_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, by: Self, plus: Self) -> Self {
        // SAFETY: the caller has AVX-512 F and BW; only registers are read and written.
        unsafe { _mm512_fmadd_ps(self, by, plus) }
    }
    #[inline(always)]
    unsafe fn totals(four: &[Self; 4]) -> [f32; 4] {
        // SAFETY: the caller has AVX-512 F and BW; only registers are read and written; AVX2 comes
        // with it.
        unsafe {
            let mut halves = [_mm256_setzero_ps(); 4];
            for (half, whole) in halves.iter_mut().zip(four) {
                let upper = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(*whole)));
                *half = _mm256_add_ps(_mm512_castps512_ps256(*whole), upper);
            }
            __m256::totals(&halves)
        }
    }
    type Integers = __m512i;
    type Sums = __m512i;
    #[inline(always)]
    unsafe fn store_rounded(two: [Self; 2], to: *mut i16) {
        // SAFETY: the caller has AVX-512 F and BW; `to` has room for twice `COUNT` integers, and
        // no alignment is needed.
        unsafe {
            for (half, numbers) in two.into_iter().enumerate() {
                _mm256_storeu_si256(
                    to.add(half * Self::COUNT).cast(),
                    _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(numbers)),
                );
            }
        }
    }
    #[inline(always)]
    unsafe fn load_integers(from: *const i16) -> __m512i {
        // SAFETY: the caller has AVX-512 F and BW; `from` has twice `COUNT` integers, and no
        // alignment is needed.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn no_sums() -> __m512i {
        // SAFETY: the caller has AVX-512 F and BW; only a register is written.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    unsafe fn products(a: __m512i, b: __m512i, plus: __m512i) -> __m512i {
        // SAFETY: the caller has AVX-512 F and BW; only registers are read and written.
        unsafe { _mm512_add_epi32(_mm512_madd_epi16(a, b), plus) }
    }
    #[inline(always)]
    unsafe fn integer_totals(four: &[__m512i; 4]) -> [i32; 4] {
        // SAFETY: the caller has AVX-512 F and BW; only registers are read and written; AVX2 comes
        // with it.
        unsafe {
            let mut halves = [_mm256_setzero_si256(); 4];
            for (half, whole) in halves.iter_mut().zip(four) {
                *half = _mm256_add_epi32(
                    _mm512_castsi512_si256(*whole),
                    _mm512_extracti64x4_epi64::<1>(*whole),
                );
            }
            __m256::integer_totals(&halves)
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl SimdVector for __m256 {
    const COUNT: usize = 8;
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller has AVX2 and FMA; only registers are written.
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller has AVX2 and FMA; `from` has `COUNT` numbers, and no alignment is
        // needed.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller has AVX2 and FMA; `to` has room for `COUNT` numbers, and no alignment
        // is needed.
        unsafe { _mm256_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, by: Self, plus: Self) -> Self {
        // SAFETY: the caller has AVX2 and FMA; only registers are read and written.
        unsafe { _mm256_fmadd_ps(self, by, plus) }
    }
    #[inline(always)]
    unsafe fn totals(four: &[Self; 4]) -> [f32; 4] {
        // SAFETY: the caller has AVX2 and FMA; what is stored fills the array `out`.
        unsafe {
            let pairs = [_mm256_hadd_ps(four[0], four[1]), _mm256_hadd_ps(four[2], four[3])];
            let halves = _mm256_hadd_ps(pairs[0], pairs[1]);
            let sums =
                _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps::<1>(halves));
            let mut out = [0.0; 4];
            _mm_storeu_ps(out.as_mut_ptr(), sums);
            out
        }
    }
    type Integers = __m256i;
    type Sums = __m256i;
    #[inline(always)]
    unsafe fn store_rounded([first, second]: [Self; 2], to: *mut i16) {
        // SAFETY: the caller has AVX2 and FMA; `to` has room for twice `COUNT` integers, and no
        // alignment is needed.
        unsafe {
            let mixed = _mm256_packs_epi32(_mm256_cvtps_epi32(first), _mm256_cvtps_epi32(second));
            _mm256_storeu_si256(to.cast(), _mm256_permute4x64_epi64::<0b11_01_10_00>(mixed));
        }
    }
    #[inline(always)]
    unsafe fn load_integers(from: *const i16) -> __m256i {
        // SAFETY: the caller has AVX2 and FMA; `from` has twice `COUNT` integers, and no alignment
        // is needed.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn no_sums() -> __m256i {
        // SAFETY: the caller has AVX2 and FMA; only a register is written.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    unsafe fn products(a: __m256i, b: __m256i, plus: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2 and FMA; only registers are read and written.
        unsafe { _mm256_add_epi32(_mm256_madd_epi16(a, b), plus) }
    }
    #[inline(always)]
    unsafe fn integer_totals(four: &[__m256i; 4]) -> [i32; 4] {
        // SAFETY: the caller has AVX2 and FMA; what is stored fills the array `out`.
        unsafe {
            let pairs = [_mm256_hadd_epi32(four[0], four[1]), _mm256_hadd_epi32(four[2], four[3])];
            let halves = _mm256_hadd_epi32(pairs[0], pairs[1]);
            let mut out = [0; 4];
            _mm_storeu_si128(
                out.as_mut_ptr().cast(),
                _mm_add_epi32(
                    _mm256_castsi256_si128(halves),
                    _mm256_extracti128_si256::<1>(halves),
                ),
            );
            out
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl SimdVector for __m128 {
    const COUNT: usize = 4;
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: SSE2 is part of x86-64; only registers are written.
        unsafe { _mm_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: SSE2 is part of x86-64; `from` has `COUNT` numbers, and no alignment is needed.
        unsafe { _mm_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: SSE2 is part of x86-64; `to` has room for `COUNT` numbers, and no alignment is
        // needed.
        unsafe { _mm_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, by: Self, plus: Self) -> Self {
        // SAFETY: SSE2 is part of x86-64; only registers are read and written.
        unsafe { _mm_add_ps(_mm_mul_ps(self, by), plus) }
    }
    #[inline(always)]
    unsafe fn totals(four: &[Self; 4]) -> [f32; 4] {
        // SAFETY: SSE2 is part of x86-64; what is stored fills the array `out`.
        unsafe {
            let [mut a, mut b, mut c, mut d] = *four;
            _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
            let mut out = [0.0; 4];
            _mm_storeu_ps(out.as_mut_ptr(), _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d)));
            out
        }
    }
    type Integers = __m128i;
    type Sums = __m128i;
    #[inline(always)]
    unsafe fn store_rounded([first, second]: [Self; 2], to: *mut i16) {
        // SAFETY: SSE2 is part of x86-64; `to` has room for twice `COUNT` integers, and no
        // alignment is needed.
        unsafe {
            _mm_storeu_si128(
                to.cast(),
                _mm_packs_epi32(_mm_cvtps_epi32(first), _mm_cvtps_epi32(second)),
            );
        }
    }
    #[inline(always)]
    unsafe fn load_integers(from: *const i16) -> __m128i {
        // SAFETY: SSE2 is part of x86-64; `from` has twice `COUNT` integers, and no alignment is
        // needed.
        unsafe { _mm_loadu_si128(from.cast()) }
    }
    #[inline(always)]
    unsafe fn no_sums() -> __m128i {
        // SAFETY: SSE2 is part of x86-64; only a register is written.
        unsafe { _mm_setzero_si128() }
    }
    #[inline(always)]
    unsafe fn products(a: __m128i, b: __m128i, plus: __m128i) -> __m128i {
        // SAFETY: SSE2 is part of x86-64; only registers are read and written.
        unsafe { _mm_add_epi32(_mm_madd_epi16(a, b), plus) }
    }
    #[inline(always)]
    unsafe fn integer_totals(four: &[__m128i; 4]) -> [i32; 4] {
        // SAFETY: SSE2 is part of x86-64; what is stored fills the array `out`.
        unsafe {
            let [mut a, mut b, mut c, mut d] = four.map(|sums| _mm_castsi128_ps(sums));
            _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
            let [a, b, c, d] = [a, b, c, d].map(|sums| _mm_castps_si128(sums));
            let mut out = [0; 4];
            _mm_storeu_si128(
                out.as_mut_ptr().cast(),
                _mm_add_epi32(_mm_add_epi32(a, c), _mm_add_epi32(b, d)),
            );
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
impl SimdVector for Four {
    const COUNT: usize = 4;
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; 4])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: `from` has `COUNT` numbers, and no alignment is needed.
        Self(unsafe { from.cast::<[f32; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: `to` has room for `COUNT` numbers, and no alignment is needed.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, by: Self, plus: Self) -> Self {
        let fused = cfg!(target_arch = "aarch64");
        Self(std::array::from_fn(|i| {
            if fused {
                self.0[i].mul_add(by.0[i], plus.0[i])
            } else {
                self.0[i] * by.0[i] + plus.0[i]
            }
        }))
    }
    #[inline(always)]
    unsafe fn totals(four: &[Self; 4]) -> [f32; 4] {
        let mut out = [0.0; 4];
        for (out, Self([a, b, c, d])) in out.iter_mut().zip(four) {
            *out = (a + c) + (b + d);
        }
        out
    }
    type Integers = [i16; 8];
    type Sums = [i32; 4];
    #[inline(always)]
    unsafe fn store_rounded([first, second]: [Self; 2], to: *mut i16) {
        let whole = |number: f32| number.round_ties_even() as i16;
        // SAFETY: `to` has room for twice `COUNT` integers, and no alignment is needed.
        unsafe {
            to.cast::<[[i16; 4]; 2]>().write_unaligned([first.0.map(whole), second.0.map(whole)]);
        }
    }
    #[inline(always)]
    unsafe fn load_integers(from: *const i16) -> [i16; 8] {
        // SAFETY: `from` has twice `COUNT` integers, and no alignment is needed.
        unsafe { from.cast::<[i16; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn no_sums() -> [i32; 4] {
        [0; 4]
    }
    #[inline(always)]
    unsafe fn products(a: [i16; 8], b: [i16; 8], plus: [i32; 4]) -> [i32; 4] {
        let product = |i: usize| i32::from(a[i]) * i32::from(b[i]);
        std::array::from_fn(|i| plus[i] + product(i) + product(i + 4))
    }
    #[inline(always)]
    unsafe fn integer_totals(four: &[[i32; 4]; 4]) -> [i32; 4] {
        four.map(|sums| sums.iter().sum())
    }
}

/// `fn name(instructions, arguments...)`: runs `body::<SimdVector>(arguments...)`, compiled for the
/// instructions.
macro_rules! vectorised {
    ($visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $out:ty)? = $body:ident) => {
        $visibility fn $name(instructions: $crate::Instructions, $($argument: $type),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx2,fma")]
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
                // SAFETY: these vectors need no instructions beyond the target's.
                $crate::instructions::Set::Portable => unsafe { $body::<$crate::simd::Portable>($($argument),*) },
            }
        }
    };
}
pub(crate) use vectorised;

/// Inner product of two rows, as far as the shorter goes.
///
/// # Safety
/// As [`SimdVector`].
#[inline(always)]
pub(crate) unsafe fn dot<L: SimdVector>(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let whole = length - length % L::COUNT;
    // SAFETY: every load begins at least a register's length before the end of both rows.
    let mut sum = unsafe {
        let mut sums = [L::splat(0.0); 4];
        let mut at = 0;
        while at + 4 * L::COUNT <= whole {
            for (k, sum) in sums.iter_mut().enumerate() {
                let from = at + k * L::COUNT;
                *sum =
                    L::load(a.as_ptr().add(from)).multiply_add(L::load(b.as_ptr().add(from)), *sum);
            }
            at += 4 * L::COUNT;
        }
        while at < whole {
            sums[0] =
                L::load(a.as_ptr().add(at)).multiply_add(L::load(b.as_ptr().add(at)), sums[0]);
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

/// Inner products of `Q` queries with [`ROWS`] rows, as far as the shortest goes: each number
/// loaded serves several products.
///
/// # Safety
/// As [`SimdVector`].
#[inline(always)]
pub(crate) unsafe fn dots<L: SimdVector, const Q: usize>(
    queries: [&[f32]; Q],
    rows: [&[f32]; ROWS],
) -> [[f32; ROWS]; Q] {
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
            *product += query[whole..length]
                .iter()
                .zip(&row[whole..length])
                .map(|(a, b)| a * b)
                .sum::<f32>();
        }
    }
    products
}

/// Rows of integers end with zeros, so that their length is a multiple of this and of a register's
/// lanes.
pub(crate) const ROW_MULTIPLE: usize = 32;

/// Inner products of `Q` queries with `R` rows, all of integers and of one length. What lies
/// beyond a multiple of [`ROW_MULTIPLE`] does not count.
///
/// # Safety
/// As [`SimdVector`].
#[inline(always)]
pub(crate) unsafe fn integer_dots<L: SimdVector, const Q: usize, const R: usize>(
    queries: [&[i16]; Q],
    rows: [&[i16]; R],
) -> [[i32; R]; Q] {
    let length = queries.iter().chain(&rows).map(|row| row.len()).min().unwrap_or(0);
    let whole = length - length % ROW_MULTIPLE;
    // SAFETY: every load begins at least a register's length before the end of all rows.
    unsafe {
        let mut sums = [[L::no_sums(); R]; Q];
        let mut at = 0;
        while at < whole {
            let loaded = rows.map(|row| L::load_integers(row.as_ptr().add(at)));
            for (sums, query) in sums.iter_mut().zip(&queries) {
                let query = L::load_integers(query.as_ptr().add(at));
                for (sum, row) in sums.iter_mut().zip(&loaded) {
                    *sum = L::products(query, *row, *sum);
                }
            }
            at += 2 * L::COUNT;
        }
        let mut products = [[0; R]; Q];
        for (products, sums) in
            products.as_flattened_mut().chunks_mut(4).zip(sums.as_flattened().chunks(4))
        {
            let mut four = [L::no_sums(); 4];
            four[..sums.len()].copy_from_slice(sums);
            products.copy_from_slice(&L::integer_totals(&four)[..sums.len()]);
        }
        products
    }
}

/// Inner product of two rows of integers and of one length. What lies beyond a multiple of
/// [`ROW_MULTIPLE`] does not count.
///
/// # Safety
/// As [`SimdVector`].
#[inline(always)]
pub(crate) unsafe fn integer_dot<L: SimdVector>(a: &[i16], b: &[i16]) -> i32 {
    let length = a.len().min(b.len());
    // SAFETY: the caller has the register's instructions.
    let mut sums = [unsafe { L::no_sums() }; 4];
    for at in (0..length - length % ROW_MULTIPLE).step_by(ROW_MULTIPLE) {
        for (k, from) in (at..at + ROW_MULTIPLE).step_by(2 * L::COUNT).enumerate() {
            // SAFETY: every load begins at least a register's length before the end of both rows; a
            // row of `ROW_MULTIPLE` has four registers at most.
            unsafe {
                sums[k] = L::products(
                    L::load_integers(a.as_ptr().add(from)),
                    L::load_integers(b.as_ptr().add(from)),
                    sums[k],
                );
            };
        }
    }
    // SAFETY: the caller has the instructions of `L`.
    unsafe { L::integer_totals(&sums) }.iter().sum()
}

/// `out` becomes `row` times `by`, rounded, as far as the shorter goes.
///
/// # Safety
/// As [`SimdVector`].
#[inline(always)]
pub(crate) unsafe fn round<L: SimdVector>(row: &[f32], by: f32, out: &mut [i16]) {
    let length = row.len().min(out.len());
    let whole = length - length % (2 * L::COUNT);
    // SAFETY: every load and store begins at least two registers' length before the end of both
    // rows.
    unsafe {
        let (spread, nothing) = (L::splat(by), L::splat(0.0));
        let mut at = 0;
        while at < whole {
            let two = [at, at + L::COUNT]
                .map(|at| L::load(row.as_ptr().add(at)).multiply_add(spread, nothing));
            L::store_rounded(two, out.as_mut_ptr().add(at));
            at += 2 * L::COUNT;
        }
    }
    for (out, value) in out[whole..length].iter_mut().zip(&row[whole..length]) {
        *out = (value * by).round_ties_even() as i16;
    }
}

/// Distance of prefetches, in rows.
pub(crate) const SOON: usize = 4;

/// Four rows, what each counts, and one that is needed soon.
#[derive(Clone, Copy)]
pub(crate) struct Blend<'a> {
    pub rows: [&'a [f32]; 4],
    pub weights: [f32; 4],
    pub ahead: &'a [f32],
}

impl Blend<'_> {
    fn length(&self) -> usize {
        self.rows.iter().map(|row| row.len()).min().unwrap_or(0)
    }

    fn at(&self, at: usize) -> f32 {
        self.rows.iter().zip(self.weights).map(|(row, weight)| row[at] * weight).sum()
    }

    /// # Safety
    /// As [`SimdVector`].
    #[inline(always)]
    unsafe fn spread<L: SimdVector>(&self) -> [L; 4] {
        // SAFETY: the caller has the instructions of `L`.
        self.weights.map(|weight| unsafe { L::splat(weight) })
    }

    /// # Safety
    /// As [`SimdVector`]; all rows go on for a register's length after `at`.
    #[inline(always)]
    unsafe fn load<L: SimdVector>(&self, weights: &[L; 4], at: usize) -> L {
        // SAFETY: the caller has the instructions of `L`, and all rows go on for a register's
        // length.
        unsafe {
            let mut mixed = L::splat(0.0);
            for (row, weight) in self.rows.iter().zip(weights) {
                mixed = L::load(row.as_ptr().add(at)).multiply_add(*weight, mixed);
            }
            mixed
        }
    }
}

/// `out` becomes the weighted sum of four rows, as far as the shortest goes. Returns its squared
/// length.
///
/// # Safety
/// As [`SimdVector`].
#[inline(always)]
pub(crate) unsafe fn blend<L: SimdVector>(blend: Blend, out: &mut [f32]) -> f32 {
    let length = blend.length().min(out.len());
    let whole = length - length % L::COUNT;
    // SAFETY: every load and store begins at least a register's length before the end of all rows.
    let mut square = unsafe {
        let weights = blend.spread::<L>();
        // Four, so that a sum need not wait for the last one.
        let mut sums = [L::splat(0.0); 4];
        let mut at = 0;
        while at < whole {
            for at in (at..at + 4 * L::COUNT).step_by(LINE) {
                prefetch(blend.ahead, at);
                prefetch(out, at + SOON / 2 * length);
            }
            for sum in &mut sums {
                if at < whole {
                    let mixed = blend.load(&weights, at);
                    mixed.store(out.as_mut_ptr().add(at));
                    *sum = mixed.multiply_add(mixed, *sum);
                }
                at += L::COUNT;
            }
        }
        let [a, b, c, d] = L::totals(&sums);
        (a + b) + (c + d)
    };
    for (at, out) in out.iter_mut().enumerate().take(length).skip(whole) {
        *out = blend.at(at);
        square += *out * *out;
    }
    square
}

/// `out` becomes the weighted sum of four rows, rounded, as far as the shortest goes. Returns the
/// squared length of the sum, its inner product with `other`, and the squared length of that,
/// computed while the values are in registers.
///
/// # Safety
/// As [`SimdVector`].
#[inline(always)]
pub(crate) unsafe fn blend_rounded<L: SimdVector>(
    blend: Blend,
    out: &mut [i16],
    other: Option<&[f32]>,
) -> [f32; 3] {
    let length = blend.length().min(out.len()).min(other.map_or(usize::MAX, <[f32]>::len));
    let whole = length - length % (2 * L::COUNT);
    // SAFETY: every load and store begins at least two registers' length before the end of all
    // rows.
    let [mut square, mut product, mut others] = unsafe {
        let weights = blend.spread::<L>();
        // By kind, for each of two registers.
        let mut sums = [[L::splat(0.0); 2]; 3];
        let mut at = 0;
        while at < whole {
            for at in (at..at + 2 * L::COUNT).step_by(LINE) {
                prefetch(blend.ahead, at);
                if let Some(other) = other {
                    prefetch(other, at + SOON * length);
                }
            }
            let mut two = [L::splat(0.0); 2];
            for (half, mixed) in two.iter_mut().enumerate() {
                let at = at + half * L::COUNT;
                *mixed = blend.load(&weights, at);
                sums[0][half] = mixed.multiply_add(*mixed, sums[0][half]);
                if let Some(other) = other {
                    let other = L::load(other.as_ptr().add(at));
                    sums[1][half] = mixed.multiply_add(other, sums[1][half]);
                    sums[2][half] = other.multiply_add(other, sums[2][half]);
                }
            }
            L::store_rounded(two, out.as_mut_ptr().add(at));
            at += 2 * L::COUNT;
        }
        let one = L::splat(1.0);
        let [squares, products, others] = sums.map(|[a, b]| a.multiply_add(one, b));
        let totals = L::totals(&[squares, products, others, L::splat(0.0)]);
        [totals[0], totals[1], totals[2]]
    };
    for at in whole..length {
        let mixed = blend.at(at);
        out[at] = mixed.round_ties_even() as i16;
        square += mixed * mixed;
        if let Some(other) = other {
            product += mixed * other[at];
            others += other[at] * other[at];
        }
    }
    [square, product, others]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The vectors of targets without registers of ours; the others are tested where they are used.
    #[test]
    fn plain_vectors_add_up() {
        let mut random = Random::new(1);
        for length in [0, 3, 4, 16, 21, 70] {
            let rows: Vec<Vec<f32>> =
                (0..5).map(|_| (0..length).map(|_| random.normal() as f32).collect()).collect();
            let expected = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            let four = [&rows[1][..], &rows[2], &rows[3], &rows[4]];
            // SAFETY: plain vectors need nothing of the processor.
            let (alone, products) =
                unsafe { (dot::<Four>(&rows[0], &rows[1]), dots::<Four, 1>([&rows[0]], four)) };
            assert!((alone - expected(&rows[0], &rows[1])).abs() < 1e-4);
            for (product, row) in products[0].iter().zip(four) {
                assert!((product - expected(&rows[0], row)).abs() < 1e-4);
            }
            let mut out = vec![0.0; length];
            let mixed = |at: usize| {
                0.1 * four[0][at] + 0.2 * four[1][at] + 0.3 * four[2][at] + 0.4 * four[3][at]
            };
            // SAFETY: as above.
            let square = unsafe {
                blend::<Four>(
                    Blend { rows: four, weights: [0.1, 0.2, 0.3, 0.4], ahead: &[] },
                    &mut out,
                )
            };
            assert!(out.iter().enumerate().all(|(at, value)| (value - mixed(at)).abs() < 1e-5));
            assert!((square - expected(&out, &out)).abs() < 1e-4);
            let mut whole = vec![0; length];
            // SAFETY: as above.
            let [square, product, other] = unsafe {
                blend_rounded::<Four>(
                    Blend { rows: four, weights: [100.0, 200.0, 300.0, 400.0], ahead: &[] },
                    &mut whole,
                    Some(&rows[0]),
                )
            };
            assert!((other - expected(&rows[0], &rows[0])).abs() < 1e-4);
            assert!((product - 1e3 * expected(&out, &rows[0])).abs() < 0.1);
            assert!((square - 1e6 * expected(&out, &out)).abs() < 1e2);
            assert!(
                whole
                    .iter()
                    .zip(&out)
                    .all(|(whole, value)| (f32::from(*whole) - 1e3 * value).abs() < 0.51)
            );
            let mut rounded = vec![0; length];
            // SAFETY: as above.
            unsafe { round::<Four>(&out, 1e3, &mut rounded) };
            assert!(
                rounded
                    .iter()
                    .zip(&out)
                    .all(|(whole, value)| (f32::from(*whole) - 1e3 * value).abs() < 0.51)
            );
        }
    }

    #[test]
    fn plain_vectors_multiply_integers() {
        let mut random = Random::new(2);
        for length in [0, ROW_MULTIPLE, 5 * ROW_MULTIPLE] {
            let rows: Vec<Vec<i16>> = (0..5)
                .map(|_| (0..length).map(|_| random.between(-3000.0, 3000.0) as i16).collect())
                .collect();
            // SAFETY: plain vectors need nothing of the processor.
            let [products] = unsafe {
                integer_dots::<Four, 1, 4>([&rows[0]], [&rows[1], &rows[2], &rows[3], &rows[4]])
            };
            for (product, row) in products.iter().zip(&rows[1..]) {
                assert_eq!(
                    *product,
                    rows[0]
                        .iter()
                        .zip(row)
                        .map(|(a, b)| i32::from(*a) * i32::from(*b))
                        .sum::<i32>()
                );
            }
        }
    }
}
