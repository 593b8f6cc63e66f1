//! Assembles stitched variants as models (eq. 1): subgraphs of different variants in sequence, each
//! of which passes one tensor to the next.
//!
//! Neighbours fit when the output of one and the input of the other have the same name, shape and
//! type: nothing is converted in between. Weights keep their names and so their seeded values; a
//! name that two variants use for different values gets the variant's name as a suffix.

use std::collections::BTreeSet;
use vitempo_graph::{Graph, GraphError, Node, TensorSpec, Value, ValueId};

/// Why subgraphs cannot be assembled.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum AssemblyError {
    /// No subgraph was given.
    #[error("there is no subgraph to put together")]
    Empty,
    /// A subgraph that does not have exactly one input or output tensor.
    #[error(
        "subgraph {position} of `{variant}` has {count} {what}; between two subgraphs goes one \
        tensor"
    )]
    NotOne {
        /// Its position, from 0.
        position: usize,
        /// Its variant.
        variant: String,
        /// Inputs or outputs.
        what: &'static str,
        /// Their number.
        count: usize,
    },
    /// Two subgraphs that do not fit together.
    #[error(transparent)]
    Misfit(#[from] Box<Misfit>),
    /// The assembled model is not a valid graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// A subgraph that cannot follow another one; positions are counted from 1.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error(
    "subgraph {position} of `{variant}` does not fit behind subgraph {before} of `{other}`: it \
    reads `{reads}` ({wanted}), and is handed `{hands}` ({given})"
)]
pub struct Misfit {
    /// Position of the second, from 0.
    pub position: usize,
    /// Its variant.
    pub variant: String,
    /// Its input tensor.
    pub reads: String,
    /// The shape and type of that input.
    pub wanted: String,
    /// Position of the first, from 0.
    pub before: usize,
    /// Its variant.
    pub other: String,
    /// Its output tensor.
    pub hands: String,
    /// The shape and type of that output.
    pub given: String,
}

/// The tensor that one subgraph passes to the next.
struct Handed<'a> {
    variant: &'a str,
    value: &'a Value,
    id: ValueId,
}

/// The model that takes each position from the variant named with it; positions are counted from 1
/// in errors.
///
/// # Errors
/// [`AssemblyError::Misfit`] where neighbours differ in the tensor between them.
pub fn assemble(name: &str, subgraphs: &[(&str, &Graph)]) -> Result<Graph, AssemblyError> {
    let mut draft = Draft::default();
    let mut handed: Option<Handed<'_>> = None;
    for (index, &(variant, graph)) in subgraphs.iter().enumerate() {
        let position = index + 1;
        let received = handed
            .as_ref()
            .map(|handed| fits(position, variant, graph, handed).map(|input| (input, handed.id)))
            .transpose()?;
        let ids = draft.add(variant, graph, received);
        let new = |id: &ValueId| ids[id.0 as usize];
        if index == 0 {
            draft.inputs = graph.inputs().iter().map(new).collect();
        }
        if position == subgraphs.len() {
            draft.outputs = graph.outputs().iter().map(new).collect();
            return Ok(Graph::new(name, draft.values, draft.nodes, draft.inputs, draft.outputs)?);
        }
        let hands = handed_on(position, variant, graph)?;
        handed = Some(Handed { id: new(&hands.id), ..hands });
    }
    Err(AssemblyError::Empty)
}

/// The model so far.
#[derive(Default)]
struct Draft {
    values: Vec<Value>,
    nodes: Vec<Node>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    value_names: BTreeSet<String>,
    node_names: BTreeSet<String>,
}

impl Draft {
    /// Adds a subgraph, one input of which is an existing value; returns the new numbers of its
    /// values.
    fn add(
        &mut self,
        variant: &str,
        graph: &Graph,
        received: Option<(ValueId, ValueId)>,
    ) -> Vec<ValueId> {
        let mut ids = Vec::with_capacity(graph.values().len());
        for (index, value) in graph.values().iter().enumerate() {
            if let Some((_, there)) = received.filter(|(input, _)| input.0 as usize == index) {
                ids.push(there);
                continue;
            }
            ids.push(ValueId(self.values.len() as u32));
            self.values.push(Value {
                name: unique(&mut self.value_names, &value.name, variant),
                ..value.clone()
            });
        }
        let new = |id: &ValueId| ids[id.0 as usize];
        for node in graph.nodes() {
            let (inputs, outputs) =
                (node.inputs.iter().map(new).collect(), node.outputs.iter().map(new).collect());
            self.nodes.push(Node {
                name: unique(&mut self.node_names, &node.name, variant),
                inputs,
                outputs,
                ..node.clone()
            });
        }
        ids
    }
}

/// Whether one subgraph can follow another; `position` is that of the one behind, counted from 1.
///
/// # Errors
/// [`AssemblyError::Misfit`], or [`AssemblyError::NotOne`] where more than one tensor goes between
/// them.
pub fn fit(
    position: usize,
    (variant, before): (&str, &Graph),
    (other, behind): (&str, &Graph),
) -> Result<(), AssemblyError> {
    let handed = handed_on(position.saturating_sub(1), variant, before)?;
    fits(position, other, behind, &handed).map(|_| ())
}

/// The output of a subgraph for the next.
fn handed_on<'a>(
    position: usize,
    variant: &'a str,
    graph: &'a Graph,
) -> Result<Handed<'a>, AssemblyError> {
    match graph.outputs() {
        &[id] => Ok(Handed { variant, value: graph.value(id), id }),
        outputs => Err(AssemblyError::NotOne {
            position,
            variant: variant.to_owned(),
            what: "results",
            count: outputs.len(),
        }),
    }
}

/// The input of a subgraph that matches the tensor passed to it.
fn fits(
    position: usize,
    variant: &str,
    graph: &Graph,
    handed: &Handed<'_>,
) -> Result<ValueId, AssemblyError> {
    let &[only] = graph.inputs() else {
        return Err(AssemblyError::NotOne {
            position,
            variant: variant.to_owned(),
            what: "inputs",
            count: graph.inputs().len(),
        });
    };
    let (wanted, given) = (graph.value(only), handed.value);
    if wanted.name == given.name && wanted.tensor == given.tensor {
        return Ok(only);
    }
    let show = |tensor: &Option<TensorSpec>| {
        tensor.as_ref().map_or_else(|| "of unknown shape".to_owned(), TensorSpec::to_string)
    };
    Err(Box::new(Misfit {
        position,
        variant: variant.to_owned(),
        reads: wanted.name.clone(),
        wanted: show(&wanted.tensor),
        before: position.saturating_sub(1),
        other: handed.variant.to_owned(),
        hands: given.name.clone(),
        given: show(&given.tensor),
    })
    .into())
}

/// The name, with the variant's name as a suffix if it is taken.
fn unique(names: &mut BTreeSet<String>, name: &str, variant: &str) -> String {
    let mut own = name.to_owned();
    while !names.insert(own.clone()) {
        own = format!("{own}@{variant}");
    }
    own
}

#[cfg(test)]
mod tests {
    use super::super::cut::{subgraphs, tests::blocks};
    use super::*;
    use vitempo_graph::sparsify;

    fn cut(graph: &Graph) -> Vec<Graph> {
        subgraphs(graph, &["stem_out".to_owned(), "one.sum_out".to_owned()])
            .expect("three subgraphs")
    }

    #[test]
    fn a_model_cut_and_put_together_is_the_model() {
        let whole = blocks("m", 16);
        let parts = cut(&whole);
        let again = assemble("m", &parts.iter().map(|part| ("m", part)).collect::<Vec<_>>())
            .expect("a model");
        assert_eq!(again.architecture(), whole.architecture());
        let names =
            |graph: &Graph| graph.values().iter().map(|v| v.name.clone()).collect::<BTreeSet<_>>();
        assert_eq!(names(&again), names(&whole));
    }

    #[test]
    fn variants_are_stitched_position_by_position() {
        let dense = blocks("dense", 16);
        let slim = sparsify::structured(&dense, 0.5, &["stem_out"]).expect("a variant");
        let (dense, slim) = (cut(&dense), cut(&slim));
        let stitched =
            assemble("stitched", &[("dense", &dense[0]), ("slim", &slim[1]), ("dense", &dense[2])])
                .expect("a model");
        let hidden = |block: &str| {
            stitched
                .values()
                .iter()
                .find(|v| v.name == format!("{block}.relu_out"))
                .and_then(|v| v.tensor.clone())
                .expect("a tensor")
        };
        assert_eq!(
            (&hidden("one").shape[..], &hidden("two").shape[..]),
            (&[2, 8][..], &[2, 16][..])
        );
    }

    #[test]
    fn neighbours_that_do_not_fit_are_refused_with_both_shapes() {
        let parts = cut(&blocks("m", 16));
        let refused = |subgraphs: &[(&str, &Graph)]| {
            assemble("s", subgraphs).map_or_else(|e| e.to_string(), |_| String::new())
        };
        let expected = "subgraph 2 of `b` does not fit behind subgraph 1 of `a`: it reads \
            `one.sum_out` (2x8 f32), and is handed `stem_out` (2x8 f32)";
        assert_eq!(refused(&[("a", &parts[0]), ("b", &parts[2])]), expected);
        let other =
            subgraphs(&blocks_of("n", 12), &["stem_out".to_owned()]).expect("two subgraphs");
        let expected = "subgraph 2 of `n` does not fit behind subgraph 1 of `m`: it reads \
            `stem_out` (2x12 f32), and is handed `stem_out` (2x8 f32)";
        assert_eq!(refused(&[("m", &parts[0]), ("n", &other[1])]), expected);
        assert_eq!(refused(&[]), "there is no subgraph to put together");
    }

    /// A model whose residual stream is wider.
    fn blocks_of(name: &str, width: usize) -> Graph {
        use vitempo_graph::{Attributes, GraphBuilder, OpKind};
        let mut builder = GraphBuilder::new(name);
        let x = builder.input("x", TensorSpec::f32([2, 8]));
        let (stem, head) = (
            builder.weight("stem.w", TensorSpec::f32([8, width])),
            builder.weight("head.w", TensorSpec::f32([width, 4])),
        );
        let stem =
            builder.op("stem", OpKind::Linear, Attributes::new(), &[x, stem]).expect("a product");
        let head = builder
            .op("head", OpKind::Linear, Attributes::new(), &[stem, head])
            .expect("a product");
        builder.finish(vec![head]).expect("a graph")
    }

    #[test]
    fn names_that_mean_different_things_are_told_apart() {
        let mut taken = BTreeSet::from(["w".to_owned(), "w@int8".to_owned()]);
        assert_eq!(
            [unique(&mut taken, "w", "int8"), unique(&mut taken, "v", "int8")],
            ["w@int8@int8".to_owned(), "v".to_owned()]
        );
    }
}
