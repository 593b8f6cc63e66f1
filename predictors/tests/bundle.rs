//! Bundles: equal inputs give equal bytes, loading gives what was saved, and damaged files are
//! errors.

#![allow(clippy::unwrap_used)]

mod simulated;

use std::collections::BTreeMap;
use vitempo_graph::{Graph, Host, LatencyModel, ModelProfile, Origin, Processor, Status};
use vitempo_predictors::{
    BUNDLE_VERSION, FeatureSchema, Method, PredictorBundle, PredictorError, TrainOptions,
    TrainingRows,
    contention::{Demand, FittedLoad, Form, FormError, Peaks, SlowdownModel},
    evaluate, evaluate_part, train,
};

fn bundle(method: Method, threads: usize) -> PredictorBundle {
    let (profiles, graphs) = simulated::data(12, 1, 0.02);
    train(
        &profiles,
        &graphs,
        method,
        &TrainOptions { threads, folds: 2, ..TrainOptions::default() },
        &mut |_| {},
    )
    .unwrap()
}

#[test]
fn same_inputs_same_bytes_and_loading_gives_the_same_forecasts() {
    let folder = tempfile::tempdir().unwrap();
    let (_, graphs) = simulated::data(3, 50, 0.0);
    for method in Method::ALL {
        let one = bundle(method, 1);
        let bytes = one.to_bytes().unwrap();
        assert_eq!(bytes, bundle(method, 2).to_bytes().unwrap(), "{method}");
        let path = folder.path().join(format!("{method}.vtb"));
        one.save(&path).unwrap();
        one.save(&path).unwrap();
        let loaded = PredictorBundle::load(&path).unwrap();
        assert_eq!(loaded.to_bytes().unwrap(), bytes, "{method}");
        assert_eq!(loaded.predictors, one.predictors);
        for graph in graphs.values() {
            assert_eq!(loaded.predict(graph).unwrap(), one.predict(graph).unwrap());
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left behind");
}

/// With a corrected checksum, so that the parser behind it is tested.
fn fix_checksum(bytes: &mut [u8]) {
    if bytes.len() < 60 {
        return;
    }
    let body = (bytes.len() - 60) as u64;
    bytes[12..20].copy_from_slice(&body.to_le_bytes());
    let digest =
        *blake3::Hasher::new().update(&bytes[..28]).update(&bytes[60..]).finalize().as_bytes();
    bytes[28..60].copy_from_slice(&digest);
}

#[test]
fn thousands_of_damaged_files_are_refused_without_harm() {
    let good = bundle(Method::Lasso, 2).to_bytes().unwrap();
    let mut random = simulated::Numbers(5);
    let (mut refused, mut tried) = (0, 0);
    for round in 0..3000 {
        let mut bad = good.clone();
        match round % 3 {
            0 => bad.truncate(random.between(0, good.len() - 1)),
            _ => (0..random.between(1, 4)).for_each(|_| {
                let at = random.between(0, bad.len() - 1);
                bad[at] ^= random.between(1, 255) as u8;
            }),
        }
        assert!(PredictorBundle::from_bytes(&bad).is_err(), "a changed byte went unseen");
        fix_checksum(&mut bad);
        tried += 1;
        refused += usize::from(PredictorBundle::from_bytes(&bad).is_err());
    }
    assert!(refused * 2 > tried, "{refused} of {tried}");
}

/// Damage inside the compression: the plain body is changed, packed again and given a correct
/// checksum.
#[test]
fn damage_inside_the_body_is_refused_or_gives_finite_forecasts() {
    let (_, graphs) = simulated::data(1, 50, 0.0);
    for method in Method::ALL {
        let good = bundle(method, 2).to_bytes().unwrap();
        let plain = zstd::decode_all(&good[60..]).unwrap();
        let mut random = simulated::Numbers(9);
        for round in 0..300 {
            let mut body = plain.clone();
            let at = if round % 2 == 0 {
                random.between(0, plain.len() - 1)
            } else {
                random.between(0, 9000.min(plain.len() - 1))
            };
            body[at] ^= 1 << random.between(0, 7);
            let mut bad = good[..60].to_vec();
            bad.extend(zstd::encode_all(&body[..], 1).unwrap());
            fix_checksum(&mut bad);
            if let Ok(loaded) = PredictorBundle::from_bytes(&bad) {
                for graph in graphs.values() {
                    assert!(
                        loaded.predict(graph).map_or(true, |p| p.latency.point().ns().is_finite()),
                        "{method} {at}"
                    );
                }
            }
        }
    }
}

#[test]
fn foreign_and_missing_files_say_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.vtb");
    for (bytes, reason) in [
        (
            &b"PAR1 is not a bundle, but it is long enough to look at its first bytes and more"[..],
            "not a vitempo bundle",
        ),
        (b"", "too short"),
        (
            b"VTBUNDLE\x63\0\0\0 and so on and so on and so on and so on and so on and so",
            "format version is 99",
        ),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = PredictorBundle::load(&path).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("x.vtb"), "{error}");
    }
    assert!(matches!(
        PredictorBundle::load(&folder.path().join("no")),
        Err(PredictorError::Io { .. })
    ));
    let unwritable = folder.path().join("no/such/folder/x.vtb");
    assert!(matches!(
        bundle(Method::Lasso, 1).save(&unwritable),
        Err(PredictorError::Io { action: "write", .. })
    ));
}

type Change = fn(&mut Vec<ModelProfile>);

#[test]
fn unusable_data_is_refused_with_its_reason() {
    let cases: [(&str, Change); 7] = [
        ("no usable operator rows", Vec::clear),
        ("distinct architectures", |p| p.truncate(1)),
        ("distinct architectures", |p| {
            p.truncate(1);
            p[0].operators.truncate(1);
        }),
        ("3 x out of memory", |p| {
            p.truncate(3);
            p.iter_mut().for_each(|v| v.status = Status::Failed("out of memory".into()));
        }),
        ("different environments", |p| p[3].environment = simulated::environment(2)),
        ("different processors", |p| {
            for (profile, processor) in p.iter_mut().zip(["25/1/1", "25/1/2", "23/1/2"]) {
                let host = Host { processor: Some(processor.into()), ..Host::default() };
                profile.environment.host = Some(host.into());
            }
        }),
        ("cannot be mixed", |p| p[3].origin = Origin::Measured),
    ];
    for (reason, change) in cases {
        let (mut profiles, graphs) = simulated::data(12, 1, 0.02);
        change(&mut profiles);
        let error = train(&profiles, &graphs, Method::Lasso, &TrainOptions::default(), &mut |_| {})
            .unwrap_err()
            .to_string();
        assert!(error.contains(reason), "{error}");
    }
    let (profiles, graphs) = simulated::data(4, 1, 0.02);
    for options in [
        TrainOptions { level: f64::NAN, ..TrainOptions::default() },
        TrainOptions { folds: 1, ..TrainOptions::default() },
    ] {
        assert!(matches!(
            train(&profiles, &graphs, Method::Lasso, &options, &mut |_| {}),
            Err(PredictorError::Option { .. })
        ));
    }
}

#[test]
fn rows_that_failed_or_have_no_samples_are_skipped_and_counted() {
    let (mut profiles, graphs) = simulated::data(12, 1, 0.02);
    profiles[0].operators[1].status = Status::Failed("crashed".into());
    profiles[0].operators[2].samples.wall_ns.clear();
    profiles[5].e2e.wall_ns.clear();
    profiles[7].operators[3].samples.wall_ns = vec![0; 9];
    let rows = TrainingRows::from_profiles(&profiles).unwrap();
    assert_eq!(
        rows.skipped.iter().map(|s| s.reason.as_str()).collect::<Vec<_>>(),
        ["crashed", "no samples"]
    );
    assert!(rows.rows.iter().all(|r| r.latency_ns > 0.0 && r.latency_ns.is_finite()));
    let mut calls = Vec::new();
    let bundle =
        train(&profiles, &graphs, Method::Lasso, &TrainOptions::default(), &mut |p| calls.push(p))
            .unwrap();
    assert_eq!(bundle.provenance.skipped, 2);
    let last = calls.last().unwrap();
    assert!(last.fit == last.fits && last.done == last.regressors);
}

#[test]
fn visits_that_were_interfered_with_are_skipped_and_counted() {
    let (mut profiles, _) = simulated::data(6, 1, 0.02);
    profiles.iter_mut().for_each(|p| p.e2e.cpu_ns = p.e2e.wall_ns.clone());
    profiles[4].e2e.cpu_ns.iter_mut().for_each(|ns| *ns /= 2);
    let rows = TrainingRows::from_profiles(&profiles).unwrap();
    assert_eq!(rows.skipped.len(), 1);
    assert!(
        rows.skipped[0].reason.starts_with("interfered")
            && rows.models.iter().filter(|m| m.runs.len() == 1).count() == 1
    );
}

#[test]
fn parts_of_an_evaluation_have_the_runs_of_the_whole() {
    let trained = bundle(Method::Lasso, 1);
    let (mut profiles, graphs) = simulated::data(12, 1, 0.02);
    profiles.iter_mut().for_each(|p| p.e2e.cpu_ns = p.e2e.wall_ns.clone());
    // Six models had 70 % of their cores all the time: among themselves that would be usual.
    let is_busy = |p: &ModelProfile| p.model.name.as_str() > "m4";
    for profile in profiles.iter_mut().filter(|p| is_busy(p)) {
        profile.e2e.cpu_ns.iter_mut().for_each(|ns| *ns = *ns * 7 / 10);
    }
    let names = |is_part: &dyn Fn(&ModelProfile) -> bool| {
        let evaluation = evaluate_part(&trained, &profiles, &graphs, is_part);
        evaluation.map(|found| found.models.iter().map(|m| m.name.clone()).collect::<Vec<_>>())
    };
    let calm = names(&|p| !is_busy(p)).unwrap();
    assert!(!calm.is_empty() && calm.iter().all(|name| name.as_str() <= "m4"), "{calm:?}");
    assert_eq!(names(&|_| true).unwrap(), calm);
    assert!(matches!(names(&is_busy), Err(PredictorError::NoRows { .. })));
}

#[test]
fn short_runs_of_several_threads_are_not_taken_for_interfered_with() {
    // CPU time of the second thread is counted by ticks of 4 ms: samples of 0.5 ms have none of
    // it, and some a whole tick.
    let (mut profiles, _) = simulated::data(6, 1, 0.02);
    for profile in &mut profiles {
        profile.environment.threads = 2;
        profile.e2e.wall_ns = vec![40_000_000; 8];
        profile.e2e.cpu_ns = vec![80_000_000; 8];
    }
    let short = |profile: &mut ModelProfile, samples: usize, with_tick: usize| {
        profile.e2e.wall_ns = vec![500_000; samples];
        profile.e2e.cpu_ns = vec![500_000; samples];
        profile.e2e.cpu_ns[..with_tick].fill(4_500_000);
    };
    // Too short to say; then 80 ms, at 1.9 and at 1.25 cores.
    short(&mut profiles[2], 12, 1);
    short(&mut profiles[3], 160, 18);
    short(&mut profiles[4], 160, 5);
    let rows = TrainingRows::from_profiles(&profiles).unwrap();
    assert_eq!(rows.skipped.len(), 1, "{:?}", rows.skipped);
    let runs: Vec<usize> = rows.models.iter().map(|model| model.runs.len()).collect();
    assert_eq!(runs.iter().sum::<usize>(), profiles.len() - 1);
}

#[test]
fn a_machine_that_is_always_busy_leaves_enough_to_train_on() {
    let (mut profiles, graphs) = simulated::data(9, 1, 0.02);
    // Two runs of each model. All runs of seven models have 40 to 70 % of their cores; the other
    // two models have one undisturbed run more than there are disturbed ones.
    let (rest, busy): (Vec<_>, Vec<_>) =
        profiles.drain(..).partition(|p| p.model.name.as_str() < "m3");
    let mut profiles: Vec<ModelProfile> = (0..4).flat_map(|_| rest.clone()).collect();
    profiles.iter_mut().for_each(|p| p.e2e.cpu_ns = p.e2e.wall_ns.clone());
    for (index, mut profile) in busy.into_iter().enumerate() {
        let percent = 40 + 10 * (index as u64 / 2 % 4);
        profile.e2e.cpu_ns = profile.e2e.wall_ns.iter().map(|ns| ns * percent / 100).collect();
        profiles.push(profile);
    }
    let rows = TrainingRows::from_profiles(&profiles).unwrap();
    assert_eq!((rows.architectures(), rows.disturbed), (5, 3));
    // The least disturbed ones: 70 %, then 60 %.
    let names: Vec<&str> = rows.models.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(names, ["m1", "m2", "m5", "m6", "m9"]);
    assert_eq!(rows.skipped.len(), 14 - 3);
    let trained =
        train(&profiles, &graphs, Method::Lasso, &TrainOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(trained.provenance.disturbed, 3);
    // With enough others, models that were always disturbed are left out.
    let (mut many, _) = simulated::data(9, 1, 0.02);
    many.iter_mut().for_each(|p| p.e2e.cpu_ns = p.e2e.wall_ns.clone());
    let of_one = many.iter_mut().filter(|p| p.model.name == "m4");
    of_one.for_each(|p| p.e2e.cpu_ns.iter_mut().for_each(|ns| *ns /= 2));
    let rows = TrainingRows::from_profiles(&many).unwrap();
    assert_eq!((rows.architectures(), rows.disturbed, rows.skipped.len()), (8, 0, 2));
}

#[test]
fn another_environment_is_an_error() {
    let (mut profiles, _) = simulated::data(4, 1, 0.02);
    profiles[2].environment = simulated::environment(2);
    let error = evaluate(&bundle(Method::Lasso, 1), &profiles, &BTreeMap::new()).unwrap_err();
    assert!(matches!(&error, PredictorError::OtherEnvironment { .. }), "{error}");
}

fn slowdown_model() -> SlowdownModel {
    let demand = Demand { flops_per_s: 1e9, bytes_per_s: 1e10, footprint_bytes: 1.28e8 };
    SlowdownModel {
        other: Processor::Cpu,
        form: Form::Shared,
        coefficients: vec![0.1, 0.7],
        peaks: Peaks { flops_per_s: 1e11, bytes_per_s: 1.1e10, cache_bytes: 3.2e7 },
        largest: 2.5,
        level: 0.9,
        log_error: 0.1 + 0.2,
        loads: vec![FittedLoad {
            load: "stream".into(),
            demand,
            models: 12,
            slowdown: 1.3,
            error: 0.03,
            error_of_none: 0.23,
        }],
        forms: vec![FormError { form: Form::Shared, error: 0.03 }],
    }
}

/// Version of the format that a file says.
fn version(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[8..12].try_into().unwrap())
}

#[test]
fn a_sensitivity_is_kept_and_older_programs_refuse_it() {
    let mut bundle = bundle(Method::Lasso, 2);
    let (_, graphs) = simulated::data(3, 50, 0.0);
    let width = |bundle: &PredictorBundle| {
        let widths = graphs.values().map(|g| bundle.predict(g).unwrap().latency.interval);
        widths.map(|interval| interval.relative_width()).sum::<f64>()
    };
    let before = width(&bundle);
    bundle.interval.sensitivity = 0.02;
    let bytes = bundle.to_bytes().unwrap();
    assert_eq!(version(&bytes), 9);
    let loaded = PredictorBundle::from_bytes(&bytes).unwrap();
    assert_eq!(loaded.interval, bundle.interval);
    assert!(width(&loaded) > before, "its quantiles are of an interval without");
}

/// Models of four families that take up to 1.5 times as long as the others.
fn unlike(count: u64) -> (Vec<ModelProfile>, BTreeMap<String, Graph>) {
    let (mut profiles, graphs) = simulated::data(count, 100, 0.02);
    for profile in &mut profiles {
        let number: u64 = profile.model.name[1..].parse().unwrap();
        let family = ["alpha", "beta", "gamma", "delta"][number as usize % 4];
        profile.model.name = format!("{family}{number}");
        let factor = 1.0 + (number * 37 % 50) as f64 / 100.0;
        let slower = |ns: &mut u64| *ns = (*ns as f64 * factor) as u64;
        profile.e2e.wall_ns.iter_mut().for_each(slower);
    }
    let by_architecture = |p: &ModelProfile| {
        let graph = &graphs[&format!("m{}", p.model.name.trim_start_matches(char::is_alphabetic))];
        (p.model.architecture.clone(), graph.clone())
    };
    let by_architecture = profiles.iter().map(by_architecture).collect();
    (profiles, by_architecture)
}

#[test]
fn real_models_set_the_interval_of_unfamiliar_models_and_no_forecast() {
    let mut bundle = bundle(Method::Lasso, 2);
    let (real, graphs) = unlike(80);
    let forecast = |bundle: &PredictorBundle| -> Vec<_> {
        graphs.values().map(|graph| bundle.predict(graph).unwrap().latency).collect()
    };
    let coverage = |bundle: &PredictorBundle| {
        evaluate(bundle, &real, &graphs).unwrap().e2e.unwrap().interval_coverage
    };
    let (before, covered) = (forecast(&bundle), coverage(&bundle));
    bundle.fit_unfamiliar(&real, &graphs).unwrap();
    let unfamiliar = bundle.unfamiliar.clone().unwrap().models().len();
    let changed = forecast(&bundle).iter().zip(&before).filter(|(a, b)| a != b).count();
    assert!((20..80).contains(&unfamiliar) && changed == unfamiliar, "{unfamiliar} {changed}");
    for (after, before) in forecast(&bundle).iter().zip(&before) {
        assert_eq!(after.point(), before.point());
    }
    assert!(covered < 0.5 && coverage(&bundle) > covered + 0.2, "{covered} {}", coverage(&bundle));

    let bytes = bundle.to_bytes().unwrap();
    assert_eq!(version(&bytes), BUNDLE_VERSION);
    let loaded = PredictorBundle::from_bytes(&bytes).unwrap();
    assert_eq!((&loaded.unfamiliar, &loaded.held_out), (&bundle.unfamiliar, &bundle.held_out));
    assert_eq!(forecast(&loaded), forecast(&bundle));
}

#[test]
fn few_real_models_change_nothing() {
    let mut bundle = bundle(Method::Lasso, 2);
    let before = bundle.to_bytes().unwrap();
    let (real, graphs) = unlike(15);
    bundle.fit_unfamiliar(&real, &graphs).unwrap();
    assert_eq!(bundle.to_bytes().unwrap(), before);
}

#[test]
fn a_slowdown_model_is_kept_and_changes_neither_forecasts_nor_bundles_without_one() {
    let mut bundle = bundle(Method::Gbdt, 2);
    let without = bundle.to_bytes().unwrap();
    assert_eq!((version(&without), BUNDLE_VERSION), (5, 10), "older programs read it");
    let (_, graphs) = simulated::data(3, 50, 0.0);
    let alone: Vec<_> = graphs.values().map(|graph| bundle.predict(graph).unwrap()).collect();
    bundle.contention = Some(slowdown_model());
    let with = bundle.to_bytes().unwrap();
    assert_eq!(version(&with), 6);
    let mut loaded = PredictorBundle::from_bytes(&with).unwrap();
    assert_eq!(loaded.contention, bundle.contention);
    for (graph, alone) in graphs.values().zip(&alone) {
        assert_eq!(loaded.predict(graph).unwrap(), *alone);
    }
    loaded.contention = None;
    assert_eq!(loaded.to_bytes().unwrap(), without);
}

#[test]
fn slowdown_models_that_make_no_sense_are_refused() {
    let mut bundle = bundle(Method::Lasso, 2);
    let spoils: [fn(&mut SlowdownModel); 7] = [
        |m| m.coefficients[0] = -0.1,
        |m| m.coefficients.truncate(1),
        |m| m.largest = 0.5,
        |m| m.log_error = -1.0,
        |m| m.level = 1.5,
        |m| m.peaks.bytes_per_s = -1.0,
        |m| m.loads[0].demand.flops_per_s = -1.0,
    ];
    for spoil in spoils {
        let mut model = slowdown_model();
        spoil(&mut model);
        bundle.contention = Some(model);
        let error = PredictorBundle::from_bytes(&bundle.to_bytes().unwrap()).unwrap_err();
        assert!(error.contains("`contention`"), "{error}");
    }
}

/// The schema version of a file, and the trees in its body, behind its head.
fn schema_and_trees(file: &[u8]) -> (u64, Vec<u8>) {
    let body = zstd::decode_all(&file[60..]).unwrap();
    let head = u64::from_le_bytes(body[..8].try_into().unwrap()) as usize;
    let json: serde_json::Value = serde_json::from_slice(&body[8..8 + head]).unwrap();
    (json["schema"]["version"].as_u64().unwrap(), body[8 + head..].to_vec())
}

/// Rows at the ends of each column's range, in the middle, and outside.
fn rows(ranges: &[(f64, f64)]) -> Vec<Vec<f64>> {
    let at = |share: f64| ranges.iter().map(|(a, b)| a + share * (b - a)).collect::<Vec<_>>();
    let mut rows: Vec<Vec<f64>> = [0.0, 0.1, 0.5, 0.9, 1.0, 3.0].map(at).to_vec();
    for column in 0..ranges.len() {
        let mut row = at(0.5);
        row[column] = ranges[column].1;
        rows.push(row);
    }
    rows
}

/// Bundles that ship, and part of one that was trained before its features were appended to.
fn bundle_files() -> Vec<std::path::PathBuf> {
    let crate_folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let in_folder = |folder| std::fs::read_dir(crate_folder.join(folder)).unwrap();
    let files = ["../bundles", "tests/older"].into_iter().flat_map(in_folder);
    let paths = files.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|e| e == "vtb")).collect()
}

#[test]
fn a_bundle_forecasts_the_same_bits_before_and_after_its_trees_are_compiled() {
    let ours = u64::from(FeatureSchema::current().version);
    let (mut compared, mut older) = (0, 0);
    for path in bundle_files() {
        let file = std::fs::read(&path).unwrap();
        let bundle = PredictorBundle::from_bytes(&file).unwrap();
        // A file of an older schema gets columns that its trees do not read.
        let written = bundle.to_bytes().unwrap();
        let read_again = PredictorBundle::from_bytes(&written).unwrap();
        assert!(read_again.to_bytes().unwrap() == written, "{}", path.display());
        let (schema, trees) = schema_and_trees(&file);
        assert!(schema < ours || schema_and_trees(&written) == (ours, trees), "{}", path.display());
        assert_eq!(bundle.has_unread_features(), schema < ours, "{}", path.display());
        older += usize::from(schema < ours);
        for (key, predictor) in &bundle.predictors.keys {
            let rows = rows(&predictor.ranges);
            let alone: Vec<u64> = rows.iter().map(|row| predictor.predict(row).to_bits()).collect();
            let mut many = rows.concat();
            while many.len() < 1000 * rows[0].len() {
                many.extend_from_within(..);
            }
            let compiled = predictor.predict_batch(&many).unwrap();
            for (index, latency) in compiled.iter().enumerate() {
                assert_eq!(latency.to_bits(), alone[index % rows.len()], "{key} {index}");
            }
            let again: Vec<u64> = rows.iter().map(|row| predictor.predict(row).to_bits()).collect();
            assert_eq!(again, alone, "{key}");
            let read_again = &read_again.predictors.keys[key];
            assert!(
                rows.iter().zip(alone).all(|(row, ns)| read_again.predict(row).to_bits() == ns)
            );
            compared += rows.len();
        }
    }
    assert!(compared > 10_000 && older > 0, "{compared} {older}");
}
