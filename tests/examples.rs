//! Every example runs.

use std::error::Error;

#[path = "../examples/adapt.rs"]
mod adapt;
#[path = "../examples/forecast.rs"]
mod forecast;
#[path = "../examples/plan_split.rs"]
mod plan_split;
#[path = "../examples/search.rs"]
mod search;
#[path = "../examples/train.rs"]
mod train;

type Ran = Result<(), Box<dyn Error>>;

#[test]
fn a_model_is_forecast() -> Ran {
    forecast::main()
}

#[test]
fn a_bundle_is_trained_and_evaluated() -> Ran {
    train::main()
}

#[test]
fn a_bundle_is_adapted_to_three_latencies() -> Ran {
    adapt::main()
}

#[test]
fn architectures_within_a_ceiling_are_found() -> Ran {
    search::main()
}

#[test]
fn a_split_is_planned() -> Ran {
    plan_split::main()
}
