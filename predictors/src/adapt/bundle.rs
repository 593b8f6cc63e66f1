//! [`AdaptedBundle`]: the model of an adapted device in one file, as a `LatencyModel`.

use super::{
    adapted::{Adapted, Hypothesis, LEVEL},
    classes::{OperatorClasses, catalogue_contains},
    listed::{self, ListedModel, Match},
    mixture::MOVES,
    resource_demand::{COSTS, Workload, merged},
};
use crate::{
    PredictorError,
    envelope::{self, Envelope},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};
use vitempo_graph::{
    Budget, Environment, Graph, GraphPrediction, Latency, LatencyModel, OpSpec, OperatorPrediction,
    Origin, Prediction, PredictionError, PredictionSource,
    lowering::{LoweringError, precision},
};

/// Version of the file format. Bundles whose intervals are as wide as forecasts of before are written
/// in the version before, which programs that do not know the factor read.
pub const ADAPTED_VERSION: u32 = 6;
/// The version without a factor on the width of intervals.
const UNCALIBRATED_VERSION: u32 = 5;
/// The oldest version that is still read: it lacks the graphs and operator classes of the measured
/// models.
const OLDEST_VERSION: u32 = 4;
const ENVELOPE: Envelope =
    Envelope { magic: b"VTADAPTD", version: ADAPTED_VERSION, oldest: OLDEST_VERSION };

/// A device known by a few end-to-end latencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdaptedBundle {
    /// Where its forecasts hold.
    pub environment: Environment,
    /// Where the latencies come from.
    pub origin: Origin,
    /// Publisher and licence; `None` if the author of the bundle measured them.
    pub source: Option<String>,
    /// Program and version.
    pub created_by: String,
    /// The models measured.
    pub measured: Vec<ListedModel>,
    /// The source devices.
    pub sources: Vec<String>,
    /// Classes of operators that the measured models contain; `None` in files of version 4.
    #[serde(default)]
    classes: Option<OperatorClasses>,
    pub(super) adapted: Adapted,
    /// Indices of models that sources have, by digest of their architecture.
    architectures: BTreeMap<String, usize>,
}

/// The metadata of an [`AdaptedBundle`].
#[derive(Clone, Debug)]
pub struct Provenance {
    /// See [`AdaptedBundle::environment`].
    pub environment: Environment,
    /// See [`AdaptedBundle::origin`].
    pub origin: Origin,
    /// See [`AdaptedBundle::source`].
    pub source: Option<String>,
    /// See [`AdaptedBundle::measured`].
    pub measured: Vec<ListedModel>,
    /// Classes of operators that the measured models contain.
    pub classes: OperatorClasses,
    /// See [`AdaptedBundle::sources`].
    pub sources: Vec<String>,
}

impl AdaptedBundle {
    /// Of a device adapted to; `architectures`: the digest of each workload it was adapted with.
    #[must_use]
    pub fn new(
        mut adapted: Adapted,
        provenance: Provenance,
        architectures: BTreeMap<String, usize>,
    ) -> Self {
        let Provenance { environment, origin, source, measured, classes, sources } = provenance;
        adapted.hypotheses.iter_mut().for_each(Hypothesis::round);
        Self {
            environment,
            origin,
            source,
            created_by: concat!("vitempo ", env!("CARGO_PKG_VERSION")).to_owned(),
            measured,
            sources,
            classes: Some(classes),
            adapted,
            architectures,
        }
    }

    /// The listed model that a graph is, or is another form of; `None` where no listed model has
    /// its architecture, its name, or its work and parameters.
    #[must_use]
    pub fn listed(&self, name: &str, graph: &Graph) -> Option<Match<'_>> {
        listed::find(&self.measured, name, graph)
    }

    /// Whether the measured models contain operators of this class: if not, no latency of the
    /// device says anything about it. In files of version 4 the operators of the sources' models
    /// count too.
    #[must_use]
    pub fn contains(&self, op: &OpSpec) -> bool {
        match &self.classes {
            Some(classes) => classes.contain(op),
            None => catalogue_contains(&self.adapted.catalogue, op),
        }
    }

    /// Whether bytes begin as such a file does.
    #[must_use]
    pub fn is_on(bytes: &[u8]) -> bool {
        ENVELOPE.is_on(bytes)
    }

    /// The file's bytes; the same bundle always gives the same.
    ///
    /// # Errors
    /// [`PredictorError::Encode`], which is a fault of ours.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PredictorError> {
        let json = serde_json::to_vec(self).map_err(|e| PredictorError::Encode(e.to_string()))?;
        let version =
            if self.adapted.is_calibrated() { ADAPTED_VERSION } else { UNCALIBRATED_VERSION };
        Envelope { version, ..ENVELOPE }.seal(&json)
    }

    /// Reads what [`AdaptedBundle::to_bytes`] wrote, checking all of it.
    ///
    /// # Errors
    /// A sentence saying what does not fit.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let bundle: Self = serde_json::from_slice(&ENVELOPE.open(bytes)?)
            .map_err(|e| format!("it cannot be read: {e}"))?;
        let valid = |h: &Hypothesis| {
            let numbers = h
                .theta
                .iter()
                .chain(&h.covariance.data)
                .chain(&h.operators)
                .chain(&h.slope.centre)
                .chain([&h.slope.middle, &h.slope.value, &h.weight, &h.noise]);
            let shaped = (h.theta.len(), h.slope.centre.len()) == (COSTS, COSTS)
                && (h.covariance.rows, h.covariance.columns, h.covariance.data.len())
                    == (MOVES, MOVES, MOVES * MOVES);
            let mut not_negative =
                h.residuals.values().map(|(_, variance)| variance).chain([&h.noise, &h.weight]);
            shaped
                && numbers
                    .chain(h.residuals.values().flat_map(|(a, b)| [a, b]))
                    .all(|v| v.is_finite() && v.abs() < 1e9)
                && not_negative.all(|v| *v >= 0.0)
        };
        let Adapted { hypotheses, before, discrepancy, calibration, .. } = &bundle.adapted;
        let weights: f64 = hypotheses.iter().map(|h| h.weight).sum();
        let whole = before.len() == COSTS
            && bundle.measured.iter().all(ListedModel::is_sane)
            && (0.999..1.001).contains(&weights)
            && (0.0..50.0).contains(discrepancy)
            && (0.0..50.0).contains(calibration);
        if whole && hypotheses.iter().all(valid) {
            Ok(bundle)
        } else {
            Err("invalid field `adapted`: a number is out of range".to_owned())
        }
    }

    /// Writes the file whole or not at all.
    ///
    /// # Errors
    /// [`PredictorError::Io`] naming the path.
    pub fn save(&self, path: &Path) -> Result<(), PredictorError> {
        envelope::write(path, &self.to_bytes()?)
    }

    /// Reads and checks a file; `None` where it is a file of another kind.
    ///
    /// # Errors
    /// [`PredictorError::Io`] when it cannot be read, [`PredictorError::Format`] when it is
    /// damaged.
    pub fn load(path: &Path) -> Result<Option<Self>, PredictorError> {
        let bytes = envelope::read(path)?;
        if !Self::is_on(&bytes) {
            return Ok(None);
        }
        Self::from_bytes(&bytes)
            .map(Some)
            .map_err(|reason| PredictorError::Format { path: path.to_owned(), reason })
    }

    /// Level of its intervals, between 0 and 1.
    #[must_use]
    pub fn level(&self) -> f64 {
        LEVEL
    }

    /// As [`AdaptedBundle::latency`], of a graph whose precision may be another one.
    ///
    /// # Errors
    /// [`PredictionError`] for a precision that the environment does not have.
    pub fn checked_latency(&self, graph: &Graph) -> Result<Prediction, PredictionError> {
        self.check_precision(graph)?;
        Ok(self.latency(graph))
    }

    /// Whether the environment has the graph's precision.
    pub(super) fn check_precision(&self, graph: &Graph) -> Result<(), PredictionError> {
        Ok(precision::check(graph, &self.environment).map_err(LoweringError::from)?)
    }

    /// The latency of a graph and its interval, without its operators.
    #[must_use]
    pub fn latency(&self, graph: &Graph) -> Prediction {
        let known = self.architectures.get(&graph.architecture()).copied();
        let forecast = self.adapted.forecast(&Workload::of(graph), known);
        Prediction::new(forecast.latency(), LEVEL).bounded_for(graph)
    }
}

impl LatencyModel for AdaptedBundle {
    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn predict_operator(&self, op: &OpSpec) -> (Latency, PredictionSource) {
        (Latency::from_ns(self.charges().mean_ns(op)), PredictionSource::Model)
    }

    fn predict_within(
        &self,
        graph: &Graph,
        budget: &Budget,
    ) -> Result<GraphPrediction, PredictionError> {
        self.check_precision(graph)?;
        let ended = |source| PredictionError::Exceeded { model: graph.name().to_owned(), source };
        let spend = || budget.steps(self.adapted.hypotheses.len() as u64 + 1).map_err(ended);
        graph.nodes().iter().try_for_each(|_| spend())?;
        let latency = self.latency(graph);
        let charges = self.charges();
        let operator = |(node, merged): (&vitempo_graph::Node, bool)| OperatorPrediction {
            name: node.name.clone(),
            kind: node.op.kind.clone(),
            latency_ns: Latency::from_ns(if merged { 0.0 } else { charges.mean_ns(&node.op) }),
            source: PredictionSource::Model,
            extrapolating: !merged && !self.contains(&node.op),
        };
        let operators = graph
            .nodes()
            .iter()
            .zip(merged(graph))
            .map(|row| spend().map(|()| operator(row)))
            .collect::<Result<Vec<OperatorPrediction>, _>>()?;
        let sum: f64 = operators.iter().map(|o| o.latency_ns.ns()).sum();
        let overhead = Latency::from_ns(latency.point().ns() - sum);
        Ok(GraphPrediction { latency, operators, overhead })
    }

    /// Operators are forecast as the model's file has them.
    fn lowered(&self, graph: &Graph) -> Result<Graph, PredictionError> {
        Ok(graph.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> AdaptedBundle {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../bundles/adapted/samsung-galaxy-s24-tflite-npu-f16.vtb");
        AdaptedBundle::load(&path).expect("a file").expect("an adapted bundle")
    }

    #[test]
    fn weights_and_variances_that_make_no_sense_are_refused() {
        let whole = shipped();
        let spoils: [fn(&mut Adapted); 4] = [
            |adapted| adapted.hypotheses[0].weight -= 1.0,
            |adapted| adapted.hypotheses[0].noise = -1.0,
            |adapted| {
                adapted
                    .hypotheses
                    .iter_mut()
                    .flat_map(|h| h.residuals.values_mut())
                    .for_each(|(_, variance)| *variance = -1.0);
            },
            |adapted| adapted.hypotheses.clear(),
        ];
        for spoil in spoils {
            let mut bundle = whole.clone();
            spoil(&mut bundle.adapted);
            assert!(AdaptedBundle::from_bytes(&bundle.to_bytes().expect("bytes")).is_err());
        }
        assert_eq!(AdaptedBundle::from_bytes(&whole.to_bytes().expect("bytes")), Ok(whole));
    }

    #[test]
    fn a_factor_on_intervals_is_kept_and_older_programs_refuse_it() {
        let mut bundle = shipped();
        let version = |b: &AdaptedBundle| b.to_bytes().expect("bytes").get(8).copied();
        for (calibration, expected) in [(1.0, 5), (0.5, 6)] {
            bundle.adapted.calibration = calibration;
            assert_eq!(version(&bundle), Some(expected));
            let bytes = bundle.to_bytes().expect("bytes");
            assert_eq!(AdaptedBundle::from_bytes(&bytes).as_ref(), Ok(&bundle));
        }
    }

    #[test]
    fn files_of_version_4_are_read_and_mark_what_their_catalogue_lacks() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/adapted/pixel4-tflite-gpu-f32.version-4.vtb");
        let bundle = AdaptedBundle::load(&path).expect("a file").expect("an adapted bundle");
        assert_eq!((bundle.measured.len(), &bundle.classes), (51, &None));
        assert!(bundle.measured.iter().all(|m| m.graph.is_none() && m.latency_ns > 0.0));
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/vit_tiny_patch16_224.onnx");
        let vit = vitempo_graph::onnx::read_file(&path, &Default::default()).expect("a model");
        let forecast = bundle.predict(&vit).expect("a forecast");
        let marked = |name: &str| {
            let mut of = forecast.operators.iter().filter(|o| o.kind.name() == name);
            of.any(|o| o.extrapolating)
        };
        assert!(marked("matmul") && marked("softmax") && !marked("conv"));
    }
}
