//! Adaptation to devices with given unit costs from a few of their latencies.

use super::{
    adapted::Adapted,
    device_prior::{DevicePrior, Generic, Source, Trait},
    mixture::{Measured, adapt},
    resource_demand::{COSTS, Group, UnitCost, Workload},
    roofline::log_latency,
};
use crate::metrics;

/// Models whose launches, arithmetic, weights and traffic vary apart.
fn models(count: usize) -> Vec<Workload> {
    let spread = |i: usize, step: usize, from: f64, ratio: f64| {
        from * ratio.powf(((i * step) % 17) as f64 / 16.0)
    };
    (0..count)
        .map(|i| {
            let conv = vec![
                (UnitCost::LaunchConvolution, 1.0),
                (UnitCost::Spatial, spread(i, 3, 1e6, 100.0)),
                (UnitCost::Weights, spread(i, 5, 1e4, 100.0)),
                (UnitCost::ConvolutionBytes, spread(i, 7, 1e5, 30.0)),
            ];
            let add = vec![
                (UnitCost::LaunchElementwise, 1.0),
                (UnitCost::ElementwiseBytes, spread(i, 11, 1e5, 30.0)),
            ];
            Workload {
                demands: vec![
                    (conv, 10.0 + (i % 13) as f64 * 4.0),
                    (add, 5.0 + (i % 7) as f64 * 6.0),
                ],
            }
        })
        .collect()
}

/// A device whose unit costs differ from the generic accelerator's, deterministically.
fn device(number: usize, difference: f64) -> Vec<f64> {
    let deviation = |c: usize| difference * (((c * 7 + number * 13) % 11) as f64 / 5.0 - 1.0);
    Generic::Accelerator
        .log_costs()
        .iter()
        .enumerate()
        .map(|(c, cost)| cost + deviation(c) + 0.2 * number as f64)
        .collect()
}

fn latency(workload: &Workload, costs: &[f64]) -> f64 {
    log_latency(workload, costs).0.exp()
}

fn source(number: usize, models: &[Workload], costs: &[f64]) -> Source {
    let latencies_ns = models.iter().enumerate().map(|(i, w)| (i, latency(w, costs))).collect();
    Source { device: format!("device {number}"), kind: Trait("npu".to_owned()), latencies_ns }
}

fn error(adapted: &Adapted, models: &[Workload], costs: &[f64], from: usize) -> f64 {
    let truth: Vec<f64> = models[from..].iter().map(|w| latency(w, costs)).collect();
    let points: Vec<f64> =
        models[from..].iter().map(|w| adapted.forecast(w, None).latency().point().ns()).collect();
    metrics::mape(&truth, &points).expect("pairs")
}

fn measured(models: &[Workload], costs: &[f64], count: usize) -> Vec<Measured> {
    (0..count).map(|model| Measured { model, ns: latency(&models[model], costs) }).collect()
}

#[test]
fn a_few_latencies_and_other_devices_make_a_forecast() {
    let models = models(60);
    let truth = device(9, 0.6);
    let sources: Vec<Source> = (0..6).map(|n| source(n, &models[..40], &device(n, 0.6))).collect();
    let prior = DevicePrior::learn(&models, &sources).without_residuals();
    let kind = Trait("npu".to_owned());
    let ten = adapt(&prior, &models, &measured(&models, &truth, 10), Some(&kind));
    let alone = adapt(&DevicePrior::empty(), &models, &measured(&models, &truth, 10), Some(&kind));
    let (with, without) = (error(&ten, &models, &truth, 40), error(&alone, &models, &truth, 40));
    assert!(with < 5.0 && with <= without + 0.5, "{with} % with sources, {without} % without");
}

#[test]
fn more_latencies_and_more_sources_do_no_harm() {
    let models = models(60);
    let truth = device(9, 0.6);
    let learn = |count: usize| {
        let sources: Vec<Source> =
            (0..count).map(|n| source(n, &models[..40], &device(n, 0.6))).collect();
        DevicePrior::learn(&models, &sources).without_residuals()
    };
    let kind = Trait("npu".to_owned());
    let of = |sources: usize, samples: usize| {
        error(
            &adapt(&learn(sources), &models, &measured(&models, &truth, samples), Some(&kind)),
            &models,
            &truth,
            40,
        )
    };
    assert!(of(6, 20) <= of(6, 5) + 0.5, "{} with 20, {} with 5", of(6, 20), of(6, 5));
    let mut strange = source(7, &models[..40], &device(7, 3.0));
    strange.kind = kind.clone();
    let mut sources: Vec<Source> =
        (0..6).map(|n| source(n, &models[..40], &device(n, 0.6))).collect();
    sources.push(strange);
    let crowd = DevicePrior::learn(&models, &sources).without_residuals();
    let with = error(
        &adapt(&crowd, &models, &measured(&models, &truth, 10), Some(&kind)),
        &models,
        &truth,
        40,
    );
    assert!(with <= of(6, 10) + 1.0, "{with} with a strange source, {} without", of(6, 10));
}

#[test]
fn residuals_that_sources_share_are_used() {
    let models = models(60);
    let slow = |i: usize| if i.is_multiple_of(9) { 2.0 } else { 1.0 };
    let shared = |number: usize| {
        let mut source = source(number, &models[..40], &device(number, 0.4));
        source.latencies_ns.iter_mut().for_each(|(i, ns)| *ns *= slow(*i));
        source
    };
    let prior = DevicePrior::learn(&models, &(0..5).map(shared).collect::<Vec<_>>());
    let truth = device(8, 0.4);
    let given: Vec<Measured> = (0..10)
        .map(|model| Measured { model, ns: slow(model) * latency(&models[model], &truth) })
        .collect();
    let adapted = adapt(&prior, &models, &given, None);
    let actual = |i: usize| slow(i) * latency(&models[i], &truth);
    let (known, unknown) =
        (adapted.forecast(&models[36], Some(36)), adapted.forecast(&models[45], None));
    assert!(
        (known.log_ns - actual(36).ln()).abs() < 0.1,
        "{} of {}",
        known.log_ns.exp(),
        actual(36)
    );
    let wrong = (unknown.log_ns - actual(45).ln()).abs();
    assert!(wrong > 0.25, "nothing in the workload shows that it is slow: {wrong}");
    assert!(
        unknown.half_width > known.half_width,
        "the interval is wider for a model that no source has"
    );
}

#[test]
fn long_models_may_be_longer_still() {
    let models = models(60);
    let sources: Vec<Source> = (0..6).map(|n| source(n, &models[..40], &device(n, 0.2))).collect();
    let prior = DevicePrior::learn(&models, &sources);
    let costs = device(8, 0.2);
    let middle = models.iter().map(|w| latency(w, &costs).ln()).sum::<f64>() / models.len() as f64;
    let actual = |i: usize| (middle + 1.15 * (latency(&models[i], &costs).ln() - middle)).exp();
    let given: Vec<Measured> = (0..10).map(|model| Measured { model, ns: actual(model) }).collect();
    let adapted = adapt(&prior, &models, &given, Some(&Trait("npu".to_owned())));
    let slope: f64 = adapted.hypotheses.iter().map(|h| h.weight * h.slope.value).sum();
    assert!(slope > 0.01, "{slope}");
    let truth: Vec<f64> = (40..60).map(actual).collect();
    let points: Vec<f64> =
        (40..60).map(|i| adapted.forecast(&models[i], None).latency().point().ns()).collect();
    let error = metrics::mape(&truth, &points).expect("pairs");
    assert!(error < 4.0, "{error} %");
}

#[test]
fn latencies_show_whether_padding_is_computed() {
    let mut models = models(60);
    for (i, model) in models.iter_mut().enumerate() {
        model.demands[0].0.extend([
            (UnitCost::Vectors, 0.1 * (i % 5) as f64),
            (UnitCost::Tiles, 0.2 * ((i * 2) % 7) as f64),
        ]);
    }
    let device = |generic: Generic, number: usize| -> Vec<f64> {
        let slower = |cost: &UnitCost| {
            cost.with_speed() * (0.3 * number as f64 + 0.1 * (*cost as usize * 7 % 5) as f64)
        };
        generic
            .log_costs()
            .iter()
            .zip(UnitCost::ALL)
            .map(|(log, cost)| log + slower(cost))
            .collect()
    };
    let both =
        |n: usize| device(if n.is_multiple_of(2) { Generic::Cpu } else { Generic::Accelerator }, n);
    let prior = DevicePrior::learn(
        &models,
        &(0..4).map(|n| source(n, &models[..40], &both(n))).collect::<Vec<_>>(),
    );
    for (generic, padded) in [(Generic::Cpu, 0.0), (Generic::Accelerator, 1.0)] {
        let truth = device(generic, 6);
        for prior in [&prior, &DevicePrior::empty()] {
            let adapted = adapt(prior, &models, &measured(&models, &truth, 10), None);
            let power: f64 = adapted
                .hypotheses
                .iter()
                .map(|h| h.weight * h.theta[UnitCost::Tiles as usize].exp())
                .sum();
            let wrong = error(&adapted, &models, &truth, 40);
            assert!(
                (power - padded).abs() < 0.15 && wrong < 3.0,
                "{generic:?} with {} sources: padding to the power {power}, {wrong} %",
                prior.sources()
            );
        }
    }
}

#[test]
fn says_what_latencies_do_not_constrain_and_what_to_measure() {
    let mut models = models(12);
    let token = vec![(UnitCost::LaunchDynamic, 1.0), (UnitCost::Dynamic, 1e8)];
    models.push(Workload { demands: vec![(token, 50.0)] });
    let truth = device(3, 0.3);
    let adapted = adapt(&DevicePrior::empty(), &models, &measured(&models, &truth, 8), None);
    let unconstrained = adapted.unconstrained(&models.iter().collect::<Vec<_>>());
    assert!(unconstrained.iter().any(|(cost, _)| *cost == UnitCost::Dynamic), "{unconstrained:?}");
    assert!(!unconstrained.iter().any(|(cost, _)| *cost == UnitCost::Spatial), "{unconstrained:?}");
    let done: Vec<usize> = (0..8).collect();
    let suggested = adapted.suggest(&models, &done, 20);
    assert_eq!(
        (suggested.first(), suggested.len()),
        (Some(&12), 5),
        "the only model with products of computed tensors first, no measured one at all"
    );
}

#[test]
fn bad_input_gives_a_wide_forecast_and_no_panic() {
    let models = models(5);
    let bad = [
        Measured { model: 99, ns: 1.0 },
        Measured { model: 0, ns: f64::NAN },
        Measured { model: 1, ns: -1.0 },
    ];
    let nothing = Source {
        device: String::new(),
        kind: Trait::default(),
        latencies_ns: [(0, f64::INFINITY), (77, 1.0)].into(),
    };
    let prior = DevicePrior::learn(&models, &[nothing]);
    assert_eq!(prior.sources(), 0);
    let forecast = adapt(&prior, &models, &bad, None).forecast(&models[0], None);
    assert!(forecast.log_ns.is_finite() && forecast.half_width > 1.0);
    let mut partly = source(1, &models, &device(1, 0.3));
    partly.latencies_ns.insert(0, f64::INFINITY);
    let given = measured(&models, &device(2, 0.3), 3);
    let forecast = adapt(&DevicePrior::learn(&models, &[partly]), &models, &given, None)
        .forecast(&models[0], Some(0));
    assert!(
        forecast.log_ns.is_finite() && forecast.half_width.is_finite(),
        "one latency of a source that is not a number is ignored"
    );
    let nothing_measured = adapt(
        &DevicePrior::learn(&models, &[source(1, &models, &device(1, 0.3))]),
        &models,
        &[],
        None,
    )
    .forecast(&models[0], Some(0));
    assert!(
        nothing_measured.log_ns.is_finite() && nothing_measured.half_width < 3.0,
        "the forecast of the prior: {nothing_measured:?}"
    );
    assert!(adapt(&prior, &[], &[], None).forecast(&Workload::default(), None).log_ns.is_finite());
    assert_eq!(UnitCost::ALL.len(), COSTS);
}

/// Latencies in whole milliseconds, as coarse clocks give them.
fn whole_ms(ns: f64) -> f64 {
    (ns / 1e6).round().max(1.0) * 1e6
}

#[test]
fn sources_that_mislead_are_left_for_no_source() {
    let models = models(80);
    // Devices whose every launch costs the same and whose work is nearly free.
    let gpu = |number: usize| -> Vec<f64> {
        let mut costs = device(number, 0.2);
        for (cost, log) in UnitCost::ALL.iter().zip(&mut costs) {
            *log += if cost.group() == Group::Launch { 4.0 } else { -5.0 };
        }
        costs
    };
    let sources: Vec<Source> = (0..6)
        .map(|n| Source { kind: Trait("gpu".to_owned()), ..source(n, &models[..40], &gpu(n)) })
        .collect();
    let prior = DevicePrior::learn(&models, &sources).without_residuals();
    // A processor whose time is arithmetic, with a clock of whole milliseconds.
    let truth: Vec<f64> = Generic::Cpu.log_costs().iter().map(|c| c - 0.5).collect();
    let kind = Trait("cpu".to_owned());
    let (mut with, mut without) = (0.0, 0.0);
    for from in 0..8 {
        let given: Vec<Measured> = (5 * from..5 * from + 10)
            .map(|model| Measured { model, ns: whole_ms(latency(&models[model], &truth)) })
            .collect();
        with += error(&adapt(&prior, &models, &given, Some(&kind)), &models, &truth, 50);
        let empty = DevicePrior::empty();
        without += error(&adapt(&empty, &models, &given, Some(&kind)), &models, &truth, 50);
    }
    assert!(with <= 1.05 * without, "{with} % with sources that mislead, {without} % without");
}

#[test]
fn sources_of_another_kind_are_unlikely_before_latencies() {
    let models = models(20);
    let sources: Vec<Source> = (0..3).map(|n| source(n, &models, &device(n, 0.3))).collect();
    let prior = DevicePrior::learn(&models, &sources);
    let share = |kind: &str| -> f64 {
        let adapted = adapt(&prior, &models, &[], Some(&Trait(kind.to_owned())));
        let with_sources = adapted.hypotheses.iter().filter(|h| !h.residuals.is_empty());
        with_sources.map(|h| h.weight).sum()
    };
    let (same, other) = (share("npu"), share("cpu"));
    assert!(
        same > 0.5 && 0.0 < other && other < 0.1,
        "{same} of the same kind, {other} of another"
    );
}

#[test]
fn models_are_chosen_before_anything_is_measured() {
    let mut models = models(60);
    // Half of the models say the same as each other; some have products of computed tensors.
    for i in (0..60).filter(|i| i % 2 == 0) {
        models[i] = models[0].clone();
    }
    for i in (1..60).step_by(10) {
        let token = vec![(UnitCost::LaunchDynamic, 1.0), (UnitCost::Dynamic, 1e8)];
        models[i].demands.push((token, 20.0));
    }
    let sources: Vec<Source> = (0..6).map(|n| source(n, &models, &device(n, 0.6))).collect();
    let prior = DevicePrior::learn(&models, &sources);
    let kind = Trait("npu".to_owned());
    let truth = device(9, 0.6);
    let of = |models_chosen: &[usize]| {
        let ns = |&model: &usize| Measured { model, ns: latency(&models[model], &truth) };
        let given: Vec<Measured> = models_chosen.iter().map(ns).collect();
        error(&adapt(&prior, &models, &given, Some(&kind)), &models, &truth, 0)
    };
    for prior in [&prior, &DevicePrior::empty()] {
        let chosen = adapt(prior, &models, &[], Some(&kind)).suggest(&models, &[], 6);
        let distinct: std::collections::BTreeSet<usize> = chosen.iter().copied().collect();
        assert_eq!(distinct.len(), 6, "{chosen:?}");
        assert!(chosen.iter().filter(|m| *m % 2 == 0).count() <= 2, "all of one kind: {chosen:?}");
        assert!(chosen.iter().any(|m| m % 10 == 1), "no product of computed tensors: {chosen:?}");
    }
    let chosen = adapt(&prior, &models, &[], Some(&kind)).suggest(&models, &[], 6);
    let drawn: Vec<f64> = (0..10)
        .map(|seed| of(&(0..6).map(|i| (seed * 7 + i * 11) % 60).collect::<Vec<_>>()))
        .collect();
    let middle = metrics::median(&drawn).expect("errors");
    assert!(of(&chosen) <= middle, "{} % with chosen models, {middle} % with others", of(&chosen));
}
