//! Compiled forests return the results of the libraries that trained them: with every set of
//! instructions, in batches of any size and row by row.

#![allow(clippy::unwrap_used)]

mod simulated;

use lightgbm::Booster;
use simulated::Numbers;
use smartcore::{
    ensemble::random_forest_regressor::{RandomForestRegressor, RandomForestRegressorParameters},
    linalg::basic::matrix::DenseMatrix,
};
use std::fmt::{Debug, Write};
use vitempo_predictors::forest::{
    CompiledForest, ForestError, Instructions, Missing, Rule, TreeNode,
};

const FEATURES: usize = 9;

/// Which splits a random model has.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Bits of `decision_type` that may be set.
    decisions: u8,
    /// Distinct thresholds per feature.
    thresholds: usize,
    leaves: (usize, usize),
    trees: usize,
}

/// Thresholds around which rows are drawn too: whole numbers, fractions that f32 cannot hold, and
/// where LightGBM separates zero from the rest.
fn threshold(random: &mut Numbers, kind: Kind) -> f64 {
    match random.between(0, kind.thresholds) {
        0 => 1.0000000180025095e-35,
        n if n % 3 == 0 => n as f64,
        n => (n as f64 - kind.thresholds as f64 / 2.0) * 0.1,
    }
}

/// Numbers as LightGBM writes them: small ones with an exponent.
fn joined<T: Debug>(values: &[T]) -> String {
    values.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(" ")
}

/// A tree in LightGBM's text, grown by splitting leaves at random.
fn tree_text(random: &mut Numbers, kind: Kind) -> String {
    let leaves = random.between(kind.leaves.0, kind.leaves.1);
    let (mut left, mut right) = (Vec::<i64>::new(), Vec::<i64>::new());
    let (mut decisions, mut thresholds, mut features) =
        (Vec::<u8>::new(), Vec::<f64>::new(), Vec::<usize>::new());
    let (mut bounds, mut words) = (vec![0], Vec::new());
    // Where the number of a leaf is written: a node and a side.
    let mut open: Vec<Option<(usize, bool)>> = vec![None];
    while left.len() + 1 < leaves {
        let leaf = random.between(0, open.len() - 1);
        let node = left.len();
        match open[leaf] {
            Some((parent, true)) => right[parent] = node as i64,
            Some((parent, false)) => left[parent] = node as i64,
            None => {}
        }
        left.push(!(leaf as i64));
        right.push(!(open.len() as i64));
        open[leaf] = Some((node, false));
        open.push(Some((node, true)));
        features.push(random.between(0, FEATURES - 1));
        let decision = random.between(0, 11) as u8 & kind.decisions;
        let decision = if decision >> 2 == 3 { decision & 0b0111 } else { decision };
        decisions.push(decision);
        if decision & 1 == 1 {
            thresholds.push((bounds.len() - 1) as f64);
            words.extend(
                (0..random.between(1, 3)).map(|_| (random.uniform() * 4294967296.0) as u32),
            );
            bounds.push(words.len());
        } else {
            thresholds.push(threshold(random, kind));
        }
    }
    let values: Vec<f64> = (0..leaves)
        .map(|_| random.normal() * 10f64.powi(random.between(0, 6) as i32 - 3))
        .collect();
    let mut text = format!("num_leaves={leaves}\nnum_cat={}\n", bounds.len() - 1);
    writeln!(
        text,
        "split_feature={}\nsplit_gain={}\nthreshold={}",
        joined(&features),
        joined(&vec![1; left.len()]),
        joined(&thresholds)
    )
    .unwrap();
    writeln!(
        text,
        "decision_type={}\nleft_child={}\nright_child={}",
        joined(&decisions),
        joined(&left),
        joined(&right)
    )
    .unwrap();
    writeln!(text, "leaf_value={}\nleaf_count={}", joined(&values), joined(&vec![1; leaves]))
        .unwrap();
    if bounds.len() > 1 {
        writeln!(text, "cat_boundaries={}\ncat_threshold={}", joined(&bounds), joined(&words))
            .unwrap();
    }
    text + "is_linear=0\nshrinkage=1\n\n"
}

fn model_text(trees: &[String], objective: &str) -> String {
    let head = format!(
        "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx={}\nobjective={objective}\nfeature_names={}\nfeature_infos={}\n\n",
        FEATURES - 1,
        (0..FEATURES).map(|i| format!("f{i} ")).collect::<String>().trim(),
        ["[-1e300:1e300]"; FEATURES].join(" "),
    );
    let trees =
        trees.iter().enumerate().map(|(i, tree)| format!("Tree={i}\n{tree}\n")).collect::<String>();
    format!("{head}{trees}end of trees\n\nparameters:\nend of parameters\n")
}

/// Thresholds themselves, their neighbours, everything that may be missing, and numbers in between.
fn rows(random: &mut Numbers, kind: Kind, count: usize) -> Vec<f64> {
    let special = [
        f64::NAN,
        0.0,
        -0.0,
        1e-36,
        -1e-36,
        f64::from(1e-35f32),
        -1.1e-35,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e300,
        -0.5,
        4e9,
    ];
    let mut value = || match random.between(0, 9) {
        0 | 1 => special[random.between(0, special.len() - 1)],
        2 | 3 => threshold(random, kind),
        4 => threshold(random, kind).next_up(),
        5 => threshold(random, kind).next_down(),
        6 => random.between(0, 100) as f64,
        _ => random.normal() * kind.thresholds as f64 * 0.05,
    };
    (0..count * FEATURES).map(|_| value()).collect()
}

/// Every way to evaluate a forest, against the expected results.
fn assert_says(forest: &CompiledForest, rows: &[f64], expected: &[f64], what: &str) {
    let features = forest.features();
    for instructions in Instructions::available() {
        let forest = forest.clone().with_instructions(instructions);
        for (row, expected) in rows.chunks(features).zip(expected) {
            assert_eq!(forest.predict(row), *expected, "{what}, {instructions:?}: {row:?}");
        }
        for batch in [1, 7, 30, 64, 65, 100, 250, 512, 700, expected.len()] {
            let batch = batch.min(expected.len());
            let mut out = vec![f64::NAN; batch];
            forest.predict_batch(&rows[..batch * features], &mut out).unwrap();
            assert_eq!(out, expected[..batch], "{what}, {instructions:?}, {batch} rows");
        }
    }
}

#[test]
fn random_models_say_exactly_what_lightgbm_says() {
    let small = Kind { decisions: 0, thresholds: 40, leaves: (2, 32), trees: 70 };
    let kinds = [
        ("plain", small),
        ("zero trees", Kind { trees: 0, ..small }),
        ("single leaves", Kind { leaves: (1, 1), ..small }),
        ("single leaves among others", Kind { leaves: (1, 3), ..small }),
        ("one threshold", Kind { thresholds: 1, ..small }),
        ("many thresholds", Kind { thresholds: 5000, trees: 300, ..small }),
        ("missing values", Kind { decisions: 0b1110, ..small }),
        ("categories", Kind { decisions: 0b1111, ..small }),
        ("medium trees", Kind { decisions: 0b1111, leaves: (33, 128), trees: 20, ..small }),
        ("large trees", Kind { decisions: 0b1111, leaves: (2, 300), trees: 20, ..small }),
        (
            "deep trees",
            Kind { decisions: 0b1110, leaves: (3000, 4000), trees: 4, thresholds: 9000 },
        ),
    ];
    for (seed, (what, kind)) in kinds.into_iter().enumerate() {
        let mut random = Numbers(seed as u64);
        let trees: Vec<String> = (0..kind.trees).map(|_| tree_text(&mut random, kind)).collect();
        let text = model_text(&trees, "regression");
        let rows = rows(&mut random, kind, 1100);
        let theirs = || {
            Booster::from_string(&text)
                .unwrap()
                .predict_with_params(&rows, FEATURES as i32, true, "num_threads=1")
                .unwrap()
        };
        let expected = if kind.trees == 0 { vec![0.0; 1100] } else { theirs() };
        let forest = CompiledForest::from_lightgbm(&text).unwrap();
        assert_eq!((forest.len(), forest.features()), (kind.trees, FEATURES));
        assert_says(&forest, &rows, &expected, what);
    }
}

#[test]
fn trained_models_say_what_lightgbm_says() {
    let mut random = Numbers(3);
    let x: Vec<f64> = (0..3000 * FEATURES)
        .map(|i| if i % 5 == 0 && random.uniform() < 0.2 { f64::NAN } else { random.normal() })
        .collect();
    let y: Vec<f32> = x
        .chunks(FEATURES)
        .map(|r| (r[1] * 3.0 + r[2] * r[3] + if r[0].is_nan() { 2.0 } else { r[0] }) as f32)
        .collect();
    for (boosting, leaves) in [("gbdt", 31), ("gbdt", 100), ("rf", 31)] {
        let parameters = serde_json::json!({
            "objective": "regression", "boosting": boosting, "num_leaves": leaves, "num_iterations": 40, "bagging_freq": 1, "bagging_fraction": 0.7,
            "num_threads": 1, "verbosity": -1, "seed": 1,
        });
        let booster = Booster::train(
            lightgbm::Dataset::from_slice(&x, &y, FEATURES as i32, true).unwrap(),
            &parameters,
        )
        .unwrap();
        let expected = booster.predict(&x, FEATURES as i32, true).unwrap();
        let forest = CompiledForest::from_lightgbm(&booster.save_string().unwrap()).unwrap();
        let mut out = vec![0.0; expected.len()];
        forest.predict_batch(&x, &mut out).unwrap();
        let close = |(ours, theirs): (&f64, &f64)| (ours - theirs).abs() <= 1e-12 * theirs.abs();
        assert!(out.iter().zip(&expected).all(close), "{boosting} with {leaves} leaves");
        assert!(boosting == "rf" || out == expected, "sums are added in LightGBM's order");
    }
}

#[test]
fn random_forests_say_what_smartcore_says() {
    let mut random = Numbers(8);
    for (rows, trees, depth) in [(60, 3, 3), (400, 20, 5), (6000, 6, 40)] {
        let x: Vec<f64> = (0..rows * 4)
            .map(|i| if i % 4 == 0 { random.between(0, 9) as f64 } else { random.normal() })
            .collect();
        let y: Vec<f64> = x.chunks(4).map(|r| r[0] + r[1] * r[2] + 0.1 * r[3]).collect();
        let matrix = DenseMatrix::new(rows, 4, x.clone(), false).unwrap();
        let parameters = RandomForestRegressorParameters::default()
            .with_n_trees(trees)
            .with_max_depth(depth)
            .with_min_samples_leaf(1)
            .with_seed(5);
        let forest = RandomForestRegressor::fit(&matrix, &y, parameters).unwrap();
        let expected: Vec<f64> = forest.predict(&matrix).unwrap();
        let compiled = CompiledForest::from_smartcore(&forest, 4).unwrap();
        let mut out = vec![0.0; rows];
        compiled.predict_batch(&x, &mut out).unwrap();
        for (ours, theirs) in out.iter().zip(&expected) {
            assert!(
                (ours - theirs).abs() <= 1e-12 * theirs.abs().max(1e-3),
                "{rows} rows, depth {depth}: {ours} {theirs}"
            );
        }
        assert_says(&compiled, &x, &out, "smartcore");
    }
}

#[test]
fn what_cannot_be_compiled_is_refused_with_a_reason() {
    let leaf = "num_leaves=1\nleaf_value=1\n".to_owned();
    for objective in ["poisson", "binary sigmoid:1", "regression sqrt", "multiclass num_class:3"] {
        assert!(
            matches!(
                CompiledForest::from_lightgbm(&model_text(std::slice::from_ref(&leaf), objective)),
                Err(ForestError::LightGbm(_))
            ),
            "{objective}"
        );
    }
    let split = |line: &str| {
        format!(
            "split_feature=0\nthreshold=1\ndecision_type=2\nleft_child=-1\nright_child=-2\nleaf_value=1 2\n{line}\n"
        )
    };
    assert!(CompiledForest::from_lightgbm(&model_text(&[split("")], "regression")).is_ok());
    for line in [
        "leaf_value=x y",
        "leaf_value=1",
        "leaf_value=1 nan",
        "left_child=0",
        "left_child=-9",
        "right_child=7",
        "right_child=-9223372036854775808",
        "split_feature=9",
        "split_feature=18446744073709551615",
        "threshold=nan",
        "threshold=",
        "decision_type=12",
        "decision_type=1",
        "decision_type=1\nthreshold=1e300\ncat_boundaries=0 1\ncat_threshold=1",
        "is_linear=1",
    ] {
        assert!(
            CompiledForest::from_lightgbm(&model_text(&[split(line)], "regression")).is_err(),
            "{line}"
        );
    }
    assert!(CompiledForest::from_lightgbm("").is_err());
    assert!(CompiledForest::from_smartcore(&[1, 2], 3).is_err());
}

#[test]
fn trees_by_hand_and_rows_of_the_wrong_length() {
    let split = |rule, left, right| TreeNode::Split { feature: 0, rule, left, right };
    let rule = Rule::AtMost(0.5, Missing::Nan { left: true });
    let tree = vec![split(rule.clone(), 2, 1), TreeNode::Leaf(10.0), TreeNode::Leaf(1.0)];
    let forest = CompiledForest::new(&[tree.clone(), tree.clone()], 1, 0.5).unwrap();
    let rows = [0.5, 0.5f64.next_up(), f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    assert_says(&forest, &rows, &[1.0, 10.0, 1.0, 10.0, 1.0], "by hand");
    assert_eq!(forest.predict(&[]), 1.0, "an absent feature is 0");
    assert_eq!(
        forest.predict_batch(&rows, &mut [0.0; 4]),
        Err(ForestError::Shape { values: 5, rows: 4, features: 1 })
    );
    assert_eq!(forest.predict_batch(&[], &mut []), Ok(()));
    let shared = vec![split(rule, 1, 1), TreeNode::Leaf(1.0)];
    assert_eq!(CompiledForest::new(&[shared], 1, 1.0), Err(ForestError::NotATree));
    assert_eq!(
        CompiledForest::new(&[tree], 0, 1.0),
        Err(ForestError::Feature { feature: 0, features: 0 })
    );
    let constant = CompiledForest::new(&[vec![TreeNode::Leaf(3.0)]], 0, 1.0).unwrap();
    let mut out = [0.0; 3];
    constant.predict_batch(&[], &mut out).unwrap();
    assert_eq!(out, [3.0; 3]);
}
