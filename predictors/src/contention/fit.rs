//! [`fit`]: a [`SlowdownModel`] of one environment, from its model runs alone and beside loads.
//!
//! An equation is a model beside a load (end to end), or one of its kernels, weighted by its share
//! of the model's time; errors are relative to the slowdown. Latencies are medians: a load that
//! comes and goes counts for its share of the time. Where the model was measured alone just before
//! ([`LoadRecord::model_alone_ns`]), this is what it is compared with, and its kernels' latencies
//! alone are scaled by as much: the speed of the machine at that time cancels. Every form is fitted to all loads but one, and
//! judged by the models beside that one.

use super::{
    Demand, FittedLoad, Form, FormError, Intensity, Kernel, Peaks, Pressure, SlowdownModel,
    least_squares::{Equation, solve},
};
use crate::metrics;
use std::collections::BTreeMap;
use vitempo_graph::{LoadRecord, ModelProfile, OpSpec, Processor, Status};

/// Fewest loads: one is left out of every fit.
const FEWEST_LOADS: usize = 2;
/// Fewest models beside a load.
const FEWEST_MODELS: usize = 3;
/// Last-level cache where no row reports it, bytes.
const USUAL_CACHE: f64 = 32e6;
/// Quantile of the rates of kernels that counts as their peak.
const PEAK: f64 = 0.95;

/// Why there is no slowdown model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentionError {
    /// Too few loads have enough models.
    #[error(
        "{found} loads have {FEWEST_MODELS} models or more that were measured alone as well; at \
        least {FEWEST_LOADS} are needed"
    )]
    TooFewLoads {
        /// How many have.
        found: usize,
    },
}

/// A model that was measured alone.
struct Alone<'p> {
    e2e_ns: f64,
    /// Each distinct kernel: what it is, and how many of it the model runs.
    kernels: Vec<(&'p OpSpec, Kernel, f64)>,
}

/// One model beside one load.
struct Pair {
    load: usize,
    /// How much longer the whole model takes.
    slowdown: f64,
    /// Kernels alone, with their share of the model's time, and how much longer they take; `None`
    /// where they were not timed beside the load.
    kernels: Vec<(Kernel, f64, Option<f64>)>,
}

/// The loads, with their demand alone.
struct Loads {
    names: Vec<String>,
    demands: Vec<Demand>,
    cache_bytes: f64,
}

/// Fits a model to profiles of one environment, `alone` and `beside` loads; failed ones are passed
/// over. `level`: that of its interval.
///
/// # Errors
/// [`ContentionError`] where there are too few.
pub fn fit(
    alone: &[ModelProfile],
    beside: &[ModelProfile],
    level: f64,
) -> Result<SlowdownModel, ContentionError> {
    let models = models_alone(alone);
    let mut by_load: BTreeMap<&str, Vec<(&ModelProfile, &LoadRecord)>> = BTreeMap::new();
    for profile in beside.iter().filter(|p| p.status == Status::Ok) {
        let known = models.contains_key(profile.model.architecture.as_str());
        if let (Some(name), Some(record), true) =
            (&profile.environment.beside, &profile.load, known)
        {
            by_load.entry(name).or_default().push((profile, record));
        }
    }
    by_load.retain(|_, runs| {
        let mut models: Vec<&str> = runs.iter().map(|(p, _)| &*p.model.architecture).collect();
        models.sort_unstable();
        models.dedup();
        models.len() >= FEWEST_MODELS
    });
    if by_load.len() < FEWEST_LOADS {
        return Err(ContentionError::TooFewLoads { found: by_load.len() });
    }
    let loads = Loads::of(&by_load);
    let pairs: Vec<Pair> = by_load
        .values()
        .enumerate()
        .flat_map(|(load, runs)| {
            let alone = |p: &ModelProfile| models.get(p.model.architecture.as_str());
            runs.iter().filter_map(move |(p, record)| Pair::of(load, p, record, alone(p)?))
        })
        .collect();
    let peaks = loads.peaks(&models);
    Ok(Fitting { loads, pairs, peaks }.chosen(level))
}

/// Models alone, by architecture: medians over their model runs.
fn models_alone(profiles: &[ModelProfile]) -> BTreeMap<&str, Alone<'_>> {
    let mut runs: BTreeMap<&str, Vec<&ModelProfile>> = BTreeMap::new();
    let usable = |p: &&ModelProfile| p.status == Status::Ok && !p.model.is_operator();
    for profile in profiles.iter().filter(usable) {
        runs.entry(&profile.model.architecture).or_default().push(profile);
    }
    runs.into_iter().filter_map(|(name, runs)| Some((name, Alone::of(&runs)?))).collect()
}

impl<'p> Alone<'p> {
    fn of(runs: &[&'p ModelProfile]) -> Option<Self> {
        let medians: Vec<f64> = runs.iter().filter_map(|p| p.e2e.median_ns()).collect();
        let e2e_ns = metrics::median(&medians).filter(|ns| *ns > 0.0)?;
        let mut times: BTreeMap<String, (&'p OpSpec, f64, Vec<f64>)> = BTreeMap::new();
        for &run in runs {
            for (op, (count, ns)) in kernels_of(run) {
                times.entry(op.id()).or_insert((op, count, Vec::new())).2.push(ns);
            }
        }
        let mut kernels = Vec::new();
        for (op, count, ns) in times.into_values() {
            kernels.push((op, Kernel::new(op, metrics::median(&ns)?), count));
        }
        Some(Self { e2e_ns, kernels })
    }
}

/// The distinct kernels of a model run: how many there are, and the mean of their medians, ns.
fn kernels_of(profile: &ModelProfile) -> Vec<(&OpSpec, (f64, f64))> {
    let mut sums: BTreeMap<String, (&OpSpec, f64, f64)> = BTreeMap::new();
    for measured in profile.operators.iter().filter(|m| m.status == Status::Ok) {
        if let Some(ns) = measured.samples.median_ns() {
            let sum = sums.entry(measured.op.id()).or_insert((&*measured.op, 0.0, 0.0));
            (sum.1, sum.2) = (sum.1 + 1.0, sum.2 + ns);
        }
    }
    sums.into_values().map(|(op, count, ns)| (op, (count, ns / count))).collect()
}

impl Pair {
    fn of(
        load: usize,
        profile: &ModelProfile,
        record: &LoadRecord,
        alone: &Alone<'_>,
    ) -> Option<Self> {
        let before: Vec<f64> = record.model_alone_ns.iter().map(|&ns| ns as f64).collect();
        let e2e_ns = metrics::median(&before).filter(|ns| *ns > 0.0).unwrap_or(alone.e2e_ns);
        let slower = e2e_ns / alone.e2e_ns;
        let slowdown = profile.e2e.median_ns().filter(|ns| *ns > 0.0)? / e2e_ns;
        let beside: BTreeMap<String, f64> =
            kernels_of(profile).into_iter().map(|(op, (_, ns))| (op.id(), ns)).collect();
        let total: f64 = alone.kernels.iter().map(|(_, kernel, count)| kernel.ns * count).sum();
        let kernel = |(op, kernel, count): &(&OpSpec, Kernel, f64)| {
            let ns = kernel.ns * slower;
            let times = beside.get(&op.id()).filter(|_| ns > 0.0).map(|beside| beside / ns);
            (*kernel, kernel.ns * count / total, times)
        };
        let kernels: Vec<_> = alone.kernels.iter().map(kernel).collect();
        (total > 0.0).then_some(Self { load, slowdown, kernels })
    }
}

impl Loads {
    fn of(by_load: &BTreeMap<&str, Vec<(&ModelProfile, &LoadRecord)>>) -> Self {
        let median = |runs: &[(&ModelProfile, &LoadRecord)], value: fn(&Demand) -> f64| {
            let values: Vec<f64> =
                runs.iter().map(|(_, record)| value(&Demand::of_load(record))).collect();
            metrics::median(&values).unwrap_or(0.0)
        };
        let demand = |runs: &Vec<(&ModelProfile, &LoadRecord)>| Demand {
            flops_per_s: median(runs, |d| d.flops_per_s),
            bytes_per_s: median(runs, |d| d.bytes_per_s),
            footprint_bytes: median(runs, |d| d.footprint_bytes),
        };
        let caches = by_load.values().flatten().filter_map(|(_, record)| record.cache_bytes);
        Self {
            names: by_load.keys().map(|name| (*name).to_owned()).collect(),
            demands: by_load.values().map(demand).collect(),
            cache_bytes: caches.max().map_or(USUAL_CACHE, |bytes| bytes as f64),
        }
    }

    /// Arithmetic: the largest rate of a load or of nearly all kernels. Traffic: the largest of
    /// loads that do not fit into the cache, else of all.
    fn peaks(&self, models: &BTreeMap<&str, Alone<'_>>) -> Peaks {
        let rates: Vec<f64> = models
            .values()
            .flat_map(|model| &model.kernels)
            .filter(|(_, kernel, _)| kernel.ns > 0.0)
            .map(|(_, kernel, _)| kernel.flops * 1e9 / kernel.ns)
            .collect();
        let kernels = metrics::quantile(&rates, PEAK).unwrap_or(0.0);
        let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let beyond = |d: &&Demand| d.footprint_bytes > self.cache_bytes;
        let memory =
            largest(&mut self.demands.iter().filter(beyond).map(|demand| demand.bytes_per_s));
        let any = largest(&mut self.demands.iter().map(|demand| demand.bytes_per_s));
        Peaks {
            flops_per_s: largest(&mut self.demands.iter().map(|d| d.flops_per_s)).max(kernels),
            bytes_per_s: if memory > 0.0 { memory } else { any },
            cache_bytes: self.cache_bytes,
        }
    }
}

/// Everything a form is fitted to.
struct Fitting {
    loads: Loads,
    pairs: Vec<Pair>,
    peaks: Peaks,
}

/// A pair's slowdown, measured and forecast by a fit without its load.
struct HeldOut {
    load: usize,
    actual: f64,
    forecast: f64,
}

impl HeldOut {
    fn error(&self) -> f64 {
        (self.forecast / self.actual - 1.0).abs()
    }
}

impl Fitting {
    /// The form with the least error in cross-validation, fitted to all loads.
    fn chosen(self, level: f64) -> SlowdownModel {
        let tried: Vec<(Form, Vec<HeldOut>)> =
            Form::ALL.into_iter().map(|form| (form, self.cross_validated(form))).collect();
        let error = |held_out: &[HeldOut]| {
            held_out.iter().map(HeldOut::error).sum::<f64>() / held_out.len().max(1) as f64
        };
        let forms = tried.iter().map(|(form, h)| FormError { form: *form, error: error(h) });
        let forms: Vec<FormError> = forms.collect();
        let best = forms.iter().enumerate().min_by(|a, b| a.1.error.total_cmp(&b.1.error));
        let (form, held_out) = &tried[best.map_or(0, |(index, _)| index)];
        let log_errors: Vec<f64> =
            held_out.iter().map(|h| (h.actual / h.forecast).ln().abs()).collect();
        SlowdownModel {
            other: Processor::Cpu,
            form: *form,
            coefficients: self.coefficients(*form, None),
            peaks: self.peaks,
            largest: self.largest(),
            level,
            log_error: covering(&log_errors, level),
            loads: (0..self.loads.names.len()).map(|load| self.fitted(load, held_out)).collect(),
            forms,
        }
    }

    fn fitted(&self, load: usize, held_out: &[HeldOut]) -> FittedLoad {
        let of: Vec<&HeldOut> = held_out.iter().filter(|h| h.load == load).collect();
        let mean = |value: &dyn Fn(&HeldOut) -> f64| {
            of.iter().map(|h| value(h)).sum::<f64>() / of.len().max(1) as f64
        };
        FittedLoad {
            load: self.loads.names[load].clone(),
            demand: self.loads.demands[load],
            models: of.len(),
            slowdown: mean(&|h| h.actual),
            error: mean(&HeldOut::error),
            error_of_none: mean(&|h| (1.0 / h.actual - 1.0).abs()),
        }
    }

    /// The largest slowdown that was measured, of a model or of a kernel that takes a hundredth of
    /// its model's time.
    fn largest(&self) -> f64 {
        let kernels = self.pairs.iter().flat_map(|pair| &pair.kernels);
        let counted = kernels.filter(|(_, share, _)| *share >= 0.01).filter_map(|(_, _, s)| *s);
        let models = self.pairs.iter().map(|pair| pair.slowdown);
        counted.chain(models).fold(1.0, f64::max).min(99.0)
    }

    fn cross_validated(&self, form: Form) -> Vec<HeldOut> {
        let fits: Vec<Vec<f64>> =
            (0..self.loads.names.len()).map(|load| self.coefficients(form, Some(load))).collect();
        let largest = self.largest();
        let forecast = |pair: &Pair| {
            let excess: f64 =
                self.products(form, pair).iter().zip(&fits[pair.load]).map(|(p, c)| p * c).sum();
            let forecast = (1.0 + excess).min(largest);
            HeldOut { load: pair.load, actual: pair.slowdown, forecast }
        };
        self.pairs.iter().map(forecast).collect()
    }

    fn coefficients(&self, form: Form, without: Option<usize>) -> Vec<f64> {
        let pairs = self.pairs.iter().filter(|pair| Some(pair.load) != without);
        let equations: Vec<Equation> = pairs.flat_map(|pair| self.equations(form, pair)).collect();
        solve(equations.iter(), form.width())
    }

    /// Of the whole model: the mean over its kernels' time.
    fn products(&self, form: Form, pair: &Pair) -> Vec<f64> {
        let mut mean = vec![0.0; form.width()];
        for (kernel, share, _) in &pair.kernels {
            let products = self.of_kernel(form, pair, kernel);
            mean.iter_mut().zip(products).for_each(|(mean, product)| *mean += share * product);
        }
        mean
    }

    fn of_kernel(&self, form: Form, pair: &Pair, kernel: &Kernel) -> Vec<f64> {
        let by = Pressure::of(&self.loads.demands[pair.load], &self.peaks);
        form.products(&Intensity::of(kernel, &self.peaks), &by)
    }

    fn equations(&self, form: Form, pair: &Pair) -> Vec<Equation> {
        let equation = |products, slowdown: f64, weight: f64| Equation {
            products,
            value: slowdown - 1.0,
            weight: weight / (slowdown * slowdown),
        };
        let whole = equation(self.products(form, pair), pair.slowdown, 1.0);
        let kernels = pair.kernels.iter().filter_map(|(kernel, share, slowdown)| {
            let slowdown = slowdown.filter(|s| *s > 0.0)?;
            Some(equation(self.of_kernel(form, pair, kernel), slowdown, *share))
        });
        std::iter::once(whole).chain(kernels).collect()
    }
}

/// The quantile that covers a further value with that probability; the largest where there are too
/// few.
fn covering(errors: &[f64], level: f64) -> f64 {
    let mut sorted = errors.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = ((sorted.len() + 1) as f64 * level).ceil() as usize;
    let place = rank.clamp(1, sorted.len().max(1)) - 1;
    sorted.get(place).copied().unwrap_or(0.0).min(4.9)
}

#[cfg(test)]
mod tests;
