//! Tables over a search space: every answer equals that of the graph, for all engines and families,
//! and nearly all need no graph. Also the search over them.

#![allow(clippy::result_large_err)]

mod simulated;

use std::time::Duration;
use vitempo::{
    Bundle,
    graph::{Latency, LatencyModel, Prediction},
    predictors::{Method, PredictorBundle},
    query::{QueryError, SpaceModel, Tables},
    search::{
        Candidate, Device, ObjectiveError, Options, SearchError,
        objective::{Listed, Measure, Objective, StandIn},
        search,
    },
    search_space::{Architecture, Space, SpaceError},
};

const SUMS_DIFFER_BY: f64 = 1e-12;

fn space() -> Space {
    named("hybrid-vit")
}

fn named(space: &str) -> Space {
    Space::named(space).expect("a space")
}

fn one_by_one(bundle: &dyn LatencyModel, architectures: &[Architecture]) -> Vec<Prediction> {
    architectures
        .iter()
        .map(|a| bundle.predict(&a.to_graph().expect("a graph")).expect("a forecast").latency)
        .collect()
}

fn assert_same(tables: &[Prediction], graphs: &[Prediction], architectures: &[Architecture]) {
    assert_eq!(tables.len(), graphs.len());
    for ((t, g), architecture) in tables.iter().zip(graphs).zip(architectures) {
        for (t, g) in [(t.point(), g.point()), (t.lower(), g.lower()), (t.upper(), g.upper())] {
            assert!(
                (t.ns() - g.ns()).abs() <= SUMS_DIFFER_BY * g.ns(),
                "{architecture}: {} by tables, {} by its graph",
                t.ns(),
                g.ns()
            );
        }
        assert_eq!(t.level, g.level);
    }
}

/// Share of a sample that tables of this framework answer without a graph; every answer must be
/// right.
fn share_by_tables(framework: &str, isa: &str, method: Method, count: usize) -> f64 {
    let bundle = simulated::bundle(&simulated::environment(framework, isa), method, 12);
    share_of(&space(), &bundle, isa, count)
}

/// The same of any space.
fn share_of(space: &Space, bundle: &PredictorBundle, isa: &str, count: usize) -> f64 {
    let architectures = space.sample_many(count, 99).expect("architectures");
    let mut tables = Tables::of(space, bundle);
    let answers = tables.predict_batch(&architectures).expect("forecasts");
    assert_same(&answers, &one_by_one(bundle, &architectures), &architectures);
    assert_eq!(tables.predict_batch(&architectures).expect("forecasts"), answers, "the same again");
    let s = tables.statistics();
    eprintln!("{} {} {isa}: {s:?}", space.name(), bundle.environment.framework);
    assert_eq!(s.by_tables + s.by_graphs, 2 * count as u64);
    s.by_tables as f64 / (s.by_tables + s.by_graphs) as f64
}

#[test]
fn thousands_of_architectures_get_their_graphs_forecast_with_onnxruntime() {
    assert!(share_by_tables("onnxruntime", "avx512f", Method::Gbdt, 3000) > 0.97);
    assert!(share_by_tables("onnxruntime", "avx2", Method::Lasso, 500) > 0.9);
}

#[test]
fn answers_are_right_with_every_engine() {
    for framework in vitempo::graph::lowering::FRAMEWORKS {
        share_by_tables(framework, "avx512f", Method::Lasso, 300);
    }
}

#[test]
fn the_isotropic_family_gets_its_graphs_forecast_with_every_engine() {
    let isotropic = named("isotropic-vit");
    let engines = vitempo::graph::lowering::FRAMEWORKS.iter().map(|name| (*name, "avx512f"));
    for (framework, isa) in engines.chain([("onnxruntime", "avx2")]) {
        let bundle = simulated::bundle(&simulated::environment(framework, isa), Method::Lasso, 6);
        let share = share_of(&isotropic, &bundle, isa, 60);
        assert!(framework != "onnxruntime" || share > 0.9, "{framework} {isa}: {share}");
    }
    let bundle =
        simulated::bundle(&simulated::environment("onnxruntime", "avx512f"), Method::Gbdt, 12);
    assert!(share_of(&isotropic, &bundle, "avx512f", 1500) > 0.97);
}

#[test]
fn inverted_residuals_get_their_graphs_forecast_with_every_engine() {
    let space = named("mbconv");
    for framework in vitempo::graph::lowering::FRAMEWORKS {
        let environment = simulated::environment(framework, "avx512f");
        let bundle = simulated::bundle(&environment, Method::Lasso, 6);
        let share = share_of(&space, &bundle, "avx512f", 60);
        assert!(*framework != "onnxruntime" || share > 0.9, "{framework}: {share}");
    }
}

/// Trees of bundles that ship notice the working set, which is that of the true head alone.
#[test]
fn inverted_residuals_are_answered_by_tables_of_bundles_that_ship() {
    let space = named("mbconv");
    for name in ["epyc-onnxruntime-f32-1t", "epyc-rten-f32-1t", "epyc-litert-f32-1t"] {
        let bundle = Bundle::open(format!("bundles/{name}.vtb")).expect("a bundle");
        let share = share_of(&space, bundle.trained().expect("trained"), name, 400);
        assert!(share > 0.99, "{name}: {share}");
    }
}

#[test]
fn the_isotropic_family_is_searched_for_the_front_of_all_of_a_small_space() {
    let bundle =
        simulated::bundle(&simulated::environment("onnxruntime", "avx512f"), Method::Lasso, 6);
    let toml = Space::toml("isotropic-vit")
        .expect("a text")
        .replace("channels = { min = 128, max = 768, step = 32 }", "channels = [128, 192]")
        .replace("{ min = 4, max = 16 }", "[1, 2, 4, 9]")
        .replace("[160, 192, 224, 256, 288, 320, 384]", "[160, 224]")
        .replace("{ max = 16, min_channels = 32 }", "{ max = 4, min_channels = 32 }");
    let small = Space::parse("small", &toml).expect("a space");
    let all = small
        .sample_many(usize::try_from(small.size()).expect("a small space"), 1)
        .expect("architectures");
    let devices = [Device { bundle: &bundle, ceiling: None, memory_ceiling: None }];
    let mut objective = StandIn::new(&small, Measure::Parameters);
    let mut options = options(all.len() as u64);
    options.population = 400;
    let outcome =
        search(&small, &devices, &mut objective, options, &mut |_| true).expect("a front");
    let latencies = one_by_one(&bundle, &all);
    let scores = objective.scores(&all).expect("scores");
    let best = (0..all.len()).max_by(|&a, &b| {
        scores[a]
            .total_cmp(&scores[b])
            .then(latencies[b].point().ns().total_cmp(&latencies[a].point().ns()))
    });
    assert_eq!(Some(outcome.front[0].architecture), best.map(|index| all[index]));
    assert!(outcome.front.iter().all(|m| small.includes(&m.architecture)));
}

#[test]
fn encodings_are_read_and_refused_by_name() {
    let bundle =
        simulated::bundle(&simulated::environment("onnxruntime", "avx512f"), Method::Lasso, 6);
    let architectures = space().sample_many(20, 3).expect("architectures");
    let space = space();
    let mut tables = Tables::of(&space, &bundle);
    let encodings: Vec<String> = architectures.iter().map(Architecture::encode).collect();
    let answers = tables.predict_encodings(&encodings).expect("forecasts");
    assert_same(&answers, &one_by_one(&bundle, &architectures), &architectures);
    let error = tables.predict_encodings(&["hv1-224x224-k9"]).expect_err("no architecture");
    assert!(
        matches!(
            error,
            QueryError::Space(SpaceError::Encoding { .. } | SpaceError::Outside { .. })
        ),
        "{error}"
    );
    assert_eq!(tables.predict_encodings::<&str>(&[]).expect("nothing"), []);
}

#[test]
fn architectures_outside_of_the_space_and_deep_ones_are_right_too() {
    let bundle =
        simulated::bundle(&simulated::environment("onnxruntime", "avx512f"), Method::Lasso, 6);
    let toml = Space::toml("hybrid-vit")
        .expect("a text")
        .replace("depths = [1]", "depths = [1, 2, 5]")
        .replace("name = \"hybrid-vit\"", "name = \"deep\"");
    let deep = Space::parse("deep", &toml).expect("a space");
    let architectures = deep.sample_many(400, 4).expect("architectures");
    let expected = one_by_one(&bundle, &architectures);
    let mut of_another = Tables::of(&deep, &bundle);
    assert_same(
        &of_another.predict_batch(&architectures).expect("forecasts"),
        &expected,
        &architectures,
    );
    let space = space();
    let mut outside = Tables::of(&space, &bundle);
    assert_same(
        &outside.predict_batch(&architectures[..40]).expect("forecasts"),
        &expected[..40],
        &architectures,
    );
}

#[test]
fn every_family_gets_its_graphs_forecast_with_adapted_bundles() {
    for name in ["samsung-galaxy-s24-tflite-npu-f16", "pixel4-tflite-cpu-f32"] {
        let bundle = Bundle::open(format!("bundles/adapted/{name}.vtb")).expect("a bundle");
        for space in ["hybrid-vit", "isotropic-vit", "mbconv"].map(named) {
            let architectures = space.sample_many(400, 99).expect("architectures");
            let mut forecasts = bundle.over(&space);
            let answers = forecasts.predict_batch(&architectures).expect("forecasts");
            assert_same(&answers, &one_by_one(&bundle, &architectures), &architectures);
            let s = forecasts.statistics();
            assert!(s.by_tables > 9 * s.by_graphs, "{name}, {}: {s:?}", space.name());
            assert_eq!(s.disagreed, 0, "{name}, {}: {s:?}", space.name());
        }
    }
}

#[test]
fn adapted_bundles_are_searched_beside_trained_ones() {
    let bundle = Bundle::open("bundles/adapted/samsung-galaxy-s24-tflite-npu-f16.vtb")
        .expect("an adapted bundle");
    let space = space();
    let architectures = space.sample_many(60, 99).expect("architectures");
    let encodings: Vec<String> = architectures.iter().map(Architecture::encode).collect();
    let mut forecasts = bundle.over(&space);
    let answers = forecasts.predict_encodings(&encodings).expect("forecasts");
    assert_same(&answers, &one_by_one(&bundle, &architectures), &architectures);
    assert!(matches!(forecasts.predict_encodings(&["hv1-what"]), Err(QueryError::Space(_))));

    let trained =
        simulated::bundle(&simulated::environment("onnxruntime", "avx512f"), Method::Lasso, 6);
    let devices = [&bundle as &dyn SpaceModel, &trained].map(|bundle| Device {
        bundle,
        ceiling: None,
        memory_ceiling: None,
    });
    let mut objective = StandIn::new(&space, Measure::Flops);
    let found =
        search(&space, &devices, &mut objective, options(120), &mut |_| true).expect("a front");
    assert!(!found.front.is_empty());
    let members: Vec<Architecture> = found.front.iter().map(|m| m.architecture).collect();
    let on_the_phone: Vec<Prediction> = found.front.iter().map(|m| m.latencies[0]).collect();
    assert_same(&on_the_phone, &one_by_one(&bundle, &members), &members);
}

fn options(candidates: u64) -> Options {
    Options { candidates, population: 60, seed: 5, upper: false }
}

#[test]
fn a_search_keeps_its_ceiling_beats_sampling_and_is_repeatable() {
    let bundle =
        simulated::bundle(&simulated::environment("onnxruntime", "avx512f"), Method::Lasso, 12);
    let space = space();
    let sample = space.sample_many(3000, 1).expect("architectures");
    let latencies = Tables::of(&space, &bundle).predict_batch(&sample).expect("forecasts");
    let mut times: Vec<f64> = latencies.iter().map(|l| l.point().ns()).collect();
    times.sort_by(f64::total_cmp);
    let ceiling = times[times.len() / 4];
    let devices = [Device {
        bundle: &bundle,
        ceiling: Some(Latency::from_ns(ceiling)),
        memory_ceiling: None,
    }];
    let mut objective = StandIn::new(&space, Measure::Flops);
    let mut steps = 0;
    let outcome = search(&space, &devices, &mut objective, options(3000), &mut |_| {
        steps += 1;
        true
    })
    .expect("a front");
    assert_eq!((outcome.candidates, steps), (3000, 50));
    assert!(!outcome.front.is_empty() && outcome.front.len() <= 60);
    for pair in outcome.front.windows(2) {
        assert!(
            pair[0].score > pair[1].score
                && pair[0].latencies[0].point().ns() > pair[1].latencies[0].point().ns(),
            "no member dominates another"
        );
    }
    assert!(
        outcome
            .front
            .iter()
            .all(|m| m.latencies[0].point().ns() <= ceiling
                && space.contains(&m.architecture).is_ok())
    );
    let flops = objective.scores(&sample).expect("FLOPs");
    let sampled = flops
        .iter()
        .zip(&latencies)
        .filter(|(_, l)| l.point().ns() <= ceiling)
        .map(|(f, _)| *f)
        .fold(0.0, f64::max);
    assert!(
        outcome.front[0].score > sampled,
        "evolution finds {:.3e}, sampling as many {sampled:.3e}",
        outcome.front[0].score
    );
    let again = search(
        &space,
        &devices,
        &mut StandIn::new(&space, Measure::Flops),
        options(3000),
        &mut |_| true,
    )
    .expect("a front");
    assert_eq!(again, outcome);
}

/// Scores that have little to do with size, and all that was scored.
#[derive(Default)]
struct Uneven(Vec<(Architecture, f64)>);

impl Objective for Uneven {
    fn name(&self) -> &str {
        "uneven"
    }

    fn scores(&mut self, architectures: &[Architecture]) -> Result<Vec<f64>, ObjectiveError> {
        let score = |a: &Architecture| {
            a.encode().bytes().fold(7u64, |sum, byte| (sum * 31 + u64::from(byte)) % 1009) as f64
        };
        let scores: Vec<f64> = architectures.iter().map(score).collect();
        self.0.extend(architectures.iter().copied().zip(scores.iter().copied()));
        Ok(scores)
    }
}

#[test]
fn nothing_that_was_evaluated_dominates_the_front() {
    let bundles = ["onnxruntime", "rten"].map(|framework| {
        simulated::bundle(&simulated::environment(framework, "avx512f"), Method::Lasso, 6)
    });
    let space = space();
    for bundles in [&bundles[..1], &bundles] {
        let devices: Vec<Device<'_>> = bundles
            .iter()
            .map(|bundle| Device { bundle, ceiling: None, memory_ceiling: None })
            .collect();
        let mut objective = Uneven::default();
        let options = Options { candidates: 1500, population: 8, seed: 3, upper: false };
        let found = search(&space, &devices, &mut objective, options, &mut |_| true);
        let found = found.expect("a front");
        assert!((4..=8).contains(&found.front.len()), "{} members", found.front.len());
        let (all, scores): (Vec<Architecture>, Vec<f64>) = objective.0.into_iter().unzip();
        assert_eq!(all.len(), 1500);
        let of_device = |bundle| Tables::of(&space, bundle).predict_batch(&all).expect("forecasts");
        let latencies: Vec<Vec<Prediction>> = bundles.iter().map(of_device).collect();
        let dominates = |index: usize, member: &Candidate| {
            let both = latencies.iter().zip(&member.latencies);
            let mut both = both.map(|(all, own)| (all[index].point().ns(), own.point().ns()));
            // Sums of the same operators may differ in their last bits.
            scores[index] > member.score && both.all(|(one, own)| one < own * (1.0 - 1e-9))
        };
        for member in &found.front {
            assert!((0..all.len()).all(|index| !dominates(index, member)), "{member:?}");
        }
    }
}

#[test]
fn ceilings_on_two_devices_hold_and_impossible_ones_are_refused() {
    let bundles = ["onnxruntime", "rten"].map(|framework| {
        simulated::bundle(&simulated::environment(framework, "avx512f"), Method::Lasso, 6)
    });
    let space = space();
    let sample = space.sample_many(200, 1).expect("architectures");
    let ceilings = bundles.each_ref().map(|bundle| {
        let mut upper: Vec<f64> = Tables::of(&space, bundle)
            .predict_batch(&sample)
            .expect("forecasts")
            .iter()
            .map(|l| l.upper().ns())
            .collect();
        upper.sort_by(f64::total_cmp);
        upper[100]
    });
    let devices = [0, 1].map(|i| Device {
        bundle: &bundles[i],
        ceiling: Some(Latency::from_ns(ceilings[i])),
        memory_ceiling: None,
    });
    let run = |devices: &[Device<'_>]| {
        let options = Options { upper: true, ..options(600) };
        search(
            &space,
            devices,
            &mut StandIn::new(&space, Measure::Parameters),
            options,
            &mut |_| true,
        )
    };
    let outcome = run(&devices).expect("a front");
    assert!(
        outcome.front.iter().all(|m| m
            .latencies
            .iter()
            .zip(ceilings)
            .all(|(l, ceiling)| l.upper().ns() <= ceiling))
    );
    let impossible = [Device { ceiling: Some(Duration::from_nanos(10).into()), ..devices[0] }];
    assert!(
        matches!(run(&impossible), Err(SearchError::NothingFits { candidates: 600, excess, .. }) if excess > 99.0)
    );
    assert!(matches!(run(&[]), Err(SearchError::Option { .. })));
    let stopped = search(
        &space,
        &devices,
        &mut StandIn::new(&space, Measure::Flops),
        options(600),
        &mut |_| false,
    );
    let stopped = stopped.expect("the front of the first generation");
    assert!(stopped.interrupted && !stopped.front.is_empty() && stopped.candidates < 600);
    let none = search(
        &space,
        &impossible,
        &mut StandIn::new(&space, Measure::Flops),
        options(600),
        &mut |_| false,
    );
    assert!(matches!(none, Err(SearchError::Interrupted)));
}

#[test]
fn scores_from_a_file_are_searched_completely() {
    let bundle =
        simulated::bundle(&simulated::environment("onnxruntime", "avx512f"), Method::Lasso, 6);
    let (space, folder) = (space(), tempfile::tempdir().expect("a folder"));
    let architectures = space.sample_many(500, 8).expect("architectures");
    let score = |index: usize| (index * 7919 % 500) as f64;
    let rows: String = architectures
        .iter()
        .enumerate()
        .map(|(index, a)| format!("{a},{}\n", score(index)))
        .collect();
    let path = folder.path().join("scores.csv");
    std::fs::write(&path, format!("encoding,score\n{rows}")).expect("a file");
    let devices = [Device { bundle: &bundle, ceiling: None, memory_ceiling: None }];
    let mut listed = Listed::read(&path, &space).expect("scores");
    let outcome =
        search(&space, &devices, &mut listed, options(10), &mut |_| true).expect("a front");
    assert_eq!(outcome.candidates, 500, "all rows, whatever --candidates says");
    let latencies = one_by_one(&bundle, &architectures);
    let dominated = |i: usize| {
        (0..500).any(|j| score(j) > score(i) && latencies[j].point() < latencies[i].point())
    };
    let mut expected: Vec<&Architecture> =
        (0..500).filter(|&i| !dominated(i)).map(|i| &architectures[i]).collect();
    let mut found: Vec<&Architecture> = outcome.front.iter().map(|m| &m.architecture).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    assert_eq!(outcome.front.len() + outcome.dominated.len(), 500);
}
