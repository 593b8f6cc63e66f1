//! [`UnfamiliarInterval`]: the interval of models that are unlike those a bundle was trained on.
//!
//! Conformal prediction holds its level where a model is exchangeable with those whose errors are
//! known. Held-out models of a search space are not exchangeable with real ones, whose operators
//! have other sizes and surroundings. So models fall into two categories, each with quantiles of its
//! own (Mondrian conformal prediction: Vovk, Gammerman and Shafer 2005, Algorithmic Learning in a
//! Random World, section 4.5). A model is *unfamiliar* where more than half of its forecast latency
//! is of operators of out-of-distribution sizes ([`Support`](crate::error_scale::Support)); this
//! interval is fitted to the errors of unfamiliar models of no search space. They are no training
//! data: forecasts do not depend on them.
//!
//! To judge the interval on the models that it was fitted to, each is left out together with its
//! family, which are the models whose names begin with the same letters.

use crate::{
    ConformalInterval, PredictorBundle, PredictorError, Tally, evaluate, interval::HeldOut,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vitempo_graph::{Graph, ModelProfile};

/// Share of the latency in operators of out-of-distribution sizes from which on a model is
/// unfamiliar.
const UNFAMILIAR: f64 = 0.5;
/// So that the order of a sum does not decide.
const ROUNDING: f64 = 1e-4;
/// Fewest models for an interval of their own.
pub const FEWEST_UNFAMILIAR: usize = 20;

impl PredictorBundle {
    /// Fits the interval of unfamiliar models to those among measured models of no search space, and
    /// judges the held-out models by it. Too few change nothing.
    ///
    /// # Errors
    /// As [`evaluate`](crate::evaluate()).
    pub fn fit_unfamiliar(
        &mut self,
        profiles: &[ModelProfile],
        graphs: &BTreeMap<String, Graph>,
    ) -> Result<(), PredictorError> {
        let models = evaluate::unfamiliar_models(self, profiles, graphs)?;
        if let Some(interval) = UnfamiliarInterval::fit(models, self.interval.level) {
            self.unfamiliar = Some(interval);
            self.held_out = self.held_out.clone().with_unfamiliar(self.intervals())?;
        }
        Ok(())
    }

    /// Which interval holds for which model.
    pub(crate) fn intervals(&self) -> Intervals<'_> {
        Intervals { familiar: &self.interval, unfamiliar: self.unfamiliar.as_ref() }
    }
}

impl Tally {
    /// Whether more than half of the latency is of operators of out-of-distribution sizes.
    #[must_use]
    pub fn is_unfamiliar(&self) -> bool {
        f64::from(self.out_of_distribution_ns) > UNFAMILIAR * self.sum_ns * (1.0 + ROUNDING)
    }
}

/// A measured model that the interval is fitted to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Witness {
    /// The model's name.
    pub name: String,
    /// Its forecast and what was measured.
    #[serde(flatten)]
    pub forecast: HeldOut,
}

impl Witness {
    /// The first letters of the name, e.g. `resnet` of `resnet50_v2`.
    fn family(&self) -> &str {
        family(&self.name)
    }
}

fn family(name: &str) -> &str {
    let end = name.find(|c: char| !c.is_alphabetic()).unwrap_or(name.len());
    name.get(..end).unwrap_or(name)
}

/// The interval of unfamiliar models, and the models behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Stored", from = "Stored")]
pub struct UnfamiliarInterval {
    interval: ConformalInterval,
    models: Vec<Witness>,
}

/// As bundles have it: the interval follows from the models.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(with = "crate::bits")]
    level: f64,
    models: Vec<Witness>,
}

impl From<Stored> for UnfamiliarInterval {
    fn from(Stored { level, models }: Stored) -> Self {
        Self { interval: fit(&models, level, &|_| true), models }
    }
}

impl From<UnfamiliarInterval> for Stored {
    fn from(UnfamiliarInterval { interval, models }: UnfamiliarInterval) -> Self {
        Self { level: interval.level, models }
    }
}

fn fit(models: &[Witness], level: f64, counts: &dyn Fn(&Witness) -> bool) -> ConformalInterval {
    let forecasts: Vec<HeldOut> = models.iter().filter(|m| counts(m)).map(|m| m.forecast).collect();
    ConformalInterval::fit(&forecasts, level)
}

impl UnfamiliarInterval {
    /// Fitted to measured unfamiliar models; `None` where they are fewer than
    /// [`FEWEST_UNFAMILIAR`].
    #[must_use]
    pub fn fit(models: Vec<Witness>, level: f64) -> Option<Self> {
        (models.len() >= FEWEST_UNFAMILIAR).then(|| Stored { level, models }.into())
    }

    /// For models that it was not fitted to.
    #[must_use]
    pub const fn interval(&self) -> &ConformalInterval {
        &self.interval
    }

    /// The models it was fitted to.
    #[must_use]
    pub fn models(&self) -> &[Witness] {
        &self.models
    }

    /// For the model of that name: where it was fitted to it, from the models of other families.
    #[must_use]
    pub fn apart_from(&self, name: &str) -> ConformalInterval {
        if self.models.iter().all(|m| m.name != name) {
            return self.interval;
        }
        let own = family(name);
        fit(&self.models, self.interval.level, &|m| m.family() != own)
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.interval.is_valid() && self.models.iter().all(|m| m.forecast.is_valid())
    }
}

/// The intervals of familiar and of unfamiliar models.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intervals<'a> {
    pub familiar: &'a ConformalInterval,
    pub unfamiliar: Option<&'a UnfamiliarInterval>,
}

impl<'a> Intervals<'a> {
    /// Of a model whose kernels come to `tally`.
    pub(crate) fn of(self, tally: &Tally) -> &'a ConformalInterval {
        self.unfamiliar
            .filter(|_| tally.is_unfamiliar())
            .map_or(self.familiar, UnfamiliarInterval::interval)
    }

    /// By which the measured model of that name is judged.
    pub(crate) fn judged(self, is_unfamiliar: bool, name: &str) -> ConformalInterval {
        self.unfamiliar
            .filter(|_| is_unfamiliar)
            .map_or(*self.familiar, |interval| interval.apart_from(name))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// `count` models of a family whose measured latencies are up to `error` off.
    fn family_of(name: &str, count: usize, error: f64) -> Vec<Witness> {
        let witness = |i: usize| {
            let log = error * (2.0 * (i as f64 + 0.5) / count as f64 - 1.0);
            Witness {
                name: format!("{name}{i}"),
                forecast: HeldOut { actual_ns: log.exp(), forecast_ns: 1.0, difficulty: 0.1 },
            }
        };
        (0..count).map(witness).collect()
    }

    #[test]
    fn a_model_is_unfamiliar_by_more_than_half_of_its_latency() {
        let tally = |out_of_distribution_ns| Tally {
            sum_ns: 3.0,
            out_of_distribution_ns,
            ..Tally::default()
        };
        assert!(!tally(1.5).is_unfamiliar() && !tally(1.5 + 1e-5).is_unfamiliar());
        assert!(tally(1.6).is_unfamiliar() && !Tally::default().is_unfamiliar());
    }

    #[test]
    fn a_family_is_judged_by_the_others() {
        let mut models = family_of("resnet", 40, 0.02);
        models.extend(family_of("vit_", 30, 0.3));
        let fit = UnfamiliarInterval::fit(models, 0.9).unwrap();
        let width = |interval: ConformalInterval| interval.scaled.upper;
        assert!((width(fit.apart_from("vit_3")) - 0.2).abs() < 0.02, "the error of the resnets");
        assert!((width(fit.apart_from("resnet7")) - 2.9).abs() < 0.2, "that of the others");
        assert_eq!(fit.apart_from("resnet40"), *fit.interval(), "not among the models");
    }

    #[test]
    fn few_models_have_no_interval_of_their_own() {
        let few = family_of("vgg", FEWEST_UNFAMILIAR - 1, 0.1);
        assert_eq!(UnfamiliarInterval::fit(few, 0.9), None);
    }

    #[test]
    fn it_is_read_as_it_was_written_and_checked() {
        let fit = UnfamiliarInterval::fit(family_of("vgg", 33, 0.1), 0.8).unwrap();
        let json = serde_json::to_string(&fit).unwrap();
        let read: UnfamiliarInterval = serde_json::from_str(&json).unwrap();
        assert!(read == fit && read.is_valid());
        let mut models = family_of("vgg", 33, 0.1);
        models[3].forecast.actual_ns = f64::NAN;
        assert!(!UnfamiliarInterval::fit(models, 0.8).unwrap().is_valid());
    }
}
