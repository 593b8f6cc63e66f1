//! [`FlowNetwork`]: maximum flow and minimum cut by Dinic's algorithm (levels by breadth, blocking
//! flows by depth), without recursion.
//!
//! Capacities are integers, so that cuts are exact; 128 bits leave room for the products that exact
//! break points need.

/// A capacity no cut may use. Sums of thousands of them still fit.
pub(super) const INFINITE: u128 = 1 << 112;

const NONE: u32 = u32::MAX;

/// Arcs in pairs: arc `e` and its reverse `e ^ 1`.
pub(super) struct FlowNetwork {
    first: Vec<u32>,
    next: Vec<u32>,
    head: Vec<u32>,
    capacity: Vec<u128>,
    level: Vec<u32>,
    current: Vec<u32>,
}

impl FlowNetwork {
    /// A network with this number of vertices, and capacity for this number of arcs.
    pub(super) fn new(vertices: usize, arcs: usize) -> Self {
        Self {
            first: vec![NONE; vertices],
            next: Vec::with_capacity(2 * arcs),
            head: Vec::with_capacity(2 * arcs),
            capacity: Vec::with_capacity(2 * arcs),
            level: vec![NONE; vertices],
            current: vec![NONE; vertices],
        }
    }

    /// Adds an arc with its capacity and the capacity of its reverse. Arcs without capacity are
    /// left out.
    pub(super) fn arc(&mut self, from: usize, to: usize, capacity: u128, back: u128) {
        if capacity == 0 && back == 0 {
            return;
        }
        for (tail, head, capacity) in [(from, to, capacity), (to, from, back)] {
            self.next.push(self.first[tail]);
            self.first[tail] = self.head.len() as u32;
            self.head.push(head as u32);
            self.capacity.push(capacity);
        }
    }

    /// The maximum flow, which is the minimum cut's capacity. Afterwards
    /// [`FlowNetwork::on_source_side`] gives the cut with the fewest vertices there.
    pub(super) fn maximum_flow(&mut self, source: usize, sink: usize) -> u128 {
        let mut flow = 0;
        while self.find_levels(source, sink) {
            self.current.copy_from_slice(&self.first);
            flow += self.blocking_flow(source, sink);
        }
        flow
    }

    /// Whether a vertex is on the source's side of the minimum cut.
    pub(super) fn on_source_side(&self, vertex: usize) -> bool {
        self.level[vertex] != NONE
    }

    /// After a maximum flow, the pairs of vertices between which capacity is left: no minimum cut
    /// separates the first from the second.
    pub(super) fn residual(&self) -> Vec<(u32, u32)> {
        let left = (0..self.head.len()).filter(|&arc| self.capacity[arc] > 0);
        let mut pairs: Vec<(u32, u32)> =
            left.map(|arc| (self.head[arc ^ 1], self.head[arc])).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    fn find_levels(&mut self, source: usize, sink: usize) -> bool {
        self.level.fill(NONE);
        self.level[source] = 0;
        let mut queue = Vec::with_capacity(self.level.len());
        queue.push(source as u32);
        let mut next = 0;
        while let Some(&vertex) = queue.get(next) {
            next += 1;
            let mut arc = self.first[vertex as usize];
            while arc != NONE {
                let head = self.head[arc as usize] as usize;
                if self.capacity[arc as usize] > 0 && self.level[head] == NONE {
                    self.level[head] = self.level[vertex as usize] + 1;
                    queue.push(head as u32);
                }
                arc = self.next[arc as usize];
            }
        }
        self.level[sink] != NONE
    }

    fn blocking_flow(&mut self, source: usize, sink: usize) -> u128 {
        let mut flow = 0;
        let mut path: Vec<u32> = Vec::new();
        let mut vertex = source;
        loop {
            if vertex == sink {
                flow += self.augment(&mut path);
                vertex = path.last().map_or(source, |&arc| self.head[arc as usize] as usize);
                continue;
            }
            match self.admissible(vertex) {
                Some(arc) => {
                    path.push(arc);
                    vertex = self.head[arc as usize] as usize;
                }
                None => {
                    let Some(arc) = path.pop() else { return flow };
                    vertex = self.head[(arc ^ 1) as usize] as usize;
                    self.current[vertex] = self.next[arc as usize];
                }
            }
        }
    }

    fn admissible(&mut self, vertex: usize) -> Option<u32> {
        while self.current[vertex] != NONE {
            let arc = self.current[vertex];
            if self.capacity[arc as usize] > 0
                && self.level[self.head[arc as usize] as usize] == self.level[vertex] + 1
            {
                return Some(arc);
            }
            self.current[vertex] = self.next[arc as usize];
        }
        None
    }

    /// Sends the largest possible flow along the path, and shortens the path to before its first
    /// full arc.
    fn augment(&mut self, path: &mut Vec<u32>) -> u128 {
        let amount = path.iter().map(|&arc| self.capacity[arc as usize]).min().unwrap_or(0);
        for &arc in path.iter() {
            self.capacity[arc as usize] -= amount;
            self.capacity[(arc ^ 1) as usize] += amount;
        }
        let full = path.iter().position(|&arc| self.capacity[arc as usize] == 0).unwrap_or(0);
        path.truncate(full);
        amount
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_by_hand() {
        // Two ways from 0 to 3 that share a bridge 1-2.
        let mut network = FlowNetwork::new(4, 5);
        for (from, to, capacity) in [(0, 1, 10), (0, 2, 5), (1, 2, 15), (1, 3, 5), (2, 3, 8)] {
            network.arc(from, to, capacity, 0);
        }
        assert_eq!(network.maximum_flow(0, 3), 13);
        assert_eq!(
            (0..4).map(|v| network.on_source_side(v)).collect::<Vec<_>>(),
            [true, true, true, false]
        );
    }

    #[test]
    fn long_chains_do_not_overflow_the_stack() {
        let n = 200_000;
        let mut network = FlowNetwork::new(n, n);
        for v in 1..n {
            network.arc(v - 1, v, 7, INFINITE);
        }
        assert_eq!(network.maximum_flow(0, n - 1), 7);
    }
}
