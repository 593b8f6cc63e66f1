//! The extension module of the Python package `vitempo`: conversions between Python's values and
//! those of the facade, without decisions. The package around it is in `vitempo/`, the types it
//! shows to checkers in `vitempo/_vitempo.pyi`.
//!
//! | question | where |
//! |---|---|
//! | which values does `predict` take? | `model.rs`, `vitempo/_inputs.py` |
//! | what does it return? | `forecast.rs`, `batch.rs` |
//! | how do tables reach pandas, polars and pyarrow? | `column.rs`, `table.rs`, `arrow.rs` |
//! | how are models written? | `export.rs` |
//! | which exceptions are raised? | `failure.rs`, `vitempo/errors.py` |
//! | which numbers are refused? | `whole.rs`, `vitempo/_numbers.py` |
//! | how does Ctrl-C end work that runs without the interpreter's lock? | `interrupt.rs` |

mod adapting;
mod arrow;
mod batch;
mod bundle;
mod column;
mod dataset;
mod encodings;
mod export;
mod failure;
mod forecast;
mod interrupt;
mod model;
mod placing;
mod plan;
mod searching;
mod space;
mod table;
mod whole;

#[pyo3::pymodule]
mod _vitempo {
    #[pymodule_export]
    use super::{
        adapting::{adapt, evaluate, first_models},
        batch::Forecasts,
        bundle::{Bundle, bundles},
        dataset::{
            dataset_environments, dataset_inspect, dataset_is_lake, dataset_table, dataset_tables,
            dataset_validate, lake_parts, lake_scan,
        },
        export::{models, write_model},
        forecast::Forecast,
        model::{Model, read, read_named},
        placing::{plan_multitask, plan_place},
        plan::{plan_pipeline, plan_split},
        searching::{merge_scores, score, search},
        space::Space,
        table::Table,
    };

    /// Version of the package.
    #[allow(non_upper_case_globals)]
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
