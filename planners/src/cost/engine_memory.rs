//! [`EngineMemory`]: what an engine takes for a model, divided into what it takes once and what each
//! node adds.

use super::{CostError, Costs};
use serde::{Deserialize, Serialize};

/// Memory that the engine of one processor takes, bytes.
///
/// What runs there takes `once_bytes`, whatever part of the model it is: the engine itself, and the
/// activations of the whole model, of which a part has no more. Each node adds its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineMemory {
    /// Where anything runs.
    pub once_bytes: u64,
    /// Of each node, in the order of the costs; above 0.
    pub nodes_bytes: Vec<u64>,
}

impl Costs {
    /// The same costs with the memory that a processor's engine takes, in place of the weights
    /// alone.
    ///
    /// # Errors
    /// [`CostError::Processor`] where there is no such processor, or it is not one number per node;
    /// [`CostError::Node`] for a node without memory.
    pub fn with_engine_memory(
        mut self,
        processor: usize,
        memory: EngineMemory,
    ) -> Result<Self, CostError> {
        if let Some((node, _)) = self.nodes.iter().zip(&memory.nodes_bytes).find(|(_, b)| **b == 0)
        {
            let reason = "its memory is 0; an engine takes some for every node".to_owned();
            return Err(CostError::Node { node: node.name.clone(), reason });
        }
        let (given, nodes) = (memory.nodes_bytes.len(), self.nodes.len());
        let name = self.processors.get(processor).map(|p| p.name.clone());
        let reason = match &name {
            None => "there is no such processor".to_owned(),
            Some(_) if given != nodes => format!("memory of {given} nodes; there are {nodes}"),
            Some(_) => {
                self.engine_memory.insert(processor, memory);
                return Ok(self);
            }
        };
        let processor = name.unwrap_or_else(|| processor.to_string());
        Err(CostError::Processor { processor, reason })
    }

    /// The memory that the engine of a processor takes, where it is known.
    #[must_use]
    pub fn engine_memory(&self, processor: usize) -> Option<&EngineMemory> {
        self.engine_memory.get(&processor)
    }

    /// Memory that a node adds on a processor, bytes: what the engine takes for it, or its weights
    /// where that is not known.
    #[must_use]
    pub fn node_memory_bytes(&self, node: usize, processor: usize) -> u64 {
        let known = self.engine_memory(processor).and_then(|m| m.nodes_bytes.get(node));
        known.copied().unwrap_or_else(|| self.nodes[node].memory_bytes)
    }

    /// Memory of these nodes on a processor, bytes; 0 of none.
    #[must_use]
    pub fn memory_bytes(&self, processor: usize, nodes: impl IntoIterator<Item = usize>) -> u64 {
        let mut nodes = nodes.into_iter().peekable();
        let once = nodes.peek().and(self.engine_memory(processor)).map_or(0, |m| m.once_bytes);
        nodes.fold(once, |sum, node| sum.saturating_add(self.node_memory_bytes(node, processor)))
    }

    /// Memory that nodes on a processor may add within a limit, bytes: what the engine takes once
    /// comes first.
    #[must_use]
    pub fn room_bytes(&self, processor: usize, limit: u64) -> u64 {
        limit.saturating_sub(self.engine_memory(processor).map_or(0, |m| m.once_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::CostsFile;

    #[test]
    fn an_engine_takes_some_memory_once() {
        let file = r#"{"model": "m", "processors": [{"name": "a"}, {"name": "b"}],
            "nodes": [{"name": "x", "latency_ns": {"a": 5}, "memory_bytes": 3},
                {"name": "y", "latency_ns": {"a": 5}, "memory_bytes": 4}],
            "tensors": []}"#;
        let costs = serde_json::from_str::<CostsFile>(file).expect("costs").check();
        let costs = costs.expect("valid costs");
        assert_eq!((costs.memory_bytes(0, 0..2), costs.room_bytes(0, 10)), (7, 10));
        let memory = EngineMemory { once_bytes: 100, nodes_bytes: vec![10, 20] };
        let known = costs.clone().with_engine_memory(0, memory.clone()).expect("two nodes");
        assert_eq!((known.memory_bytes(0, 0..2), known.memory_bytes(0, 1..2)), (130, 120));
        assert_eq!((known.memory_bytes(0, []), known.memory_bytes(1, 0..2)), (0, 7));
        assert_eq!((known.room_bytes(0, 130), known.room_bytes(0, 30)), (30, 0));
        let again = CostsFile::from(&known);
        let text = serde_json::to_string(&again).expect("JSON");
        let back = serde_json::from_str::<CostsFile>(&text).expect("costs").check();
        assert_eq!(back.expect("valid costs"), known);
        let short = EngineMemory { once_bytes: 0, nodes_bytes: vec![1] };
        let refused = costs.clone().with_engine_memory(0, short).expect_err("one node");
        assert!(refused.to_string().contains("memory of 1 nodes"), "{refused}");
        assert!(costs.clone().with_engine_memory(2, memory).is_err());
        let nothing = EngineMemory { once_bytes: 0, nodes_bytes: vec![1, 0] };
        let refused = costs.with_engine_memory(0, nothing).expect_err("a node without memory");
        assert!(refused.to_string().contains("node `y`"), "{refused}");
    }
}
