//! [`LoadingModel`]: how long an engine takes to read, compile and load a model that nobody loaded,
//! forecast from its operators and the bytes of its weights:
//!
//! time = base + per operator * operators + per byte * bytes
//!
//! with coefficients of each engine, none of them below 0, fitted to [measured times](LOADS) by least
//! squares of relative errors. Compiling is a cost per operator, reading and packing weights one
//! per byte. Times are ns of the processors they were measured on; `measure`, with the feature
//! `profile`, measures others.

#[cfg(feature = "profile")]
mod measure;

#[cfg(feature = "profile")]
pub use measure::measure;

use crate::zoo::weights;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};
use vitempo_graph::Graph;
use vitempo_predictors::non_negative::{self, Row};

/// The measured times that the program has, as CSV.
pub const LOADS: &str = include_str!("measured.csv");

const COLUMNS: &str = "engine,engine_version,device,model,operators,weight_bytes,load_ns";

/// One model, loaded by one engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MeasuredLoad {
    /// Name of the engine.
    pub engine: String,
    /// Its version.
    pub engine_version: String,
    /// The processor's own name.
    pub device: String,
    /// Name of the model.
    pub model: String,
    /// Its size.
    pub size: ModelSize,
    /// Least time from the file to a session that can run, ns.
    pub load_ns: u64,
}

/// What the time of loading depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModelSize {
    /// Number of operators.
    pub operators: u64,
    /// Bytes of weights.
    pub weight_bytes: u64,
}

impl ModelSize {
    /// The size of a graph.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let bytes = weights(graph).map(|(tensor, _)| tensor.size_bytes());
        Self {
            operators: graph.nodes().len() as u64,
            weight_bytes: bytes.fold(0, u64::saturating_add),
        }
    }
}

/// Why measured times cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct LoadsError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// Reads measured times.
///
/// # Errors
/// [`LoadsError`] naming the line.
pub fn read(csv: &str) -> Result<Vec<MeasuredLoad>, LoadsError> {
    let mut lines = csv.lines().enumerate().map(|(index, line)| (index + 1, line));
    let refuse = |line, reason: String| LoadsError { line, reason };
    match lines.next() {
        Some((_, COLUMNS)) => {}
        _ => return Err(refuse(1, format!("the columns are not `{COLUMNS}`"))),
    }
    let row = |(line, text): (usize, &str)| {
        let cells: Vec<&str> = text.split(',').collect();
        let [engine, engine_version, device, model, operators, weight_bytes, load_ns] = cells[..]
        else {
            return Err(refuse(line, format!("{} cells instead of 7", cells.len())));
        };
        let number = |name: &str, text: &str| {
            text.parse::<u64>().map_err(|e| refuse(line, format!("{name}: {e}")))
        };
        Ok(MeasuredLoad {
            engine: engine.to_owned(),
            engine_version: engine_version.to_owned(),
            device: device.to_owned(),
            model: model.to_owned(),
            size: ModelSize {
                operators: number("operators", operators)?,
                weight_bytes: number("weight_bytes", weight_bytes)?,
            },
            load_ns: number("load_ns", load_ns)?,
        })
    };
    lines.map(row).collect()
}

/// Measured times as CSV.
#[must_use]
pub fn write(loads: &[MeasuredLoad]) -> String {
    let plain = |text: &str| text.replace([',', '\n'], " ");
    let mut csv = COLUMNS.to_owned() + "\n";
    for MeasuredLoad { engine, engine_version, device, model, size, load_ns } in loads {
        let ModelSize { operators, weight_bytes } = size;
        let names = [engine, engine_version, device, model].map(|name| plain(name)).join(",");
        csv += &format!("{names},{operators},{weight_bytes},{load_ns}\n");
    }
    csv
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LoadingModel {
    /// By engine.
    pub engines: BTreeMap<String, Coefficients>,
}

/// The coefficients of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coefficients {
    /// Time of every model, ns.
    pub base_ns: f64,
    /// Time of an operator, ns.
    pub per_operator_ns: f64,
    /// Time of a byte of weights, ns.
    pub per_byte_ns: f64,
}

impl Coefficients {
    fn fitted(loads: &[&MeasuredLoad]) -> Option<Self> {
        let row = |load: &&MeasuredLoad| (columns(load.size), load.load_ns.max(1) as f64);
        let rows: Vec<Row<3>> = loads.iter().map(row).collect();
        let [base_ns, per_operator_ns, per_byte_ns] = non_negative::fitted(&rows)?;
        Some(Self { base_ns, per_operator_ns, per_byte_ns })
    }

    fn forecast_ns(self, size: ModelSize) -> f64 {
        let coefficients = [self.base_ns, self.per_operator_ns, self.per_byte_ns];
        non_negative::forecast(&columns(size), &coefficients)
    }
}

fn columns(size: ModelSize) -> [f64; 3] {
    [1.0, size.operators as f64, size.weight_bytes as f64]
}

/// The error of forecasts of models that were left out of the fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HeldOut {
    /// Number of models.
    pub models: usize,
    /// Mean of |forecast - measured| / measured.
    pub mean_error: f64,
    /// Largest of these.
    pub largest_error: f64,
}

impl LoadingModel {
    /// The model of [`LOADS`].
    #[must_use]
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<LoadingModel> =
            LazyLock::new(|| LoadingModel::fit(&read(LOADS).unwrap_or_default()));
        &SHIPPED
    }

    /// Fits each engine that has times.
    #[must_use]
    pub fn fit(loads: &[MeasuredLoad]) -> Self {
        let engine = |engine: &String| {
            let own: Vec<&MeasuredLoad> = loads.iter().filter(|l| l.engine == *engine).collect();
            Some((engine.clone(), Coefficients::fitted(&own)?))
        };
        let names: BTreeSet<&String> = loads.iter().map(|load| &load.engine).collect();
        Self { engines: names.into_iter().filter_map(engine).collect() }
    }

    /// The time that an engine takes, ns; `None` for an engine that has no measured times.
    #[must_use]
    pub fn forecast_ns(&self, engine: &str, size: ModelSize) -> Option<u64> {
        Some(self.engines.get(engine)?.forecast_ns(size).round() as u64)
    }

    /// Errors by engine, each model forecast by a fit to the others.
    #[must_use]
    pub fn held_out(loads: &[MeasuredLoad]) -> BTreeMap<String, HeldOut> {
        let mut errors: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let models: BTreeSet<&String> = loads.iter().map(|load| &load.model).collect();
        for model in models {
            let (own, others): (Vec<_>, Vec<_>) =
                loads.iter().cloned().partition(|load| load.model == *model);
            let fit = Self::fit(&others);
            for load in own {
                let Some(forecast_ns) = fit.forecast_ns(&load.engine, load.size) else { continue };
                let measured_ns = load.load_ns.max(1) as f64;
                let error = (forecast_ns as f64 - measured_ns).abs() / measured_ns;
                errors.entry(load.engine).or_default().push(error);
            }
        }
        let of = |errors: Vec<f64>| HeldOut {
            models: errors.len(),
            mean_error: errors.iter().sum::<f64>() / errors.len().max(1) as f64,
            largest_error: errors.iter().copied().fold(0.0, f64::max),
        };
        errors.into_iter().map(|(engine, errors)| (engine, of(errors))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(engine: &str, model: usize, size: ModelSize, load_ns: u64) -> MeasuredLoad {
        MeasuredLoad {
            engine: engine.to_owned(),
            engine_version: "1".to_owned(),
            device: "a device".to_owned(),
            model: format!("model {model}"),
            size,
            load_ns,
        }
    }

    /// Models of 10 to 280 operators and 1 kB to 19 MB, loaded in times that these give.
    fn loads(engine: &str, ns: impl Fn(ModelSize) -> u64) -> Vec<MeasuredLoad> {
        let one = |index: usize| {
            let (operators, bytes) = (10 + 30 * (index as u64 % 10), 1000 + 77_777 * index as u64);
            let size = ModelSize { operators, weight_bytes: bytes * (1 + index as u64 % 3) };
            load(engine, index, size, ns(size))
        };
        (0..80).map(one).collect()
    }

    #[test]
    fn coefficients_are_found_again_and_none_is_below_zero() {
        let whole = |size: ModelSize| 5_000 + 300 * size.operators + size.weight_bytes / 4;
        let falling = |size: ModelSize| 1_000_000 - 1_000 * size.operators;
        let all = [loads("whole", whole), loads("falling", falling)].concat();
        let fit = LoadingModel::fit(&all);
        let found = fit.engines["whole"];
        assert!((found.base_ns - 5_000.0).abs() < 10.0, "{found:?}");
        assert!((found.per_operator_ns - 300.0).abs() < 1.0, "{found:?}");
        assert!((found.per_byte_ns - 0.25).abs() < 1e-4, "{found:?}");
        assert_eq!(fit.engines["falling"].per_operator_ns, 0.0);
        let errors = LoadingModel::held_out(&all);
        assert!(errors["whole"].models == 80 && errors["whole"].largest_error < 1e-3, "{errors:?}");
        assert!(errors["falling"].mean_error > 0.05, "{errors:?}");
        let size = ModelSize { operators: 100, weight_bytes: 4_000_000 };
        assert!(fit.forecast_ns("whole", size).is_some_and(|ns| ns.abs_diff(1_035_000) < 100));
        assert_eq!(fit.forecast_ns("another", size), None);
    }

    #[test]
    fn the_shipped_times_have_four_engines_whose_forecasts_hold_for_models_left_out() {
        let loads = read(LOADS).expect("times");
        let errors = LoadingModel::held_out(&loads);
        let engines: Vec<&str> = errors.keys().map(String::as_str).collect();
        assert_eq!(engines, ["litert", "onnxruntime", "openvino", "rten"]);
        for (engine, error) in errors {
            assert!(error.models > 30 && error.mean_error < 0.5, "{engine}: {error:?}");
        }
        let size = ModelSize { operators: 200, weight_bytes: 20_000_000 };
        let forecast = |engine| LoadingModel::shipped().forecast_ns(engine, size);
        assert!(forecast("rten") < forecast("openvino") && forecast("rten") > Some(1_000_000));
        assert_eq!(forecast("null"), None);
    }

    #[test]
    fn measured_times_are_read_as_they_were_written() {
        let mut loads = loads("a", |size| size.operators);
        assert_eq!(read(&write(&loads)), Ok(loads.clone()));
        loads[0].device = "a, b".to_owned();
        assert_eq!(read(&write(&loads)).map(|read| read[0].device.clone()), Ok("a  b".to_owned()));
        let error = |csv: &str| read(csv).map(|_| ()).map_err(|e| e.to_string());
        assert!(error("engine\n").is_err_and(|e| e.starts_with("line 1: the columns are not")));
        let short = format!("{COLUMNS}\na,b,c\n");
        assert_eq!(error(&short), Err("line 2: 3 cells instead of 7".to_owned()));
        let text = format!("{COLUMNS}\na,b,c,d,1,x,3\n");
        assert!(error(&text).is_err_and(|e| e.starts_with("line 2: weight_bytes: ")));
    }
}
