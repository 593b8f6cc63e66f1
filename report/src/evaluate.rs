//! Bundles for the section on accuracy: trained if the folder of bundles has no matching one, then
//! evaluated on models outside the training data.
//!
//! Every environment has GBDT on all training models. Where there are many, all three methods are
//! trained on several numbers of models, each set containing the smaller ones, with and without the
//! networks around single operators. All bundles are evaluated on the same models.

use super::{
    Progress, ReportError,
    forecasts::{BundleEvaluation, ForecastParts, ModelForecast},
    group::Group,
    survey::{FAMILIES, family_index},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};
use vitempo::{
    datasets::{self, Dataset, Split, SplitSize},
    graph::{LatencyModel, ModelProfile},
    predictors::{
        self, Evaluation, Method, ModelRow, PredictorBundle, PredictorError, TrainOptions,
        TrainingRows,
    },
    training,
};

/// Fewest synthetic models of an environment for training and evaluation.
pub const FEWEST_MODELS: usize = 20;
/// Number of synthetic models from which methods and training sizes are compared.
pub const MANY_MODELS: usize = 300;
/// Training sizes that are compared, if there are enough models.
const SIZES: [usize; 3] = [30, 100, 900];
/// Most synthetic models held out.
const MOST_TEST: usize = 100;

/// Trains bundles, keeps them, and evaluates them.
pub struct Evaluator {
    /// Where bundles are kept.
    pub folder: PathBuf,
    /// Seed of splits and training.
    pub seed: u64,
}

/// A bundle that the section on accuracy needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    method: Method,
    models: usize,
    operators: bool,
}

/// Number of held-out models, and bundles, by the number of synthetic models; the largest training
/// comes first, because it matters most.
fn plan(synthetic: usize) -> (usize, Vec<Wanted>) {
    let test = (synthetic / 5).clamp(1, MOST_TEST);
    let most = synthetic.saturating_sub(test).min(*SIZES.iter().max().unwrap_or(&usize::MAX));
    if synthetic < MANY_MODELS {
        return (test, vec![Wanted { method: Method::Gbdt, models: most, operators: true }]);
    }
    let mut sizes: Vec<usize> = SIZES.into_iter().filter(|s| *s < most).chain([most]).collect();
    sizes.reverse();
    let mut wanted = Vec::new();
    for operators in [true, false] {
        for &models in &sizes {
            let methods = [Method::Gbdt, Method::Lasso, Method::RandomForest];
            wanted.extend(methods.map(|method| Wanted { method, models, operators }));
        }
    }
    (test, wanted)
}

impl Evaluator {
    /// Trains and evaluates what [`plan`] lists for one environment; nothing where there are too
    /// few synthetic models.
    ///
    /// # Errors
    /// [`ReportError`] of splitting, training, evaluating and keeping.
    pub fn evaluate(
        &self,
        dataset: &Dataset,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Vec<BundleEvaluation>, ReportError> {
        let synthetic = architectures(dataset.profiles.iter().filter(|p| is_synthetic(p))).len();
        if synthetic < FEWEST_MODELS {
            return Ok(Vec::new());
        }
        let (test, wanted) = plan(synthetic);
        let split = |train| datasets::split(dataset, SplitSize::Counts { train, test }, self.seed);
        let sets = sets(dataset, &split(1)?);
        let has_operators = dataset.profiles.iter().any(|p| p.model.is_operator());
        let mut evaluations = Vec::new();
        for run in wanted.into_iter().filter(|w| w.operators || has_operators) {
            let mut training = training::training_side(&dataset.profiles, &split(run.models)?);
            if !run.operators {
                training.retain(|p| !p.model.is_operator());
            }
            let bundle = self.bundle(&training, dataset, run, progress)?;
            let evaluated = evaluate(&bundle, &sets, dataset, progress)?;
            // The first bundle was trained on the most.
            let forecasts = match evaluations.is_empty() {
                true => forecasts(&bundle, &evaluated, dataset),
                false => Vec::new(),
            };
            evaluations.push(BundleEvaluation {
                method: run.method,
                models: run.models,
                operators: architectures(training.iter().filter(|p| p.model.is_operator())).len(),
                drift: bundle.drift,
                sets: evaluated,
                forecasts,
            });
        }
        Ok(evaluations)
    }

    /// The stored bundle if it was trained on the same rows in the same way, else a new one, which
    /// is stored.
    fn bundle(
        &self,
        training: &[ModelProfile],
        dataset: &Dataset,
        run: Wanted,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<PredictorBundle, ReportError> {
        let Wanted { method, models, operators } = run;
        let options = TrainOptions { seed: self.seed, ..TrainOptions::default() };
        let path = self.path(training, run);
        let digest = TrainingRows::from_profiles(training)?.digest();
        if let Some(kept) = kept(&path, method, &digest, &options) {
            return Ok(kept);
        }
        progress(Progress::Training { method, models, operators });
        let bundle = training::train_on(training, dataset, method, &options, &mut |fitted| {
            progress(Progress::Fitting { method, fitted });
        })?;
        progress(Progress::Trained);
        fs::create_dir_all(&self.folder)
            .map_err(|source| ReportError::BundleFolder { path: self.folder.clone(), source })?;
        bundle.save(&path)?;
        Ok(bundle)
    }

    fn path(&self, training: &[ModelProfile], run: Wanted) -> PathBuf {
        let environment = training.first().map(|p| p.environment.id()).unwrap_or_default();
        let alone = if run.operators { "" } else { "-models-only" };
        self.folder.join(format!("{environment}-{}-{}{alone}.vtb", run.method, run.models))
    }
}

fn is_synthetic(profile: &ModelProfile) -> bool {
    profile.model.space.is_some() && !profile.model.is_operator()
}

fn architectures<'a>(profiles: impl Iterator<Item = &'a ModelProfile>) -> BTreeSet<&'a str> {
    profiles.map(|p| p.model.architecture.as_str()).collect()
}

/// The bundle on each set of models; a set without usable rows is left out with a warning.
fn evaluate(
    bundle: &PredictorBundle,
    sets: &BTreeMap<Group, Vec<ModelProfile>>,
    dataset: &Dataset,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<BTreeMap<Group, Evaluation>, ReportError> {
    let mut evaluated = BTreeMap::new();
    for (group, profiles) in sets {
        match predictors::evaluate(bundle, profiles, &dataset.graphs) {
            Ok(evaluation) => drop(evaluated.insert(*group, evaluation)),
            Err(PredictorError::NoRows { .. }) => progress(Progress::Warning(&format!(
                "left out {group} models: no usable operator rows"
            ))),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(evaluated)
}

/// The forecasts of the real models, in the order of groups, then of names.
fn forecasts(
    bundle: &PredictorBundle,
    evaluated: &BTreeMap<Group, Evaluation>,
    dataset: &Dataset,
) -> Vec<ModelForecast> {
    let real = evaluated.iter().filter(|(group, _)| **group != Group::Synthetic);
    let forecast = |row: &ModelRow| ModelForecast {
        row: row.clone(),
        parts: parts(bundle, &row.name, &row.architecture, dataset),
    };
    real.flat_map(|(_, evaluation)| &evaluation.models).map(forecast).collect()
}

/// `None` without a graph, or where its kernels are not known.
fn parts(
    bundle: &PredictorBundle,
    name: &str,
    architecture: &str,
    dataset: &Dataset,
) -> Option<ForecastParts> {
    let graph = dataset.graphs.get(name).or_else(|| dataset.graphs.get(architecture))?;
    let forecast = bundle.predict(graph).ok()?;
    let mut families = [0.0; FAMILIES];
    for operator in &forecast.operators {
        if let Some(sum) = families.get_mut(family_index(&operator.kind)) {
            *sum += operator.latency_ns.ns();
        }
    }
    Some(ForecastParts { families, overhead: forecast.overhead.ns() })
}

/// The bundle at `path`, if it is what training now would give.
fn kept(
    path: &Path,
    method: Method,
    digest: &str,
    options: &TrainOptions,
) -> Option<PredictorBundle> {
    let bundle = if path.exists() { PredictorBundle::load(path).ok()? } else { return None };
    let same = !bundle.has_unread_features()
        && bundle.method == method
        && bundle.provenance.data_digest == digest
        && bundle.provenance.seed == options.seed
        && bundle.provenance.folds == options.folds
        && (bundle.interval.level - options.level).abs() < 1e-12;
    same.then_some(bundle)
}

/// Measurements of the models kept from training, by group.
fn sets(dataset: &Dataset, split: &Split) -> BTreeMap<Group, Vec<ModelProfile>> {
    let held_out: BTreeSet<&str> =
        split.test.iter().chain(&split.real).map(String::as_str).collect();
    let mut sets: BTreeMap<Group, Vec<ModelProfile>> = BTreeMap::new();
    for p in dataset.profiles.iter().filter(|p| held_out.contains(p.model.architecture.as_str())) {
        if let Some(group) = Group::of(&p.model, dataset.graphs.get(&p.model.architecture)) {
            sets.entry(group).or_default().push(p.clone());
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_fit_what_there_is() {
        assert_eq!(
            plan(40),
            (8, vec![Wanted { method: Method::Gbdt, models: 32, operators: true }])
        );
        let (test, wanted) = plan(1000);
        assert_eq!((test, wanted.len(), wanted[0].models), (100, 18, 900));
        let (test, wanted) = plan(300);
        assert_eq!((test, wanted.iter().map(|w| w.models).max()), (60, Some(240)));
        for method in Method::ALL {
            assert!(wanted.contains(&Wanted { method, models: 30, operators: false }));
        }
    }
}
