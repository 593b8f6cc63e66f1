//! [`Expected`]: what the library itself forecasts, to compare every answer with.
//!
//! A service answers an architecture by its graph or by tables, which add up in another order: both
//! results are right, and nothing else.

use super::{DAMAGED, STEADY, file};
use std::collections::BTreeMap;
use vitempo::{
    bundle::Bundle,
    graph::{LatencyModel, Prediction, onnx::ReadOptions},
    models,
    predictors::PredictorBundle,
    query::Tables,
    search_space::{Architecture, Space},
};

/// Distinct architectures that clients ask for.
const ENCODINGS: usize = 600;
/// The model that clients upload.
const MODEL: &str = "tests/models/mobilevit_xxs.onnx";

/// Bits of a forecast: point, lower, upper.
type Bits = [u64; 3];

/// Answers by bundle.
pub struct Expected {
    pub encodings: Vec<String>,
    pub model: Vec<u8>,
    of_encodings: BTreeMap<&'static str, Vec<Vec<Bits>>>,
    of_model: BTreeMap<&'static str, Bits>,
}

fn bits(prediction: &Prediction) -> Bits {
    [prediction.point(), prediction.lower(), prediction.upper()]
        .map(|latency| latency.ns().to_bits())
}

impl Expected {
    pub fn compute() -> Self {
        let space = Space::named("hybrid-vit").expect("a space");
        let architectures = space.sample_many(ENCODINGS, 11).expect("architectures");
        let model = models::read(&file(MODEL), &ReadOptions::default()).expect("a model");
        let mut expected = Self {
            encodings: architectures.iter().map(Architecture::encode).collect(),
            model: std::fs::read(file(MODEL)).expect("a model"),
            of_encodings: BTreeMap::new(),
            of_model: BTreeMap::new(),
        };
        for name in [STEADY, DAMAGED] {
            let path = file("bundles").join(format!("{name}.vtb"));
            let bundle = Bundle::load(path.clone().into()).expect("a bundle");
            expected.of_encodings.insert(name, architectures_of(&path, &space, &architectures));
            let forecast = bundle.predict(&model.graph).expect("a forecast");
            expected.of_model.insert(name, bits(&forecast.latency));
        }
        expected
    }

    /// Whether a result of a service is right: of this encoding, or else of the model.
    pub fn is_right(&self, encoding: Option<usize>, result: &serde_json::Value) -> bool {
        let answered = ["point", "lower", "upper"]
            .map(|end| result["latency_ns"][end].as_f64().unwrap_or(f64::NAN).to_bits());
        let bundle = result["bundle"].as_str().unwrap_or_default();
        match encoding {
            Some(index) => {
                let known = self.of_encodings.get(bundle);
                result["model"] == self.encodings[index].as_str()
                    && known.is_some_and(|known| known[index].contains(&answered))
            }
            None => self.of_model.get(bundle) == Some(&answered),
        }
    }
}

/// By graphs, by tables, and by graphs whose kernels are added up as tables do.
fn architectures_of(
    path: &std::path::Path,
    space: &Space,
    architectures: &[Architecture],
) -> Vec<Vec<Bits>> {
    let bundle = PredictorBundle::load(path).expect("a bundle");
    let mut tables = Tables::of(space, &bundle);
    let by_tables = tables.predict_batch(architectures).expect("forecasts");
    let of = |(architecture, by_tables): (&Architecture, &Prediction)| {
        let graph = architecture.to_graph().expect("a graph");
        let by_graph = bundle.predict(&graph).expect("a forecast").latency;
        let sum = tables.sum_by_graph(architecture).expect("a sum");
        [by_graph, *by_tables, bundle.end_to_end(&sum)].iter().map(bits).collect()
    };
    architectures.iter().zip(&by_tables).map(of).collect()
}
