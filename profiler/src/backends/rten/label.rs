//! Which [`OpSpec`] each operator that rten prints is: the kernel of [`lowering::rten`] with the
//! same output (else the same name), if operator and shapes agree with the print. An operator
//! without a match is reported as unsupported, under rten's name and with the printed shapes.

use super::verbose::Step;
use std::collections::HashMap;
use vitempo_graph::{
    Graph, Measurement, OpKind, OpSpec, Operand, Samples, Status, TensorSpec, lowering,
};

/// The kernels a model should run, by the names of their first outputs and by their own.
pub(super) struct Labels {
    by_output: HashMap<String, OpSpec>,
    by_name: HashMap<String, OpSpec>,
}

impl Labels {
    /// Of a graph as read from ONNX.
    pub fn of(graph: &Graph) -> Self {
        let mut labels = Self { by_output: HashMap::new(), by_name: HashMap::new() };
        // Without forecast kernels, operators are as printed.
        let Ok(lowered) = lowering::rten::lower(graph) else { return labels };
        for node in lowered.nodes() {
            if let Some(&output) = node.outputs.first() {
                labels.by_output.insert(lowered.value(output).name.clone(), node.op.clone());
            }
            labels.by_name.insert(node.name.clone(), node.op.clone());
        }
        labels
    }

    /// The operator a print belongs to.
    pub fn of_step(&self, step: &Step) -> OpSpec {
        let output = step.outputs.first().and_then(|output| self.by_output.get(&output.name));
        let candidates = [output, self.by_name.get(&step.node)];
        candidates
            .into_iter()
            .flatten()
            .find(|op| agree(op, step))
            .cloned()
            .unwrap_or_else(|| as_printed(step))
    }

    /// One row per operator with one sample per run.
    ///
    /// # Errors
    /// A sentence when the runs differ in their operators.
    pub fn measurements(&self, runs: &[Vec<Step>]) -> Result<Vec<Measurement>, String> {
        let Some(first) = runs.first() else { return Ok(Vec::new()) };
        let row = |step: &Step| Measurement {
            op: self.of_step(step).into(),
            node: step.node.clone(),
            kernel: step.kernel.clone(),
            samples: Samples::default(),
            memory_bytes: None,
            status: Status::Ok,
        };
        let mut rows: Vec<Measurement> = first.iter().map(row).collect();
        for run in runs {
            if run.len() != rows.len() {
                return Err(format!("rten ran {} operators, then {}", rows.len(), run.len()));
            }
            for (row, step) in rows.iter_mut().zip(run) {
                if (&row.kernel, &row.node) != (&step.kernel, &step.node) {
                    return Err(format!(
                        "rten ran {} `{}`, then {} `{}` in its place",
                        row.kernel, row.node, step.kernel, step.node
                    ));
                }
                row.samples.wall_ns.push(step.wall_ns);
            }
        }
        Ok(rows)
    }
}

fn as_printed(step: &Step) -> OpSpec {
    OpSpec {
        kind: OpKind::Unsupported(step.kernel.clone()),
        attributes: vitempo_graph::Attributes::new(),
        inputs: step
            .inputs
            .iter()
            .map(|input| Operand { tensor: input.tensor(), constant: false })
            .collect(),
        outputs: step.outputs.iter().map(super::verbose::Printed::tensor).collect(),
    }
}

/// Same operator, same shapes out, and all expected inputs (in any order of their dimensions: rten
/// prints inputs in memory order).
fn agree(op: &OpSpec, step: &Step) -> bool {
    let outputs = op.outputs.len() >= step.outputs.len()
        && op
            .outputs
            .iter()
            .zip(&step.outputs)
            .all(|(expected, printed)| expected.shape[..] == printed.shape[..]);
    let sorted = |shape: &[usize]| {
        let mut shape = shape.to_vec();
        shape.sort_unstable();
        shape
    };
    let mut printed: Vec<Vec<usize>> =
        step.inputs.iter().map(|input| sorted(&input.shape)).collect();
    let mut take = |expected: &TensorSpec| {
        let wanted = sorted(&expected.shape);
        let found = printed.iter().position(|shape| *shape == wanted);
        found.map(|position| printed.swap_remove(position)).is_some()
    };
    outputs && same_operator(op, &step.kernel) && op.inputs.iter().all(|input| take(&input.tensor))
}

/// Whether rten's operator of that name computes this kind.
fn same_operator(op: &OpSpec, kernel: &str) -> bool {
    use OpKind as K;
    let integer = op.attributes.int("integer") == Some(1) && !op.outputs.is_empty();
    let inner = kernel.strip_prefix("TransformInputs(").and_then(|k| k.strip_suffix(')'));
    let permuted = op.attributes.0.keys().any(|name| name.starts_with("perm_"))
        || op.attributes.int("trans_a").or(op.attributes.int("trans_b")).is_some();
    let biased = op.inputs.len() > 2 || op.attributes.float("alpha").is_some();
    match (inner.unwrap_or(kernel), &op.kind) {
        ("Gemm", K::Linear) => true,
        ("MatMulInteger" | "MatMulIntegerToFloat", K::MatMul | K::Linear) => {
            integer && (op.outputs[0].precision.is_float() == kernel.ends_with("ToFloat"))
        }
        ("ConvInteger" | "ConvIntegerToFloat", K::Conv) => {
            integer && (op.outputs[0].precision.is_float() == kernel.ends_with("ToFloat"))
        }
        (_, K::MatMul | K::Linear | K::Conv) if integer => false,
        ("DynamicQuantizeLinear", K::DynamicQuantize) => true,
        ("MatMul", K::MatMul | K::Linear) => permuted == inner.is_some() && !biased,
        ("FusedMatMul", K::MatMul | K::Linear) => permuted == inner.is_some(),
        ("Concat", K::Concat)
        | ("Expand", K::Expand)
        | ("Slice", K::Slice)
        | ("Split", K::Split) => permuted == inner.is_some(),
        ("AddSoftmax", K::Softmax) => op.attributes.int("mask") == Some(1),
        ("Softmax", K::Softmax) => {
            op.attributes.int("mask").is_none() && op.attributes.int("log").is_none()
        }
        ("LogSoftmax", K::Softmax) => op.attributes.int("log") == Some(1),
        ("Gelu", K::Gelu | K::GeluTanh) | ("Silu" | "Swish", K::Silu) => true,
        ("Reshape" | "Flatten" | "Squeeze" | "Unsqueeze", K::Reshape) => true,
        ("Equal" | "Greater" | "Less" | "GreaterOrEqual" | "LessOrEqual", K::Compare) => {
            op.attributes.text("op") == Some(kernel)
        }
        ("And" | "Or" | "Xor" | "Not", K::Logical) => op.attributes.text("op") == Some(kernel),
        ("Floor" | "Ceil" | "Round" | "Sign", K::Round) | ("Elu" | "Selu" | "Celu", K::Elu) => true,
        ("ArgMax" | "ArgMin", K::ArgMax) => true,
        ("RMSNormalization" | "SimplifiedLayerNormalization", K::RmsNorm) => true,
        (name, K::Unsupported(unsupported)) => name == unsupported,
        (name, kind) => inner.is_none() && plain_name(name) == kind.name().replace('_', ""),
    }
}

/// `LayerNormalization` as `layernorm`, `Conv` as `conv`: how kinds are called, without the
/// underscores.
fn plain_name(kernel: &str) -> String {
    kernel.replace("Normalization", "Norm").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::super::verbose;
    use super::*;
    use vitempo_graph::{Attributes, GraphBuilder};

    fn softmax_of_a_transpose() -> Graph {
        let mut builder = GraphBuilder::new("g");
        let x = builder.input("x", TensorSpec::f32([1, 4, 8]));
        let t = builder
            .op("t", OpKind::Transpose, Attributes::new().with_ints("perm", [0, 2, 1]), &[x])
            .unwrap_or_else(|e| panic!("{e}"));
        let y = builder
            .op("s", OpKind::Softmax, Attributes::new().with_int("axis", 2), &[t])
            .unwrap_or_else(|e| panic!("{e}"));
        builder.finish(vec![y]).unwrap_or_else(|e| panic!("{e}"))
    }

    fn steps(softmax: &str, time: &str) -> Vec<Step> {
        let text = format!(
            "#0 Transpose (t)\n  input 0: x (f32 [1, 4, 8])\n  output 0: t_out ([1, 8, 4])\n  \
            time: 0.002ms\n\
             #1 {softmax} (s)\n  input 0: t_out (f32 [1, 8, 4])\n  output 0: s_out ([1, 8, 4])\n  \
             time: {time}ms\n"
        );
        verbose::parse(&text).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn rows_carry_the_lowered_operator_and_one_sample_per_run() {
        let graph = softmax_of_a_transpose();
        let rows = Labels::of(&graph)
            .measurements(&[steps("Softmax", "0.010"), steps("Softmax", "0.012")])
            .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            rows.iter().map(|r| r.op.kind.clone()).collect::<Vec<_>>(),
            [OpKind::Transpose, OpKind::Softmax]
        );
        assert_eq!(*rows[1].op, graph.nodes()[1].op);
        assert_eq!(rows[1].samples.wall_ns, [10_000, 12_000]);
    }

    #[test]
    fn a_kernel_that_is_not_the_expected_one_is_reported_as_printed() {
        let rows = Labels::of(&softmax_of_a_transpose())
            .measurements(&[steps("AddSoftmax", "0.010")])
            .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(rows[1].op.kind, OpKind::Unsupported("AddSoftmax".into()));
        assert_eq!(rows[1].op.outputs, [TensorSpec::f32([1, 8, 4])]);
    }

    #[test]
    fn runs_that_differ_are_an_error() {
        let labels = Labels::of(&softmax_of_a_transpose());
        let short = steps("Softmax", "0.010")[..1].to_vec();
        assert!(
            labels
                .measurements(&[steps("Softmax", "0.010"), short])
                .is_err_and(|e| e.contains("2 operators, then 1"))
        );
        assert!(
            labels
                .measurements(&[steps("Softmax", "0.010"), steps("AddSoftmax", "0.010")])
                .is_err_and(|e| e.contains("in its place"))
        );
    }
}
