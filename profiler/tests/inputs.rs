//! Every engine gets the input values that were asked for: a model of one ReLU returns them.

#![allow(clippy::unwrap_used)]

mod here;

use vitempo_graph::{Attributes, Graph, GraphBuilder, OpKind, Precision, TensorSpec};
use vitempo_profiler::{
    InputDistribution, RunOptions, backends, inputs,
    source::{self, Source},
};

const SHAPE: [usize; 4] = [1, 5, 16, 24];

fn relu() -> Graph {
    let mut b = GraphBuilder::new("relu");
    let image = b.input("image", TensorSpec::f32(SHAPE));
    let output = b.op("relu", OpKind::Relu, Attributes::new(), &[image]).unwrap();
    b.finish(vec![output]).unwrap()
}

/// Checks without the generator whether `values` can be a ReLU of the distribution.
fn plausible(values: &[f32], distribution: InputDistribution, tolerance: f32) -> bool {
    let count = values.len() as f32;
    let mean = values.iter().sum::<f32>() / count;
    match distribution {
        InputDistribution::Uniform(low, high) => {
            values.iter().all(|v| (low..=high * (1.0 + tolerance)).contains(v))
                && (mean - (low + high) / 2.0).abs() < (high - low) * 0.05
        }
        // Half of a normal distribution: zeros for half of the values, and a mean of scale / sqrt(2
        // pi).
        InputDistribution::Normal(scale) => {
            let zeros = values.iter().filter(|v| **v == 0.0).count() as f32 / count;
            (zeros - 0.5).abs() < 0.05
                && (mean / (scale / std::f32::consts::TAU.sqrt()) - 1.0).abs() < 0.1
        }
        InputDistribution::Constant(value) => {
            values.iter().all(|v| (v - value.max(0.0)).abs() <= tolerance * value.abs())
        }
    }
}

#[test]
fn every_engine_is_fed_what_was_asked_for() {
    let graph = relu();
    let tensor = TensorSpec::f32(SHAPE);
    for backend in backends::all().iter().filter(|b| b.name() != "null") {
        let name = backend.name();
        let Some(offered) = here::offered(backend.as_ref(), &RunOptions::default()) else {
            continue;
        };
        let precision = if offered.precisions.contains(&Precision::F32) {
            Precision::F32
        } else {
            offered.precisions[0]
        };
        let engine = RunOptions {
            processor: offered.devices[0],
            precision,
            seed: 11,
            ..RunOptions::default()
        };
        let tolerance = if precision == Precision::F32 { 0.0 } else { 2e-3 };
        for distribution in [
            "uniform(2,3)",
            "uniform(0,0.5)",
            "normal(0.5)",
            "normal(4)",
            "constant(1.5)",
            "constant(-1)",
        ] {
            let distribution: InputDistribution = distribution.parse().unwrap();
            let options = RunOptions { inputs: distribution, ..engine.clone() };
            let model =
                source::ready("relu", &Source::Graph, &graph, backend.as_ref(), &options).unwrap();
            let outputs = backend.load(&model, &options).unwrap().outputs().unwrap();
            assert_eq!(
                (outputs.len(), outputs[0].shape.as_slice()),
                (1, SHAPE.as_slice()),
                "{name}"
            );
            assert!(
                plausible(&outputs[0].values, distribution, tolerance),
                "{name} at {distribution}: {:?}...",
                &outputs[0].values[..8]
            );
            let fed = inputs::float_values(&tensor, distribution, options.seed, 0).unwrap();
            let same =
                |(got, fed): (&f32, &f32)| (got - fed.max(0.0)).abs() <= tolerance * fed.abs();
            assert!(
                outputs[0].values.iter().zip(&fed).all(same),
                "{name} at {distribution}: in another order"
            );
        }
    }
}
