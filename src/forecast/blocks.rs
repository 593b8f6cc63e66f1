//! [`Block`]: the kernels of a forecast as a tree by the paths in their names, such as
//! `/blocks/blocks.0/attn/qkv/MatMul`.

use super::ModelForecast;
use foldhash::HashMap;
use vitempo_graph::Latency;

/// What separates the parts of a name.
const SEPARATOR: char = '/';
/// Most parts of a name: names are read from files.
const DEEPEST: usize = 64;
/// Place of the whole model.
const ROOT: usize = 0;

/// A part of a model, with the kernels in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Its name within the block around it; empty for the whole model. Blocks that hold nothing but
    /// one other block are joined with it: `blocks/blocks.0`.
    pub name: String,
    /// How many kernels it has.
    pub count: usize,
    /// What they take together.
    pub latency: Latency,
    /// The blocks in it, in the order in which the model runs them; none in one kernel.
    pub children: Vec<Block>,
}

impl Block {
    /// The tree of kernels with these names. A kernel whose name has no path lies in the root.
    pub fn of<'a>(kernels: impl IntoIterator<Item = (&'a str, Latency)>) -> Self {
        let mut tree = Tree {
            blocks: vec![Self::default()],
            inside: vec![Vec::new()],
            places: HashMap::default(),
        };
        for (name, latency) in kernels {
            let mut at = ROOT;
            tree.blocks[at].add(latency);
            for part in parts(name) {
                at = tree.child(at, part);
                tree.blocks[at].add(latency);
            }
        }
        tree.grown(ROOT)
    }

    fn add(&mut self, latency: Latency) {
        self.count += 1;
        self.latency = self.latency + latency;
    }
}

/// The parts of a name; what lies deeper than [`DEEPEST`] is one part.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    let parts = name.trim_start_matches(SEPARATOR).splitn(DEEPEST, SEPARATOR);
    parts.filter(|part| !part.is_empty())
}

/// Blocks while kernels are added.
struct Tree<'a> {
    blocks: Vec<Block>,
    /// For each block the places of those in it.
    inside: Vec<Vec<usize>>,
    /// Places by the block around and the name.
    places: HashMap<(usize, &'a str), usize>,
}

impl<'a> Tree<'a> {
    /// The place of the block of this name, a new one at the end where there is none.
    fn child(&mut self, parent: usize, name: &'a str) -> usize {
        let new = self.blocks.len();
        let place = *self.places.entry((parent, name)).or_insert(new);
        if place == new {
            self.blocks.push(Block { name: name.to_owned(), ..Block::default() });
            self.inside.push(Vec::new());
            self.inside[parent].push(new);
        }
        place
    }

    /// A block with those in it; at most [`DEEPEST`] calls deep.
    fn grown(&mut self, place: usize) -> Block {
        let inside = std::mem::take(&mut self.inside[place]);
        let mut block = std::mem::take(&mut self.blocks[place]);
        block.children = inside.into_iter().map(|child| self.grown(child)).collect();
        let is_joined =
            place != ROOT && matches!(&block.children[..], [only] if only.count == block.count);
        if let Some(only) = block.children.pop_if(|_| is_joined) {
            block.name = format!("{}{SEPARATOR}{}", block.name, only.name);
            block.children = only.children;
        }
        block
    }
}

impl ModelForecast {
    /// Its kernels by the parts of the model. The overhead of the whole model is in no part.
    #[must_use]
    pub fn blocks(&self) -> Block {
        let operators = &self.prediction.operators;
        Block::of(operators.iter().map(|operator| (operator.name.as_str(), operator.latency_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(kernels: &[(&str, f64)]) -> Block {
        Block::of(kernels.iter().map(|&(name, ns)| (name, Latency::from_ns(ns))))
    }

    fn shown(block: &Block) -> String {
        let children: Vec<String> = block.children.iter().map(shown).collect();
        let inside =
            if children.is_empty() { String::new() } else { format!("({})", children.join(" ")) };
        format!("{}:{}:{}{inside}", block.name, block.count, block.latency.ns())
    }

    #[test]
    fn kernels_are_grouped_by_their_paths_in_the_order_of_the_model() {
        let found = tree(&[
            ("/stem/Conv", 1.0),
            ("/blocks/blocks.0/mlp/fc1", 2.0),
            ("/blocks/blocks.0/mlp/fc2", 4.0),
            ("reorder", 8.0),
            ("/blocks/blocks.0/norm", 16.0),
            ("reorder", 32.0),
        ]);
        assert_eq!(
            shown(&found),
            ":6:63(stem/Conv:1:1 blocks/blocks.0:3:22(mlp:2:6(fc1:1:2 fc2:1:4) norm:1:16) \
             reorder:2:40)"
        );
    }

    #[test]
    fn a_kernel_whose_name_is_the_path_of_others_stays_a_block_of_its_own() {
        assert_eq!(shown(&tree(&[("/a", 1.0), ("/a/b", 2.0)])), ":2:3(a:2:3(b:1:2))");
        assert_eq!(shown(&tree(&[])), ":0:0");
        assert_eq!(shown(&tree(&[("//", 1.0)])), ":1:1");
        let deep: Vec<String> = (1..1000).map(|depth| "/x".repeat(depth)).collect();
        let found = Block::of(deep.iter().map(|name| (name.as_str(), Latency::from_ns(1.0))));
        assert_eq!(found.count, 999);
        let depth = std::iter::successors(Some(&found), |block| block.children.first()).count();
        assert_eq!(depth, DEEPEST + 1);
    }
}
