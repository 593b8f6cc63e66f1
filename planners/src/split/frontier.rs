//! Splits by dynamic programming over the frontier: nodes are placed in topological order, and
//! partial splits that have the same state for the remaining nodes are compared.
//!
//! The state of a partial split is the state of each tensor that is still to be read (on the
//! device, sent, on the server) and of each group that is partly placed, and whether the server is
//! used. Of the partial splits with one state, only those that no other dominates are kept, so one
//! pass gives a whole Pareto front, or the best split within bounds. The work grows with the width
//! of a graph, not with its length: chains and graphs with skip connections have a handful of
//! states, parallel branches have one per combination that matters. The work is counted, and ends
//! with [`OutOfSteps`].

use super::closure::{Closure, Side, Terms};
use std::collections::BTreeMap;

/// Largest number of columns of a label.
pub(super) const COLUMNS: usize = 8;
/// Largest number of tensors and groups that may be open at the same time: two bits each, and two
/// flags.
const SLOTS: usize = 60;
const OFFLOADED: u128 = 1 << 124;
const RETURNED: u128 = 1 << 125;
const NONE: u32 = u32::MAX;

const DEVICE: u128 = 1;
const SENT: u128 = 2;
const SERVER: u128 = 3;

/// The question for all splits; columns are indices of the terms.
pub(super) struct Question<'a> {
    /// The terms that each column sums.
    pub columns: &'a [Terms],
    /// Order of the columns: the leading ones are compared one by one, the others break ties.
    pub order: &'a [usize],
    /// Number of leading columns: 1 for the best split, 2 for a front.
    pub leading: usize,
    /// Bounded columns, each with its bound; they are compared one by one.
    pub within: &'a [(usize, u64)],
    /// Upper limit of the first column.
    pub at_most: u64,
    /// Keep only labels on the lower convex hull of the two leading columns.
    pub hull: bool,
}

/// A split with its sum in each column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Labelled {
    pub values: [u64; COLUMNS],
    pub side: Side,
}

/// The search took more steps than it may.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutOfSteps;

#[derive(Clone, Copy)]
struct Label {
    values: [u64; COLUMNS],
    last: u32,
}

/// Placing one node.
#[derive(Default)]
struct Step {
    /// Tensors it reads, with their slots.
    reads: Vec<(usize, u32)>,
    /// Inputs of the model that are read here for the first time.
    arrives: Vec<u32>,
    /// Slots of the tensors that it provides.
    provides: Vec<u32>,
    /// Slots of the groups it is in.
    groups: Vec<u32>,
    /// Slots that no later step needs.
    closes: u128,
    returns: bool,
}

/// The splits that no other dominates, best first by the order of the question; none if no split
/// satisfies the bounds. `spend` is called at intervals with a number of steps.
pub(super) fn undominated(
    closure: &Closure,
    question: &Question<'_>,
    spend: &mut dyn FnMut(u64) -> bool,
) -> Result<Vec<Labelled>, OutOfSteps> {
    let steps = steps(closure).ok_or(OutOfSteps)?;
    let mut search = Search::new(closure, question);
    let start = Label { values: [0; COLUMNS], last: NONE };
    let mut states = BTreeMap::from([(0u128, vec![start])]);
    for (node, step) in steps.iter().enumerate() {
        let mut next: BTreeMap<u128, Vec<Label>> = BTreeMap::new();
        for (key, labels) in states {
            if !spend((2 * labels.len() as u64).max(1)) {
                return Err(OutOfSteps);
            }
            search.place(node, step, key, &labels, &mut next);
        }
        // States that no partial split within the bounds reaches would double at every branch.
        next.retain(|_, labels| !labels.is_empty());
        for labels in next.values_mut().filter(|labels| labels.len() > 1) {
            if !search.prune(labels, spend) {
                return Err(OutOfSteps);
            }
        }
        if search.decisions.len() > NONE as usize / 2 {
            return Err(OutOfSteps);
        }
        states = next;
    }
    let mut all: Vec<Label> = states.into_values().flatten().collect();
    if !search.prune(&mut all, spend) {
        return Err(OutOfSteps);
    }
    Ok(all.iter().map(|label| search.labelled(label)).collect())
}

/// The placing steps of all nodes; `None` where too many tensors and groups are open at once.
fn steps(closure: &Closure) -> Option<Vec<Step>> {
    let mut steps: Vec<Step> = (0..closure.nodes).map(|_| Step::default()).collect();
    let mut opens: Vec<Vec<(usize, Open)>> = vec![Vec::new(); closure.nodes];
    let mut ends: Vec<Vec<usize>> = vec![Vec::new(); closure.nodes];
    let spans = spans(closure);
    for (index, &(first, last, open)) in spans.iter().enumerate() {
        opens[first].push((index, open));
        ends[last].push(index);
    }
    let mut slots = vec![0u32; spans.len()];
    let mut free: Vec<u32> = (0..SLOTS as u32).rev().collect();
    for node in 0..closure.nodes {
        for &(index, open) in &opens[node] {
            let slot = free.pop()?;
            slots[index] = slot;
            match open {
                Open::Input => steps[node].arrives.push(slot),
                Open::Provided => steps[node].provides.push(slot),
                Open::Group => {}
            }
        }
        for &index in &ends[node] {
            steps[node].closes |= 3 << (2 * slots[index]);
            free.push(slots[index]);
        }
        steps[node].returns = closure.returning[node];
    }
    for (group, slot) in closure.together.iter().zip(&slots[closure.tensors.len()..]) {
        group.iter().for_each(|&node| steps[node].groups.push(*slot));
    }
    for (tensor, sendable) in closure.tensors.iter().enumerate() {
        let mut readers = sendable.consumers.clone();
        readers.sort_unstable();
        readers.dedup();
        readers.iter().for_each(|&node| steps[node].reads.push((tensor, slots[tensor])));
    }
    Some(steps)
}

#[derive(Clone, Copy)]
enum Open {
    Input,
    Provided,
    Group,
}

/// The first and the last node at which each tensor, and then each group, is open.
fn spans(closure: &Closure) -> Vec<(usize, usize, Open)> {
    let tensor = |t: &super::closure::Sendable| {
        let readers = || t.consumers.iter().copied();
        let (first, last) = (readers().min().unwrap_or(0), readers().max().unwrap_or(0));
        match t.producer {
            Some(producer) => (producer, last, Open::Provided),
            None => (first, last, Open::Input),
        }
    };
    let group = |group: &Vec<usize>| {
        let members = || group.iter().copied();
        (members().min().unwrap_or(0), members().max().unwrap_or(0), Open::Group)
    };
    closure.tensors.iter().map(tensor).chain(closure.together.iter().map(group)).collect()
}

struct Search<'a> {
    closure: &'a Closure,
    question: &'a Question<'a>,
    /// `[node][column]`: a lower bound on what this node and all later ones add.
    rest: Vec<[u64; COLUMNS]>,
    /// Columns compared one by one beyond the first.
    compared: Vec<usize>,
    /// The previous decision, and whether this node is on the device.
    decisions: Vec<(u32, bool)>,
    once: [bool; 2],
}

fn small(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

impl<'a> Search<'a> {
    fn new(closure: &'a Closure, question: &'a Question<'a>) -> Self {
        let mut rest = vec![[0u64; COLUMNS]; closure.nodes + 1];
        for node in (0..closure.nodes).rev() {
            for (column, terms) in question.columns.iter().enumerate() {
                let (device, server) = (terms.device[node], terms.server[node]);
                let least = match (closure.on_device[node], closure.on_server[node]) {
                    (true, _) => device,
                    (_, true) => server,
                    _ => device.min(server),
                };
                rest[node][column] = rest[node + 1][column].saturating_add(small(least));
            }
        }
        let mut compared: Vec<usize> = question.order[1..question.leading].to_vec();
        let first = question.order[0];
        let bounded = question.within.iter().map(|&(column, _)| column);
        for column in bounded.filter(|&column| column != first) {
            if !compared.contains(&column) {
                compared.push(column);
            }
        }
        let once = [
            question.columns.iter().any(|terms| terms.offloaded > 0),
            question.columns.iter().any(|terms| terms.returned > 0),
        ];
        Self { closure, question, rest, compared, decisions: Vec::new(), once }
    }

    /// Places a node on each side that is allowed.
    fn place(
        &mut self,
        node: usize,
        step: &Step,
        key: u128,
        labels: &[Label],
        next: &mut BTreeMap<u128, Vec<Label>>,
    ) {
        let mut key = key;
        step.arrives.iter().for_each(|slot| key |= DEVICE << (2 * slot));
        let state = |slot: u32| key >> (2 * slot) & 3;
        let follows = |other: u128| step.groups.iter().any(|&slot| state(slot) == other);
        let opened =
            || step.provides.iter().chain(step.groups.iter().filter(|slot| state(**slot) == 0));
        let reads_here = step.reads.iter().all(|&(_, slot)| state(slot) != SERVER);
        if !self.closure.on_server[node] && !follows(SERVER) && reads_here {
            let mut after = key;
            opened().for_each(|slot| after |= DEVICE << (2 * slot));
            let added = self.added(|terms| terms.device[node]);
            self.extend(node, labels, &added, true, next.entry(after & !step.closes).or_default());
        }
        let to_send = || step.reads.iter().filter(|&&(_, slot)| state(slot) == DEVICE);
        let blocked = to_send().any(|&(tensor, _)| self.closure.tensors[tensor].blocked);
        if !self.closure.on_device[node] && !follows(DEVICE) && !blocked {
            let (mut after, returns) = (key, step.returns);
            to_send().for_each(|(_, slot)| after = after & !(3 << (2 * slot)) | SENT << (2 * slot));
            opened().for_each(|slot| after |= SERVER << (2 * slot));
            let first = self.once[0] && after & OFFLOADED == 0;
            let first_back = self.once[1] && returns && after & RETURNED == 0;
            after |= if first { OFFLOADED } else { 0 } | if first_back { RETURNED } else { 0 };
            let added = self.added(|terms| {
                let sent: u128 = to_send().map(|&(tensor, _)| terms.sent[tensor]).sum();
                let once = if first { terms.offloaded } else { 0 };
                let back = if first_back { terms.returned } else { 0 };
                terms.server[node] + sent + once + back
            });
            self.extend(node, labels, &added, false, next.entry(after & !step.closes).or_default());
        }
    }

    fn added(&self, of: impl Fn(&Terms) -> u128) -> [u64; COLUMNS] {
        let mut added = [0; COLUMNS];
        self.question
            .columns
            .iter()
            .zip(&mut added)
            .for_each(|(terms, sum)| *sum = small(of(terms)));
        added
    }

    fn extend(
        &mut self,
        node: usize,
        labels: &[Label],
        added: &[u64; COLUMNS],
        here: bool,
        into: &mut Vec<Label>,
    ) {
        let rest = &self.rest[node + 1];
        let first = self.question.order[0];
        for label in labels {
            let mut values = label.values;
            values
                .iter_mut()
                .zip(added)
                .for_each(|(value, more)| *value = value.saturating_add(*more));
            let fits =
                |column: usize, most: u64| values[column].saturating_add(rest[column]) <= most;
            let within = self.question.within.iter().all(|&(column, most)| fits(column, most));
            if within && fits(first, self.question.at_most) {
                let last = self.decisions.len() as u32;
                self.decisions.push((label.last, here));
                into.push(Label { values, last });
            }
        }
    }

    /// Keeps the labels that no other dominates, in the question's order.
    fn prune(&self, labels: &mut Vec<Label>, spend: &mut dyn FnMut(u64) -> bool) -> bool {
        if !spend(labels.len() as u64) {
            return false;
        }
        labels.sort_by(|a, b| {
            let columns = self.question.order.iter().chain(&self.compared);
            let differing = columns.map(|&c| a.values[c].cmp(&b.values[c])).find(|o| o.is_ne());
            differing.unwrap_or(std::cmp::Ordering::Equal)
        });
        match self.compared[..] {
            [] => labels.truncate(1),
            [column] => {
                let mut least = None;
                labels.retain(|label| {
                    let better = least.is_none_or(|least| label.values[column] < least);
                    least = if better { Some(label.values[column]) } else { least };
                    better
                });
            }
            [x, y] => {
                let mut stairs = Stairs::default();
                labels.retain(|label| stairs.admits(label.values[x], label.values[y]));
            }
            _ => return self.prune_one_by_one(labels, spend),
        }
        if self.question.hull {
            let (x, y) = (self.question.order[0], self.question.order[1]);
            hull(labels, x, y);
        }
        true
    }

    fn prune_one_by_one(
        &self,
        labels: &mut Vec<Label>,
        spend: &mut dyn FnMut(u64) -> bool,
    ) -> bool {
        let mut kept: Vec<Label> = Vec::new();
        for label in labels.iter() {
            if !spend(1 + kept.len() as u64 / 4) {
                return false;
            }
            let no_worse = |other: &Label| {
                self.compared.iter().all(|&column| other.values[column] <= label.values[column])
            };
            if !kept.iter().any(no_worse) {
                kept.push(*label);
            }
        }
        *labels = kept;
        true
    }

    fn labelled(&self, label: &Label) -> Labelled {
        let mut side = vec![false; self.closure.nodes];
        let mut at = label.last;
        for here in side.iter_mut().rev() {
            let Some(&(before, on_device)) = self.decisions.get(at as usize) else { break };
            *here = on_device;
            at = before;
        }
        Labelled { values: label.values, side }
    }
}

/// Points none of which dominates another: `y` falls as `x` rises.
#[derive(Default)]
struct Stairs(BTreeMap<u64, u64>);

impl Stairs {
    /// Whether no point so far is at most as large in both; then the point is added.
    fn admits(&mut self, x: u64, y: u64) -> bool {
        if self.0.range(..=x).next_back().is_some_and(|(_, &below)| below <= y) {
            return false;
        }
        while let Some((&beaten, _)) = self.0.range(x..).next().filter(|(_, other)| **other >= y) {
            self.0.remove(&beaten);
        }
        self.0.insert(x, y);
        true
    }
}

/// Keeps the corners of the lower convex hull of labels whose `x` rises and whose `y` falls.
fn hull(labels: &mut Vec<Label>, x: usize, y: usize) {
    let mut corners: Vec<Label> = Vec::with_capacity(labels.len());
    for &label in labels.iter() {
        while let [.., a, b] = corners[..] {
            // `b` is a corner when the way from `a` falls faster to it than to the new label.
            let wide = |from: &Label, to: &Label| u128::from(to.values[x] - from.values[x]);
            let deep = |from: &Label, to: &Label| u128::from(from.values[y] - to.values[y]);
            if deep(&a, &b).saturating_mul(wide(&a, &label))
                > deep(&a, &label).saturating_mul(wide(&a, &b))
            {
                break;
            }
            corners.pop();
        }
        corners.push(label);
    }
    *labels = corners;
}
