//! The standard campaign in the order of [`active`](super::active): instead of the parts one after
//! the other, the networks and models that shrink the expected error most per second, batch by
//! batch, with a bundle trained between batches.

use super::{
    CampaignError,
    active::{Candidate, Targets},
    standard::{Group, Part, Session, Standard, StandardOutcome},
};
use crate::training;
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};
use vitempo_datasets::{Measures, Sought, Store};
use vitempo_graph::Status;
use vitempo_predictors::{Method, PredictorBundle, PredictorError, TrainOptions};
use vitempo_profiler::{Progress, RunProtocol, SweepModel};

/// Batches between two trainings.
const BATCHES: u32 = 8;
/// Share of the budget after which real models are measured, if there are some.
const BEFORE_REAL: f64 = 0.6;
/// Training takes at most this share of the time: where it took longer, batches grow.
const TRAINING: f64 = 0.2;

/// What can be chosen.
struct Pool<'s> {
    parts: Vec<Part<'s>>,
    /// Part and place in it.
    places: Vec<(usize, usize)>,
    candidates: Vec<Candidate>,
    done: BTreeSet<usize>,
}

impl Standard<'_> {
    /// As [`Standard::run`], but what is sampled is measured in the order of its worth. Real models
    /// follow, twice, then what the budget leaves.
    ///
    /// # Errors
    /// [`CampaignError`] as [`Standard::run`].
    pub fn run_active(
        &self,
        progress: &mut dyn FnMut(Part<'_>, &Progress<'_>),
        interrupted: &Arc<AtomicBool>,
    ) -> Result<StandardOutcome, CampaignError> {
        let mut session = Session::begin(self, progress, interrupted)?;
        let (real, sampled): (Vec<Part<'_>>, Vec<Part<'_>>) =
            self.set.parts().into_iter().partition(|part| part.group == Group::Real);
        let kept_for_real = if real.is_empty() { 0.0 } else { 1.0 - BEFORE_REAL };
        let until = self.budget.mul_f64(kept_for_real);
        let mut targets = Targets::sampled(&session.before)?;
        let mut pool = self.pool(sampled, &mut targets, &session.before.id())?;
        let mut batch = self.budget / BATCHES;
        while session.left() > until {
            let chosen = targets.choose(&pool.candidates, &mut pool.done, batch.as_secs_f64());
            if chosen.is_empty() {
                break;
            }
            pool.measure(&chosen, &mut session)?;
            let began = Instant::now();
            if let Some(bundle) = self.trained(&session.before.id())? {
                targets.learn(&bundle);
            }
            batch = batch.max(began.elapsed().mul_f64(1.0 / TRAINING));
        }
        for part in real {
            session.measure(part)?;
        }
        for part in &pool.parts {
            session.measure(*part)?;
        }
        session.end()
    }

    /// Everything sampled, each once; what the dataset has counts as measured.
    fn pool<'s>(
        &'s self,
        sampled: Vec<Part<'s>>,
        targets: &mut Targets,
        environment_id: &str,
    ) -> Result<Pool<'s>, CampaignError> {
        let store = Store::open_or_create(self.out)?;
        let protocol = RunProtocol::default().recorded(&self.options);
        let sought = Sought {
            environment_id,
            round: 0,
            protocol: &protocol,
            session: None,
            measures: Measures::Latency,
        };
        let (mut places, mut candidates, mut done) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (index, part) in sampled.iter().enumerate().filter(|(_, part)| part.round == 0) {
            for (place, model) in part.models.iter().enumerate() {
                let is_whole = !model.identity.is_operator();
                let candidate = targets.candidate(&model.graph, is_whole, part.runs())?;
                let status = store.find(&model.identity, &sought).map(|found| found.status);
                if status.is_some() {
                    done.insert(candidates.len());
                }
                if status == Some(&Status::Ok) {
                    targets.add(&candidate);
                }
                places.push((index, place));
                candidates.push(candidate);
            }
        }
        Ok(Pool { parts: sampled, places, candidates, done })
    }

    /// A bundle of what is measured; `None` where that is too little.
    fn trained(&self, environment_id: &str) -> Result<Option<PredictorBundle>, CampaignError> {
        let Ok(dataset) = training::load_environment(self.out, Some(environment_id)) else {
            return Ok(None);
        };
        let mut sampled = dataset.profiles;
        sampled.retain(|profile| profile.model.space.is_some());
        let options = TrainOptions::default();
        let graphs = &dataset.graphs;
        match vitempo_predictors::train(&sampled, graphs, Method::Gbdt, &options, &mut |_| ()) {
            Ok(bundle) => Ok(Some(bundle)),
            Err(PredictorError::TooFewModels { .. } | PredictorError::NoRows { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Pool<'_> {
    /// Measures what was chosen, part by part.
    fn measure(
        &self,
        chosen: &[usize],
        session: &mut Session<'_, '_>,
    ) -> Result<(), CampaignError> {
        for (index, part) in self.parts.iter().enumerate() {
            let models: Vec<SweepModel> = chosen
                .iter()
                .map(|&candidate| self.places[candidate])
                .filter(|(of, _)| *of == index)
                .map(|(_, place)| part.models[place].clone())
                .collect();
            if !models.is_empty() {
                session.measure(Part { models: &models, ..*part })?;
            }
        }
        Ok(())
    }
}
