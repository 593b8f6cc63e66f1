//! [`Parameters`]: weights by name with their moments, so that an interrupted training continues as
//! if it had not been (`AdamW`; Loshchilov and Hutter, ICLR 2019).

use candle_core::{Device, Result, Tensor, Var, backprop::GradStore, safetensors};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{collections::BTreeMap, collections::HashMap, path::Path};
use vitempo_graph::{ConstantData, Graph, GraphError, TensorSpec, Value, ValueSource};

const DECAY: [f64; 2] = [0.9, 0.98];
const TINY: f64 = 1e-8;
const WEIGHT_DECAY: f64 = 0.03;
/// Largest length of a gradient.
const CLIP: f64 = 1.0;

/// A weight and the averages of its gradient and of the gradient's square.
struct Entry {
    value: Var,
    mean: Tensor,
    square: Tensor,
}

/// Weights by name.
pub struct Parameters {
    entries: BTreeMap<String, Entry>,
    /// Steps that were taken.
    pub step: usize,
}

impl Parameters {
    /// Seeded values for every weight of some graphs: scales 1, biases and depthwise kernels 0,
    /// matrices normal with variance 1 / inputs, halved where a block's output is added.
    pub fn new(graphs: &[Graph], seed: u64) -> Result<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut entries = BTreeMap::new();
        for (name, tensor) in graphs.iter().flat_map(|g| g.values().iter().filter_map(weight)) {
            let shape = tensor.shape.as_slice();
            let count = shape.iter().product::<usize>();
            let inputs = if shape.len() == 4 { shape[1..].iter().product() } else { shape[0] };
            let added = name.ends_with("out.weight") || name.ends_with("narrow.weight");
            let deviation = (1.0 / inputs as f64).sqrt() * if added { 0.5 } else { 1.0 };
            let values: Vec<f32> = match shape.len() {
                1 => vec![f32::from(u8::from(name.ends_with("weight"))); count],
                _ if name.contains("near") => vec![0.0; count],
                _ => (0..count).map(|_| (deviation * normal(&mut random)) as f32).collect(),
            };
            let value = Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu)?)?;
            let (mean, square) = (value.zeros_like()?, value.zeros_like()?);
            entries.insert(name.to_owned(), Entry { value, mean, square });
        }
        Ok(Self { entries, step: 0 })
    }

    /// Number of weights.
    pub fn count(&self) -> usize {
        self.entries.values().map(|entry| entry.value.elem_count()).sum()
    }

    /// A weight by its name.
    pub fn weight(&self, name: &str) -> Result<Tensor> {
        let entry = self.entries.get(name);
        let entry = entry.ok_or_else(|| candle_core::Error::msg(format!("no weight `{name}`")))?;
        Ok(entry.value.as_tensor().clone())
    }

    /// One step of a length against the gradient.
    pub fn update(&mut self, gradients: &GradStore, rate: f64) -> Result<()> {
        self.step += 1;
        let squares = self
            .entries
            .values()
            .filter_map(|entry| gradients.get(&entry.value))
            .map(|gradient| gradient.sqr()?.sum_all()?.to_scalar::<f32>());
        let length = f64::from(squares.sum::<Result<f32>>()?).sqrt();
        let clip = (CLIP / length.max(1e-12)).min(1.0);
        let corrections = DECAY.map(|decay| 1.0 - decay.powi(self.step as i32));
        for (name, entry) in &mut self.entries {
            let Some(gradient) = gradients.get(&entry.value) else { continue };
            let gradient = (gradient.detach() * clip)?;
            entry.mean = ((&entry.mean * DECAY[0])? + (&gradient * (1.0 - DECAY[0]))?)?.detach();
            entry.square =
                ((&entry.square * DECAY[1])? + (gradient.sqr()? * (1.0 - DECAY[1]))?)?.detach();
            let mean = (&entry.mean / corrections[0])?;
            let spread = ((&entry.square / corrections[1])?.sqrt()? + TINY)?;
            let value = entry.value.as_detached_tensor();
            let decay =
                if name.ends_with("weight") && value.dims().len() > 1 { WEIGHT_DECAY } else { 0.0 };
            let value = ((&value * (1.0 - rate * decay))? - (mean.div(&spread)? * rate)?)?;
            entry.value.set(&value)?;
        }
        Ok(())
    }

    /// Writes weights, averages and the number of steps; a crash leaves the earlier file.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut tensors = HashMap::new();
        for (name, entry) in &self.entries {
            tensors.insert(format!("{name}/value"), entry.value.as_tensor().clone());
            tensors.insert(format!("{name}/mean"), entry.mean.clone());
            tensors.insert(format!("{name}/square"), entry.square.clone());
        }
        let step = Tensor::new(&[self.step as i64], &Device::Cpu)?;
        tensors.insert("step".to_owned(), step);
        let next = path.with_extension("next");
        safetensors::save(&tensors, &next)?;
        std::fs::rename(&next, path)?;
        Ok(())
    }

    /// Reads what [`Self::save`] wrote.
    pub fn load(&mut self, path: &Path) -> Result<()> {
        let tensors = safetensors::load(path, &Device::Cpu)?;
        let get = |name: String| {
            let found = tensors.get(&name).cloned();
            found.ok_or_else(|| candle_core::Error::msg(format!("{}: no `{name}`", path.display())))
        };
        for (name, entry) in &mut self.entries {
            entry.value.set(&get(format!("{name}/value"))?)?;
            entry.mean = get(format!("{name}/mean"))?;
            entry.square = get(format!("{name}/square"))?;
        }
        self.step =
            get("step".to_owned())?.to_vec1::<i64>()?.first().map_or(0, |step| *step as usize);
        Ok(())
    }

    /// The graph with these weights.
    pub fn fill(&self, graph: &Graph) -> std::result::Result<Graph, Box<dyn std::error::Error>> {
        let mut values = graph.values().to_vec();
        for value in &mut values {
            if let Some(entry) = self.entries.get(&value.name) {
                let floats: Vec<f32> = entry.value.as_tensor().flatten_all()?.to_vec1()?;
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

/// Standard normal, by the sum of uniform numbers.
fn normal(random: &mut StdRng) -> f64 {
    (0..12).map(|_| random.random::<f64>() - 0.5).sum()
}

/// A constant without values.
fn weight(value: &Value) -> Option<(&str, &TensorSpec)> {
    matches!(value.source, ValueSource::Constant(None)).then_some(())?;
    Some((&value.name, value.tensor.as_ref()?))
}
