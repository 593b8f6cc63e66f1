//! Describes each executed kernel: the operator of the model that it runs, with the operators fused
//! into it.
//!
//! A builtin kernel reports its operator's place in the file. XNNPACK reports only names, in
//! execution order: [`partition`] finds the operators of each part, [`align`](super::align) the
//! operator that each kernel runs, [`Fused`] the kernel of each operator without one of its own.

use super::{
    align::{Candidate, align},
    events::Kernel,
    kernel_names::{converts, precision},
    order::{Order, order},
};
use vitempo_graph::{
    Attributes, Graph, Measurement, OpKind, OpSpec, Precision, Samples, Status,
    lowering::litert::{self, elision, fusion::Fused, partition},
};

/// One row per kernel, without samples. `operators` are the model's operators in the file's order,
/// `codes` TensorFlow Lite's names of them.
pub(super) fn rows(operators: &Graph, codes: &[&str], kernels: &[Kernel]) -> Vec<Measurement> {
    let mut rows: Vec<Measurement> = kernels.iter().map(unknown).collect();
    let mut builtin = vec![false; operators.nodes().len()];
    for (row, kernel) in rows.iter_mut().zip(kernels) {
        if let Kernel::Builtin(index, name) = kernel
            && let Some(node) =
                operators.nodes().get(*index).filter(|_| codes.get(*index) == Some(&name.as_str()))
        {
            builtin[*index] = true;
            label(row, &node.name, node.op.clone());
        }
    }
    let parts = partition::parts(operators, &builtin);
    let mut executed: Vec<Vec<usize>> = Vec::new();
    for (place, kernel) in kernels.iter().enumerate() {
        if let Kernel::Xnnpack(part, _) = kernel {
            executed.resize(executed.len().max(part + 1), Vec::new());
            executed[*part].push(place);
        }
    }
    executed.retain(|part| !part.is_empty());
    if executed.len() == parts.len() {
        executed
            .iter()
            .zip(&parts)
            .for_each(|(places, part)| label_part(&mut rows, places, operators, codes, part));
    } else {
        // The interpreter cut the model in another way than was thought: still in this order.
        label_part(&mut rows, &executed.concat(), operators, codes, &parts.concat());
    }
    rows
}

/// Labels the kernels at `places` as those of the operators `part`.
fn label_part(
    rows: &mut [Measurement],
    places: &[usize],
    operators: &Graph,
    codes: &[&str],
    part: &[usize],
) {
    let names: Vec<&str> = places.iter().map(|&p| rows[p].kernel.as_str()).collect();
    let Order { operators: part, integers, products } = &order(operators, codes, part, &names);
    let half = names.iter().any(|name| precision(name) == Some(Precision::F16));
    let expected = elision::with_kernels(operators, codes, part, half);
    let candidate = |&o: &usize| Candidate {
        code: codes.get(o).copied().unwrap_or_default(),
        fused: !expected.contains(&o),
    };
    let candidates: Vec<Candidate<'_>> = part.iter().map(candidate).collect();
    let aligned: Vec<Option<usize>> =
        align(&names, &candidates).into_iter().map(|o| o.map(|o| part[o])).collect();
    let with_kernels: Vec<usize> = aligned.iter().flatten().copied().collect();
    let fused = Fused::new(operators, codes, part, &with_kernels);
    let mut casts = Casts::of(operators, part);
    for (&place, operator) in places.iter().zip(&aligned) {
        let row = &mut rows[place];
        if let Some((operator, spec)) = operator.and_then(|o| Some((o, fused.spec(o)?))) {
            let mut spec = if half { litert::halved(spec.clone()) } else { spec.clone() };
            if integers.contains(&operator) {
                spec.outputs.iter_mut().for_each(|tensor| tensor.precision = Precision::I8);
            }
            if products.contains(&operator) {
                spec.inputs
                    .iter_mut()
                    .skip(1)
                    .for_each(|right| right.tensor.precision = Precision::I8);
            }
            label(row, &operators.nodes()[operator].name, spec);
            casts.inside = true;
        } else if half
            && converts(&row.kernel)
            && let Some((name, spec)) = casts.next()
        {
            label(row, &name, spec);
        }
    }
}

fn label(row: &mut Measurement, node: &str, op: OpSpec) {
    row.node = node.to_owned();
    row.op = op.into();
}

fn unknown(kernel: &Kernel) -> Measurement {
    let op = OpSpec {
        kind: OpKind::Unsupported(kernel.name().to_owned()),
        attributes: Attributes::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    Measurement {
        op: op.into(),
        node: String::new(),
        kernel: kernel.name().to_owned(),
        samples: Samples::default(),
        memory_bytes: None,
        status: Status::Ok,
    }
}

/// The casts around a part that runs in half precision: of what it reads at its begin, of what
/// others read at its end.
struct Casts {
    before: std::vec::IntoIter<(String, OpSpec)>,
    after: std::vec::IntoIter<(String, OpSpec)>,
    inside: bool,
}

impl Casts {
    fn of(operators: &Graph, part: &[usize]) -> Self {
        let (before, after) = litert::casts(operators, part);
        Self { before: before.into_iter(), after: after.into_iter(), inside: false }
    }

    fn next(&mut self) -> Option<(String, OpSpec)> {
        if self.inside { self.after.next() } else { self.before.next() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use vitempo_graph::{Attribute, GraphBuilder, TensorSpec};

    fn model() -> (Graph, [&'static str; 4]) {
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32([1, 4]));
        let wide = b.linear("wide", x, 8, true).unwrap();
        let relu = b.op("relu", OpKind::Relu, Attributes::new(), &[wide]).unwrap();
        let sign = b
            .op(
                "sign",
                OpKind::Round,
                Attributes::new().with("op", Attribute::Text("Sign".into())),
                &[relu],
            )
            .unwrap();
        let sum = b.binary("sum", OpKind::Add, relu, sign).unwrap();
        (b.finish(vec![sum]).unwrap(), ["FULLY_CONNECTED", "RELU", "SIGN", "ADD"])
    }

    fn xnnpack(part: usize, name: &str) -> Kernel {
        Kernel::Xnnpack(part, name.to_owned())
    }

    fn summary(rows: &[Measurement]) -> Vec<String> {
        rows.iter().map(|r| format!("{} {} {}", r.node, r.op.kind, r.op.precision())).collect()
    }

    #[test]
    fn kernels_of_both_kinds_are_labelled() {
        let (graph, codes) = model();
        let kernels = [
            xnnpack(0, "Fully Connected (NC, F32) GEMM"),
            Kernel::Builtin(2, "SIGN".into()),
            xnnpack(1, "Add (ND)"),
        ];
        let rows = rows(&graph, &codes, &kernels);
        assert_eq!(summary(&rows), ["wide linear f32", "sign round f32", "sum add f32"]);
        assert_eq!(rows[0].op.attributes.text("activation"), Some("relu"));
        assert_eq!(rows[0].kernel, "Fully Connected (NC, F32) GEMM");
    }

    #[test]
    fn half_precision_has_casts_around_it() {
        let (graph, codes) = model();
        let cast = |part| xnnpack(part, "Convert (NC)");
        let fully = xnnpack(0, "Fully Connected (NC, F16) GEMM");
        let kernels =
            [cast(0), fully, cast(0), Kernel::Builtin(2, "SIGN".into()), xnnpack(1, "Add (ND)")];
        let rows = rows(&graph, &codes, &kernels);
        assert_eq!(
            summary(&rows),
            [
                "x cast f16",
                "wide linear f16",
                "wide.relu cast f32",
                "sign round f32",
                "sum add f32"
            ]
            .map(|s| s.replace("wide.relu", &rows[2].node))
        );
        assert_eq!(rows[2].op.inputs[0].tensor, TensorSpec::new([1, 8], Precision::F16));
    }

    #[test]
    fn what_fits_nothing_keeps_the_engines_name() {
        let (graph, codes) = model();
        let rows = rows(
            &graph,
            &codes,
            &[
                Kernel::Builtin(2, "GATHER".into()),
                Kernel::Builtin(99, "SIGN".into()),
                xnnpack(0, "Mystery (NC)"),
            ],
        );
        assert_eq!(
            rows.iter().map(|r| r.op.kind.to_string()).collect::<Vec<_>>(),
            ["GATHER", "SIGN", "Mystery (NC)"]
        );
    }
}
