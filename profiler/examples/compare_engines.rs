//! Compares two engines model by model: `compare_engines BACKEND[:PRECISION] REFERENCE MODEL...`,
//! with weights filled in where a file lacks them.
//!
//! Prints one line per model: the difference of the outputs (relative to the largest value, and the
//! least cosine), the sum of the kernels' times relative to the run, the kernels that vitempo
//! cannot describe, and the share of executed time of the kernels that lowering forecasts (same
//! kind, computed inputs and outputs).

use std::{collections::BTreeMap, path::Path};
use vitempo_graph::{Graph, Measurement, OpKind, OpSpec, Precision, lowering, onnx};
use vitempo_profiler::{Backend, OutputValues, RunOptions, Source, backends, environment, source};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(engine), Some(reference)) = (arguments.next(), arguments.next()) else {
        return Err("usage: compare_engines BACKEND REFERENCE MODEL...".into());
    };
    let (engine, precision) = engine.split_once(':').unwrap_or((&engine, "f32"));
    let known = [Precision::F32, Precision::F16, Precision::Bf16, Precision::I8];
    let precision = known
        .into_iter()
        .find(|p| p.name() == precision)
        .ok_or_else(|| format!("`{precision}` is not a precision that models run in"))?;
    let (engine, reference) = (backends::by_name(engine)?, backends::by_name(&reference)?);
    for file in arguments {
        let name = Path::new(&file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match compare(engine.as_ref(), precision, reference.as_ref(), &name, Path::new(&file)) {
            Ok(line) => println!("{name:40} {line}"),
            Err(error) => println!("{name:40} FAILED {error}"),
        }
    }
    Ok(())
}

fn compare(
    engine: &dyn Backend,
    precision: Precision,
    reference: &dyn Backend,
    name: &str,
    file: &Path,
) -> Result<String, Failure> {
    let (plain, options) =
        (RunOptions::default(), RunOptions { precision, ..RunOptions::default() });
    let graph = onnx::read_file(file, &onnx::ReadOptions::default())?;
    let model = |backend: &dyn Backend, options: &RunOptions| {
        source::ready(name, &Source::File(file.to_owned()), &graph, backend, options)
    };
    let expected = reference
        .load(&model(reference, &plain)?, &plain)
        .and_then(|mut session| session.outputs())
        .map_err(|e| format!("(reference) {e}"))?;
    let mut session = engine.load(&model(engine, &options)?, &options)?;
    let found = session.outputs()?;
    let (apart, cosine) = (apart(&expected, &found)?, cosine(&expected, &found));
    let profile = session.profile(2, 5)?;
    let sum: f64 = profile.operators.iter().filter_map(|o| o.samples.median_ns()).sum();
    let share = sum / profile.e2e.median_ns().unwrap_or(f64::NAN);
    let mut unknown: Vec<_> = profile
        .operators
        .iter()
        .filter(|o| matches!(o.op.kind, OpKind::Unsupported(_)))
        .map(|o| o.kernel.as_str())
        .collect();
    unknown.sort_unstable();
    unknown.dedup();
    let capabilities = engine.probe(&options).require(engine.name())?;
    let environment = environment::detect(engine.name(), &capabilities, &options)?;
    let forecast =
        lowering::lower(&graph, &environment).map(|kernels| matched(&kernels, &profile.operators));
    let mut line = format!(
        "apart {apart:.1e}, cosine {cosine:.4}, {} kernels, {:.2} ms, sum {share:.3}, unknown \
        {unknown:?}",
        profile.operators.len(),
        sum / 1e6
    );
    if let Ok((time, missed)) = forecast {
        line += &format!(", forecast {:.2} % of time", 100.0 * time);
        if std::env::var_os("VERBOSE").is_some() {
            missed.iter().for_each(|row| {
                line += &format!("\n    missed {} {} {}", row.kernel, row.node, row.op.to_json());
            });
        }
    }
    Ok(line)
}

/// Largest difference relative to the largest value.
fn apart(expected: &[OutputValues], found: &[OutputValues]) -> Result<f32, Failure> {
    if expected.len() != found.len() {
        return Err(format!("{} outputs instead of {}", found.len(), expected.len()).into());
    }
    let mut worst = 0f32;
    for (a, b) in expected.iter().zip(found) {
        if (&a.name, &a.shape) != (&b.name, &b.shape) {
            return Err(format!(
                "output `{}` {:?} instead of `{}` {:?}",
                b.name, b.shape, a.name, a.shape
            )
            .into());
        }
        let largest = a.values.iter().fold(f32::MIN_POSITIVE, |m, v| m.max(v.abs()));
        let difference = a
            .values
            .iter()
            .zip(&b.values)
            .map(|(x, y)| if x == y { 0.0 } else { (x - y).abs() })
            .fold(0f32, |m, d| if d > m || d.is_nan() { d } else { m });
        worst = worst.max(difference / largest);
    }
    Ok(worst)
}

/// The least over the outputs.
fn cosine(expected: &[OutputValues], found: &[OutputValues]) -> f64 {
    let product = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>()
    };
    let one = |(a, b): (&OutputValues, &OutputValues)| {
        product(&a.values, &b.values)
            / (product(&a.values, &a.values) * product(&b.values, &b.values)).sqrt()
    };
    expected.iter().zip(found).map(one).fold(1.0, f64::min)
}

/// Share of the executed time whose kernels were forecast, and the rows that were not.
fn matched<'a>(forecast: &Graph, executed: &'a [Measurement]) -> (f64, Vec<&'a Measurement>) {
    let key = |op: &OpSpec| {
        let inputs: Vec<_> = op.activations().map(|t| t.shape.clone()).collect();
        let outputs: Vec<_> = op.outputs.iter().map(|t| t.shape.clone()).collect();
        format!("{} {inputs:?} {outputs:?}", op.kind)
    };
    let mut open = BTreeMap::<String, usize>::new();
    forecast.nodes().iter().for_each(|node| *open.entry(key(&node.op)).or_default() += 1);
    let (mut all, mut found, mut missed) = (0.0, 0.0, Vec::new());
    for row in executed {
        let time = row.samples.median_ns().unwrap_or_default();
        all += time;
        match open.get_mut(&key(&row.op)).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                found += time;
            }
            None => missed.push(row),
        }
    }
    (if all > 0.0 { found / all } else { 1.0 }, missed)
}
