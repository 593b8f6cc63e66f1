//! `--explain NODE`: how the forecast of one node comes about.

use super::{
    super::{
        error::{CliError, CliResult},
        output::{self, Report, Table, percent},
    },
    PredictArgs, cause, lines,
    report::source_name,
};
use serde_json::json;
use std::fmt::Write;
use vitempo::Bundle;
use vitempo::forecast::{Cause, ExplainError, KernelExplanation, NodeExplanation, explain};
use vitempo::graph::{Latency, LatencyModel, Operand};

/// Nodes that are named in a table; JSON has all.
const SHOWN: usize = 12;

impl From<ExplainError> for CliError {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Prediction(error) => error.into(),
            unknown => Self::user(unknown)
                .hint("`vitempo predict MODEL --bundle NAME --breakdown` lists the kernels"),
        }
    }
}

pub fn run(args: &PredictArgs, bundle: &Bundle, node: &str) -> CliResult {
    let models = args.models.read()?;
    let [model] = &models[..] else {
        return Err(CliError::user(format!(
            "--explain takes one model; these are {}",
            models.len()
        ))
        .hint("give the file of the model that has the node"));
    };
    let budget = args.models.read_options().budget();
    let explanation = explain(bundle, &model.graph, node, &budget)?;
    lines::warn_of_missing(model);
    let name = &model.identity.name;
    output::print(&Explained { bundle, model: name, explanation }, args.format)
}

struct Explained<'a> {
    bundle: &'a Bundle,
    model: &'a str,
    explanation: NodeExplanation,
}

impl Explained<'_> {
    fn head(&self) -> String {
        let e = &self.explanation;
        let mut text = format!("{}   {}\n\n", self.model, self.bundle.environment().describe());
        let kind = e.kind.as_ref().map_or_else(
            || "a kernel that no node of the file has the name of".to_owned(),
            ToString::to_string,
        );
        let _ = writeln!(text, "Node       {}   {kind}", e.node);
        if e.kernels.is_empty() {
            text += match e.by_values {
                true => {
                    "Kernels    none: the engine computes it before the run, or does without it; \
                    it adds nothing to the forecast\n"
                }
                false => {
                    "Kernels    none of its name: it is part of a kernel that is named after \
                    another node, or has none; which one is not known for this engine\n"
                }
            };
            return text;
        }
        let names =
            e.covers.iter().take(SHOWN).map(|node| format!("{} ({})", node.name, node.kind));
        let mut names: Vec<String> = names.collect();
        if e.covers.len() > SHOWN {
            names.push(format!("and {} more", e.covers.len() - SHOWN));
        }
        let (count, nodes) = (e.kernels.len(), e.covers.len());
        let _ = writeln!(
            text,
            "Kernels    {count} of {}, which compute {nodes} nodes of the file: {}",
            e.kernels_of_model,
            names.join(", ")
        );
        let latency = lines::latency(e.model);
        let _ = writeln!(text, "Model      {latency}; a kernel alone has none");
        if let Some(c) = e.calibration {
            let _ = writeln!(
                text,
                "           {:.3} x the sum over kernels, {} per kernel, {} per run",
                c.scale,
                Latency::from_ns(c.per_kernel_ns),
                Latency::from_ns(c.constant_ns)
            );
        }
        text
    }
}

fn tensors(operands: &[Operand]) -> String {
    let of = |operand: &Operand| match operand.constant {
        true => format!("{} (constant)", operand.tensor),
        false => operand.tensor.to_string(),
    };
    operands.iter().map(of).collect::<Vec<_>>().join(", ")
}

fn kernel_text(kernel: &KernelExplanation) -> String {
    let mut text = format!("Kernel     {}   {}\n", kernel.name, kernel.op.kind);
    if !kernel.op.attributes.0.is_empty() {
        let attributes = serde_json::to_string(&kernel.op.attributes).unwrap_or_default();
        let _ = writeln!(text, "Attributes {attributes}");
    }
    let outputs: Vec<String> = kernel.op.outputs.iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "Tensors    {} -> {}", tensors(&kernel.op.inputs), outputs.join(", "));
    let p = &kernel.prediction;
    let _ = writeln!(
        text,
        "Forecast   {}   {} of the sum over kernels   {}",
        p.latency_ns,
        percent(kernel.share),
        source_name(p)
    );
    text + &match &kernel.cause {
        Cause::Trained(explanation) => cause::trained(explanation),
        Cause::Adapted { demands, merged } => cause::adapted(demands, *merged),
    }
}

fn kernel_json(kernel: &KernelExplanation) -> serde_json::Value {
    let cause = match &kernel.cause {
        Cause::Trained(e) => json!({
            "predictor": e.key.to_string(),
            "basis": e.basis,
            "with_bias": e.with_bias,
            "correction": e.correction.map(|c| json!({
                "factor": c.log_ratio.exp(),
                "networks": c.networks,
            })),
            "expected_log_error": e.estimate.log_error,
            "features": e.features,
        }),
        Cause::Adapted { demands, merged } => json!({"demands": demands, "merged": merged}),
    };
    json!({
        "kernel": kernel.name,
        "operator": kernel.op,
        "latency_ns": kernel.prediction.latency_ns,
        "share": kernel.share,
        "source": kernel.prediction.source,
        "extrapolating": kernel.prediction.extrapolating,
        "cause": cause,
    })
}

impl Report for Explained<'_> {
    fn table(&self) -> String {
        let kernels = self.explanation.kernels.iter().map(kernel_text);
        [self.head()].into_iter().chain(kernels).collect::<Vec<_>>().join("\n")
    }

    /// One row per feature or demand of each kernel.
    fn csv(&self) -> CliResult<String> {
        let mut table =
            Table::new(&["kernel", "feature", "value", "trained_from", "trained_to"], 2);
        let number = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
        for kernel in &self.explanation.kernels {
            let mut row = |name: &str, value: f64, from: Option<f64>, to: Option<f64>| {
                let cells = [value.to_string(), number(from), number(to)];
                table.row([kernel.name.clone(), name.to_owned()].into_iter().chain(cells));
            };
            row("latency_ns", kernel.prediction.latency_ns.ns(), None, None);
            match &kernel.cause {
                Cause::Trained(e) => e.features.iter().for_each(|f| {
                    row(f.name, f.value, f.trained.map(|t| t.0), f.trained.map(|t| t.1));
                }),
                Cause::Adapted { demands, .. } => {
                    demands.iter().for_each(|d| row(d.cost.name(), d.amount, None, None));
                }
            }
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let e = &self.explanation;
        let covers = e.covers.iter().map(|node| json!({"node": node.name, "kind": node.kind}));
        Ok(json!({
            "model": self.model,
            "bundle": self.bundle.name(),
            "environment": self.bundle.environment().id(),
            "node": e.node,
            "kind": e.kind,
            "latency_ns": e.model,
            "calibration": e.calibration.map(|c| json!({
                "scale": c.scale,
                "per_kernel_ns": c.per_kernel_ns,
                "constant_ns": c.constant_ns,
            })),
            "kernels_of_model": e.kernels_of_model,
            "covers": covers.collect::<Vec<_>>(),
            "covers_all": e.by_values,
            "kernels": e.kernels.iter().map(kernel_json).collect::<Vec<_>>(),
        }))
    }
}
