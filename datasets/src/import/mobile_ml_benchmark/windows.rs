//! Operators that slide a window over an image: their window and groups from the features, and
//! whether the output is of the size that these give.

use super::{
    operators::{Operation, Parts, signed},
    shapes,
};
use vitempo_graph::{Attributes, OpKind, shape};

impl Operation<'_> {
    /// Kernel, stride, dilation and padding of a window; missing padding is derived from the
    /// output's size.
    fn window(self) -> Result<([usize; 2], Attributes), String> {
        let f = self.features;
        let kernel = f
            .pair(&["kernel", "kernel_size", "filter_shape"])
            .ok_or("its features do not give its kernel")?;
        let stride = f.pair(&["stride", "strides"]).unwrap_or([1, 1]);
        let dilation = f.pair(&["dilation", "dilations"]).unwrap_or([1, 1]);
        let pads = match (f.pair(&["padding", "pad"]), shapes::sides(f, self.framework)) {
            (Some([height, width]), _) => vec![height, width, height, width],
            (None, (Some(from), Some(to))) => {
                let total = |i: usize| {
                    let reach = to[i].saturating_sub(1).saturating_mul(stride[i]);
                    let extent =
                        kernel[i].saturating_sub(1).saturating_mul(dilation[i]).saturating_add(1);
                    reach.saturating_add(extent).saturating_sub(from[i])
                };
                let totals = [total(0), total(1)];
                totals.map(|t| t / 2).into_iter().chain(totals.map(|t| t - t / 2)).collect()
            }
            _ => return Err("its features give neither its padding nor its output".to_owned()),
        };
        let attributes = Attributes::new()
            .with_ints("kernel_shape", signed(&kernel)?)
            .with_ints("strides", signed(&stride)?)
            .with_ints("dilations", signed(&dilation)?)
            .with_ints("pads", signed(&pads)?);
        Ok((kernel, attributes))
    }

    /// Refuses a window whose output is not of the size that the features give.
    fn check_output(self, (kind, attributes, inputs): Parts) -> Result<Parts, String> {
        let attributes = shape::canonical(&kind, attributes, &inputs)?;
        let found = shape::infer(&kind, &attributes, &inputs)?;
        let found = found.first().and_then(|o| o.shape.get(2..)).unwrap_or_default();
        match shapes::sides(self.features, self.framework).1 {
            Some(given) if given != found => {
                Err(format!("its output is given as {given:?} but would be {found:?}"))
            }
            _ => Ok((kind, attributes, inputs)),
        }
    }

    pub(super) fn convolution(self, depthwise: bool) -> Result<Parts, String> {
        let x = self.image()?;
        let channels = x.tensor.shape[1];
        let (kernel, attributes) = self.window()?;
        let filters = self
            .features
            .size(&["filter", "output_channel", "out_channels"])
            .ok_or("its features do not give its filters")?;
        let (filters, group) = if depthwise {
            (filters.saturating_mul(channels), channels)
        } else {
            (filters, self.group(channels, filters, kernel)?)
        };
        if group == 0 || channels % group != 0 || filters % group != 0 {
            return Err(format!(
                "{channels} channels and {filters} filters do not make {group} groups"
            ));
        }
        let weight = self.weight(vec![filters, channels / group, kernel[0], kernel[1]]);
        let attributes = attributes.with_int("group", signed(&[group])?[0]);
        self.check_output((OpKind::Conv, attributes, vec![x, weight, self.bias(filters)]))
    }

    /// Groups as given, or from the number of weights; one by default.
    fn group(self, channels: usize, filters: usize, kernel: [usize; 2]) -> Result<usize, String> {
        if let Some(group) = self.features.size(&["group", "groups"]) {
            return Ok(group);
        }
        let Some(weights) = self.features.size(&["filter_size"]) else { return Ok(1) };
        let dense =
            [filters, kernel[0], kernel[1]].into_iter().try_fold(channels, usize::checked_mul);
        match dense {
            Some(dense) if weights > 0 && dense % weights == 0 => Ok(dense / weights),
            _ => Err(format!(
                "{weights} weights do not fit {channels} channels and {filters} filters"
            )),
        }
    }

    pub(super) fn pool(self, kind: OpKind) -> Result<Parts, String> {
        let x = self.image()?;
        let (_, mut attributes) = self.window()?;
        attributes.0.remove("dilations");
        self.check_output((kind, attributes, vec![x]))
    }
}
