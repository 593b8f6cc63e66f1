//! The combinatorial core of a split: which nodes stay on the device so that a sum of costs is
//! minimal.
//!
//! Nothing flows back: if a node is on the device, so are the nodes whose outputs it reads. A
//! tensor is sent once, however many nodes read it. The sum has one term per node and side, one per
//! tensor sent, and one for using the server at all; its minimum is a minimum cut with one extra
//! vertex per tensor with several readers, and infinite arcs for forbidden placements (as DADS,
//! INFOCOM 2019, but with tensors counted once and the arcs against flowing back).

use super::flow::{FlowNetwork, INFINITE};

/// A tensor that may have to be sent.
#[derive(Debug)]
pub(super) struct Sendable {
    /// The node that provides it; `None` for an input, which arrives on the device.
    pub producer: Option<usize>,
    /// Nodes that read it; at least one.
    pub consumers: Vec<usize>,
    /// Whether it cannot be sent: the link is down.
    pub blocked: bool,
}

/// The constraints of every split of a model.
#[derive(Debug)]
pub(super) struct Closure {
    pub nodes: usize,
    pub tensors: Vec<Sendable>,
    /// Groups that stay on one side.
    pub together: Vec<Vec<usize>>,
    /// Nodes that must be on the device.
    pub on_device: Vec<bool>,
    /// Nodes that must be on the server.
    pub on_server: Vec<bool>,
    /// Nodes whose results come back when they are on the server.
    pub returning: Vec<bool>,
    /// Nodes whose outputs no node reads: if any node is on the server, one of these is.
    sinks: Vec<usize>,
}

/// Nodes that must be on one side.
#[derive(Clone, Debug)]
pub(super) struct Pins {
    pub on_device: Vec<bool>,
    pub on_server: Vec<bool>,
}

/// The costs of one criterion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// Cost of each node on the device.
    pub device: Vec<u128>,
    /// Cost of each node on the server.
    pub server: Vec<u128>,
    /// Cost of each tensor when it is sent.
    pub sent: Vec<u128>,
    /// Cost added once when any node is on the server.
    pub offloaded: u128,
    /// Cost added once when a result is sent back.
    pub returned: u128,
}

/// Which nodes are on the device.
pub(super) type Side = Vec<bool>;

impl Terms {
    /// `a` times these terms plus `b` times others.
    pub(super) fn combined(&self, a: u128, other: &Self, b: u128) -> Self {
        self.with(other, |x, y| a * x + b * y)
    }

    /// A function of each of these costs and the same of others.
    pub(super) fn with(&self, other: &Self, of: impl Fn(&u128, &u128) -> u128) -> Self {
        let each = |x: &[u128], y: &[u128]| x.iter().zip(y).map(|(x, y)| of(x, y)).collect();
        Self {
            device: each(&self.device, &other.device),
            server: each(&self.server, &other.server),
            sent: each(&self.sent, &other.sent),
            offloaded: of(&self.offloaded, &other.offloaded),
            returned: of(&self.returned, &other.returned),
        }
    }

    /// An upper bound on the cost of every split.
    pub(super) fn ceiling(&self) -> u128 {
        self.device.iter().chain(&self.server).chain(&self.sent).sum::<u128>()
            + self.offloaded
            + self.returned
            + 1
    }

    /// The cost of a split.
    pub(super) fn cost(&self, closure: &Closure, side: &Side) -> u128 {
        let nodes: u128 = side
            .iter()
            .zip(self.device.iter().zip(&self.server))
            .map(|(&here, (d, s))| if here { d } else { s })
            .sum();
        let sent: u128 = closure.sent(side).map(|tensor| self.sent[tensor]).sum();
        let once = |paid: bool, cost: u128| if paid { cost } else { 0 };
        nodes
            + sent
            + once(side.contains(&false), self.offloaded)
            + once(closure.returns(side), self.returned)
    }

    /// These terms where they are part of a split's cost, other terms elsewhere.
    pub(super) fn where_paid(&self, closure: &Closure, side: &Side, elsewhere: &Self) -> Self {
        let mut terms = elsewhere.clone();
        for (node, &here) in side.iter().enumerate() {
            if here {
                terms.device[node] = self.device[node];
            } else {
                terms.server[node] = self.server[node];
            }
        }
        for tensor in closure.sent(side) {
            terms.sent[tensor] = self.sent[tensor];
        }
        terms
    }
}

impl Closure {
    pub(super) fn new(
        tensors: Vec<Sendable>,
        together: Vec<Vec<usize>>,
        pinned: Pins,
        returning: Vec<bool>,
    ) -> Self {
        let Pins { on_device, on_server } = pinned;
        let nodes = on_device.len();
        let mut read = vec![false; nodes];
        tensors.iter().filter_map(|t| t.producer).for_each(|node| read[node] = true);
        let sinks = (0..nodes).filter(|&node| !read[node]).collect();
        Self { nodes, tensors, together, on_device, on_server, returning, sinks }
    }

    /// The tensors that a split sends.
    pub(super) fn sent<'a>(&'a self, side: &'a Side) -> impl Iterator<Item = usize> + 'a {
        let crosses = |t: &Sendable| {
            t.producer.is_none_or(|node| side[node]) && t.consumers.iter().any(|&node| !side[node])
        };
        self.tensors.iter().enumerate().filter(move |(_, t)| crosses(t)).map(|(index, _)| index)
    }

    /// Whether a split sends a result back.
    pub(super) fn returns(&self, side: &Side) -> bool {
        side.iter().zip(&self.returning).any(|(&here, &returning)| !here && returning)
    }

    /// Whether a split satisfies the constraints.
    pub(super) fn allows(&self, side: &Side) -> bool {
        let pinned = |pins: &[bool], here: bool| {
            pins.iter().zip(side).all(|(&pinned, &on_device)| !pinned || on_device == here)
        };
        let flows = |t: &Sendable| {
            let here = t.producer.is_none_or(|node| side[node]);
            let all = |here: bool| t.consumers.iter().all(|&node| side[node] == here);
            if here { !t.blocked || all(true) } else { all(false) }
        };
        side.len() == self.nodes
            && pinned(&self.on_device, true)
            && pinned(&self.on_server, false)
            && self.tensors.iter().all(flows)
            && self.together.iter().all(|g| g.windows(2).all(|two| side[two[0]] == side[two[1]]))
    }

    /// A node that must be on both sides, if there is one: then no split exists.
    pub(super) fn contradiction(&self) -> Option<usize> {
        let (mut device, mut server) = (self.on_device.clone(), self.on_server.clone());
        loop {
            let before = device.iter().chain(&server).filter(|&&x| x).count();
            for tensor in self.tensors.iter().rev() {
                let Some(producer) = tensor.producer else { continue };
                device[producer] |= tensor.consumers.iter().any(|&node| device[node]);
                server[producer] |=
                    tensor.blocked && tensor.consumers.iter().any(|&node| server[node]);
            }
            for tensor in &self.tensors {
                let (there, here) = (
                    tensor.producer.is_some_and(|producer| server[producer]),
                    tensor.blocked && tensor.producer.is_none_or(|producer| device[producer]),
                );
                tensor.consumers.iter().filter(|_| there).for_each(|&node| server[node] = true);
                tensor.consumers.iter().filter(|_| here).for_each(|&node| device[node] = true);
            }
            for group in &self.together {
                for side in [&mut device, &mut server] {
                    if group.iter().any(|&node| side[node]) {
                        group.iter().for_each(|&node| side[node] = true);
                    }
                }
            }
            if before == device.iter().chain(&server).filter(|&&x| x).count() {
                return (0..self.nodes).find(|&node| device[node] && server[node]);
            }
        }
    }

    /// The split with the least cost and, among those, the fewest nodes on the device. `None` when
    /// no split satisfies the constraints.
    pub(super) fn cheapest(&self, terms: &Terms) -> Option<(u128, Side)> {
        self.cheapest_with(terms, &self.on_device, &self.on_server)
    }

    /// As [`Closure::cheapest`], with other nodes pinned to a side.
    pub(super) fn cheapest_with(
        &self,
        terms: &Terms,
        on_device: &[bool],
        on_server: &[bool],
    ) -> Option<(u128, Side)> {
        let (mut network, [source, sink]) = self.network(terms, on_device, on_server);
        let value = network.maximum_flow(source, sink);
        (value < INFINITE).then(|| (value, self.side(&network)))
    }

    /// The split with the least cost in the first terms, among those the least in the second, and
    /// so on; the costs in the first.
    ///
    /// The minimum cuts of a network are those that nothing with capacity left crosses (Picard and
    /// Queyranne 1980), so such arcs become infinite in the network of the next terms.
    pub(super) fn cheapest_in_order(&self, order: &[&Terms]) -> Option<(u128, Side)> {
        let mut least = None;
        let mut kept: Vec<(u32, u32)> = Vec::new();
        for terms in order {
            let (mut network, [source, sink]) =
                self.network(terms, &self.on_device, &self.on_server);
            for &(from, to) in &kept {
                network.arc(from as usize, to as usize, INFINITE, 0);
            }
            let value = network.maximum_flow(source, sink);
            if value >= INFINITE {
                break;
            }
            let first = least.map_or(value, |(first, _)| first);
            least = Some((first, self.side(&network)));
            kept = network.residual();
        }
        least
    }

    fn side(&self, network: &FlowNetwork) -> Side {
        (0..self.nodes).map(|node| network.on_source_side(node)).collect()
    }

    /// The network of some terms, its source and its sink.
    fn network(
        &self,
        terms: &Terms,
        on_device: &[bool],
        on_server: &[bool],
    ) -> (FlowNetwork, [usize; 2]) {
        let first = self.nodes + self.tensors.len();
        let (source, sink, used, returned) = (first, first + 1, first + 2, first + 3);
        let mut network = FlowNetwork::new(first + 4, 2 * self.nodes + 4 * self.tensors.len());
        for node in 0..self.nodes {
            let pinned = |pins: &[bool], cost: u128| if pins[node] { INFINITE } else { cost };
            network.arc(source, node, pinned(on_device, terms.server[node]), 0);
            network.arc(node, sink, pinned(on_server, terms.device[node]), 0);
        }
        for (index, tensor) in self.tensors.iter().enumerate() {
            let sent = if tensor.blocked { INFINITE } else { terms.sent[index] };
            self.tensor_arcs(&mut network, source, index, tensor, sent);
        }
        for group in &self.together {
            group.windows(2).for_each(|pair| network.arc(pair[0], pair[1], INFINITE, INFINITE));
        }
        if terms.offloaded > 0 {
            network.arc(source, used, terms.offloaded, 0);
            self.sinks.iter().for_each(|&node| network.arc(used, node, INFINITE, 0));
        }
        if terms.returned > 0 {
            network.arc(source, returned, terms.returned, 0);
            let returning = (0..self.nodes).filter(|&node| self.returning[node]);
            returning.for_each(|node| network.arc(returned, node, INFINITE, 0));
        }
        (network, [source, sink])
    }

    fn tensor_arcs(
        &self,
        network: &mut FlowNetwork,
        source: usize,
        index: usize,
        tensor: &Sendable,
        sent: u128,
    ) {
        let producer = tensor.producer.unwrap_or(source);
        let back = if tensor.producer.is_some() { INFINITE } else { 0 };
        if let [consumer] = tensor.consumers[..] {
            network.arc(producer, consumer, sent, back);
            return;
        }
        let vertex = self.nodes + index;
        network.arc(producer, vertex, sent, 0);
        for &consumer in &tensor.consumers {
            network.arc(vertex, consumer, INFINITE, 0);
            network.arc(consumer, producer, back, 0);
        }
    }
}
