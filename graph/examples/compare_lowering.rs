//! Compares the forecast kernels of models with those ONNX Runtime saved for them: `compare_lowering MODELS OPTIMIZED [NAME...]`.
//!
//! `MODELS` holds exported models, `OPTIMIZED` the files ONNX Runtime wrote for them (`optimized_model_filepath`) under the same names.

use std::path::{Path, PathBuf};
use vitempo_graph::{
    Graph, OpSpec,
    lowering::{compare::compare, onnxruntime},
    onnx::{ReadOptions, read_file},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(models), Some(optimized)) = (arguments.next(), arguments.next()) else {
        return Err("usage: compare_lowering MODELS OPTIMIZED [NAME...]".into());
    };
    let names: Vec<String> = arguments.collect();
    let mut files: Vec<PathBuf> = std::fs::read_dir(&models)?.filter_map(|e| e.ok().map(|e| e.path())).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "onnx"));
    files.sort();
    for file in files {
        let name = file.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        if names.is_empty() || names.contains(&name) {
            report(&name, &file, &Path::new(&optimized).join(format!("{name}.onnx")), !names.is_empty());
        }
    }
    Ok(())
}

fn report(name: &str, model: &Path, optimized: &Path, verbose: bool) {
    let read = |path: &Path| -> Result<Graph, Box<dyn std::error::Error>> { Ok(read_file(path, &ReadOptions::default())?) };
    let graphs = read(model).and_then(|g| Ok((onnxruntime::lower(&g, onnxruntime::host_block())?, read(optimized)?)));
    let (predicted, executed) = match graphs {
        Ok(graphs) => graphs,
        Err(error) => return println!("{name}: {error}"),
    };
    let c = compare(&predicted, &executed);
    let matched: usize = c.kinds.values().map(|k| k.matched).sum();
    println!(
        "{name}: {matched} of {} kernels, {:.2} % of MACs, {:.2} % of bytes, {} only predicted, {} only executed",
        executed.nodes().len(),
        100.0 * c.share_of_macs(),
        100.0 * c.share_of_bytes(),
        c.only_predicted.len(),
        c.only_executed.len()
    );
    if verbose {
        show("only predicted", &c.only_predicted);
        show("only executed", &c.only_executed);
    }
}

fn show(title: &str, kernels: &[OpSpec]) {
    for kernel in kernels {
        println!("  {title}: {}", kernel.to_json());
    }
}
