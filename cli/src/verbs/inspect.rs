//! `vitempo inspect`: shows the operators of a model, and the kernels that a framework runs for it.

mod operators;

use super::{
    error::{CliError, CliResult},
    models::{Model, SizedModelArgs},
    output::{self, Format, Report, Table, percent, si},
    predict::memory,
    profile::{Layout, parse_precision},
    worker::worker,
};
use serde_json::json;
use std::fmt::Write;
use vitempo::graph::{
    Graph, Precision, TensorSpec, Work, lowering, lowering::LoweringError, patterns,
    peak_alive_bytes,
};
use vitempo::inspection::{self, KernelError};
use vitempo::memory::{EngineMemory, MemoryForecast};

/// Shows operators, FLOPs, bytes and parameters of models
///
/// Example: vitempo inspect tests/models/vit_tiny_patch16_224.onnx --framework onnxruntime
#[derive(clap::Args, Debug)]
pub struct InspectArgs {
    #[command(flatten)]
    pub models: SizedModelArgs,

    /// Show the kernels that this framework runs
    #[arg(long, value_name = "NAME")]
    pub framework: Option<String>,

    /// Precision of these kernels
    #[arg(long, default_value = "f32", value_parser = parse_precision, requires = "framework")]
    pub precision: Precision,

    /// Memory format of the framework; by default its own choice
    #[arg(long, value_enum, requires = "framework")]
    pub memory_format: Option<Layout>,

    /// List every operator, or with --framework every kernel; in CSV these instead of the models
    #[arg(long)]
    pub operators: bool,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(args: &InspectArgs) -> CliResult {
    let models: CliResult<Vec<Inspected>> =
        args.models.read()?.into_iter().map(|m| Inspected::new(m, args)).collect();
    output::print(&Inspection { models: models?, operators: args.operators }, args.format)
}

struct Inspected {
    model: Model,
    canonical: Graph,
    work: Work,
    kernels: Option<Graph>,
    /// Of the framework, where it is known.
    memory: Option<MemoryForecast>,
}

impl Inspected {
    fn new(model: Model, args: &InspectArgs) -> CliResult<Self> {
        let kernels = args
            .framework
            .as_deref()
            .map(|framework| lower(&model.graph, framework, args))
            .transpose()?;
        let canonical = patterns::canonicalize(&model.graph);
        Ok(Self {
            work: work_of(&model.graph, &canonical),
            canonical,
            memory: kernels.as_ref().and_then(|kernels| memory_of(&model.graph, kernels, args)),
            kernels,
            model,
        })
    }
}

fn lower(graph: &Graph, framework: &str, args: &InspectArgs) -> CliResult<Graph> {
    let memory_format = args.memory_format.map(Layout::format);
    if args.precision != Precision::F32 || memory_format.is_some() {
        inspection::check(&worker()?, framework, args.precision, memory_format)
            .map_err(CliError::user)?;
    }
    inspection::kernels(graph, framework, args.precision, memory_format).map_err(
        |error| match error {
            KernelError::Lowering(LoweringError::NoRules { framework }) => {
                CliError::user(format!("no lowering rules for {framework} (--framework)"))
                    .hint(format!("frameworks with rules: {}", lowering::FRAMEWORKS.join(", ")))
            }
            KernelError::Lowering(other) => CliError::user(other).about("--framework"),
            other => CliError::ours(other),
        },
    )
}

/// The work of the operators that the tables list; products and parameters are those of the file.
fn work_of(graph: &Graph, canonical: &Graph) -> Work {
    let Work { macs, params, .. } = Work::of_graph(graph);
    Work { macs, params, ..Work::of_graph(canonical) }
}

fn memory_of(model: &Graph, kernels: &Graph, args: &InspectArgs) -> Option<MemoryForecast> {
    let engine = EngineMemory::named(args.framework.as_deref()?, args.precision)?;
    Some(engine.forecast(model, kernels))
}

struct Inspection {
    models: Vec<Inspected>,
    operators: bool,
}

impl Report for Inspection {
    fn table(&self) -> String {
        let mut text = String::new();
        for (i, model) in self.models.iter().enumerate() {
            if i > 0 {
                text.push('\n');
            }
            text += &model.table(self.operators);
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        if self.operators {
            return operators::csv(&self.models);
        }
        let columns = [
            "model",
            "operators",
            "macs",
            "flops",
            "params",
            "bytes_read",
            "bytes_written",
            "unsupported",
        ];
        let is_lowered = self.models.iter().any(|model| model.kernels.is_some());
        let of_kernels = [&["kernels"], memory::COLUMNS].concat();
        let of_kernels = if is_lowered { of_kernels } else { Vec::new() };
        let mut table = Table::new(&[&columns[..], &of_kernels].concat(), 1);
        for m in &self.models {
            let w = m.work;
            let counts = [
                m.canonical.nodes().len() as u64,
                w.macs,
                w.flops,
                w.params,
                w.bytes_read,
                w.bytes_written,
                m.model.graph.unsupported().count() as u64,
            ];
            let of_kernels = m.kernels.iter().flat_map(|kernels| {
                let count = kernels.nodes().len().to_string();
                std::iter::once(count).chain(memory::cells(m.memory.as_ref()))
            });
            let name = std::iter::once(m.model.identity.name.clone());
            table.row(name.chain(counts.map(|n| n.to_string())).chain(of_kernels));
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        Ok(self.models.iter().map(|model| model.json(self.operators)).collect())
    }
}

impl Inspected {
    fn table(&self, operators: bool) -> String {
        let graph = &self.model.graph;
        let mut text = String::new();
        let inputs: Vec<String> = graph
            .inputs()
            .iter()
            .filter_map(|&i| graph.value(i).tensor.as_ref())
            .map(TensorSpec::to_string)
            .collect();
        let _ = writeln!(text, "{}   {}\n", self.model.identity.name, inputs.join(", "));
        let w = self.work;
        let (operators_of_tables, nodes) = (self.canonical.nodes().len(), graph.nodes().len());
        let _ = writeln!(text, "Operators    {operators_of_tables}   ({nodes} nodes in the file)");
        let _ = writeln!(text, "MACs         {}   ({}FLOP)", si(w.macs), si(w.flops));
        let _ = writeln!(text, "Parameters   {}", si(w.params));
        let _ = writeln!(text, "Read         {}B", si(w.bytes_read));
        let _ = writeln!(text, "Written      {}B", si(w.bytes_written));
        let _ = writeln!(text, "Alive        {}B at once\n", si(self.alive_bytes()));
        text += &kinds_table(&self.canonical);
        let unsupported: Vec<_> = graph.unsupported().collect();
        if !unsupported.is_empty() {
            let _ = writeln!(text, "\nUnsupported operators, kept by name:");
            for (node, op) in unsupported {
                let _ = writeln!(text, "  {op}  (node {node})");
            }
        }
        if let Some(kernels) = &self.kernels {
            let _ =
                writeln!(text, "\nKernels the framework would run: {}\n", kernels.nodes().len());
            text.extend(self.memory.as_ref().map(|memory| memory::line(memory) + "\n"));
            text += &kinds_table(kernels);
        }
        if operators {
            text.push('\n');
            text += &operators::table(self.listed());
        }
        text
    }

    /// The most that the model's tensors need at once, weights aside.
    fn alive_bytes(&self) -> u64 {
        peak_alive_bytes(&self.model.graph)
    }

    /// The operators that are listed: the kernels, where they are asked for.
    fn listed(&self) -> &Graph {
        self.kernels.as_ref().unwrap_or(&self.canonical)
    }

    fn json(&self, operators: bool) -> serde_json::Value {
        let graph = &self.model.graph;
        let tensor = |id: &vitempo::graph::ValueId| {
            let value = graph.value(*id);
            json!({"name": value.name, "shape": value.tensor.as_ref().map(|t| &t.shape), "precision": value.tensor.as_ref().map(|t| t.precision)})
        };
        let w = self.work;
        let mut out = json!({
            "model": self.model.identity.name, "architecture": self.model.identity.architecture, "encoding": self.model.identity.encoding,
            "inputs": graph.inputs().iter().map(tensor).collect::<Vec<_>>(), "operators": self.canonical.nodes().len(), "file_nodes": graph.nodes().len(), "kinds": self.canonical.kinds(),
            "macs": w.macs, "flops": w.flops, "params": w.params, "bytes_read": w.bytes_read, "bytes_written": w.bytes_written,
            "alive_bytes": self.alive_bytes(),
            "unsupported": graph.unsupported().map(|(node, op)| json!({"node": node, "operator": op})).collect::<Vec<_>>(),
        });
        if let Some(kernels) = &self.kernels {
            out["kernels"] = kernels
                .nodes()
                .iter()
                .map(|n| json!({"name": n.name, "kind": n.op.kind, "op": n.op}))
                .collect();
            out["memory"] = json!(self.memory);
        }
        if operators {
            out["operator_list"] = operators::json(self.listed());
        }
        out
    }
}

fn kinds_table(graph: &Graph) -> String {
    let total = Work::of_graph(graph).flops.max(1) as f64;
    let mut table = Table::new(&["Operator", "Count", "FLOPs", "Share", "Bytes moved"], 1);
    for row in inspection::kinds(graph) {
        table.row([
            row.kind,
            row.count.to_string(),
            si(row.flops),
            percent(row.flops as f64 / total),
            si(row.bytes_moved),
        ]);
    }
    table.to_text()
}
