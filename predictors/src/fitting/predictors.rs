//! Fits the regressors of one environment: a table of rows per [`PredictorKey`], a regressor per
//! table, and the baselines for operators without a regressor.

use super::{Example, on_threads, stand_ins};
use crate::{
    Boosting, ErrorScale, Method, PredictorKey, Refinements, Skipped, blend_weight,
    error_scale::Support,
    features::{Family, FeatureSchema, TOTALS_WIDTH, kin},
    metrics,
    predictors::{KeyPredictor, Predictors},
    regressors::{Baseline, FitData, Fitted, baseline::Columns},
};
use rayon::ThreadPoolBuilder;
use std::{collections::BTreeMap, sync::mpsc};

/// Fewest rows for a regressor; with fewer a key has its baseline only.
pub(crate) const FEWEST_ROWS: usize = 8;
/// A key with fewer rows shares the baseline of its kind.
const ENOUGH_ROWS: usize = 500;
/// The number of rows of a key that the baseline of its kind counts as.
const PRIOR_ROWS: f64 = 10.0;
/// Examples whose features a thread reads at once.
const EXAMPLES_AT_ONCE: usize = 4096;
/// Classes of sizes of the rows of a key.
const SIZE_CLASSES: usize = 5;
/// Where a row comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    /// Number of its architecture.
    pub group: usize,
    /// Whether it is a whole model, whose sizes are in distribution.
    pub whole: bool,
}

/// Columns of the rows of one key or kind.
#[derive(Default)]
pub(super) struct Table {
    pub(super) x: Vec<f64>,
    pub(super) y: Vec<f64>,
    pub(super) weights: Vec<f64>,
    groups: Vec<usize>,
    support: Support,
    /// Whether there are networks around single operators among the rows.
    networks: bool,
}

impl Table {
    fn push(&mut self, x: &[f64], example: &Example<'_>) {
        self.x.extend_from_slice(x);
        self.y.push(example.latency_ns);
        self.weights.push(example.weight);
        self.groups.push(example.group);
        if example.whole {
            self.support.insert(x);
        }
        self.networks |= example.alone;
    }

    /// At most so many of the rows, evenly spread, without their groups.
    pub(super) fn sample(&self, columns: usize, most: usize) -> Self {
        let every = self.y.len().div_ceil(most).max(1);
        let rows = self.x.chunks_exact(columns).step_by(every);
        Self {
            x: rows.flatten().copied().collect(),
            y: self.y.iter().step_by(every).copied().collect(),
            weights: self.weights.iter().step_by(every).copied().collect(),
            ..Self::default()
        }
    }
}

/// How to fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FitSettings {
    pub method: Method,
    pub boosting: Boosting,
    pub seed: u64,
    pub threads: usize,
}

/// The regressor of a key, and why it is only a baseline where it should be more.
pub(crate) type KeyFit = (KeyPredictor, Option<String>);

/// Rows by key, by kind and by kin, and all of them.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) keys: BTreeMap<PredictorKey, (Family, Table)>,
    pub(super) kinds: BTreeMap<String, (Family, Table)>,
    pub(super) kindred: BTreeMap<String, (Family, Table)>,
    pub(super) everything: Table,
    /// The baselines of the kinds.
    pub(super) laws: BTreeMap<String, Baseline>,
}

impl Tables {
    fn of(examples: &[Example<'_>], threads: usize) -> Self {
        let Self { keys: mut tables, mut kinds, mut kindred, mut everything, .. } = Self::default();
        let some: Vec<&[Example<'_>]> = examples.chunks(EXAMPLES_AT_ONCE).collect();
        let read = |e: &Example<'_>| {
            (PredictorKey::of(e.op), FeatureSchema::extract_within(e.op, e.working_set))
        };
        let read = on_threads(threads, some.len(), |chunk| {
            some[chunk].iter().map(read).collect::<Vec<_>>()
        });
        for (example, (key, features)) in examples.iter().zip(read.into_iter().flatten()) {
            everything.push(&features.values[..TOTALS_WIDTH], example);
            let relatives = kindred
                .entry(kin(&example.op.kind).to_owned())
                .or_insert_with(|| (features.family, Table::default()));
            relatives.1.push(&features.values, example);
            kinds
                .entry(key.kind.to_string())
                .or_insert_with(|| (features.family, Table::default()))
                .1
                .push(&features.values, example);
            tables
                .entry(key)
                .or_insert_with(|| (features.family, Table::default()))
                .1
                .push(&features.values, example);
        }
        let laws = laws(&kinds, threads);
        Self { keys: tables, kinds, kindred, everything, laws }
    }

    /// The keys to fit.
    fn jobs<'t>(&'t self, wanted: &dyn Fn(&PredictorKey) -> bool) -> Vec<Job<'t>> {
        let job = |(key, (family, table)): (&'t PredictorKey, &'t (Family, Table))| Job {
            key,
            family: *family,
            table,
            kind: self.kinds.get(&*key.kind).map(|k| &k.1).zip(self.laws.get(&*key.kind)),
        };
        self.keys.iter().filter(|(key, _)| wanted(key)).map(job).collect()
    }
}

impl Predictors {
    /// Fits one regressor per key, but takes those that are fitted already. Keys whose regressor
    /// cannot be fitted keep their baseline and are reported.
    pub(crate) fn fit(
        examples: &[Example<'_>],
        settings: FitSettings,
        fitted: &dyn Fn(&PredictorKey) -> Option<KeyFit>,
        done: &mut dyn FnMut(usize, usize),
    ) -> (Self, Vec<Skipped>) {
        let tables = Tables::of(examples, settings.threads);
        let mut fits: BTreeMap<PredictorKey, KeyFit> =
            tables.keys.keys().filter_map(|key| Some((key.clone(), fitted(key)?))).collect();
        let jobs = tables.jobs(&|key| !fits.contains_key(key));
        let new = fit_all(&jobs, settings, done);
        fits.extend(new);
        let mut skipped = Vec::new();
        let mut keys = BTreeMap::new();
        for (key, (predictor, reason)) in fits {
            skipped.extend(reason.map(|reason| Skipped { what: key.to_string(), reason }));
            keys.insert(key, predictor);
        }
        let fallbacks = stand_ins::fallbacks(&tables, settings.threads);
        (Self { keys, fallbacks, refinements: Refinements::default() }, skipped)
    }

    /// Fits the regressors of some keys alone.
    pub(crate) fn fit_keys(
        examples: &[Example<'_>],
        settings: FitSettings,
        wanted: &dyn Fn(&PredictorKey) -> bool,
    ) -> BTreeMap<PredictorKey, KeyFit> {
        fit_all(&Tables::of(examples, settings.threads).jobs(wanted), settings, &mut |_, _| {})
    }

    /// Sets each key's weight of the trees at out-of-distribution sizes.
    pub(crate) fn set_blend_weights(&mut self, weights: &BTreeMap<PredictorKey, f64>) {
        for (key, predictor) in &mut self.keys {
            predictor.blend_weight = weights.get(key).copied().unwrap_or(blend_weight::USUAL);
        }
    }

    /// Sets the expected errors of each key.
    pub(crate) fn set_error_scales(&mut self, scales: &BTreeMap<PredictorKey, ErrorScale>) {
        for (key, predictor) in &mut self.keys {
            predictor.error_scale = scales.get(key).copied().unwrap_or_default();
        }
    }
}

/// The baseline of one table.
pub(super) fn law(family: Family, t: &Table) -> Baseline {
    fit_baseline(family, &t.x, &t.y, &t.weights)
}

/// The baseline of rows of a family.
pub(super) fn fit_baseline(family: Family, x: &[f64], y_ns: &[f64], weights: &[f64]) -> Baseline {
    let chosen = family.baseline_columns();
    let calls = Some(family.calls_column());
    let per_call = family.copies_columns();
    let columns = Columns { count: family.width(), chosen: &chosen, calls, per_call: &per_call };
    Baseline::fit(x, columns, y_ns, weights)
}

/// The baseline of each table.
pub(super) fn laws(
    tables: &BTreeMap<String, (Family, Table)>,
    threads: usize,
) -> BTreeMap<String, Baseline> {
    let each: Vec<&(Family, Table)> = tables.values().collect();
    let fits = on_threads(threads, each.len(), |i| law(each[i].0, &each[i].1));
    tables.keys().cloned().zip(fits).collect()
}

/// One key to fit: its rows, and those of its kind, to which they belong, with their baseline.
struct Job<'a> {
    key: &'a PredictorKey,
    family: Family,
    table: &'a Table,
    kind: Option<(&'a Table, &'a Baseline)>,
}

/// Fits every key on `threads` threads, the largest first; the result does not depend on how many.
fn fit_all(
    jobs: &[Job<'_>],
    settings: FitSettings,
    done: &mut dyn FnMut(usize, usize),
) -> BTreeMap<PredictorKey, KeyFit> {
    let (send, receive) = mpsc::channel();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(jobs[i].table.y.len()));
    let mut fits: Vec<Option<KeyFit>> = jobs.iter().map(|_| None).collect();
    let mut collect = |(job, fit): (usize, _), finished: usize| {
        fits[job] = Some(fit);
        done(finished, jobs.len());
    };
    let threads = settings.threads.clamp(1, jobs.len().max(1));
    match ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.in_place_scope_fifo(|scope| {
            for job in order {
                let send = send.clone();
                scope.spawn_fifo(move |_| drop(send.send((job, fit_key(&jobs[job], settings)))));
            }
            drop(send);
            receive.iter().zip(1..).for_each(|(fit, finished)| collect(fit, finished));
        }),
        // The system refuses the threads.
        Err(_) => order
            .into_iter()
            .map(|job| (job, fit_key(&jobs[job], settings)))
            .zip(1..)
            .for_each(|(fit, finished)| collect(fit, finished)),
    }
    jobs.iter().zip(fits).filter_map(|(job, fit)| Some((job.key.clone(), fit?))).collect()
}

/// The baseline of a key. A key with few rows, perhaps all of them small, shares the law of its
/// kind, at an efficiency of its own: rows of the kind count as if they took longer by the median
/// ratio of the key's latencies to the kind's baseline. Its own rows outweigh them more the more
/// there are.
fn baseline(&Job { family, table, kind, .. }: &Job<'_>) -> Baseline {
    let Some((kind, of_kind)) =
        kind.filter(|(kind, _)| table.y.len() < ENOUGH_ROWS && kind.y.len() > table.y.len())
    else {
        return law(family, table);
    };
    let columns = family.width();
    let share = PRIOR_ROWS / kind.y.len() as f64;
    let ratios: Vec<f64> =
        table.x.chunks_exact(columns).zip(&table.y).map(|(x, y)| y / of_kind.predict(x)).collect();
    let ratio = metrics::median(&ratios).unwrap_or(1.0);
    let as_slow: Vec<f64> = kind.y.iter().map(|y| y * ratio).collect();
    let weights: Vec<f64> =
        table.weights.iter().copied().chain(kind.weights.iter().map(|w| w * share)).collect();
    fit_baseline(
        family,
        &[&table.x[..], &kind.x].concat(),
        &[&table.y[..], &as_slow].concat(),
        &weights,
    )
}

/// Costs of columns, ns per unit.
struct Costs {
    plain: Vec<(usize, f64)>,
    per_call: Vec<(usize, f64)>,
}

/// The baseline with what the kind's rows know of costs that no row of the key has, such as that of
/// an operand in another order; and these costs.
fn with_costs_of_kind(mut own: Baseline, job: &Job<'_>) -> (Baseline, Costs) {
    let is_absent = |(column, _): &(usize, f64)| {
        job.table.x.iter().skip(*column).step_by(job.family.width()).all(|value| *value == 0.0)
    };
    let absent = |of: &[(usize, f64)]| of.iter().copied().filter(is_absent).collect::<Vec<_>>();
    if let Some((_, law)) = job.kind {
        own.add(&absent(&law.coefficients), &absent(&law.per_call));
    }
    let costs = Costs { plain: absent(&own.coefficients), per_call: absent(&own.per_call) };
    (own, costs)
}

/// By row, which fifth of the baseline latencies it belongs to; equal latencies share one.
/// Cross-validation over these keeps what holds for operators larger or smaller than all that were
/// fitted to.
fn size_classes(baseline_ns: &[f64]) -> Vec<usize> {
    let limits: Vec<f64> = (1..SIZE_CLASSES)
        .filter_map(|class| metrics::quantile(baseline_ns, class as f64 / SIZE_CLASSES as f64))
        .collect();
    baseline_ns.iter().map(|ns| limits.partition_point(|limit| limit < ns)).collect()
}

fn fit_key(job: &Job<'_>, settings: FitSettings) -> KeyFit {
    let &Job { family, table, .. } = job;
    let columns = family.width();
    let (baseline, costs_of_kind) = with_costs_of_kind(baseline(job), job);
    let baseline_ns: Vec<f64> =
        table.x.chunks_exact(columns).map(|row| baseline.predict(row)).collect();
    // Networks around single operators spread sizes widely, so that each holds out its own.
    let sizes = if table.networks { Vec::new() } else { size_classes(&baseline_ns) };
    let data = FitData {
        columns,
        x: &table.x,
        y_ns: &table.y,
        baseline_ns: &baseline_ns,
        weights: &table.weights,
        groups: if table.networks { &table.groups } else { &sizes },
        constant_per: baseline.constant_per,
        per_call: &family.copies_columns(),
        inseparable: &Baseline::inseparable(&table.x, columns, &family.baseline_columns()),
    };
    let (fitted, reason) = if table.y.len() < FEWEST_ROWS {
        (Fitted::BaselineOnly, None)
    } else {
        match Fitted::fit(settings.method, &data, &settings.boosting, settings.seed) {
            Ok(mut fitted) => {
                fitted.add(&costs_of_kind.plain, &costs_of_kind.per_call);
                (fitted, None)
            }
            Err(reason) => (Fitted::BaselineOnly, Some(format!("{reason}; its baseline is used"))),
        }
    };
    let mut ranges = vec![(f64::INFINITY, f64::NEG_INFINITY); columns];
    for row in table.x.chunks_exact(columns) {
        row.iter().zip(&mut ranges).for_each(|(v, r)| *r = (r.0.min(*v), r.1.max(*v)));
    }
    let ratios = table.y.iter().zip(&baseline_ns).map(|(y, b)| (y / b).ln());
    let log_bounds = KeyPredictor::log_bounds_of(ratios);
    (
        KeyPredictor {
            family,
            rows: table.y.len(),
            baseline,
            fitted,
            ranges,
            log_bounds,
            support: table.support.clone(),
            blend_weight: blend_weight::USUAL,
            error_scale: ErrorScale::default(),
        },
        reason,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;
    use vitempo_graph::MemoryFormat;

    const FAMILY: Family = Family::Elementwise;

    /// An operator that reads this many bytes, ten nanoseconds each.
    fn features(bytes: f64) -> Vec<f64> {
        FAMILY.columns().map(|name| if name == "bytes_in" { bytes } else { 0.0 }).collect()
    }

    fn table(bytes: impl Iterator<Item = f64>, slowness: f64) -> Table {
        let mut table = Table::default();
        for bytes in bytes {
            table.x.extend(features(bytes));
            table.y.push(slowness * 10.0 * bytes);
            table.weights.push(1.0);
            table.groups.push(0);
        }
        table
    }

    fn key(class: &'static str) -> PredictorKey {
        PredictorKey {
            kind: Cow::Borrowed("add"),
            class: Cow::Borrowed(class),
            format: MemoryFormat::ChannelsFirst,
        }
    }

    #[test]
    fn a_cost_that_no_row_of_a_key_has_is_that_of_its_kind() {
        let reordered =
            FAMILY.columns().position(|name| name == "bytes_reordered").expect("a column");
        let own = table((1..600).map(|i| f64::from(i) * 1e3), 1.0);
        let mut kind = table((1..600).map(|i| f64::from(i) * 1e3), 1.0);
        for (i, row) in (0..).zip(kind.x.chunks_exact_mut(FAMILY.width())).skip(1).step_by(7) {
            row[reordered] = f64::from(i % 5) * 1e3;
            kind.y[i as usize] += 4.0 * row[reordered];
        }
        let (key, law) = (key("same"), law(FAMILY, &kind));
        let job = Job { key: &key, family: FAMILY, table: &own, kind: Some((&kind, &law)) };
        let mut operator = features(1e5);
        for method in Method::ALL {
            let settings =
                FitSettings { method, boosting: Boosting::default(), seed: 1, threads: 1 };
            let (predictor, _) = fit_key(&job, settings);
            operator[reordered] = 0.0;
            let plain = predictor.predict(&operator);
            operator[reordered] = 1e5;
            let more = predictor.predict(&operator) - plain;
            assert!((more / 4e5 - 1.0).abs() < 0.2, "{method}: {more} beside {plain}");
        }
    }

    #[test]
    fn equal_sizes_share_a_class() {
        let baselines: Vec<f64> = (0..100).rev().map(|i| f64::from(i / 10)).collect();
        let classes = size_classes(&baselines);
        assert_eq!((classes[0], classes[99]), (SIZE_CLASSES - 1, 0));
        assert!(classes.is_sorted_by(|a, b| a >= b));
        assert!(classes.chunks(10).all(|equal| equal[0] == equal[9]));
        assert_eq!(size_classes(&[7.0; 3]), [0; 3]);
        assert!(size_classes(&[]).is_empty());
    }

    #[test]
    fn few_rows_share_the_law_of_their_kind_at_their_own_efficiency() {
        let kind = table((1..200).map(|i| f64::from(i) * 1e3), 1.0);
        let own = table([2e3, 3e3, 4e3].into_iter(), 30.0);
        let (key, law) = (key("same-reordered"), law(FAMILY, &kind));
        let job = Job { key: &key, family: FAMILY, table: &own, kind: Some((&kind, &law)) };
        let fit = baseline(&job);
        for bytes in [2e3, 2e4, 2e6] {
            let forecast = fit.predict(&features(bytes));
            assert!((forecast / (300.0 * bytes) - 1.0).abs() < 0.05, "{bytes}: {forecast}");
        }
    }
}
