//! Finds where a model's encoder ends: the part that its tasks share, the decoders behind it, and
//! the postprocessing of what they predict.

use super::multitask::{ModelInputs, MultiTask, TransferTimes};
use crate::{
    cost::{CostError, Costs, Interval},
    energy::Running,
};
use flow::{Flow, components, encoder, postprocessing, task_name};
use std::collections::{BTreeMap, BTreeSet};
use vitempo_graph::Graph;

mod flow;

/// A model as one encoder and decoders that share nothing, some with postprocessing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tasks {
    /// For every node its part: 0 is the encoder, then come the decoders, then postprocessing.
    pub part_of: Vec<usize>,
    /// Names of the parts: `encoder`, then the outputs of the decoders, then these again with
    /// `postprocessing`.
    pub names: Vec<String>,
    /// The decoder of each postprocessing, rising.
    pub postprocessing: Vec<usize>,
}

/// Where a model's parts end, by the names of its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Boundaries<'a> {
    /// Prefix of nodes that are the encoder, with all nodes that they need; without it the nodes
    /// that lead to several outputs.
    pub encoder: Option<&'a str>,
    /// Prefix of nodes that are postprocessing, with all nodes that need them; without it there is
    /// none.
    pub postprocessing: Option<&'a str>,
}

/// Why a model has no encoder and decoders.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TasksError {
    /// The outputs do not determine where the encoder ends.
    #[error(
        "model `{model}` has one output: say where its encoder ends, by the beginning of its \
        nodes' names (names begin with {prefixes})"
    )]
    OneOutput {
        /// Name of the model.
        model: String,
        /// Prefixes of its nodes' names.
        prefixes: String,
    },
    /// No node's name has the prefix.
    #[error("model `{model}`: no node's name begins with `{prefix}`; names begin with {prefixes}")]
    NoSuchNode {
        /// Name of the model.
        model: String,
        /// The prefix.
        prefix: String,
        /// Prefixes of its nodes' names.
        prefixes: String,
    },
    /// The encoder is the whole model.
    #[error("model `{model}`: nothing is left for a decoder")]
    NoDecoder {
        /// Name of the model.
        model: String,
    },
    /// Postprocessing is not behind a decoder alone.
    #[error(
        "model `{model}`: node `{node}` is postprocessing, and {reason}; postprocessing begins \
        behind a decoder and reads nothing else"
    )]
    Postprocessing {
        /// Name of the model.
        model: String,
        /// Name of the node.
        node: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// No node is common to all outputs.
    #[error("model `{model}`: its outputs share no node, so there is no encoder")]
    NoEncoder {
        /// Name of the model.
        model: String,
    },
}

impl Tasks {
    /// Finds the encoder. The connected components of the other nodes are the decoders, each with
    /// its postprocessing.
    ///
    /// # Errors
    /// [`TasksError`] when encoder or decoders would be empty, or when postprocessing reads other
    /// than a decoder's predictions.
    pub fn of(graph: &Graph, boundaries: Boundaries<'_>) -> Result<Self, TasksError> {
        Self::of_flow(&Flow::of_graph(graph), boundaries)
    }

    /// The same for costs, by the names of their nodes.
    ///
    /// # Errors
    /// As [`Tasks::of`].
    pub fn of_costs(costs: &Costs, boundaries: Boundaries<'_>) -> Result<Self, TasksError> {
        Self::of_flow(&Flow::of_costs(costs), boundaries)
    }

    /// Number of decoders.
    #[must_use]
    pub fn decoders(&self) -> usize {
        self.names.len().saturating_sub(1 + self.postprocessing.len())
    }

    /// The costs of these parts: the cost of a part is the sum over its nodes, and it runs where
    /// all of them run; a transfer takes the time of the links, for all tensors of the encoder that
    /// decoders read. Inputs of the model arrive on the first processor.
    ///
    /// # Errors
    /// [`CostError::Node`] for a node with a constraint that placements of parts cannot satisfy.
    pub fn costs(&self, costs: &Costs) -> Result<MultiTask, CostError> {
        if let Some(tensor) = costs.tensors().iter().find(|t| t.confined) {
            let node = tensor.producer.or(tensor.consumers.first().copied()).unwrap_or(0);
            return Err(CostError::Node {
                node: costs.nodes()[node].name.clone(),
                reason: format!(
                    "tensor `{}` is confined, which placements of parts do not keep; leave it out",
                    tensor.name
                ),
            });
        }
        if let Some(processor) = costs.processors().iter().find(|p| p.memory_bytes.is_some()) {
            return Err(CostError::Processor {
                processor: processor.name.clone(),
                reason: "memory_bytes is not kept by placements of parts; leave it out".to_owned(),
            });
        }
        self.check_together(costs)?;
        let features = self.sent(costs, 0);
        let mut model = MultiTask::of_tasks(costs.model(), self);
        model.features_bytes = features.iter().sum();
        let processors = 0..costs.processors().len();
        for processor in processors.clone() {
            let latency = |part: usize| -> Option<Interval> {
                let nodes = costs.nodes().iter().enumerate();
                let own = nodes.filter(|(node, _)| self.part_of[*node] == part);
                own.map(|(_, node)| node.latency_ns[processor]).sum()
            };
            let latencies: Vec<Option<Interval>> = (0..self.names.len()).map(latency).collect();
            model.add_processor(&costs.processors()[processor].name, &latencies, &|_| None);
        }
        model.hand_over_ns = transfers(costs, &features);
        for after in &mut model.postprocessing {
            let prediction = self.sent(costs, 1 + after.decoder);
            after.prediction_bytes = prediction.iter().sum();
            after.hand_over_ns = transfers(costs, &prediction);
        }
        model.inputs = self.inputs(costs);
        Ok(model)
    }

    /// What runs, with the names of the costs' nodes in place of the parts' names.
    #[must_use]
    pub fn with_nodes(&self, mut running: Running, costs: &Costs) -> Running {
        for (part, stage) in running.stages.iter_mut().enumerate() {
            let nodes = costs.nodes().iter().zip(&self.part_of);
            stage.nodes =
                nodes.filter(|(_, of)| **of == part).map(|(node, _)| node.name.clone()).collect();
        }
        running
    }

    /// Refuses nodes of several parts that stay together.
    fn check_together(&self, costs: &Costs) -> Result<(), CostError> {
        for group in costs.together() {
            let differs = |pair: &&[usize]| self.part_of[pair[0]] != self.part_of[pair[1]];
            let Some(&[first, second]) = group.windows(2).find(differs) else { continue };
            let part = |node: usize| &self.names[self.part_of[node]];
            return Err(CostError::Node {
                node: costs.nodes()[first].name.clone(),
                reason: format!(
                    "it stays together with `{}`, which is in another part (`{}`, `{}`): \
                    placements of parts do not keep that; leave the group out",
                    costs.nodes()[second].name,
                    part(first),
                    part(second)
                ),
            });
        }
        Ok(())
    }

    /// The model's inputs, by the parts that read them.
    fn inputs(&self, costs: &Costs) -> Vec<ModelInputs> {
        let mut sizes: BTreeMap<Vec<usize>, Vec<u64>> = BTreeMap::new();
        for tensor in costs.tensors().iter().filter(|tensor| tensor.producer.is_none()) {
            let readers: BTreeSet<usize> =
                tensor.consumers.iter().map(|&node| self.part_of[node]).collect();
            if !readers.is_empty() {
                sizes.entry(readers.into_iter().collect()).or_default().push(tensor.size_bytes);
            }
        }
        let inputs = |(readers, sizes): (Vec<usize>, Vec<u64>)| ModelInputs {
            readers,
            size_bytes: sizes.iter().sum(),
            arrival_ns: transfers(costs, &sizes).swap_remove(0),
        };
        sizes.into_iter().map(inputs).collect()
    }

    /// Sizes of the tensors of a part that other parts read, bytes.
    fn sent(&self, costs: &Costs, part: usize) -> Vec<u64> {
        let of = |node: usize| self.part_of[node];
        let is_sent = |producer: usize, consumers: &[usize]| {
            of(producer) == part && consumers.iter().any(|&node| of(node) != part)
        };
        let tensors = costs.tensors().iter();
        let sent = tensors.filter(|t| t.producer.is_some_and(|node| is_sent(node, &t.consumers)));
        sent.map(|t| t.size_bytes).collect()
    }

    fn of_flow(flow: &Flow<'_>, boundaries: Boundaries<'_>) -> Result<Self, TasksError> {
        let shared = encoder(flow, boundaries.encoder)?;
        let after = postprocessing(flow, &shared, boundaries.postprocessing)?;
        let roots = components(flow, &shared);
        let order: Vec<usize> =
            (0..roots.len()).filter(|&node| !shared[node] && roots[node] == node).collect();
        if order.is_empty() {
            return Err(TasksError::NoDecoder { model: flow.model.to_owned() });
        }
        let decoder = |node: usize| order.partition_point(|&root| root < roots[node]);
        let nodes = 0..roots.len();
        let with: BTreeSet<usize> = nodes.clone().filter(|&n| after[n]).map(decoder).collect();
        let with: Vec<usize> = with.into_iter().collect();
        let part = |node: usize| match (shared[node], after[node]) {
            (true, _) => 0,
            (false, false) => 1 + decoder(node),
            (false, true) => 1 + order.len() + with.partition_point(|&d| d < decoder(node)),
        };
        let task = |decoder: usize| {
            let own = |node: usize| !shared[node] && roots[node] == order[decoder];
            task_name(flow, own, decoder, order.len())
        };
        let tasks: Vec<String> = (0..order.len()).map(task).collect();
        let after = with.iter().map(|&decoder| format!("{} postprocessing", tasks[decoder]));
        let names = std::iter::once("encoder".to_owned()).chain(tasks.iter().cloned()).chain(after);
        Ok(Self {
            part_of: nodes.map(part).collect(),
            names: names.collect(),
            postprocessing: with,
        })
    }

    /// The names, as [`crate::parts()`] takes them.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
}

/// Times of transferring these tensors between processors.
fn transfers(costs: &Costs, sizes: &[u64]) -> TransferTimes {
    let time = |from: usize, to: usize| -> Option<Interval> {
        if from == to {
            return Some(Interval::ZERO);
        }
        let link = costs.link(from, to)?;
        let sum: Option<Interval> = sizes.iter().map(|&bytes| link.transfer_ns(bytes)).sum();
        sum.map(|ns| ns + Interval::exact(link.setup_ns))
    };
    let processors = 0..costs.processors().len();
    processors.clone().map(|from| processors.clone().map(|to| time(from, to)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::multitask::Execution, *};
    use vitempo_graph::{GraphBuilder, OpKind, TensorSpec};

    /// x -> /encoder/a -> /encoder/b -> (/left/c -> /left/d), (/right/e); `b` is an output as well
    /// if it is in `outputs`.
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

    fn encoder(prefix: &str) -> Boundaries<'_> {
        Boundaries { encoder: Some(prefix), postprocessing: None }
    }

    #[test]
    fn what_outputs_share_is_the_encoder() {
        let tasks =
            Tasks::of(&graph(&["/left/d", "/right/e"]), Boundaries::default()).expect("tasks");
        assert_eq!(tasks.part_of, [0, 0, 1, 2, 1]);
        assert_eq!(tasks.names(), ["encoder", "/left/d_out", "/right/e_out"]);
        let early =
            Tasks::of(&graph(&["/left/d", "/encoder/a"]), Boundaries::default()).expect("tasks");
        assert_eq!((early.part_of, early.names.len()), (vec![0, 1, 1, 1, 1], 2));
    }

    #[test]
    fn a_prefix_says_where_the_encoder_ends() {
        let one = graph(&["/left/d"]);
        let tasks = Tasks::of(&one, encoder("/encoder")).expect("tasks");
        assert_eq!(
            (tasks.part_of, tasks.names),
            (
                vec![0, 0, 1, 2, 1],
                vec!["encoder".to_owned(), "/left/d_out".to_owned(), "decoder 2".to_owned()]
            )
        );
        let deep = Tasks::of(&one, encoder("/left/c")).expect("tasks");
        assert_eq!(deep.part_of, [0, 0, 0, 1, 2]);
    }

    #[test]
    fn postprocessing_is_behind_a_decoder_and_reads_nothing_else() {
        let of = |graph: &Graph, postprocessing| {
            let boundaries = Boundaries { postprocessing: Some(postprocessing), encoder: None };
            Tasks::of(graph, boundaries)
        };
        let two = graph(&["/left/d", "/right/e"]);
        let tasks = of(&two, "/left/d").expect("tasks");
        assert_eq!(tasks.part_of, [0, 0, 1, 2, 3]);
        assert_eq!(
            tasks.names(),
            ["encoder", "/left/d_out", "/right/e_out", "/left/d_out postprocessing"]
        );
        assert_eq!((tasks.decoders(), tasks.postprocessing), (2, vec![0]));
        let refused =
            |prefix| of(&two, prefix).map_or_else(|e| e.to_string(), |t| format!("{t:?}"));
        assert!(
            refused("/right/e").contains("`/right/e` is postprocessing, and reads the encoder")
        );
        assert!(refused("/encoder/b").contains("the encoder needs it"));
        assert!(refused("/middle").contains("no node's name begins with `/middle`"));
    }

    #[test]
    fn costs_are_divided_as_graphs_are_and_add_up() {
        let graph = graph(&["/left/d", "/right/e"]);
        let processors = ["a", "b"].map(crate::cost::ProcessorCosts::named).to_vec();
        let link = crate::cost::Link { setup_ns: 3, ..crate::cost::Link::of_bandwidth(1 << 30) };
        let links = BTreeMap::from([((0, 1), link)]);
        let latency =
            |node: usize, p: usize| Some(Interval::exact((node as u64 + 1) * 10u64.pow(p as u32)));
        let costs = Costs::of_graph(&graph, processors, links, latency, Vec::new()).expect("costs");
        let tasks = Tasks::of_costs(&costs, Boundaries::default()).expect("tasks");
        assert_eq!(tasks, Tasks::of(&graph, Boundaries::default()).expect("tasks"));
        let model = tasks.costs(&costs).expect("costs of parts");
        let ns = |part: &super::super::multitask::Part| -> Vec<u64> {
            part.latency_ns.iter().flatten().map(|ns| ns.point()).collect()
        };
        assert_eq!(ns(&model.encoder), [1 + 2, 10 + 20]);
        assert_eq!(model.decoders.iter().map(ns).collect::<Vec<_>>(), [[3 + 5, 80], [4, 40]]);
        assert_eq!(model.features_bytes, 16);
        let there = model.hand_over_ns[0][1].map(|ns| ns.point());
        assert_eq!((there, model.hand_over_ns[1][0]), (Some(15 + 3), None));
        let [input] = &model.inputs[..] else { panic!("{:?}", model.inputs) };
        let arrival: Vec<Option<u64>> =
            input.arrival_ns.iter().map(|ns| ns.map(|ns| ns.point())).collect();
        assert_eq!(
            (&input.readers[..], input.size_bytes, &arrival[..]),
            (&[0][..], 16, &[Some(0), Some(15 + 3)][..])
        );
        let schedule = model.schedule(&[1, 1, 1], Execution::Sequential).expect("a placement");
        let running = tasks.with_nodes(model.running(&schedule), &costs);
        let nodes: Vec<&[String]> = running.stages.iter().map(|s| s.nodes.as_slice()).collect();
        assert_eq!(
            nodes,
            [&["/encoder/a", "/encoder/b"][..], &["/left/c", "/left/d"], &["/right/e"]]
        );
        // From the other processor there is no link to the first, where inputs arrive.
        let links = BTreeMap::from([((1, 0), link)]);
        let processors = costs.processors().to_vec();
        let back = Costs::of_graph(&graph, processors, links, latency, Vec::new()).expect("costs");
        let back = tasks.costs(&back).expect("costs of parts");
        assert_eq!(back.schedule(&[1, 1, 1], Execution::Sequential), None);
        assert!(back.schedule(&[0, 0, 0], Execution::Sequential).is_some());
        let mut apart = crate::cost::CostsFile::from(&costs);
        apart.together = vec![vec!["/encoder/b".to_owned(), "/right/e".to_owned()]];
        let refused = tasks.costs(&apart.check().expect("costs")).map_err(|e| e.to_string());
        assert!(refused.is_err_and(|e| {
            e.contains("node `/encoder/b`: it stays together with `/right/e`")
        }));
        let confined = crate::cost::CostsFile::from(&costs);
        let confined = crate::cost::CostsFile {
            tensors: confined
                .tensors
                .into_iter()
                .map(|t| crate::cost::TensorEntry { confined: t.name == "x", ..t })
                .collect(),
            ..confined
        };
        let refused = tasks.costs(&confined.check().expect("costs")).map_err(|e| e.to_string());
        assert!(refused.is_err_and(|e| e.contains("tensor `x` is confined")));
    }

    #[test]
    fn what_has_no_encoder_is_told_how_names_begin() {
        let message = |graph: &Graph, encoder| {
            let boundaries = Boundaries { encoder, ..Boundaries::default() };
            Tasks::of(graph, boundaries).map_or_else(|e| e.to_string(), |_| "divided".to_owned())
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
