//! ONNX Runtime's profile: a trace of events as JSON, one `*_kernel_time` per executed kernel, one
//! `model_run` after the kernels of each run.
//!
//! `dur` is truncated to microseconds: a kernel of 0.9 us reads 0. The middle of the interval is
//! used (`dur` + 0.5 us), which is unbiased on average, so that the sum over many small kernels is
//! not too low. On a GPU the events of category `Kernel` that name the node count instead. The
//! memory of a kernel is that of its inputs, weights and outputs.

use serde::Deserialize;
use std::collections::HashMap;
use vitempo_graph::{
    Attributes, Graph, Measurement, Node, OpKind, OpSpec, Operand, Precision, Samples, Status,
    TensorSpec,
};

#[derive(Debug, Deserialize)]
struct Event {
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    dur: u64,
    #[serde(default)]
    args: Arguments,
}

#[derive(Debug, Default, Deserialize)]
struct Arguments {
    #[serde(default)]
    op_name: String,
    #[serde(default)]
    provider: String,
    /// Of a GPU's kernel: the event of the node that launched it.
    #[serde(default)]
    parent_name: String,
    #[serde(default, deserialize_with = "number")]
    activation_size: u64,
    #[serde(default, deserialize_with = "number")]
    parameter_size: u64,
    #[serde(default, deserialize_with = "number")]
    output_size: u64,
    #[serde(default)]
    input_type_shape: Vec<HashMap<String, Vec<i64>>>,
    #[serde(default)]
    output_type_shape: Vec<HashMap<String, Vec<i64>>>,
}

/// A number, possibly in quotes as the engine writes it; 0 for anything else.
fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0))
}

/// One row per kernel of the last `repeats` runs, in execution order. `executed` is the optimised
/// model, which describes each kernel.
///
/// # Errors
/// A sentence, if the text is not a profile or has fewer runs.
pub fn kernels(
    text: &str,
    repeats: usize,
    executed: Option<&Graph>,
) -> Result<Vec<Measurement>, String> {
    let events: Vec<Event> = serde_json::from_str(text)
        .map_err(|e| format!("the profile is not a list of events: {e}"))?;
    let runs = split_runs(events);
    let first = runs
        .len()
        .checked_sub(repeats)
        .ok_or_else(|| format!("the profile has {} runs of {repeats}", runs.len()))?;
    let mut labels = Labels::new(executed);
    let mut rows: Vec<Measurement> = Vec::new();
    let mut places: HashMap<(String, usize), usize> = HashMap::new();
    for run in runs.into_iter().skip(first) {
        let mut seen: HashMap<String, usize> = HashMap::new();
        for event in run {
            let node = event.name.strip_suffix("_kernel_time").unwrap_or(&event.name).to_owned();
            let occurrence = seen.entry(node.clone()).or_insert(0);
            let place = *places.entry((node.clone(), *occurrence)).or_insert_with(|| {
                rows.push(row(&node, &event.args, labels.take(&node, &event.args)));
                rows.len() - 1
            });
            *occurrence += 1;
            match event.time_ns() {
                Ok(time) => rows[place].samples.wall_ns.push(time),
                Err(reason) => rows[place].status = Status::Failed(reason.to_owned()),
            }
        }
    }
    for row in &mut rows {
        let samples = row.samples.wall_ns.len();
        if samples != repeats && row.status == Status::Ok {
            row.status = Status::Failed(format!("ran in {samples} of {repeats} runs"));
        }
    }
    Ok(rows)
}

/// One kernel of one run: the node's event, and those of the GPU kernels it launched.
struct Kernel {
    event: Event,
    gpu_us: Option<u64>,
}

impl std::ops::Deref for Kernel {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}

impl Kernel {
    /// On a GPU the node's own time is that of launching; what its kernels took is known where the
    /// engine traces them.
    fn time_ns(&self) -> Result<u64, &'static str> {
        match (self.gpu_us, self.args.provider.as_str()) {
            (Some(us), _) => Ok(us.saturating_mul(1000)),
            (None, "" | "CPUExecutionProvider") => {
                Ok(self.dur.saturating_mul(1000).saturating_add(500))
            }
            (None, _) => {
                Err("the engine reported the time of launching it only, not that on the device")
            }
        }
    }
}

fn split_runs(events: Vec<Event>) -> Vec<Vec<Kernel>> {
    let mut runs = Vec::new();
    let mut run: Vec<Kernel> = Vec::new();
    for event in events {
        if event.cat == "Node" && event.name.ends_with("_kernel_time") {
            run.push(Kernel { event, gpu_us: None });
        } else if event.cat == "Kernel" && !event.args.parent_name.is_empty() {
            if let Some(parent) =
                run.iter_mut().rev().find(|kernel| kernel.event.name == event.args.parent_name)
            {
                *parent.gpu_us.get_or_insert(0) += event.dur;
            }
        } else if event.name == "model_run" {
            runs.push(std::mem::take(&mut run));
        }
    }
    runs
}

/// Which kernel of the optimised model an event belongs to.
///
/// By name, if the shapes agree. A node that the optimizer left without a name is called
/// `<operator>_<number>` in the profile and in the graph, but the numbers differ: there the first
/// free one of that operator and these shapes is it.
struct Labels<'a> {
    by_name: HashMap<&'a str, usize>,
    nodes: &'a [Node],
    taken: Vec<bool>,
}

impl<'a> Labels<'a> {
    fn new(executed: Option<&'a Graph>) -> Self {
        let nodes = executed.map(Graph::nodes).unwrap_or_default();
        let by_name = nodes.iter().enumerate().map(|(i, n)| (n.name.as_str(), i)).collect();
        Self { by_name, nodes, taken: vec![false; nodes.len()] }
    }

    fn take(&mut self, name: &str, arguments: &Arguments) -> Option<&'a OpSpec> {
        let outputs: Vec<TensorSpec> = tensors(&arguments.output_type_shape).collect();
        // A concatenation of integers has scales among its inputs, before the first tensor.
        let inputs: Vec<TensorSpec> = tensors(&arguments.input_type_shape).collect();
        let fits = |node: &Node| {
            let reads = inputs.is_empty()
                || node
                    .op
                    .inputs
                    .first()
                    .is_none_or(|a| inputs.iter().any(|b| a.tensor.stored_shape() == b.shape));
            reads && node.op.outputs.iter().zip(&outputs).all(|(a, b)| a.stored_shape() == b.shape)
        };
        let named =
            self.by_name.get(name).copied().filter(|&i| !self.taken[i] && fits(&self.nodes[i]));
        let unnamed = || {
            let generated = |n: &str| {
                n.strip_prefix(&arguments.op_name).is_some_and(|rest| {
                    rest.starts_with('_') && rest[1..].bytes().all(|b| b.is_ascii_digit())
                })
            };
            (0..self.nodes.len())
                .find(|&i| !self.taken[i] && generated(&self.nodes[i].name) && fits(&self.nodes[i]))
        };
        let index = named.or_else(unnamed)?;
        self.taken[index] = true;
        Some(&self.nodes[index].op)
    }
}

fn row(node: &str, arguments: &Arguments, spec: Option<&OpSpec>) -> Measurement {
    let op = spec.cloned().unwrap_or_else(|| OpSpec {
        kind: OpKind::Unsupported(arguments.op_name.clone()),
        attributes: Attributes::new(),
        inputs: tensors(&arguments.input_type_shape)
            .map(|tensor| Operand { tensor, constant: false })
            .collect(),
        outputs: tensors(&arguments.output_type_shape).collect(),
    });
    let held = arguments
        .activation_size
        .saturating_add(arguments.parameter_size)
        .saturating_add(arguments.output_size);
    let memory_bytes = Some(held).filter(|&bytes| bytes > 0);
    Measurement {
        op: op.into(),
        node: node.to_owned(),
        kernel: arguments.op_name.clone(),
        samples: Samples::default(),
        memory_bytes,
        status: Status::Ok,
    }
}

fn tensors(types: &[HashMap<String, Vec<i64>>]) -> impl Iterator<Item = TensorSpec> {
    types.iter().flatten().filter_map(|(name, shape)| {
        let shape: Option<Vec<usize>> = shape.iter().map(|&d| usize::try_from(d).ok()).collect();
        Some(TensorSpec::new(shape?, precision(name)?))
    })
}

fn precision(name: &str) -> Option<Precision> {
    Some(match name {
        "float" => Precision::F32,
        "double" => Precision::F64,
        "float16" => Precision::F16,
        "bfloat16" => Precision::Bf16,
        "int64" | "uint64" => Precision::I64,
        "int32" | "uint32" => Precision::I32,
        "int16" | "uint16" => Precision::I16,
        "int8" => Precision::I8,
        "uint8" => Precision::U8,
        "bool" => Precision::Bool,
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn event(name: &str, op: &str, dur: u64) -> String {
        format!(
            r#"{{"cat":"Node","name":"{name}_kernel_time","dur":{dur},"ts":1,"args":{{"op_name":"{op}","node_index":"3",
            "input_type_shape":[{{"float":[4,1]}},{{"int64":[2]}}],"output_type_shape":[{{"float":[4,1]}}]}}}}"#
        )
    }

    fn trace(runs: &[Vec<String>]) -> String {
        let end = r#"{"cat":"Session","name":"model_run","dur":9,"args":{}}"#.to_owned();
        let start =
            r#"{"cat":"Session","name":"session_initialization","dur":9,"args":{}}"#.to_owned();
        let events: Vec<String> = std::iter::once(start)
            .chain(runs.iter().flat_map(|r| r.iter().cloned().chain([end.clone()])))
            .collect();
        format!("[{}]", events.join(","))
    }

    #[test]
    fn samples_are_grouped_by_node_and_occurrence_and_warmups_dropped() {
        let run = |a, b, c| vec![event("a", "Conv", a), event("b", "Add", b), event("b", "Add", c)];
        let rows =
            kernels(&trace(&[run(900, 900, 900), run(5, 0, 7), run(6, 1, 8)]), 2, None).unwrap();
        let samples: Vec<_> =
            rows.iter().map(|r| (r.node.as_str(), r.samples.wall_ns.clone())).collect();
        assert_eq!(
            samples,
            [("a", vec![5500, 6500]), ("b", vec![500, 1500]), ("b", vec![7500, 8500])]
        );
        assert_eq!(rows[0].op.kind, OpKind::Unsupported("Conv".into()));
        assert_eq!(rows[0].op.inputs[1].tensor, TensorSpec::new([2], Precision::I64));
        assert_eq!(rows[0].op.outputs, [TensorSpec::f32([4, 1])]);
    }

    #[test]
    fn on_a_gpu_the_kernels_count_and_not_the_launch() {
        let on = |provider: &str| {
            event("a", "Conv", 9).replace(
                r#""op_name""#,
                &format!(r#""provider":"{provider}","output_size":"16","op_name""#),
            )
        };
        let gpu =
            r#"{"cat":"Kernel","name":"winograd","dur":40,"args":{"parent_name":"a_kernel_time"}}"#
                .to_owned();
        let rows = kernels(&trace(&[vec![on("CUDAExecutionProvider"), gpu.clone(), gpu]]), 1, None)
            .unwrap();
        assert_eq!(
            (rows[0].samples.wall_ns.as_slice(), rows[0].memory_bytes),
            (&[80_000][..], Some(16))
        );
        let rows = kernels(&trace(&[vec![on("CUDAExecutionProvider")]]), 1, None).unwrap();
        assert!(
            matches!(&rows[0].status, Status::Failed(reason) if reason.contains("launching"))
                && rows[0].samples.wall_ns.is_empty()
        );
        let rows = kernels(&trace(&[vec![on("CPUExecutionProvider")]]), 1, None).unwrap();
        assert_eq!(
            (rows[0].samples.wall_ns.as_slice(), &rows[0].status),
            (&[9_500][..], &Status::Ok)
        );
    }

    #[test]
    fn a_kernel_that_did_not_run_every_time_is_not_used() {
        let rows = kernels(
            &trace(&[
                vec![event("a", "Conv", 5)],
                vec![event("a", "Conv", 5), event("b", "Add", 1)],
            ]),
            2,
            None,
        )
        .unwrap();
        assert_eq!(rows[0].status, Status::Ok);
        assert_eq!(rows[1].status, Status::Failed("ran in 1 of 2 runs".into()));
    }

    #[test]
    fn nodes_without_a_name_are_told_by_operator_and_shapes() {
        let mut b = vitempo_graph::GraphBuilder::new("m");
        let mut x = b.input("x", TensorSpec::f32([4, 1]));
        for name in ["named", "Abs_0", "Abs_1"] {
            x = b.op(name, OpKind::Abs, Attributes::new(), &[x]).unwrap();
        }
        let other = b.reshape("other", x, &[2, 2]).unwrap();
        let last = b.op("Abs_7", OpKind::Abs, Attributes::new(), &[other]).unwrap();
        let graph = b.finish(vec![last]).unwrap();
        let run = vec![
            event("named", "Abs", 1),
            event("Abs_7", "Abs", 1),
            event("Abs_12", "Abs", 1),
            event("Abs_13", "Abs", 1),
            event("Neg_1", "Neg", 1),
        ];
        let rows = kernels(&trace(&[run]), 1, Some(&graph)).unwrap();
        let kinds: Vec<String> = rows.iter().map(|r| r.op.kind.to_string()).collect();
        // The last `Abs` has another shape than the fourth event, so that it stays without a label.
        assert_eq!(kinds, ["abs", "abs", "abs", "Abs", "Neg"]);
        assert!(rows[..3].iter().all(|r| r.op.outputs[0].shape[..] == [4, 1]));
    }

    #[test]
    fn scales_before_the_tensors_of_an_integer_concatenation_are_passed_over() {
        let mut b = vitempo_graph::GraphBuilder::new("m");
        let part = |b: &mut vitempo_graph::GraphBuilder, name, width| {
            b.input(name, TensorSpec::new([1, width], Precision::U8))
        };
        let (x, y, z) = (part(&mut b, "x", 2), part(&mut b, "y", 3), part(&mut b, "z", 4));
        let wide = b.concat("Concat_0", &[z, x], 1).unwrap();
        let narrow = b.concat("Concat_1", &[x, y], 1).unwrap();
        let graph = b.finish(vec![wide, narrow]).unwrap();
        let joined = |name: &str, first: usize, second: usize| {
            let scale = r#"{"float":[]},{"uint8":[]}"#;
            let sum = first + second;
            event(name, "QLinearConcat", 3)
                .replace("[{\"float\":[4,1]},{\"int64\":[2]}]", &format!(
                    r#"[{scale},{{"uint8":[1,{first}]}},{scale},{{"uint8":[1,{second}]}},{scale}]"#
                ))
                .replace("[{\"float\":[4,1]}]", &format!(r#"[{{"uint8":[1,{sum}]}}]"#))
        };
        let run =
            vec![joined("Concat_1", 2, 3), joined("Concat_0", 4, 2), joined("Concat_1", 9, 9)];
        let rows = kernels(&trace(&[run]), 1, Some(&graph)).unwrap();
        let kinds: Vec<String> = rows.iter().map(|r| r.op.kind.to_string()).collect();
        assert_eq!(kinds, ["concat", "concat", "QLinearConcat"]);
        assert_eq!(rows[0].op.outputs, [TensorSpec::new([1, 5], Precision::U8)]);
        assert_eq!(rows[1].op.outputs, [TensorSpec::new([1, 6], Precision::U8)]);
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        for text in ["", "{}", "[1]", "[{\"cat\":\"Node\""] {
            assert!(kernels(text, 1, None).is_err(), "{text}");
        }
        assert!(kernels("[]", 1, None).unwrap_err().contains("0 runs of 1"));
    }
}
