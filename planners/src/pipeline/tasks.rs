//! Where a model's encoder ends: what its tasks share, and the decoders behind it.

use std::collections::{BTreeMap, BTreeSet};
use vitempo_graph::{Graph, ValueId, ValueSource};

/// A model as one encoder and decoders that share nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tasks {
    /// For every node its part: 0 is the encoder, then come the decoders.
    pub part_of: Vec<usize>,
    /// Of the parts: `encoder`, then what the decoders provide.
    pub names: Vec<String>,
}

/// Why a model has no encoder and decoders.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TasksError {
    /// The outputs do not say where the encoder ends.
    #[error(
        "model `{model}` has one output: say where its encoder ends, by the beginning of its \
        nodes' names (names begin with {prefixes})"
    )]
    OneOutput {
        /// Name of the model.
        model: String,
        /// Beginnings of its nodes' names.
        prefixes: String,
    },
    /// A beginning that no node's name has.
    #[error("model `{model}`: no node's name begins with `{prefix}`; names begin with {prefixes}")]
    NoSuchNode {
        /// Name of the model.
        model: String,
        /// The beginning.
        prefix: String,
        /// Beginnings of its nodes' names.
        prefixes: String,
    },
    /// The encoder is the whole model.
    #[error("model `{model}`: nothing is left for a decoder")]
    NoDecoder {
        /// Name of the model.
        model: String,
    },
    /// No node is common to all outputs.
    #[error("model `{model}`: its outputs share no node, so there is no encoder")]
    NoEncoder {
        /// Name of the model.
        model: String,
    },
}

impl Tasks {
    /// Finds the encoder: what leads to several outputs; or, with a prefix, all that nodes whose
    /// names begin so need, themselves included. What is left falls apart into decoders.
    ///
    /// # Errors
    /// [`TasksError`] when one of the two would be empty.
    pub fn of(graph: &Graph, encoder: Option<&str>) -> Result<Self, TasksError> {
        let model = || graph.name().to_owned();
        let shared = match encoder {
            Some(prefix) => needed(graph, prefix),
            None => leading_to_several(graph),
        };
        match (shared.contains(&true), encoder) {
            (true, _) => {}
            (false, Some(prefix)) => {
                return Err(TasksError::NoSuchNode {
                    model: model(),
                    prefix: prefix.to_owned(),
                    prefixes: prefixes(graph),
                });
            }
            (false, None) if graph.outputs().len() < 2 => {
                return Err(TasksError::OneOutput { model: model(), prefixes: prefixes(graph) });
            }
            (false, None) => return Err(TasksError::NoEncoder { model: model() }),
        }
        let roots = components(graph, &shared);
        let order: Vec<usize> =
            (0..roots.len()).filter(|&node| !shared[node] && roots[node] == node).collect();
        if order.is_empty() {
            return Err(TasksError::NoDecoder { model: model() });
        }
        let part = |node: usize| {
            if shared[node] { 0 } else { 1 + order.partition_point(|&root| root < roots[node]) }
        };
        let part_of: Vec<usize> = (0..roots.len()).map(part).collect();
        let names = std::iter::once("encoder".to_owned())
            .chain((1..=order.len()).map(|part| decoder_name(graph, &part_of, part, order.len())));
        Ok(Self { names: names.collect(), part_of })
    }

    /// Names as [`crate::parts()`] takes them.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
}

/// The first output that a decoder provides names it, where there are several.
fn decoder_name(graph: &Graph, part_of: &[usize], part: usize, count: usize) -> String {
    let provides = |id: &&ValueId| matches!(graph.value(**id).source, ValueSource::Node(node) if part_of.get(node as usize) == Some(&part));
    let output = graph.outputs().iter().find(provides).filter(|_| count > 1);
    output.map_or_else(
        || if count > 1 { format!("decoder {part}") } else { "decoder".to_owned() },
        |&id| graph.value(id).name.clone(),
    )
}

/// Nodes behind the inputs of a node.
fn producers(graph: &Graph, node: usize) -> impl Iterator<Item = usize> {
    let source = |id: &ValueId| {
        if let ValueSource::Node(node) = graph.value(*id).source {
            Some(node as usize)
        } else {
            None
        }
    };
    graph.nodes()[node].inputs.iter().filter_map(source)
}

/// For each node, whether a node whose name begins with the prefix needs it, or is it.
fn needed(graph: &Graph, prefix: &str) -> Vec<bool> {
    let mut needed: Vec<bool> =
        graph.nodes().iter().map(|node| node.name.starts_with(prefix)).collect();
    for node in (0..needed.len()).rev() {
        if needed[node] {
            producers(graph, node).for_each(|producer| needed[producer] = true);
        }
    }
    needed
}

/// For each node, whether it leads to more than one output of the model.
fn leading_to_several(graph: &Graph) -> Vec<bool> {
    let mut reached: Vec<BTreeSet<ValueId>> = vec![BTreeSet::new(); graph.nodes().len()];
    for (index, node) in graph.nodes().iter().enumerate().rev() {
        reached[index].extend(node.outputs.iter().filter(|&id| graph.outputs().contains(id)));
        let own = reached[index].clone();
        // Two are as good as all.
        producers(graph, index).for_each(|producer| {
            let more = own.iter().copied().filter(|_| own.len() > 1 || reached[producer].len() < 2);
            let more: Vec<ValueId> = more.take(2).collect();
            reached[producer].extend(more);
        });
    }
    reached.iter().map(|outputs| outputs.len() > 1).collect()
}

/// For each node outside the encoder, the first node that it hangs together with outside the
/// encoder.
fn components(graph: &Graph, shared: &[bool]) -> Vec<usize> {
    fn root(parents: &[usize], mut node: usize) -> usize {
        while parents[node] != node {
            node = parents[node];
        }
        node
    }
    let mut parents: Vec<usize> = (0..shared.len()).collect();
    for node in (0..shared.len()).filter(|&node| !shared[node]) {
        for producer in
            producers(graph, node).filter(|&producer| !shared[producer]).collect::<Vec<_>>()
        {
            let (a, b) = (root(&parents, node), root(&parents, producer));
            parents[a.max(b)] = a.min(b);
        }
    }
    (0..shared.len()).map(|node| root(&parents, node)).collect()
}

/// How the names of nodes begin: their first words between slashes or dots, the most frequent
/// first.
fn prefixes(graph: &Graph) -> String {
    let first = |name: &str| {
        let from = usize::from(name.starts_with(['/', '.']));
        name[from..]
            .find(['/', '.'])
            .map_or_else(|| name.to_owned(), |end| name[..from + end].to_owned())
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    graph.nodes().iter().for_each(|node| *counts.entry(first(&node.name)).or_default() += 1);
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.iter().take(8).map(|(prefix, _)| format!("`{prefix}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{GraphBuilder, OpKind, TensorSpec};

    /// x -> /encoder/a -> /encoder/b -> (/left/c -> /left/d), (/right/e); `b` too is an output
    /// where asked for.
    fn graph(outputs: &[&str]) -> Graph {
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32([1, 4]));
        let mut ids = BTreeMap::from([("x", x)]);
        for (name, input) in [
            ("/encoder/a", "x"),
            ("/encoder/b", "/encoder/a"),
            ("/left/c", "/encoder/b"),
            ("/right/e", "/encoder/b"),
            ("/left/d", "/left/c"),
        ] {
            let id = b.unary(name, OpKind::Relu, ids[input]).expect("an activation");
            ids.insert(name, id);
        }
        b.finish(outputs.iter().map(|name| ids[name]).collect()).expect("a graph")
    }

    #[test]
    fn what_outputs_share_is_the_encoder() {
        let tasks = Tasks::of(&graph(&["/left/d", "/right/e"]), None).expect("tasks");
        assert_eq!(tasks.part_of, [0, 0, 1, 2, 1]);
        assert_eq!(tasks.names(), ["encoder", "/left/d_out", "/right/e_out"]);
        let early = Tasks::of(&graph(&["/left/d", "/encoder/a"]), None).expect("tasks");
        assert_eq!((early.part_of, early.names.len()), (vec![0, 1, 1, 1, 1], 2));
    }

    #[test]
    fn a_prefix_says_where_the_encoder_ends() {
        let one = graph(&["/left/d"]);
        let tasks = Tasks::of(&one, Some("/encoder")).expect("tasks");
        assert_eq!(
            (tasks.part_of, tasks.names),
            (
                vec![0, 0, 1, 2, 1],
                vec!["encoder".to_owned(), "/left/d_out".to_owned(), "decoder 2".to_owned()]
            )
        );
        let deep = Tasks::of(&one, Some("/left/c")).expect("tasks");
        assert_eq!(deep.part_of, [0, 0, 0, 1, 2]);
    }

    #[test]
    fn what_has_no_encoder_is_told_how_names_begin() {
        let message = |graph: &Graph, prefix| {
            Tasks::of(graph, prefix).map_or_else(|e| e.to_string(), |_| "divided".to_owned())
        };
        let one = graph(&["/left/d"]);
        assert!(
            message(&one, None).contains("has one output")
                && message(&one, None).contains("`/encoder`, `/left`, `/right`")
        );
        assert!(
            message(&one, Some("/middle"))
                .contains("no node's name begins with `/middle`; names begin with `/encoder`")
        );
        assert_eq!(message(&one, Some("/")), "model `m`: nothing is left for a decoder");
    }
}
