//! Operations of the network with gradients of their own: as chains of candle's elementary
//! operations, they would take most of the time of a step.

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, Device, Layout, Result, Shape, Tensor,
};

/// What layer norms add to the variance.
const EPSILON: f32 = 1e-5;

/// The numbers of a contiguous tensor.
fn numbers<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let (from, to) = layout
        .contiguous_offsets()
        .ok_or_else(|| candle_core::Error::msg("a tensor that is not contiguous"))?;
    Ok(&storage.as_slice::<f32>()?[from..to])
}

fn vector(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.contiguous()?.flatten_all()?.to_vec1()
}

fn tensor(values: Vec<f32>, like: &Tensor) -> Result<Tensor> {
    Tensor::from_vec(values, like.shape(), &Device::Cpu)
}

/// Length of the last axis.
fn width(shape: &Shape) -> usize {
    shape.dims().last().copied().unwrap_or(1).max(1)
}

/// Softmax over the last axis.
pub struct Softmax;

impl CustomOp1 for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut values = numbers(storage, layout)?.to_vec();
        for row in values.chunks_exact_mut(width(layout.shape())) {
            let most = row.iter().fold(f32::NEG_INFINITY, |most, x| most.max(*x));
            row.iter_mut().for_each(|x| *x = exp(*x - most));
            let share = 1.0 / row.iter().sum::<f32>();
            row.iter_mut().for_each(|x| *x *= share);
        }
        Ok((CpuStorage::F32(values), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, result: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let (shares, mut gradients) = (vector(result)?, vector(gradient)?);
        let width = width(result.shape());
        for (share, g) in shares.chunks_exact(width).zip(gradients.chunks_exact_mut(width)) {
            let mean: f32 = share.iter().zip(g.iter()).map(|(s, g)| s * g).sum();
            g.iter_mut().zip(share).for_each(|(g, s)| *g = s * (*g - mean));
        }
        Ok(Some(tensor(gradients, result)?))
    }
}

/// e to a power that is not above 0, to 1e-6 of it: the compiler turns it into vector instructions.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let two = x.max(-87.0) * std::f32::consts::LOG2_E;
    let whole = two.floor();
    let t = (two - whole) * std::f32::consts::LN_2;
    let part = 1.0
        + t * (1.0
            + t * (0.5 + t * (1.0 / 6.0 + t * (1.0 / 24.0 + t * (1.0 / 120.0 + t / 720.0)))));
    part * f32::from_bits(((whole as i32 + 127) as u32) << 23)
}

/// The last axis, shifted to mean 0 and scaled to variance 1, then by a weight and a bias.
pub struct Normalised;

/// Mean, and one over the standard deviation.
fn moments(row: &[f32]) -> (f32, f32) {
    let count = row.len() as f32;
    let mean = row.iter().sum::<f32>() / count;
    let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / count;
    (mean, 1.0 / (variance + EPSILON).sqrt())
}

impl CustomOp3 for Normalised {
    fn name(&self) -> &'static str {
        "normalised"
    }

    fn cpu_fwd(
        &self,
        storage: &CpuStorage,
        layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let mut values = numbers(storage, layout)?.to_vec();
        let (weight, bias) = (numbers(weight, weight_layout)?, numbers(bias, bias_layout)?);
        for row in values.chunks_exact_mut(weight.len()) {
            let (mean, scale) = moments(row);
            for (x, (w, b)) in row.iter_mut().zip(weight.iter().zip(bias)) {
                *x = (*x - mean) * scale * w + b;
            }
        }
        Ok((CpuStorage::F32(values), layout.shape().clone()))
    }

    fn bwd(
        &self,
        of: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (inputs, weights, mut gradients) = (vector(of)?, vector(weight)?, vector(gradient)?);
        let width = weights.len();
        let (mut of_weight, mut of_bias) = (vec![0.0; width], vec![0.0; width]);
        let mut unit = vec![0.0; width];
        for (x, g) in inputs.chunks_exact(width).zip(gradients.chunks_exact_mut(width)) {
            let (mean, scale) = moments(x);
            unit.iter_mut().zip(x).for_each(|(unit, x)| *unit = (x - mean) * scale);
            of_bias.iter_mut().zip(g.iter()).for_each(|(sum, g)| *sum += g);
            for (sum, (g, unit)) in of_weight.iter_mut().zip(g.iter().zip(&unit)) {
                *sum += g * unit;
            }
            g.iter_mut().zip(&weights).for_each(|(g, w)| *g *= w);
            let mean = g.iter().sum::<f32>() / width as f32;
            let along = g.iter().zip(&unit).map(|(g, u)| g * u).sum::<f32>() / width as f32;
            g.iter_mut().zip(&unit).for_each(|(g, u)| *g = scale * (*g - mean - u * along));
        }
        let of_inputs = tensor(gradients, of)?;
        Ok((Some(of_inputs), Some(tensor(of_weight, weight)?), Some(tensor(of_bias, bias)?)))
    }
}

/// A bias along the last axis.
pub struct Bias;

impl CustomOp2 for Bias {
    fn name(&self) -> &'static str {
        "bias"
    }

    fn cpu_fwd(
        &self,
        storage: &CpuStorage,
        layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let mut values = numbers(storage, layout)?.to_vec();
        let bias = numbers(bias, bias_layout)?;
        for row in values.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
        }
        Ok((CpuStorage::F32(values), layout.shape().clone()))
    }

    fn bwd(
        &self,
        _: &Tensor,
        bias: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let gradients = vector(gradient)?;
        let mut sums = vec![0.0; bias.elem_count()];
        for row in gradients.chunks_exact(sums.len()) {
            sums.iter_mut().zip(row).for_each(|(sum, g)| *sum += g);
        }
        Ok((Some(gradient.clone()), Some(tensor(sums, bias)?)))
    }
}

/// A rectifier.
pub struct Relu;

impl CustomOp1 for Relu {
    fn name(&self) -> &'static str {
        "relu"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let values = numbers(storage, layout)?.iter().map(|x| x.max(0.0)).collect();
        Ok((CpuStorage::F32(values), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, result: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let (outputs, mut gradients) = (vector(result)?, vector(gradient)?);
        for (g, y) in gradients.iter_mut().zip(&outputs) {
            *g = if *y > 0.0 { *g } else { 0.0 };
        }
        Ok(Some(tensor(gradients, result)?))
    }
}

/// Depthwise convolution of 3 x 3 with zeros around: of `[batch, rows, cols, width]` by `[9, width]`.
pub struct Near;

/// Calls `each` with the numbers of two neighbours and of their tap, for all neighbours.
fn neighbours(shape: &[usize], mut each: impl FnMut(usize, usize, usize)) {
    let [batch, rows, cols, _] = *shape else { return };
    for image in 0..batch {
        for row in 0..rows {
            for col in 0..cols {
                let here = (image * rows + row) * cols + col;
                for tap in 0..9 {
                    let (r, c) = (row + tap / 3, col + tap % 3);
                    if (1..=rows).contains(&r) && (1..=cols).contains(&c) {
                        each(here, (image * rows + r - 1) * cols + c - 1, tap);
                    }
                }
            }
        }
    }
}

impl CustomOp2 for Near {
    fn name(&self) -> &'static str {
        "near"
    }

    fn cpu_fwd(
        &self,
        storage: &CpuStorage,
        layout: &Layout,
        kernel: &CpuStorage,
        kernel_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, kernel) = (numbers(storage, layout)?, numbers(kernel, kernel_layout)?);
        let (width, mut sums) = (width(layout.shape()), vec![0.0; x.len()]);
        neighbours(layout.dims(), |here, there, tap| {
            let (x, k) = (&x[there * width..][..width], &kernel[tap * width..][..width]);
            let sum = &mut sums[here * width..][..width];
            sum.iter_mut().zip(x.iter().zip(k)).for_each(|(sum, (x, k))| *sum += x * k);
        });
        Ok((CpuStorage::F32(sums), layout.shape().clone()))
    }

    fn bwd(
        &self,
        of: &Tensor,
        by: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (x, kernel, g) = (vector(of)?, vector(by)?, vector(gradient)?);
        let width = width(of.shape());
        let (mut of_x, mut of_kernel) = (vec![0.0; x.len()], vec![0.0; kernel.len()]);
        neighbours(of.dims(), |here, there, tap| {
            let g = &g[here * width..][..width];
            let k = &kernel[tap * width..][..width];
            let to = &mut of_x[there * width..][..width];
            to.iter_mut().zip(g.iter().zip(k)).for_each(|(to, (g, k))| *to += g * k);
            let x = &x[there * width..][..width];
            let to = &mut of_kernel[tap * width..][..width];
            to.iter_mut().zip(g.iter().zip(x)).for_each(|(to, (g, x))| *to += g * x);
        });
        Ok((Some(tensor(of_x, of)?), Some(tensor(of_kernel, by)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{D, Var};

    fn random(shape: &[usize]) -> Result<Var> {
        Var::randn(0.0f32, 1.0, shape, &Device::Cpu)
    }

    /// The largest difference of two tensors.
    fn apart(a: &Tensor, b: &Tensor) -> Result<f32> {
        (a - b)?.abs()?.flatten_all()?.max(0)?.to_scalar()
    }

    /// Results and gradients of both, under a random weighting of the results.
    fn same(inputs: &[&Var], fast: &Tensor, slow: &Tensor) -> Result<()> {
        assert!(apart(fast, slow)? < 1e-4);
        let weights = Tensor::randn(0.0f32, 1.0, fast.shape(), &Device::Cpu)?;
        let [a, b] = [fast, slow].map(|of| (of * &weights)?.sum_all()?.backward());
        let (a, b) = (a?, b?);
        for input in inputs {
            let of = |store: &candle_core::backprop::GradStore| store.get(input).cloned();
            let (Some(a), Some(b)) = (of(&a), of(&b)) else { panic!("no gradient") };
            assert!(apart(&a, &b)? < 1e-3, "{:?}", apart(&a, &b)?);
        }
        Ok(())
    }

    #[test]
    fn results_and_gradients_are_those_of_elementary_operations() -> Result<()> {
        let x = random(&[2, 3, 7])?;
        same(&[&x], &x.apply_op1(Softmax)?, &candle_nn::ops::softmax(&x, D::Minus1)?)?;
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let deviation = (centred.sqr()?.mean_keepdim(D::Minus1)? + f64::from(EPSILON))?.sqrt()?;
        let (weight, bias) = (random(&[7])?, random(&[7])?);
        let slow =
            centred.broadcast_div(&deviation)?.broadcast_mul(&weight)?.broadcast_add(&bias)?;
        same(&[&x, &weight, &bias], &x.apply_op3(&weight, &bias, Normalised)?, &slow)?;
        same(&[&x, &bias], &x.apply_op2(&bias, Bias)?, &x.broadcast_add(&bias)?)?;
        same(&[&x], &x.apply_op1(Relu)?, &x.relu()?)?;
        assert!((-100..=0).all(|x| {
            let x = x as f32 / 3.0;
            (exp(x) - x.exp()).abs() <= 1e-6 * x.exp()
        }));
        let (x, kernel) = (random(&[2, 4, 5, 3])?, random(&[9, 3])?);
        let weight = kernel.t()?.reshape((3, 1, 3, 3))?;
        let slow = x.permute((0, 3, 1, 2))?.contiguous()?.conv2d(&weight, 1, 1, 1, 3)?;
        same(
            &[&x, &kernel],
            &x.apply_op2(&kernel, Near)?,
            &slow.permute((0, 2, 3, 1))?.contiguous()?,
        )
    }
}
