//! Training by `AdamW` on a stream of images of which none comes twice.

use crate::{
    images::{self, CHANNELS, Labelled, SIZE},
    model,
};
use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, loss};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::BTreeMap;
use vitempo::graph::{ConstantData, Graph, GraphError, TensorSpec, Value, ValueSource};

const BATCH: usize = 32;
const RATE: f64 = 1e-3;
const WARMUP: usize = 200;

/// Weights by name.
pub struct Parameters(BTreeMap<String, Var>);

impl Parameters {
    /// Seeded values for every weight of a graph: scales 1, biases 0, matrices normal with variance
    /// 1 / inputs.
    fn new(graph: &Graph, seed: u64) -> Result<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut weights = BTreeMap::new();
        for (name, tensor) in graph.values().iter().filter_map(weight) {
            let (shape, count) = (tensor.shape.as_slice(), tensor.shape.iter().product::<usize>());
            let inputs = if shape.len() == 4 { shape[1..].iter().product() } else { shape[0] };
            let deviation = if name == "positions" { 0.02 } else { (1.0 / inputs as f64).sqrt() };
            let values: Vec<f32> = match shape.len() {
                1 => vec![f32::from(u8::from(name.ends_with("weight"))); count],
                _ => (0..count)
                    .map(|_| {
                        (deviation * (0..12).map(|_| random.random::<f64>() - 0.5).sum::<f64>())
                            as f32
                    })
                    .collect(),
            };
            weights.insert(
                name.to_owned(),
                Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu)?)?,
            );
        }
        Ok(Self(weights))
    }

    fn logits(&self, pixels: &Tensor) -> Result<Tensor> {
        let missing = |name: &str| {
            candle_core::Error::Msg(format!(
                "the graph has no weight \
            `{name}`"
            ))
        };
        model::logits(pixels, &|name| {
            self.0.get(name).map(|var| var.as_tensor().clone()).ok_or_else(|| missing(name))
        })
    }

    /// The graph with these values.
    pub fn fill(&self, graph: &Graph) -> std::result::Result<Graph, Box<dyn std::error::Error>> {
        let mut values: Vec<Value> = graph.values().to_vec();
        for value in &mut values {
            if let Some(var) = self.0.get(&value.name) {
                let floats: Vec<f32> = var.as_tensor().flatten_all()?.to_vec1()?;
                value.source = ValueSource::Constant(Some(ConstantData::Floats(
                    floats.into_iter().map(f64::from).collect(),
                )));
            }
        }
        let filled: std::result::Result<Graph, GraphError> = Graph::new(
            graph.name(),
            values,
            graph.nodes().to_vec(),
            graph.inputs().to_vec(),
            graph.outputs().to_vec(),
        );
        Ok(filled?)
    }
}

/// A constant without values.
fn weight(value: &Value) -> Option<(&str, &TensorSpec)> {
    matches!(value.source, ValueSource::Constant(None)).then_some(())?;
    Some((&value.name, value.tensor.as_ref()?))
}

/// Weights after so many steps; prints the loss on the way.
pub fn train(graph: &Graph, steps: usize, seed: u64) -> Result<Parameters> {
    let parameters = Parameters::new(graph, seed)?;
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(1));
    let options = ParamsAdamW { lr: 0.0, weight_decay: 0.05, ..ParamsAdamW::default() };
    let mut optimizer = AdamW::new(parameters.0.values().cloned().collect(), options)?;
    let mut recent = 0.0;
    for step in 0..steps {
        let progress = step as f64 / steps as f64;
        let warm = ((step + 1) as f64 / WARMUP as f64).min(1.0);
        optimizer
            .set_learning_rate(RATE * warm * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()));
        let drawn: Vec<Labelled> = (0..BATCH).map(|_| images::draw(&mut random)).collect();
        let (pixels, classes) = tensors(&drawn)?;
        let loss = loss::cross_entropy(&parameters.logits(&pixels)?, &classes)?;
        optimizer.backward_step(&loss)?;
        recent += f64::from(loss.to_scalar::<f32>()?);
        if (step + 1) % 100 == 0 {
            println!("step {:5}: loss {:.3}", step + 1, recent / 100.0);
            recent = 0.0;
        }
    }
    Ok(parameters)
}

fn tensors(drawn: &[Labelled]) -> Result<(Tensor, Tensor)> {
    let pixels: Vec<f32> = drawn.iter().flat_map(|image| image.pixels.iter().copied()).collect();
    let classes: Vec<u32> = drawn.iter().map(|image| u32::from(image.class)).collect();
    Ok((
        Tensor::from_vec(pixels, (drawn.len(), CHANNELS, SIZE, SIZE), &Device::Cpu)?,
        Tensor::from_vec(classes, drawn.len(), &Device::Cpu)?,
    ))
}

/// Share of images whose class gets the largest logit.
pub fn accuracy(parameters: &Parameters, tested: &[Labelled]) -> Result<f64> {
    let mut right = 0.0;
    for drawn in tested.chunks(500) {
        let (pixels, classes) = tensors(drawn)?;
        let found = parameters.logits(&pixels)?.argmax(D::Minus1)?.eq(&classes)?;
        right += f64::from(found.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()?);
    }
    Ok(right / tested.len().max(1) as f64)
}
