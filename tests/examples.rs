//! Every example runs.

use std::error::Error;

#[path = "../examples/adapt.rs"]
mod adapt;
#[path = "../examples/forecast.rs"]
mod forecast;
#[path = "../examples/plan_split.rs"]
mod plan_split;
#[allow(dead_code)]
#[path = "../examples/readme.rs"]
mod readme;
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

/// The program compiles, as part of this one, and the README has it word for word.
#[test]
fn the_program_of_the_readme_is_the_example() {
    let example = include_str!("../examples/readme.rs");
    let (_, program) = example.split_once("\n\n").expect("a comment above it");
    assert!(include_str!("../README.md").contains(&format!("```rust\n{program}```")));
}
