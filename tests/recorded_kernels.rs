//! Lowering predicts the operators that torch ran on a GPU, in each environment that was measured
//! there: kinds and shapes of every model, and attributes, precisions and memory formats unless the
//! images are channels last.
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
        let in_any_format = environments[id].memory_format.is_some();
        let (mut models, mut executed_ns, mut equal_ns) = (0, 0.0, 0.0);
        for profile in timed.filter(|p| !p.model.is_operator()) {
            let graph = &dataset.graphs[&profile.model.architecture];
            let predicted = lower(graph, &profile.environment).unwrap();
            let comparison = compare::compare(&predicted, &profile.operators);
            let name = &profile.model.name;
            let wrong = (&comparison.mismatches[..], &comparison.only_predicted[..]);
            assert_eq!(wrong, Default::default(), "{id}: `{name}`");
            assert!(in_any_format || comparison.differing.is_empty(), "{id}: `{name}`");
            (executed_ns, equal_ns) =
                (executed_ns + comparison.executed_ns, equal_ns + comparison.equal_ns);
            models += 1;
        }
        println!("{id}: {models} models, equal {:.2} %", 100.0 * equal_ns / executed_ns);
        assert!(models > 90, "{id}: {models} models");
    }
}
