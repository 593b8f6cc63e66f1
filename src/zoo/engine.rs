//! Runs models of a zoo on one engine, on the same seeded inputs, and measures the similarity of
//! their results.

use super::ZooError;
use vitempo_graph::Graph;
use vitempo_profiler::{Backend, OutputValues, RunOptions, Session, backends, inputs, source};

/// One engine.
pub struct Engine {
    backend: Box<dyn Backend>,
    options: RunOptions,
    /// Number of inputs of each model.
    count: usize,
}

/// Results of one model, by input.
pub type Results = Vec<Vec<OutputValues>>;

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("backend", &self.backend.name())
            .field("options", &self.options)
            .field("count", &self.count)
            .finish()
    }
}

impl Engine {
    /// The engine of that name, if it is available.
    ///
    /// # Errors
    /// [`ZooError::UnknownEngine`], and [`ZooError::Engine`] where it is not available.
    pub fn find(name: &str, count: usize) -> Result<Self, ZooError> {
        let options = RunOptions::default();
        let backend = backends::by_name(name).map_err(ZooError::UnknownEngine)?;
        backend.probe(&options).require(backend.name())?;
        Ok(Self { backend, options, count })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.backend.name()
    }

    /// A model, ready to run.
    ///
    /// # Errors
    /// [`ZooError`] with the engine's reason where it refuses the model.
    pub fn load(&self, graph: &Graph) -> Result<Box<dyn Session>, ZooError> {
        let model = source::ready(
            graph.name(),
            &source::Source::Graph,
            graph,
            self.backend.as_ref(),
            &self.options,
        )
        .map_err(ZooError::NotRunnable)?;
        Ok(self.backend.load(&model, &self.options)?)
    }

    /// Results of a model for seeded inputs. Weights without values are seeded by name.
    ///
    /// # Errors
    /// As [`Engine::load`], and where the model does not run.
    pub fn results(&self, graph: &Graph) -> Result<Results, ZooError> {
        self.results_from(graph, None)
    }

    /// Results of a model for the outputs of another one, or for seeded inputs.
    ///
    /// # Errors
    /// As [`Engine::results`].
    pub fn results_from(
        &self,
        graph: &Graph,
        given: Option<&Results>,
    ) -> Result<Results, ZooError> {
        let mut session = self.load(graph)?;
        let mut run = |values: &[OutputValues]| -> Result<Vec<OutputValues>, ZooError> {
            session.feed(&values.iter().collect::<Vec<_>>())?;
            Ok(session.outputs()?)
        };
        if let Some(given) = given {
            return given.iter().map(|values| run(values)).collect();
        }
        let seeded = |index: usize| {
            inputs::of_graph(
                graph,
                self.options.inputs,
                self.options.seed.wrapping_add(index as u64),
            )
            .map_err(ZooError::NotRunnable)
        };
        (0..self.count).map(|index| run(&seeded(index)?)).collect()
    }
}

/// Mean cosine of the angle between results and those expected, over inputs and outputs; 0 where it
/// would be negative, 1 for the same direction.
#[must_use]
pub fn similarity(expected: &Results, found: &Results) -> f64 {
    let pairs: Vec<f64> = expected
        .iter()
        .flatten()
        .zip(found.iter().flatten())
        .map(|(a, b)| cosine(&a.values, &b.values))
        .collect();
    (pairs.iter().sum::<f64>() / pairs.len().max(1) as f64).max(0.0)
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>()
    };
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    let cosine = dot(a, b) / lengths;
    if a.len() == b.len() && cosine.is_finite() { cosine } else { f64::from(u8::from(a == b)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_is_the_mean_cosine() {
        let results = |values: &[f32]| {
            vec![vec![OutputValues {
                name: "y".into(),
                shape: vec![values.len()],
                values: values.to_vec(),
            }]]
        };
        assert!((similarity(&results(&[3.0, 4.0]), &results(&[6.0, 8.0])) - 1.0).abs() < 1e-12);
        assert!(
            (similarity(&results(&[1.0, 0.0]), &results(&[1.0, 1.0])) - 0.5f64.sqrt()).abs() < 1e-7
        );
        let none: [(&[f32], &[f32]); 3] =
            [(&[1.0, 0.0], &[-1.0, 0.0]), (&[1.0], &[1.0, 0.0]), (&[f32::NAN, 1.0], &[1.0, 1.0])];
        assert!(none.iter().all(|(a, b)| similarity(&results(a), &results(b)) == 0.0));
        assert!((similarity(&results(&[0.0]), &results(&[0.0])) - 1.0).abs() < 1e-12);
    }
}
