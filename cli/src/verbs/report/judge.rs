//! Bundles for the report's accuracy: trained where they are not kept yet, then held against models
//! that they were not trained on.
//!
//! Every environment has GBDT on all training models. Where there are many, all three methods are
//! trained on several numbers of models, each set containing the smaller ones, and GBDT again
//! without the networks around single operators. The models judged are the same for all of them.

use crate::verbs::{
    error::{CliResult, io_error},
    progress,
    train::Training,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};
use vitempo::datasets::{Dataset, Split, SplitSize};
use vitempo::graph::ModelProfile;
use vitempo::predictors::{Method, PredictorBundle, PredictorError, TrainOptions, TrainingRows};
use vitempo::training;
use vitempo_report::{forecasts::Judged, survey::Group};

/// Fewest synthetic models of an environment for training and judging.
const FEWEST_MODELS: usize = 20;
/// From so many synthetic models on, methods and training sizes are compared.
const MANY_MODELS: usize = 300;
/// Training sizes that are compared, as far as there are so many.
const SIZES: [usize; 3] = [30, 100, 900];
/// Most synthetic models held out.
const MOST_TEST: usize = 100;

/// Where bundles are kept, and the seed of everything.
pub struct Trainer {
    pub folder: PathBuf,
    pub seed: u64,
}

/// One bundle to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    method: Method,
    models: usize,
    operators: bool,
}

/// Models held out, and bundles, for so many synthetic models; largest training first, so that what
/// matters most is there first.
fn plan(synthetic: usize) -> (usize, Vec<Wanted>) {
    let test = (synthetic / 5).clamp(1, MOST_TEST);
    let most = synthetic.saturating_sub(test).min(*SIZES.iter().max().unwrap_or(&usize::MAX));
    let all = Wanted { method: Method::Gbdt, models: most, operators: true };
    if synthetic < MANY_MODELS {
        return (test, vec![all]);
    }
    let mut sizes: Vec<usize> = SIZES.into_iter().filter(|s| *s < most).chain([most]).collect();
    sizes.reverse();
    let methods = [Method::Gbdt, Method::Lasso, Method::RandomForest];
    let with_operators = sizes
        .iter()
        .flat_map(|&models| methods.map(|method| Wanted { method, models, operators: true }));
    let without = sizes.iter().map(|&models| Wanted { models, operators: false, ..all });
    (test, with_operators.chain(without).collect())
}

impl Trainer {
    /// Trains and judges what [`plan`] wants for one environment; nothing where there are too few
    /// synthetic models.
    pub fn judge(&self, dataset: &Dataset) -> CliResult<Vec<Judged>> {
        let synthetic: BTreeSet<&str> = dataset
            .profiles
            .iter()
            .filter(|p| p.model.space.is_some() && !p.model.is_operator())
            .map(|p| p.model.architecture.as_str())
            .collect();
        if synthetic.len() < FEWEST_MODELS {
            return Ok(Vec::new());
        }
        let (test, wanted) = plan(synthetic.len());
        let any =
            vitempo::datasets::split(dataset, SplitSize::Counts { train: 1, test }, self.seed)?;
        let sets = sets(dataset, &any);
        let has_operators = dataset.profiles.iter().any(|p| p.model.is_operator());
        let mut judged = Vec::new();
        for want in wanted.into_iter().filter(|w| w.operators || has_operators) {
            let split = vitempo::datasets::split(
                dataset,
                SplitSize::Counts { train: want.models, test },
                self.seed,
            )?;
            let mut training = training::training_side(&dataset.profiles, &split);
            if !want.operators {
                training.retain(|p| !p.model.is_operator());
            }
            let operators: BTreeSet<&str> = training
                .iter()
                .filter(|p| p.model.is_operator())
                .map(|p| p.model.architecture.as_str())
                .collect();
            let bundle = self.bundle(&training, dataset, want)?;
            let mut evaluated = BTreeMap::new();
            for (group, profiles) in &sets {
                match vitempo::predictors::evaluate(&bundle, profiles, &dataset.graphs) {
                    Ok(evaluation) => drop(evaluated.insert(*group, evaluation)),
                    Err(PredictorError::NoRows { .. }) => progress::say(format!(
                        "warning: left out {group} models: no usable operator rows"
                    )),
                    Err(error) => return Err(error.into()),
                }
            }
            judged.push(Judged {
                method: want.method,
                models: want.models,
                operators: operators.len(),
                sets: evaluated,
            });
        }
        Ok(judged)
    }

    /// The kept bundle where it was trained on the same rows in the same way, else a new one, which
    /// is kept.
    fn bundle(
        &self,
        training: &[ModelProfile],
        dataset: &Dataset,
        want: Wanted,
    ) -> CliResult<PredictorBundle> {
        let options = TrainOptions { seed: self.seed, ..TrainOptions::default() };
        let path = self.path(training, want);
        let digest = TrainingRows::from_profiles(training)?.digest();
        if let Some(kept) = kept(&path, want.method, &digest, &options) {
            return Ok(kept);
        }
        let extra = if want.operators { "" } else { ", no single operators" };
        progress::say(format!(
            "  training {} on {} synthetic models{extra}",
            want.method, want.models
        ));
        let bar = Training::start();
        let bundle = training::train_on(training, dataset, want.method, &options, &mut |p| {
            bar.show(&p, want.method);
        })?;
        drop(bar);
        fs::create_dir_all(&self.folder).map_err(|e| io_error("make folder", &self.folder, &e))?;
        bundle.save(&path)?;
        Ok(bundle)
    }

    fn path(&self, training: &[ModelProfile], want: Wanted) -> PathBuf {
        let environment = training.first().map(|p| p.environment.id()).unwrap_or_default();
        let alone = if want.operators { "" } else { "-models-only" };
        self.folder.join(format!("{environment}-{}-{}{alone}.vtb", want.method, want.models))
    }
}

/// The bundle at `path`, if it is what training now would give.
fn kept(
    path: &Path,
    method: Method,
    digest: &str,
    options: &TrainOptions,
) -> Option<PredictorBundle> {
    let bundle = if path.exists() { PredictorBundle::load(path).ok()? } else { return None };
    let same = bundle.method == method
        && bundle.provenance.data_digest == digest
        && bundle.provenance.seed == options.seed
        && bundle.provenance.folds == options.folds
        && (bundle.interval.level - options.level).abs() < 1e-12;
    same.then_some(bundle)
}

/// Visits to the models kept from training, by group.
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
        assert_eq!((test, wanted.len(), wanted[0].models), (100, 12, 900));
        let (test, wanted) = plan(300);
        assert_eq!((test, wanted.iter().map(|w| w.models).max()), (60, Some(240)));
        assert!(wanted.iter().any(|w| w.models == 30 && !w.operators && w.method == Method::Gbdt));
    }
}
