//! Groups of elementwise operators that one kernel can run: connected, nothing outside of a group
//! between its members, and no more tensors than a kernel has pointers for.
//!
//! Producers come first; each operator joins the groups of those that it reads, one after the
//! other. A group stores what it reads and writes, so that joining looks at borders and not at
//! members.

use super::pattern::is_elementwise;
use crate::{
    OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use foldhash::{HashMap, HashSet};
use smallvec::SmallVec;

/// Most tensors a kernel reads and writes, and buffers it needs: the pointers its code has
/// registers for.
const MOST_POINTERS: usize = 11;
/// Most dimensions of a tensor in such a kernel.
const MOST_DIMENSIONS: usize = 6;

/// Values, and how often each is read: inside of the group, or outside of it.
type Border = SmallVec<[(ValueId, usize); 4]>;

/// Connected operators.
#[derive(Debug, Default)]
struct Group {
    members: Vec<NodeIndex>,
    /// Inputs of members from outside, without single numbers. Their producers depend on no member.
    reads: Border,
    /// What members provide that is read outside, or that the caller gets.
    writes: Border,
    /// Place of the first member in the order of all operators.
    first: usize,
    /// Operators outside that are known to depend on a member.
    dependent: HashSet<NodeIndex>,
}

/// Whether snippets have code for it.
fn is_supported(graph: &Rewriter, index: NodeIndex) -> bool {
    use OpKind as K;
    let Some(node) = graph.node(index) else { return false };
    let known = is_elementwise(&node.op.kind)
        && !matches!(
            node.op.kind,
            K::Softplus
                | K::HardSigmoid
                | K::Log
                | K::Sin
                | K::Cos
                | K::Mod
                | K::PRelu
                | K::LeakyRelu
        );
    known
        && node.inputs.iter().chain(&node.outputs).all(|&v| {
            graph.tensor(v).is_some_and(|t| t.precision.is_float() && t.rank() <= MOST_DIMENSIONS)
        })
}

/// Whether a value is a constant of one element, which code holds.
pub(super) fn is_number(graph: &Rewriter, value: ValueId) -> bool {
    graph.is_constant(value) && graph.shape(value).iter().all(|&d| d == 1)
}

/// Groups of operators, each in topological order.
pub(super) fn groups(graph: &Rewriter) -> Vec<Vec<NodeIndex>> {
    let order = graph.order();
    let mut places = vec![0; order.iter().max().map_or(0, |last| last + 1)];
    order.iter().enumerate().for_each(|(place, &index)| places[index] = place);
    let mut grouping = Grouping {
        graph,
        places,
        group_of: HashMap::default(),
        groups: Vec::new(),
        joined: vec![],
    };
    for &index in order.iter().filter(|&&index| is_supported(graph, index)) {
        grouping.visit(index);
    }
    grouping.members()
}

struct Grouping<'a> {
    graph: &'a Rewriter,
    /// Place of each operator in the order of all.
    places: Vec<usize>,
    group_of: HashMap<NodeIndex, usize>,
    groups: Vec<Group>,
    /// For each group, the one that it was joined to, or itself.
    joined: Vec<usize>,
}

impl Grouping<'_> {
    fn members(self) -> Vec<Vec<NodeIndex>> {
        let places = self.places;
        let sorted = |mut members: Vec<NodeIndex>| {
            members.sort_unstable_by_key(|&m| places[m]);
            members
        };
        let groups = self.groups.into_iter().map(|group| group.members);
        groups.filter(|members| !members.is_empty()).map(sorted).collect()
    }

    fn visit(&mut self, index: NodeIndex) {
        let own = self.groups.len();
        self.joined.push(own);
        self.group_of.insert(index, own);
        let (group, inputs) = (self.alone(index), self.inputs(index));
        let joinable = group.reads.len() <= 2 * MOST_POINTERS;
        self.groups.push(group);
        let mut refused: SmallVec<[usize; 4]> = SmallVec::new();
        for input in inputs.into_iter().filter(|_| joinable) {
            let Some(&before) = self.graph.producer(input).and_then(|p| self.group_of.get(&p))
            else {
                continue;
            };
            let before = self.current(before);
            if before == own || refused.contains(&before) {
                continue;
            }
            if self.fits(own, before) {
                self.join(own, before);
                refused.clear();
            } else {
                refused.push(before);
            }
        }
    }

    fn inputs(&self, index: NodeIndex) -> Vec<ValueId> {
        self.graph.node(index).map(|n| n.inputs.clone()).unwrap_or_default()
    }

    /// The group of an operator before it joins any. An operator with too many inputs to be joined
    /// is skipped.
    fn alone(&self, index: NodeIndex) -> Group {
        let mut reads = Border::new();
        for input in self.inputs(index).into_iter().filter(|&v| !is_number(self.graph, v)) {
            add(&mut reads, input, 1);
            if reads.len() > 2 * MOST_POINTERS {
                break;
            }
        }
        let outputs = self.graph.node(index).map(|n| n.outputs.as_slice()).unwrap_or_default();
        let writes = outputs
            .iter()
            .map(|&output| (output, self.graph.uses(output)))
            .filter(|&(_, uses)| uses > 0)
            .collect();
        let (members, first) = (vec![index], self.places[index]);
        Group { members, reads, writes, first, dependent: HashSet::default() }
    }

    /// The group that one has become part of.
    fn current(&mut self, group: usize) -> usize {
        let mut end = group;
        while self.joined[end] != end {
            end = self.joined[end];
        }
        let mut at = group;
        while self.joined[at] != end {
            at = std::mem::replace(&mut self.joined[at], end);
        }
        end
    }

    /// Whether two groups can be one: it needs few enough pointers, and nothing outside depends on
    /// it and is needed by it.
    fn fits(&mut self, own: usize, other: usize) -> bool {
        let (a, b) = (&self.groups[own], &self.groups[other]);
        let pointers = both_reads(a, b).len() + both_writes(a, b).len();
        pointers <= MOST_POINTERS && !self.depends(own, other) && !self.depends(other, own)
    }

    /// Whether an input of a group that the other one neither reads nor computes depends on the
    /// other one.
    fn depends(&mut self, group: usize, other: usize) -> bool {
        let (a, b) = (&self.groups[group], &self.groups[other]);
        let new = |v: &ValueId| times(&b.reads, *v) == 0 && times(&b.writes, *v) == 0;
        let begins: Vec<NodeIndex> = a
            .reads
            .iter()
            .map(|(v, _)| *v)
            .filter(new)
            .filter_map(|v| self.graph.producer(v))
            .collect();
        begins.into_iter().any(|begin| self.leads_back(begin, other))
    }

    /// Whether an operator, or one that it depends on, is a member of the group.
    fn leads_back(&mut self, begin: NodeIndex, group: usize) -> bool {
        let (mut open, mut seen) = (vec![begin], HashSet::default());
        while let Some(index) = open.pop() {
            let target = &self.groups[group];
            if self.places[index] < target.first || !seen.insert(index) {
                continue;
            }
            let known = target.dependent.contains(&index) || {
                let own = self.group_of.get(&index).copied();
                own.is_some_and(|own| self.current(own) == group)
            };
            let inputs = self.graph.node(index).map(|n| n.inputs.as_slice()).unwrap_or_default();
            if known || !self.graph.spend(1 + inputs.len()) {
                self.groups[group].dependent.insert(begin);
                return true;
            }
            open.extend(inputs.iter().filter_map(|&v| self.graph.producer(v)));
        }
        false
    }

    fn join(&mut self, own: usize, other: usize) {
        let mut b = std::mem::take(&mut self.groups[other]);
        let a = &mut self.groups[own];
        let (reads, writes) = (both_reads(a, &b), both_writes(a, &b));
        (a.reads, a.writes) = (reads, writes);
        a.first = a.first.min(b.first);
        // The smaller ones move.
        if a.members.len() < b.members.len() {
            std::mem::swap(&mut a.members, &mut b.members);
        }
        if a.dependent.len() < b.dependent.len() {
            std::mem::swap(&mut a.dependent, &mut b.dependent);
        }
        a.members.extend(b.members);
        a.dependent.extend(b.dependent);
        self.joined[other] = own;
    }
}

fn times(border: &Border, value: ValueId) -> usize {
    border.iter().find(|(v, _)| *v == value).map_or(0, |(_, times)| *times)
}

fn add(border: &mut Border, value: ValueId, times: usize) {
    match border.iter_mut().find(|(v, _)| *v == value) {
        Some((_, before)) => *before += times,
        None => border.push((value, times)),
    }
}

/// What two groups read together.
fn both_reads(a: &Group, b: &Group) -> Border {
    let mut reads = Border::new();
    for (group, other) in [(a, b), (b, a)] {
        for &(value, count) in group.reads.iter().filter(|(v, _)| times(&other.writes, *v) == 0) {
            add(&mut reads, value, count);
        }
    }
    reads
}

/// What two groups write together: what still is read outside of both.
fn both_writes(a: &Group, b: &Group) -> Border {
    let left = |(group, other): (&Group, &Group)| -> Border {
        let outside = |&(value, uses): &(ValueId, usize)| {
            (value, uses.saturating_sub(times(&other.reads, value)))
        };
        group.writes.iter().map(outside).filter(|&(_, uses)| uses > 0).collect()
    };
    left((a, b)).into_iter().chain(left((b, a))).collect()
}
