//! Finds where the variants of one model can be cut: at tensors that are the only connection
//! between the nodes before and after. Cuts at such tensors divide a model into a chain of
//! subgraphs, each of which passes one tensor to the next.
//!
//! Variants keep the names of the base model's tensors, whatever is quantised or pruned in between.
//! At a tensor that cuts all of them, with the same shape and type in all of them, any subgraph can
//! follow any other. [`shared`] chooses the cuts that divide the work most evenly, [`subgraphs`]
//! cuts.

use crate::{PartsError, parts};
use std::collections::BTreeMap;
use vitempo_graph::{Graph, TensorSpec, ValueId, ValueSource, Work};

/// Why variants cannot be cut. A model's name is that of its graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CutError {
    /// A tensor that the model does not have.
    #[error("`{model}` has no tensor `{tensor}`")]
    NoTensor {
        /// Name of the model.
        model: String,
        /// Name of the tensor.
        tensor: String,
    },
    /// A tensor that does not divide the model.
    #[error("`{model}` cannot be cut at `{tensor}`: {reason}")]
    NoCut {
        /// Name of the model.
        model: String,
        /// Name of the tensor.
        tensor: String,
        /// The reason.
        reason: String,
    },
    /// Fewer common cuts than asked for.
    #[error("{found} tensors cut all variants alike, {positions} subgraphs need {needed}{reason}")]
    TooFew {
        /// Subgraphs asked for.
        positions: usize,
        /// Cuts that all variants have.
        found: usize,
        /// Cuts that are needed.
        needed: usize,
        /// Why other tensors were left out, or empty.
        reason: String,
    },
    /// A variant cannot be divided.
    #[error(transparent)]
    Parts(#[from] PartsError),
}

/// A tensor at which a model can be cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Shape and type of the tensor.
    pub tensor: TensorSpec,
    /// FLOPs of the nodes before it.
    pub flops_before: u64,
}

/// Every tensor at which a model can be cut, in the order they are computed.
#[must_use]
pub fn places(graph: &Graph) -> Vec<Place> {
    let flops: Vec<u64> =
        graph.nodes().iter().map(|node| Work::of_operator(&node.op).flops).collect();
    let place = |&id: &ValueId| {
        let (value, before) = (graph.value(id), before(graph, id).ok()?);
        let flops_before = flops
            .iter()
            .zip(&before)
            .filter(|(_, before)| **before)
            .map(|(flops, _)| *flops)
            .fold(0, u64::saturating_add);
        Some(Place { name: value.name.clone(), tensor: value.tensor.clone()?, flops_before })
    };
    graph.nodes().iter().flat_map(|node| &node.outputs).filter_map(place).collect()
}

/// The tensors, by name, at which to cut all variants into this number of subgraphs with the most
/// even work, measured on the first variant.
///
/// # Errors
/// [`CutError::TooFew`] where too few tensors cut all variants and have one shape and type in all
/// of them; the error states the difference.
pub fn shared(variants: &[&Graph], positions: usize) -> Result<Vec<String>, CutError> {
    let Some((first, others)) = variants.split_first() else { return Ok(Vec::new()) };
    let mut found = places(first);
    let mut differs = None;
    for other in others {
        let theirs: BTreeMap<String, TensorSpec> =
            places(other).into_iter().map(|place| (place.name, place.tensor)).collect();
        found.retain(|place| match theirs.get(&place.name) {
            Some(tensor) if *tensor == place.tensor => true,
            Some(tensor) => {
                let (name, here) = (&place.name, &place.tensor);
                differs.get_or_insert_with(|| {
                    format!(
                        "; `{name}` is {here} in `{}`, {tensor} in `{}`",
                        first.name(),
                        other.name()
                    )
                });
                false
            }
            None => false,
        });
    }
    let needed = positions.saturating_sub(1);
    if found.len() < needed {
        return Err(CutError::TooFew {
            positions,
            found: found.len(),
            needed,
            reason: differs.unwrap_or_default(),
        });
    }
    let total = first
        .nodes()
        .iter()
        .map(|node| Work::of_operator(&node.op).flops)
        .fold(0, u64::saturating_add);
    let before: Vec<u64> = found.iter().map(|place| place.flops_before).collect();
    Ok(evenly(&before, total, needed).into_iter().map(|index| found[index].name.clone()).collect())
}

/// One graph per position, cut at these tensors. Weights that several positions read are in all of
/// them.
///
/// # Errors
/// [`CutError`] for a tensor that does not exist or does not cut, and for one that is not computed
/// after the previous one.
pub fn subgraphs(graph: &Graph, cuts: &[String]) -> Result<Vec<Graph>, CutError> {
    let part_of = part_of(graph, cuts)?;
    let names: Vec<String> = (1..=cuts.len() + 1).map(|position| position.to_string()).collect();
    Ok(parts(graph, &part_of, &names.iter().map(String::as_str).collect::<Vec<_>>())?)
}

/// By node, its position, counted from 0.
///
/// # Errors
/// [`CutError`] for a tensor that does not exist or does not cut.
pub fn part_of(graph: &Graph, cuts: &[String]) -> Result<Vec<usize>, CutError> {
    let mut part_of = vec![cuts.len(); graph.nodes().len()];
    for (position, tensor) in cuts.iter().enumerate().rev() {
        let model = || graph.name().to_owned();
        let found = graph.values().iter().position(|value| value.name == *tensor);
        let id =
            found.ok_or_else(|| CutError::NoTensor { model: model(), tensor: tensor.clone() })?;
        let before = before(graph, ValueId(id as u32)).map_err(|reason| CutError::NoCut {
            model: model(),
            tensor: tensor.clone(),
            reason,
        })?;
        part_of
            .iter_mut()
            .zip(before)
            .filter(|(_, before)| *before)
            .for_each(|(part, _)| *part = position);
    }
    Ok(part_of)
}

/// By node, whether a tensor needs it.
///
/// # Errors
/// The reason why the tensor does not cut the graph.
fn before(graph: &Graph, at: ValueId) -> Result<Vec<bool>, String> {
    let (nodes, value) = (graph.nodes(), graph.value(at));
    let ValueSource::Node(last) = value.source else {
        return Err("no node computes it".to_owned());
    };
    if graph.outputs().contains(&at) {
        return Err("it is a result of the model".to_owned());
    }
    if value.tensor.is_none() {
        return Err("its shape is not known".to_owned());
    }
    let provider = |id: ValueId| match graph.value(id).source {
        ValueSource::Node(index) => Some(index as usize),
        _ => None,
    };
    let mut before = vec![false; nodes.len()];
    before[last as usize] = true;
    for index in (0..=last as usize).rev() {
        if before[index] {
            nodes[index]
                .inputs
                .iter()
                .filter_map(|&id| provider(id))
                .for_each(|needed| before[needed] = true);
        }
    }
    for (node, _) in nodes.iter().zip(&before).filter(|(_, before)| !**before) {
        let goes_around = |&&id: &&ValueId| {
            id != at
                && (graph.inputs().contains(&id) || provider(id).is_some_and(|index| before[index]))
        };
        if let Some(&id) = node.inputs.iter().find(goes_around) {
            return Err(format!(
                "node `{}` behind it needs `{}` as well",
                node.name,
                graph.value(id).name
            ));
        }
    }
    match graph.outputs().iter().find(|&&id| provider(id).is_none_or(|index| before[index])) {
        Some(&id) => Err(format!("the result `{}` is there before it", graph.value(id).name)),
        None => Ok(before),
    }
}

/// Indices of rising amounts that are nearest to equal shares of a total.
fn evenly(before: &[u64], total: u64, count: usize) -> Vec<usize> {
    let mut chosen = Vec::with_capacity(count);
    let mut from = 0;
    for k in 1..=count {
        let target =
            u64::try_from(u128::from(total) * k as u128 / (count as u128 + 1)).unwrap_or(u64::MAX);
        let choices = from..(before.len() + k).saturating_sub(count);
        let Some(nearest) = choices.min_by_key(|&index| before[index].abs_diff(target)) else {
            break;
        };
        chosen.push(nearest);
        from = nearest + 1;
    }
    chosen
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use vitempo_graph::{Attributes, GraphBuilder, OpKind};

    /// A first layer, two blocks y = y + linear(relu(y)) with this number of hidden features, and a
    /// last layer.
    pub(crate) fn blocks(name: &str, hidden: usize) -> Graph {
        let mut builder = GraphBuilder::new(name);
        let x = builder.input("x", TensorSpec::f32([2, 8]));
        let product = |builder: &mut GraphBuilder, name: &str, x, from: usize, to: usize| {
            let w = builder.weight(format!("{name}.w"), TensorSpec::f32([from, to]));
            builder.op(name, OpKind::Linear, Attributes::new(), &[x, w]).expect("a product")
        };
        let mut y = product(&mut builder, "stem", x, 8, 8);
        for block in ["one", "two"] {
            let wide = product(&mut builder, &format!("{block}.wide"), y, 8, hidden);
            let relu = builder
                .op(&format!("{block}.relu"), OpKind::Relu, Attributes::new(), &[wide])
                .expect("an activation");
            let narrow = product(&mut builder, &format!("{block}.narrow"), relu, hidden, 8);
            y = builder
                .op(&format!("{block}.sum"), OpKind::Add, Attributes::new(), &[y, narrow])
                .expect("a sum");
        }
        let head = product(&mut builder, "head", y, 8, 4);
        builder.finish(vec![head]).expect("a graph")
    }

    #[test]
    fn a_model_is_cut_where_nothing_goes_around() {
        let names: Vec<String> =
            places(&blocks("m", 16)).into_iter().map(|place| place.name).collect();
        assert_eq!(names, ["stem_out", "one.sum_out", "two.sum_out"]);
        let message = |cut: &str| {
            subgraphs(&blocks("m", 16), &[cut.to_owned()])
                .map_or_else(|e| e.to_string(), |_| String::new())
        };
        assert_eq!(
            message("one.relu_out"),
            "`m` cannot be cut at `one.relu_out`: node `one.sum` behind it needs `stem_out` as well"
        );
        assert_eq!(message("x"), "`m` cannot be cut at `x`: no node computes it");
        assert_eq!(
            message("head_out"),
            "`m` cannot be cut at `head_out`: it is a result of the model"
        );
        assert_eq!(message("nope"), "`m` has no tensor `nope`");
        let backwards =
            subgraphs(&blocks("m", 16), &["two.sum_out".to_owned(), "one.sum_out".to_owned()]);
        assert!(backwards.is_err_and(|e| e.to_string().contains("no node is in the part")));
    }

    #[test]
    fn work_is_shared_out_evenly() {
        assert_eq!(
            shared(&[&blocks("m", 16)], 3).ok(),
            Some(vec!["one.sum_out".to_owned(), "two.sum_out".to_owned()])
        );
        assert_eq!(evenly(&[10, 48, 52, 90], 100, 1), [1]);
        assert_eq!(evenly(&[10, 48, 52, 90], 100, 3), [0, 1, 3]);
        assert_eq!(evenly(&[1, 2, 3], 300, 2), [1, 2]);
        assert_eq!(evenly(&[], 100, 1), [0usize; 0]);
    }

    #[test]
    fn subgraphs_make_up_the_model() {
        let cuts = shared(&[&blocks("m", 16), &blocks("n", 24)], 2).expect("a cut");
        assert_eq!(cuts, ["one.sum_out"]);
        let cut = subgraphs(&blocks("n", 24), &cuts).expect("two subgraphs");
        let [first, second] = &cut[..] else { panic!("{} subgraphs", cut.len()) };
        assert_eq!((first.nodes().len(), second.nodes().len()), (5, 5));
        assert_eq!(second.value(second.inputs()[0]).name, "one.sum_out");
    }

    #[test]
    fn variants_that_differ_at_a_tensor_are_not_cut_there() {
        let chain = |name: &str, wide: usize| {
            let mut builder = GraphBuilder::new(name);
            let x = builder.input("x", TensorSpec::f32([2, 8]));
            let (a, b) = (
                builder.weight("a.w", TensorSpec::f32([8, wide])),
                builder.weight("b.w", TensorSpec::f32([wide, 8])),
            );
            let a = builder.op("a", OpKind::Linear, Attributes::new(), &[x, a]).expect("a product");
            let b = builder.op("b", OpKind::Linear, Attributes::new(), &[a, b]).expect("a product");
            builder.finish(vec![b]).expect("a graph")
        };
        let refused = shared(&[&chain("dense", 16), &chain("slim", 12)], 2)
            .map_or_else(|e| e.to_string(), |cuts| cuts.join(" "));
        assert_eq!(
            refused,
            "0 tensors cut all variants alike, 2 subgraphs need 1; `a_out` is 2x16 f32 in \
            `dense`, 2x12 f32 in `slim`"
        );
        assert_eq!(
            shared(&[&chain("dense", 16), &chain("copy", 16)], 2).ok(),
            Some(vec!["a_out".to_owned()])
        );
    }
}
