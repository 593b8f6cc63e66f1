//! The latency of a model at several sizes of images.

use crate::{
    Failure, Session,
    answers::{ImageSides, SizeRow},
};
use vitempo::graph::{ImageSize, LatencyModel};

impl Session {
    /// A model at one size of images, by each of these bundles. A size at which the model does not
    /// work is no failure: the row says why.
    ///
    /// # Errors
    /// Where no such model or bundle is open.
    pub fn at_size(
        &mut self,
        model: u32,
        size: ImageSize,
        bundles: &[String],
    ) -> Result<SizeRow, Failure> {
        self.model(model, None)?;
        for bundle in bundles {
            self.bundle(bundle)?;
        }
        let sides = ImageSides::from(size);
        let resized = match self.model(model, Some(size)) {
            Ok(resized) => resized,
            Err(Failure { message }) => {
                return Ok(SizeRow { size: sides, latencies: Vec::new(), problem: Some(message) });
            }
        };
        let mut latencies = Vec::with_capacity(bundles.len());
        for bundle in bundles {
            let found = self.bundle(bundle)?.predict_within(&resized.graph, &self.options.budget());
            latencies.push(found.ok().map(|found| found.latency.into()));
        }
        Ok(SizeRow { size: sides, latencies, problem: None })
    }
}
