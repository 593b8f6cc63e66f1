//! Datasets of any size, for measuring how training and lakes scale: sampled models whose operators
//! take what a bundle forecasts, times noise. Nothing is measured; all rows are
//! [`Origin::Simulated`], of a device whose name says so.

use std::{path::Path, sync::Arc};
use vitempo::{
    Bundle,
    datasets::{Dataset, DatasetError, Lake},
    graph::{
        Budget, Environment, Executed, LatencyModel, Measurement, ModelIdentity, ModelProfile,
        Origin, PredictionError, Protocol, Samples, Status,
    },
    profiler::InputDistribution,
    sampling::{self, Sample, SamplingError},
    search_space::Generator,
};

/// Models of one space in one commit.
const BATCH: usize = 500;

/// What to generate.
#[derive(Clone, Debug)]
pub struct Generated<'a> {
    /// Spaces, and inventories of operators, in turns.
    pub spaces: &'a [String],
    /// Fewest rows of operators.
    pub rows: u64,
    /// Standard deviation of the logarithm of a latency.
    pub noise: f64,
    /// Seed of samples and noise.
    pub seed: u64,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Models and networks.
    pub models: u64,
    /// Rows of operators.
    pub rows: u64,
}

/// Why nothing was generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GeneratedError {
    /// Noise that is no standard deviation.
    #[error("noise of {0} is no standard deviation: it has to lie between 0 and 1")]
    Noise(f64),
    /// No space.
    #[error("no space to sample")]
    NoSpace,
    /// A space cannot be sampled.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The engine's kernels of a sample are not known.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
    /// The lake cannot be written.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
}

/// Appends models to the lake in `folder` until it has that many rows of operators, a commit for
/// each batch of one space.
///
/// # Errors
/// [`GeneratedError`]; batches before it are in the lake.
pub fn generate(
    bundle: &Bundle,
    folder: &Path,
    wanted: &Generated<'_>,
    done: &mut dyn FnMut(Progress),
) -> Result<Progress, GeneratedError> {
    if !(0.0..=1.0).contains(&wanted.noise) {
        return Err(GeneratedError::Noise(wanted.noise));
    }
    let environment = simulated(bundle.environment());
    let mut lake = Lake::open_or_create(folder)?;
    let mut progress = Progress::default();
    for (batch, space) in wanted.spaces.iter().cycle().enumerate() {
        if progress.rows >= wanted.rows {
            return Ok(progress);
        }
        let seed = wanted.seed.wrapping_add(batch as u64);
        let samples = sampling::sample_named(space, BATCH, seed)?;
        let mut noise = Noise { source: Generator::stream(seed, 0), deviation: wanted.noise };
        let profiles: Vec<ModelProfile> = samples
            .iter()
            .map(|sample| profile(bundle, &environment, sample, &mut noise))
            .collect::<Result<_, _>>()?;
        progress.models += profiles.len() as u64;
        progress.rows += profiles.iter().map(|p| p.operators.len() as u64).sum::<u64>();
        lake.append(&Dataset { profiles, ..Dataset::default() })?;
        done(progress);
    }
    Err(GeneratedError::NoSpace)
}

/// The same engine on a device that does not exist.
fn simulated(environment: &Environment) -> Environment {
    Environment { device: format!("simulated {}", environment.device), ..environment.clone() }
}

/// Factors whose logarithm is normal.
struct Noise {
    source: Generator,
    deviation: f64,
}

impl Noise {
    /// Of a latency in ns, at least 1; the normal variate by Box and Muller.
    fn on(&mut self, ns: f64) -> Samples {
        let radius = (-2.0 * (1.0 - self.source.unit()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.source.unit()).cos();
        let noisy = ns * (self.deviation * normal).exp();
        Samples { wall_ns: vec![noisy.round().max(1.0) as u64], cpu_ns: Vec::new() }
    }
}

fn profile(
    bundle: &Bundle,
    environment: &Environment,
    sample: &Sample,
    noise: &mut Noise,
) -> Result<ModelProfile, GeneratedError> {
    let model = ModelIdentity {
        name: sample.name.clone(),
        architecture: sample.graph.architecture(),
        space: Some(sample.space.clone()),
        encoding: Some(sample.encoding.clone()),
    };
    let (kernels, forecast) = bundle.predict_lowered(&sample.graph, &Budget::default())?;
    let operators = kernels.nodes().iter().zip(&forecast.operators);
    let operators: Vec<Measurement> = operators
        .map(|(node, operator)| Measurement {
            op: Arc::new(node.op.clone()),
            node: node.name.clone(),
            kernel: String::new(),
            samples: noise.on(operator.latency_ns.ns()),
            memory_bytes: None,
            status: Status::Ok,
        })
        .collect();
    let e2e = match model.is_operator() {
        true => Samples::default(),
        false => noise.on(forecast.latency.point().ns()),
    };
    Ok(ModelProfile {
        model,
        environment: environment.clone(),
        session: "generated".to_owned(),
        round: 0,
        started_unix_ms: 0,
        origin: Origin::Simulated,
        source: None,
        protocol: protocol(),
        e2e,
        e2e_profiled: Samples::default(),
        reference: Samples::default(),
        executed: Executed::of(&operators),
        operators,
        peak_memory_bytes: None,
        running_memory_bytes: None,
        energy_per_inference_uj: None,
        load: None,
        status: Status::Ok,
    })
}

/// One sample of everything.
fn protocol() -> Protocol {
    Protocol {
        warmups: 0,
        min_repeats: 1,
        max_repeats: 1,
        target_spread: 0.0,
        rounds: 1,
        seed: 0,
        input_distribution: InputDistribution::default().to_string(),
    }
}
