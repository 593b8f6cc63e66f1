//! Nodes as ONNX operators (opset 20), built from their [`recipe`]; Linear and Silu become several.

use super::recipe::{GEMM, Place, integer, recipe};
use super::spelling;
use super::tensors;
use crate::numbers::nearest;
use crate::onnx::payload::data_type;
use crate::onnx::proto::{AttributeProto, NodeProto, TensorProto};
use crate::{Attribute, Graph, Node, OpKind, OpSpec, Precision};
use Place::{Number, Real, Said, Same, Scalar, Scales, Vector};

/// Collects nodes and the small constants that steer them.
#[derive(Default)]
pub(super) struct Emitter {
    pub nodes: Vec<NodeProto>,
    pub constants: Vec<TensorProto>,
}

impl Emitter {
    /// Writes one node of the graph.
    pub(super) fn emit(&mut self, graph: &Graph, node: &Node) -> Result<(), String> {
        let names = |ids: &[crate::ValueId]| {
            ids.iter().map(|&id| graph.value(id).name.clone()).collect::<Vec<_>>()
        };
        let (inputs, outputs) = (names(&node.inputs), names(&node.outputs));
        match node.op.kind {
            OpKind::Linear if !integer(&node.op) => self.linear(node, &inputs, outputs),
            OpKind::MatMul if !integer(&node.op) && gemm_only(&node.op) => {
                self.push(node.name.clone(), "Gemm", inputs, outputs, gemm_attributes(&node.op));
                Ok(())
            }
            OpKind::Silu => self.silu(node, &inputs, outputs),
            _ => match spelling::of(node) {
                Some(spelling) => self.spelled(node, spelling, inputs, outputs),
                _ => self.one(node, inputs, outputs),
            },
        }
    }

    pub(super) fn push(
        &mut self,
        name: String,
        op_type: &str,
        input: Vec<String>,
        output: Vec<String>,
        attribute: Vec<AttributeProto>,
    ) {
        self.nodes.push(NodeProto {
            name,
            op_type: op_type.to_owned(),
            input,
            output,
            attribute,
            domain: String::new(),
        });
    }

    pub(super) fn one(
        &mut self,
        node: &Node,
        mut inputs: Vec<String>,
        outputs: Vec<String>,
    ) -> Result<(), String> {
        let op = &node.op;
        let (op_type, recipe) = recipe(op)?;
        let mut attributes = own_attributes(op)?;
        let prefix = outputs.first().cloned().unwrap_or_else(|| node.name.clone());
        for (name, value) in &op.attributes.0 {
            let place = recipe.iter().find(|(known, _)| known == name).map(|&(_, place)| place);
            let place = place.ok_or_else(|| format!("ONNX has no attribute `{name}` for it"))?;
            match place {
                Same => attributes.push(attribute(name, value)),
                Real => attributes.push(real(
                    name,
                    op.attributes
                        .float(name)
                        .ok_or_else(|| format!("attribute `{name}` is not a number"))?,
                )),
                Said => {}
                Vector(at) | Scalar(at) | Number(at) | Scales(at) => {
                    // Sizes follow from scales, and ONNX takes only one of them.
                    let doubled =
                        op.kind == OpKind::Resize && name == "sizes" && op.attributes.has("scales");
                    if !doubled && node.inputs.len() <= at {
                        self.steer(
                            &mut inputs,
                            at,
                            steering(place, format!("{prefix}/{name}"), value, op)?,
                        );
                    }
                }
            }
        }
        self.push(node.name.clone(), op_type, inputs, outputs, attributes);
        Ok(())
    }

    /// Puts a constant at an input; inputs left out before it have no name.
    pub(super) fn steer(&mut self, inputs: &mut Vec<String>, at: usize, constant: TensorProto) {
        if inputs.len() <= at {
            inputs.resize(at + 1, String::new());
        }
        inputs[at].clone_from(&constant.name);
        self.constants.push(constant);
    }

    /// Gemm for matrices; a product for more dimensions or without scale and bias, then scale and
    /// bias as operators of their own.
    fn linear(
        &mut self,
        node: &Node,
        inputs: &[String],
        outputs: Vec<String>,
    ) -> Result<(), String> {
        let op = &node.op;
        if let Some(name) = op.attributes.0.keys().find(|name| !GEMM.contains(&name.as_str())) {
            return Err(format!("ONNX has no attribute `{name}` for it"));
        }
        let ([x, weight, rest @ ..], [output]) = (inputs, outputs.as_slice()) else {
            return Err("it needs an input, a weight and an output".to_owned());
        };
        let matrix = op.inputs.iter().take(2).all(|i| i.tensor.rank() == 2);
        if op.attributes.0.is_empty() && rest.is_empty() {
            self.push(node.name.clone(), "MatMul", inputs.to_vec(), outputs, Vec::new());
            return Ok(());
        }
        if matrix {
            self.push(node.name.clone(), "Gemm", inputs.to_vec(), outputs, gemm_attributes(op));
            return Ok(());
        }
        if op.attributes.int("trans_a") == Some(1)
            || op.attributes.float("beta").is_some_and(|b| b != 1.0)
        {
            return Err("`trans_a` and `beta` need a matrix".to_owned());
        }
        let mut steps: Vec<(&str, String)> =
            vec![("MatMul", self.plain_weight(node, weight, output)?)];
        if let Some(alpha) = op.attributes.float("alpha").filter(|&a| a != 1.0) {
            let constant =
                tensors::numbers(format!("{output}/alpha"), &[alpha], &[], op.precision())?;
            steps.push(("Mul", constant.name.clone()));
            self.constants.push(constant);
        }
        steps.extend(rest.first().map(|bias| ("Add", bias.clone())));
        let last = steps.len() - 1;
        let mut current = x.clone();
        for (i, (op_type, operand)) in steps.into_iter().enumerate() {
            let suffix = op_type.to_lowercase();
            let next = if i == last { output.clone() } else { format!("{output}/{suffix}") };
            let name =
                if i == last { node.name.clone() } else { format!("{}/{suffix}", node.name) };
            self.push(name, op_type, vec![current, operand], vec![next.clone()], Vec::new());
            current = next;
        }
        Ok(())
    }

    /// The weight `[in, out]`; a weight `[out, in]` is transposed by an operator, which engines
    /// fold.
    fn plain_weight(&mut self, node: &Node, weight: &str, output: &str) -> Result<String, String> {
        if node.op.attributes.int("trans_b") != Some(1) {
            return Ok(weight.to_owned());
        }
        let rank = node.op.inputs.get(1).map_or(0, |w| w.tensor.rank());
        if rank < 2 {
            return Err("`trans_b` needs a weight that is a matrix".to_owned());
        }
        let mut perm: Vec<i64> = (0..rank as i64).collect();
        perm.swap(rank - 1, rank - 2);
        let name = format!("{output}/weight");
        let attributes = vec![attribute("perm", &Attribute::Ints(perm.into()))];
        self.push(
            format!("{}/transpose", node.name),
            "Transpose",
            vec![weight.to_owned()],
            vec![name.clone()],
            attributes,
        );
        Ok(name)
    }

    /// Sigmoid, Mul: opset 20 has no SiLU.
    fn silu(&mut self, node: &Node, inputs: &[String], outputs: Vec<String>) -> Result<(), String> {
        let ([x], [output], true) = (inputs, outputs.as_slice(), node.op.attributes.0.is_empty())
        else {
            return Err("ONNX has no fused SiLU".to_owned());
        };
        let gate = format!("{output}/sigmoid");
        self.push(
            format!("{}/sigmoid", node.name),
            "Sigmoid",
            vec![x.clone()],
            vec![gate.clone()],
            Vec::new(),
        );
        self.push(node.name.clone(), "Mul", vec![x.clone(), gate], outputs.clone(), Vec::new());
        Ok(())
    }
}

/// Attributes that ONNX has and our attributes do not say literally.
fn own_attributes(op: &OpSpec) -> Result<Vec<AttributeProto>, String> {
    Ok(match op.kind {
        OpKind::GeluTanh => vec![attribute("approximate", &Attribute::Text("tanh".to_owned()))],
        OpKind::Cast => {
            let to = op.outputs.first().ok_or("its output's type is unknown")?;
            vec![attribute("to", &Attribute::Int(i64::from(data_type(to.precision))))]
        }
        OpKind::ConstantOfShape => vec![fill_value(op)?],
        OpKind::Mod => {
            let truncated = op.precision().is_float() || op.attributes.int("fmod") == Some(1);
            vec![attribute("fmod", &Attribute::Int(i64::from(truncated)))]
        }
        OpKind::GroupNorm => {
            let groups = op.attributes.int("groups").ok_or("attribute `groups` is missing")?;
            if op
                .inputs
                .get(1)
                .is_none_or(|scale| i64::try_from(scale.tensor.elements()) != Ok(groups))
            {
                return Err("GroupNormalization of opset 20 has one scale per group; write \
                    InstanceNormalization, Mul and Add"
                    .to_owned());
            }
            vec![attribute("num_groups", &Attribute::Int(groups))]
        }
        _ => Vec::new(),
    })
}

/// The `value` of ConstantOfShape: a tensor of one element.
fn fill_value(op: &OpSpec) -> Result<AttributeProto, String> {
    let precision = op.outputs.first().map_or(Precision::F32, |t| t.precision);
    let value = op.attributes.float("value").unwrap_or(0.0);
    let tensor = tensors::numbers("value".to_owned(), &[value], &[1], precision)?;
    Ok(AttributeProto {
        name: "value".to_owned(),
        t: Some(tensor),
        r#type: 4,
        ..AttributeProto::default()
    })
}

/// A product of two computed matrices with what only Gemm has: transposition, scales or a bias.
fn gemm_only(op: &OpSpec) -> bool {
    let matrices = op.inputs.iter().take(2).all(|i| i.tensor.rank() == 2);
    let known = op.attributes.0.keys().all(|name| GEMM.contains(&name.as_str()));
    matrices && known && (op.inputs.len() == 3 || !op.attributes.0.is_empty())
}

fn gemm_attributes(op: &OpSpec) -> Vec<AttributeProto> {
    let integer = |name: &str, onnx: &str| {
        op.attributes.int(name).filter(|&v| v != 0).map(|v| attribute(onnx, &Attribute::Int(v)))
    };
    let float = |name: &str| op.attributes.float(name).map(|v| real(name, v));
    [float("alpha"), float("beta"), integer("trans_a", "transA"), integer("trans_b", "transB")]
        .into_iter()
        .flatten()
        .collect()
}

/// The constant that an attribute becomes.
fn steering(
    place: Place,
    name: String,
    value: &Attribute,
    op: &OpSpec,
) -> Result<TensorProto, String> {
    let own = op.inputs.first().map_or(Precision::F32, |x| x.tensor.precision);
    let is_exact = |v: &f64| nearest(*v, own) == *v;
    let precision = match value {
        // An exponent may be of another type than its base.
        Attribute::Float(v) if op.kind == OpKind::Pow && !is_exact(v) => Precision::F32,
        _ => own,
    };
    match (place, value) {
        (Vector(_), Attribute::Ints(v)) => Ok(tensors::integers(name, v, false)),
        (Vector(_), Attribute::Int(v)) => Ok(tensors::integers(name, &[*v], false)),
        (Scalar(_), Attribute::Int(v)) => Ok(tensors::integers(name, &[*v], true)),
        (Number(_), Attribute::Float(v)) => tensors::numbers(name, &[*v], &[], precision),
        (Number(_), Attribute::Int(v)) => tensors::numbers(name, &[*v as f64], &[], precision),
        (Scales(_), Attribute::Floats(v)) => tensors::numbers(name, v, &[v.len()], Precision::F32),
        _ => Err(format!("the attribute behind `{name}` is not of the right type")),
    }
}

/// An attribute, unchanged. The numbers are those of `AttributeProto.AttributeType`.
pub(super) fn attribute(name: &str, value: &Attribute) -> AttributeProto {
    let named = AttributeProto { name: name.to_owned(), ..AttributeProto::default() };
    match value {
        Attribute::Float(f) => AttributeProto { f: Some(*f as f32), r#type: 1, ..named },
        Attribute::Int(i) => AttributeProto { i: Some(*i), r#type: 2, ..named },
        Attribute::Text(s) => AttributeProto { s: s.clone().into_bytes(), r#type: 3, ..named },
        Attribute::Floats(v) => {
            AttributeProto { floats: v.iter().map(|&f| f as f32).collect(), r#type: 6, ..named }
        }
        Attribute::Ints(v) => AttributeProto { ints: v.to_vec(), r#type: 7, ..named },
    }
}

fn real(name: &str, value: f64) -> AttributeProto {
    attribute(name, &Attribute::Float(value))
}
