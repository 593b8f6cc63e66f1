//! Forecasts of a model by bundles, what one consists of, and how two models differ.

use crate::{
    Failure, Session,
    answers::{
        Comparison, Coverage, Details, Forecast, Kind, KindChange, Latency, Memory, Operator, Range,
    },
};
use vitempo::{
    forecast::{self, DeviceForecast, ModelForecast, compare},
    graph::{ImageSize, Latency as Ns, PredictionSource},
    memory::MemoryForecast,
};

impl Session {
    /// The forecast of a model at this size of images by one bundle.
    ///
    /// # Errors
    /// The library's, naming the node.
    pub fn forecast(
        &mut self,
        model: u32,
        size: Option<ImageSize>,
        bundle: &str,
    ) -> Result<Forecast, Failure> {
        let model = self.model(model, size)?;
        let found = DeviceForecast::of(self.bundle(bundle)?, &model, &self.options);
        let DeviceForecast { bundle, latency, coverage, .. } = found.map_err(Failure::of)?;
        Ok(Forecast { bundle, latency: latency.into(), coverage: coverage.into() })
    }

    /// What that forecast consists of.
    ///
    /// # Errors
    /// As [`Session::forecast`].
    pub fn details(
        &mut self,
        model: u32,
        size: Option<ImageSize>,
        bundle: &str,
    ) -> Result<Details, Failure> {
        Ok(Details::of(bundle, &self.whole(model, size, bundle)?))
    }

    /// How a second model differs from a first one.
    ///
    /// # Errors
    /// As [`Session::forecast`].
    pub fn compare(
        &mut self,
        models: [(u32, Option<ImageSize>); 2],
        bundle: &str,
    ) -> Result<Comparison, Failure> {
        let [(first, first_size), (second, second_size)] = models;
        let first = self.whole(first, first_size, bundle)?;
        let second = self.whole(second, second_size, bundle)?;
        Ok(compare(&first, &second).into())
    }

    fn whole(
        &mut self,
        model: u32,
        size: Option<ImageSize>,
        bundle: &str,
    ) -> Result<ModelForecast, Failure> {
        let model = self.model(model, size)?;
        let bundle = self.bundle(bundle)?;
        forecast::forecast(bundle, (*model).clone(), &self.options).map_err(Failure::of)
    }
}

impl From<forecast::Coverage> for Coverage {
    fn from(of: forecast::Coverage) -> Self {
        let unsupported = of.unsupported.into_iter().map(|node| [node.node, node.operator]);
        Self {
            operators: of.operators,
            trained: of.trained,
            fallback: of.fallback,
            extrapolating: of.extrapolating,
            unsupported: unsupported.collect(),
        }
    }
}

impl Details {
    fn of(bundle: &str, of: &ModelForecast) -> Self {
        let named = |kinds: std::collections::BTreeSet<&str>| {
            kinds.into_iter().map(str::to_owned).collect()
        };
        let operators = of.prediction.operators.iter().map(|operator| Operator {
            name: operator.name.clone(),
            kind: operator.kind.name().to_owned(),
            latency: operator.latency_ns.ns(),
            trained: operator.source == PredictionSource::Model,
            extrapolating: operator.extrapolating,
        });
        let kind = |of: forecast::KindLatency| Kind {
            kind: of.kind,
            count: of.count,
            latency: of.latency.ns(),
        };
        Self {
            bundle: bundle.to_owned(),
            latency: Latency::from(of.prediction.latency),
            overhead: of.prediction.overhead.ns(),
            coverage: forecast::Coverage::of(&of.model.graph, &of.prediction).into(),
            trained_share: of.trained_share(),
            extrapolating_share: of.extrapolating_share(),
            fallback_kinds: named(of.fallback_kinds()),
            extrapolating_kinds: named(of.extrapolating_kinds()),
            measured: of.measured().map(Ns::ns),
            memory: of.memory.map(Memory::from),
            kinds: of.by_kind().into_iter().map(kind).collect(),
            blocks: of.blocks().into(),
            operators: operators.collect(),
        }
    }
}

impl From<MemoryForecast> for Memory {
    fn from(of: MemoryForecast) -> Self {
        Self {
            peak: Range {
                upper: of.upper_bytes().map_or(f64::INFINITY, |bytes| bytes as f64),
                ..of.peak_bytes.into()
            },
            level: of.level,
            weights: of.demand.weights_bytes(),
            activations: of.demand.activations_bytes,
            freed: of.demand.freed_bytes,
        }
    }
}

impl From<forecast::Comparison> for Comparison {
    fn from(of: forecast::Comparison) -> Self {
        let kinds = of.kinds.into_iter().map(|kind| KindChange {
            kind: kind.kind,
            counts: kind.counts,
            latencies: kind.latencies.map(Ns::ns),
        });
        Self {
            change: of.change_ns,
            least: of.bounds_ns.0,
            most: of.bounds_ns.1,
            level: of.level,
            same_architecture: of.same_architecture,
            kinds: kinds.collect(),
        }
    }
}
