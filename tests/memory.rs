//! Memory of models: the fits that ship are those of the dataset that ships, and `predict` and
//! `inspect` forecast the same.

mod program;

use program::{json, shipped};
use std::path::Path;
use vitempo::{
    datasets::Dataset,
    memory::{EngineMemory, MeasuredMemory, fit},
};

#[test]
fn shipped_fits_are_those_of_the_dataset() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../datasets/memory"));
    let dataset = Dataset::load(folder).expect("the dataset");
    let fits = fit(&MeasuredMemory::of(&dataset.profiles, &dataset.graphs));
    let shipped = EngineMemory::shipped();
    let names = |fits: &[EngineMemory]| -> Vec<String> {
        fits.iter()
            .map(|e| format!("{} {} {}", e.framework, e.framework_version, e.models))
            .collect()
    };
    assert_eq!(
        names(&fits),
        names(shipped),
        "`vitempo-studies memory datasets/memory --out` again"
    );
    for (fit, ships) in fits.iter().zip(shipped) {
        let numbers = |e: &EngineMemory| {
            let (lower, upper) = e.measured_over_forecast;
            let weights = [e.per_product_weight, e.per_other_weight];
            let others = [e.base_bytes, e.per_activation, e.per_kernel_bytes, lower, upper];
            [&weights[..], &others[..]].concat()
        };
        for (fit, ships) in numbers(fit).into_iter().zip(numbers(ships)) {
            assert!((fit - ships).abs() <= 1e-6 * ships.abs(), "{fit} {ships}");
        }
    }
}

#[test]
fn predict_and_inspect_forecast_the_same_memory() {
    let model = shipped("mobilevit_xxs");
    let bundle = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/epyc-rten-f32-1t.vtb");
    let predicted = json(&["predict", &model, "--bundle", bundle]);
    let inspected = json(&["inspect", &model, "--framework", "rten"]);
    let (predicted, inspected) = (&predicted[0]["memory"], &inspected[0]["memory"]);
    assert!(predicted.is_object() && predicted == inspected, "{predicted} {inspected}");
    let bytes = |name: &str| predicted["peak_bytes"][name].as_f64().expect("bytes");
    let weights = predicted["demand"]["product_weights_bytes"].as_f64().expect("weights");
    assert!(bytes("lower") <= bytes("point") && bytes("point") <= bytes("upper"));
    assert!(bytes("point") > weights && bytes("point") < 100e6, "{predicted}");
}
