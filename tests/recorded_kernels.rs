//! Lowering predicts the operators that torch ran on a GPU, in each environment that was measured
//! there: kinds, shapes, attributes, precisions and memory formats, of every model.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use vitempo::{
    datasets::Dataset,
    graph::lowering::{compare, lower},
};

#[test]
fn operators_on_a_gpu_are_those_predicted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/measured/h100");
    let environments = Dataset::described_environments(&folder).unwrap();
    assert!(environments.len() >= 8);
    for id in environments.keys() {
        let dataset = Dataset::load_environment(&folder, |other| other == id).unwrap();
        let timed = dataset.profiles.iter().filter(|p| !p.operators.is_empty());
        let mut models = 0;
        for profile in timed.filter(|p| !p.model.is_operator()) {
            let graph = &dataset.graphs[&profile.model.architecture];
            let predicted = lower(graph, &profile.environment).unwrap();
            let comparison = compare::compare(&predicted, &profile.operators);
            let wrong = (comparison.mismatches, comparison.differing, comparison.only_predicted);
            assert_eq!(wrong, Default::default(), "{id}: `{}`", profile.model.name);
            models += 1;
        }
        assert!(models > 90, "{id}: {models} models");
    }
}
