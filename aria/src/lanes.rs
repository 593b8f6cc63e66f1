//! Sums over features: the loops that take time, written once and compiled for each set of [`Instructions`](crate::Instructions).

/// Rows that one query is compared with at a time.
pub(crate) const ROWS: usize = 4;

/// `fn name(instructions, arguments...)`: runs `body::<LANES, FUSED>(arguments...)`, compiled for the instructions.
macro_rules! vectorised {
    ($visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $out:ty)? = $body:ident) => {
        $visibility fn $name(instructions: $crate::Instructions, $($argument: $type),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx2,fma")]
            fn avx512($($argument: $type),*) $(-> $out)? {
                $body::<16, true>($($argument),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($argument: $type),*) $(-> $out)? {
                $body::<8, true>($($argument),*)
            }
            match instructions.0 {
                // SAFETY: `Instructions` are only made where the processor has them.
                #[cfg(target_arch = "x86_64")]
                $crate::instructions::Set::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::instructions::Set::Avx2 => unsafe { avx2($($argument),*) },
                $crate::instructions::Set::Portable => $body::<8, { cfg!(target_arch = "aarch64") }>($($argument),*),
            }
        }
    };
}
pub(crate) use vectorised;

/// `a b + c`.
#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn add<const LANES: usize, const FUSED: bool>(a: &[f32; LANES], b: &[f32; LANES], sum: [f32; LANES]) -> [f32; LANES] {
    std::array::from_fn(|lane| multiply_add::<FUSED>(a[lane], b[lane], sum[lane]))
}

/// Sum of the lanes, halves upon halves.
#[inline(always)]
fn total<const LANES: usize>(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Inner product of two rows of the same length.
#[inline(always)]
pub(crate) fn dot<const LANES: usize, const FUSED: bool>(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [[0.0; LANES]; 4];
    let ((a, a_last), (b, b_last)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    for (a, b) in a.iter().zip(b) {
        sums = std::array::from_fn(|k| add::<LANES, FUSED>(&a[k], &b[k], sums[k]));
    }
    for (a, b) in a_last.iter().zip(b_last) {
        sums[0] = add::<LANES, FUSED>(a, b, sums[0]);
    }
    let sum = std::array::from_fn(|lane| (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]));
    a_rest.iter().zip(b_rest).fold(total::<LANES>(sum), |sum, (a, b)| multiply_add::<FUSED>(*a, *b, sum))
}

/// Inner products of `Q` queries with [`ROWS`] rows, all of the same length: each number loaded serves several products.
#[inline(always)]
pub(crate) fn dots<const LANES: usize, const FUSED: bool, const Q: usize>(queries: [&[f32]; Q], rows: [&[f32]; ROWS]) -> [[f32; ROWS]; Q] {
    let mut sums = [[[0.0; LANES]; ROWS]; Q];
    let [a, b, c, d] = rows.map(|row| row.as_chunks::<LANES>());
    let chunked = queries.map(|query| query.as_chunks::<LANES>());
    for (chunk, (((a, b), c), d)) in a.0.iter().zip(b.0).zip(c.0).zip(d.0).enumerate() {
        for (sums, query) in sums.iter_mut().zip(&chunked) {
            let query = &query.0[chunk];
            *sums = [
                add::<LANES, FUSED>(query, a, sums[0]),
                add::<LANES, FUSED>(query, b, sums[1]),
                add::<LANES, FUSED>(query, c, sums[2]),
                add::<LANES, FUSED>(query, d, sums[3]),
            ];
        }
    }
    let rests = [a.1, b.1, c.1, d.1];
    std::array::from_fn(|q| {
        std::array::from_fn(|r| {
            let rest = chunked[q].1.iter().zip(rests[r]);
            rest.fold(total::<LANES>(sums[q][r]), |sum, (a, b)| multiply_add::<FUSED>(*a, *b, sum))
        })
    })
}

/// `out` becomes the weighted sum of four rows; returns its squared length.
#[inline(always)]
pub(crate) fn blend<const LANES: usize, const FUSED: bool>(rows: [&[f32]; 4], weights: [f32; 4], out: &mut [f32]) -> f32 {
    let [wa, wb, wc, wd] = weights;
    let mix = |a: f32, b: f32, c: f32, d: f32| {
        let upper = multiply_add::<FUSED>(wb, b, wa * a);
        multiply_add::<FUSED>(wd, d, multiply_add::<FUSED>(wc, c, upper))
    };
    let [a, b, c, d] = rows.map(|row| row.as_chunks::<LANES>());
    let (out, out_rest) = out.as_chunks_mut::<LANES>();
    let mut squares = [0.0; LANES];
    for ((((out, a), b), c), d) in out.iter_mut().zip(a.0).zip(b.0).zip(c.0).zip(d.0) {
        *out = std::array::from_fn(|lane| mix(a[lane], b[lane], c[lane], d[lane]));
        squares = add::<LANES, FUSED>(out, out, squares);
    }
    let mut sum = total::<LANES>(squares);
    for ((((out, a), b), c), d) in out_rest.iter_mut().zip(a.1).zip(b.1).zip(c.1).zip(d.1) {
        *out = mix(*a, *b, *c, *d);
        sum = multiply_add::<FUSED>(*out, *out, sum);
    }
    sum
}
