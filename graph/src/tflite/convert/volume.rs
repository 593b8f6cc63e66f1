//! Convolutions over three dimensions that pass through one of them (a window of 1, no step, no
//! padding): they become convolutions over two dimensions, with the third as part of the batch.

use super::{Call, Converter, Refusal, VarId};
use crate::Attributes;

/// Dimension of the window that is passed through, and the attributes without it.
pub(super) fn plane(attributes: &Attributes) -> Option<(usize, Attributes)> {
    let is = |name: &str, at: usize, value: i64| {
        attributes.ints(name).get(at).is_none_or(|&v| v == value)
    };
    let kernel = attributes.ints("kernel_shape");
    let passed = (0..3).find(|&d| {
        kernel.len() == 3
            && kernel[d] == 1
            && is("strides", d, 1)
            && is("pads", d, 0)
            && is("pads", d + 3, 0)
    })?;
    let mut plane = attributes.clone();
    for name in ["kernel_shape", "strides", "dilations", "pads"] {
        let left = attributes
            .ints(name)
            .iter()
            .enumerate()
            .filter(|(d, _)| d % 3 != passed)
            .map(|(_, &v)| v);
        plane = plane.with_ints(name, left.collect::<Vec<_>>());
    }
    Some((passed, plane))
}

impl Converter<'_> {
    /// N, C, and three dimensions: the one that is passed through becomes part of the batch, and is
    /// restored after the convolution.
    pub(super) fn volume_conv(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let (passed, attributes) =
            plane(call.attributes).ok_or("a window over 3 dimensions has no operator")?;
        let (x, shape) = (call.inputs[0], self.shape(call.inputs[0]).to_vec());
        let others: Vec<usize> = (2..5).filter(|&d| d != 2 + passed).collect();
        let [n, c, ..] = shape[..] else { return Err("its input is not an image".to_owned()) };
        let images = self.transpose(x, &[0, 2 + passed, 1, others[0], others[1]])?;
        let images = self.reshape(
            images,
            &[n.saturating_mul(shape[2 + passed]), c, shape[others[0]], shape[others[1]]],
        )?;
        let (mut filter, norm) = {
            let filter = self.filter(call)?;
            self.folded(call, filter, 0)
        };
        let mut extents = filter.weight.shape().to_vec();
        extents.remove(2 + passed);
        filter.weight = filter.weight.reshape(extents);
        let y = self.images_conv(images, filter, &attributes)?;
        let [_, out, h, w] = *self.shape(y) else {
            return Err("its output is not an image".to_owned());
        };
        let y = self.reshape(y, &[n, shape[2 + passed], out, h, w])?;
        let mut back = vec![3, 4];
        back.insert(passed, 1);
        let y = self.transpose(y, &[&[0, 2], &back[..]].concat())?;
        if let Some(index) = norm {
            self.absorb(index, y);
        }
        Ok(y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_one_is_passed_through() {
        let window = |kernel: [i64; 3], pads: [i64; 6]| {
            Attributes::new()
                .with_ints("kernel_shape", kernel)
                .with_ints("strides", [2, 2, 1])
                .with_ints("pads", pads)
        };
        let (passed, left) = plane(&window([9, 7, 1], [4, 3, 0, 4, 3, 0])).unwrap_or_default();
        assert_eq!(passed, 2);
        assert_eq!(
            (left.ints("kernel_shape"), left.ints("strides"), left.ints("pads")),
            (&[9, 7][..], &[2, 2][..], &[4, 3, 4, 3][..])
        );
        assert!(plane(&window([1, 7, 3], [0; 6])).is_none());
        assert!(plane(&window([9, 7, 1], [4, 3, 1, 4, 3, 1])).is_none());
    }
}
