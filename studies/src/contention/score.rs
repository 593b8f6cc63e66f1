//! [`score`]: how far forecast slowdowns are off, beside the error of "no contention", and whether
//! models with attention are hit harder by a stream than others. Slowdowns are medians of runs
//! beside a neighbour over medians of runs alone just before.

use super::{PairRecord, Record};
use serde::Serialize;
use std::collections::BTreeMap;
use vitempo::{
    Bundle,
    contention::{BesideError, Neighbour, predict_beside},
    graph::{Graph, Interval, OpKind},
    models::Model,
    profiler::statistics::median,
};

/// One model beside another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Index of its engine.
    pub engine: usize,
    /// Its name.
    pub model: String,
    /// The name of the other.
    pub beside: String,
    /// How much slower it was.
    pub measured: f64,
    /// How far the slowdown of the first half of its runs is from that of the second, as a share.
    pub halves: Option<f64>,
    /// How much slower it was to be; `None`: the bundle does not know contention.
    pub forecast: Option<Interval<f64>>,
}

/// Means over the models on one engine, as shares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Means {
    /// Models beside others.
    pub pairs: usize,
    /// Mean slowdown.
    pub slowdown: f64,
    /// Error of the forecasts.
    pub error: Option<f64>,
    /// Error if no contention is assumed.
    pub error_of_none: f64,
    /// Slowdowns within the interval of their forecast.
    pub covered: Option<f64>,
    /// How far slowdowns of the first half of the runs are from those of the second.
    pub halves: f64,
    /// How far a model's latencies alone are from their median, over its pairs.
    pub noise: f64,
}

/// Slowdown beside a stream, by class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Classes {
    /// Index of the engine.
    pub engine: usize,
    /// Models with attention.
    pub with_attention: usize,
    /// Their mean slowdown.
    pub attention_slowdown: f64,
    /// Other models.
    pub without: usize,
    /// Their mean slowdown.
    pub other_slowdown: f64,
    /// Share of pairs of a model with attention and another of which the first is slowed down more;
    /// a half of those that are equal.
    pub hit_harder: f64,
}

impl Score {
    /// Error of the forecast.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        Some((self.forecast?.point() / self.measured - 1.0).abs())
    }
}

fn slowdown(alone: &[u64], beside: &[u64]) -> Option<f64> {
    Some(median(beside)? / median(alone).filter(|ns| *ns > 0.0)?)
}

/// How far the slowdown of the first half of the runs is from that of the second.
fn halves(alone: &[u64], beside: &[u64]) -> Option<f64> {
    let (alone, beside) = (alone.split_at(alone.len() / 2), beside.split_at(beside.len() / 2));
    Some((slowdown(alone.0, beside.0)? / slowdown(alone.1, beside.1)? - 1.0).abs())
}

/// Every model of every pair. Models of the record that are not given are left out.
///
/// # Errors
/// [`BesideError`] where a bundle does not forecast a model, or not beside the other engine.
pub fn score(
    record: &Record,
    models: &[Model],
    bundles: [&Bundle; 2],
) -> Result<Vec<Score>, BesideError> {
    let known: BTreeMap<&str, &Model> =
        models.iter().map(|model| (model.identity.name.as_str(), model)).collect();
    let mut scores = Vec::new();
    for pair in &record.pairs {
        let [Some(one), Some(other)] = pair.models.each_ref().map(|name| known.get(name.as_str()))
        else {
            continue;
        };
        scores.extend(of_pair(pair, [*one, *other], bundles)?);
    }
    Ok(scores)
}

fn of_pair(
    pair: &PairRecord,
    models: [&Model; 2],
    bundles: [&Bundle; 2],
) -> Result<Vec<Score>, BesideError> {
    let mut scores = Vec::new();
    for engine in 0..2 {
        let other = 1 - engine;
        let (alone, beside) = (&pair.alone_ns[engine], &pair.beside_ns[engine]);
        let Some(measured) = slowdown(alone, beside) else { continue };
        let forecast = match bundles[engine].contention() {
            None => None,
            Some(_) => {
                let name = &pair.models[other];
                let neighbour = Neighbour::model(name, bundles[other], &models[other].graph)?;
                let graph = &models[engine].graph;
                Some(predict_beside(bundles[engine], graph, &neighbour)?.slowdown)
            }
        };
        scores.push(Score {
            engine,
            model: pair.models[engine].clone(),
            beside: pair.models[other].clone(),
            measured,
            halves: halves(alone, beside),
            forecast,
        });
    }
    Ok(scores)
}

/// Means over the scores of one engine, or of both; `None` without scores.
#[must_use]
pub fn means(record: &Record, scores: &[Score], engine: Option<usize>) -> Option<Means> {
    let of: Vec<&Score> =
        scores.iter().filter(|s| engine.is_none_or(|engine| s.engine == engine)).collect();
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let (sum, count) = values.fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
        (count > 0.0).then_some(sum / count)
    };
    let covered = |score: &&Score| Some(f64::from(score.forecast?.contains(score.measured)));
    Some(Means {
        pairs: of.len(),
        slowdown: mean(&mut of.iter().map(|s| s.measured))?,
        error: mean(&mut of.iter().filter_map(|s| s.error())),
        error_of_none: mean(&mut of.iter().map(|s| (1.0 / s.measured - 1.0).abs()))?,
        covered: mean(&mut of.iter().filter_map(covered)),
        halves: mean(&mut of.iter().filter_map(|s| s.halves)).unwrap_or(0.0),
        noise: mean(&mut noise(record, engine).into_iter()).unwrap_or(0.0),
    })
}

/// How far each latency alone is from the median of its model and engine, as shares.
fn noise(record: &Record, wanted: Option<usize>) -> Vec<f64> {
    let mut alone: BTreeMap<(usize, &str), Vec<f64>> = BTreeMap::new();
    for pair in &record.pairs {
        for engine in (0..2).filter(|engine| wanted.is_none_or(|wanted| wanted == *engine)) {
            let key = (engine, pair.models[engine].as_str());
            alone.entry(key).or_default().extend(median(&pair.alone_ns[engine]));
        }
    }
    let apart = |mut of: Vec<f64>| {
        of.sort_by(f64::total_cmp);
        let middle = of.get(of.len() / 2).copied().unwrap_or(1.0);
        of.into_iter().map(move |ns| (ns / middle - 1.0).abs())
    };
    alone.into_values().filter(|of| of.len() > 1).flat_map(apart).collect()
}

/// Whether a model attends: it multiplies two computed tensors, or has an attention operator.
#[must_use]
pub fn attends(graph: &Graph) -> bool {
    graph.nodes().iter().any(|node| match node.op.kind {
        OpKind::Attention => true,
        OpKind::MatMul => node.op.inputs.len() > 1 && node.op.inputs.iter().all(|i| !i.constant),
        _ => false,
    })
}

/// Slowdown beside a stream on each engine, by class; engines without models of both classes are
/// left out.
#[must_use]
pub fn classes(record: &Record, models: &[Model]) -> Vec<Classes> {
    let attends: BTreeMap<&str, bool> =
        models.iter().map(|m| (m.identity.name.as_str(), attends(&m.graph))).collect();
    let of = |engine: usize, class: bool| -> Vec<f64> {
        let rows = record.streams.iter().filter(|row| row.engine == engine);
        rows.filter(|row| attends.get(row.model.as_str()) == Some(&class))
            .filter_map(|row| slowdown(&row.alone_ns, &row.beside_ns))
            .collect()
    };
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let class = |engine: usize| {
        let (with, without) = (of(engine, true), of(engine, false));
        (!with.is_empty() && !without.is_empty()).then(|| Classes {
            engine,
            with_attention: with.len(),
            attention_slowdown: mean(&with),
            without: without.len(),
            other_slowdown: mean(&without),
            hit_harder: harder(&with, &without),
        })
    };
    (0..record.engines.len()).filter_map(class).collect()
}

fn harder(with: &[f64], without: &[f64]) -> f64 {
    let won = |(one, other): (f64, f64)| match one.total_cmp(&other) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    };
    let each = with.iter().flat_map(|one| without.iter().map(move |other| (*one, *other)));
    each.map(won).sum::<f64>() / (with.len() * without.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(models: [&str; 2], alone: [u64; 2], beside: [u64; 2]) -> PairRecord {
        PairRecord {
            models: models.map(str::to_owned),
            alone_ns: alone.map(|ns| vec![ns; 3]),
            beside_ns: beside.map(|ns| vec![ns; 3]),
        }
    }

    fn score(engine: usize, measured: f64, forecast: f64) -> Score {
        let forecast = Some(Interval::clamped(forecast, forecast - 0.1, forecast + 0.1));
        let (model, beside) = ("m".into(), "n".into());
        Score { engine, model, beside, measured, halves: Some(measured / 100.0), forecast }
    }

    #[test]
    fn means_are_relative_to_what_was_measured() {
        let pairs =
            vec![pair(["a", "b"], [100, 200], [120, 300]), pair(["a", "c"], [110, 50], [120, 60])];
        let record =
            Record { engines: Vec::new(), window_ms: 1, turns: 1, pairs, streams: Vec::new() };
        let scores = [score(0, 1.25, 1.0), score(1, 2.0, 2.05)];
        let both = means(&record, &scores, None).expect("means");
        assert_eq!(both.pairs, 2);
        assert!((both.slowdown - 1.625).abs() < 1e-9);
        assert!((both.error_of_none - (0.2 + 0.5) / 2.0).abs() < 1e-9);
        assert!(both.error.is_some_and(|e| (e - (0.2 + 0.025) / 2.0).abs() < 1e-9));
        assert_eq!(both.covered, Some(0.5));
        assert!((both.halves - 0.01625).abs() < 1e-9, "{}", both.halves);
        // Of `a` 100 and 110 alone; the median of two is the larger.
        assert!((both.noise - (1.0 - 100.0 / 110.0) / 2.0).abs() < 1e-9, "{}", both.noise);
        let second = means(&record, &scores, Some(1)).expect("means");
        assert_eq!((second.pairs, second.noise), (1, 0.0));
        assert_eq!(means(&record, &[], None), None);
    }

    #[test]
    fn the_class_that_is_hit_harder_wins_more_often() {
        assert_eq!(harder(&[1.5, 1.2], &[1.2, 1.1]), 0.875);
        assert_eq!(harder(&[1.0], &[1.1]), 0.0);
        assert_eq!(slowdown(&[10, 12, 11], &[22]), Some(2.0));
        assert_eq!((slowdown(&[], &[1]), slowdown(&[1], &[])), (None, None));
        let apart = halves(&[10, 10, 10, 10], &[12, 12, 15, 15]).expect("halves");
        assert!((apart - 0.2).abs() < 1e-9, "{apart}");
        assert_eq!(halves(&[10], &[12, 13]), None);
    }
}
