//! The criteria of a split, and the cost of each node and tensor by criterion.
//!
//! | criterion | on the device | on the server | sent | once |
//! |---|---|---|---|---|
//! | latency, ns | latency there | latency there, and sending a result back | transfer | setup of each link used |
//! | device energy, nJ | its energy | idle power x (latency there, and sending a result back) | transmit power x transfer | idle power x setup |
//! | device memory, B | its memory | | | |
//! | server memory, B | | its memory | | |
//! | bytes sent, B | | | size | |
//!
//! A node's memory is what the engine takes for it, or its weights where that is not known; what the
//! engine takes once is taken off the bounds. All sums are serial: device, link and server work one after the other for one inference. A link
//! without bandwidth sends nothing.

use super::closure::{Closure, Pins, Sendable, Terms};
use crate::cost::{Costs, End, Interval, Link, TensorCosts};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A quantity that is minimised or bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// Latency from input to result, ns.
    Latency,
    /// Energy of the device in that time, nJ.
    DeviceEnergy,
    /// Memory on the device, bytes.
    DeviceMemory,
    /// Data sent from the device, bytes.
    BytesSent,
    /// Memory on the server, bytes.
    ServerMemory,
}

impl Criterion {
    /// The order in which ties are broken: the criterion itself, then the others in the order
    /// latency, energy, memory, bytes.
    pub(super) fn then_ties(self) -> Vec<Self> {
        let ties = [Self::Latency, Self::DeviceEnergy, Self::DeviceMemory, Self::BytesSent];
        std::iter::once(self).chain(ties.into_iter().filter(|&tie| tie != self)).collect()
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Latency => "latency",
            Self::DeviceEnergy => "device energy",
            Self::DeviceMemory => "device memory",
            Self::BytesSent => "bytes sent",
            Self::ServerMemory => "server memory",
        })
    }
}

/// Device, server and the links between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub device: usize,
    pub server: usize,
    pub up: Link,
    /// The link back, where results are sent back.
    pub down: Option<Link>,
}

impl Ends {
    /// Bandwidths of the link to the server and of the link back, bytes per second; `None` without
    /// a link back.
    pub fn bandwidths_there_and_back(&self) -> Option<(u64, u64)> {
        let rate = |link: &Link| link.bandwidth_bytes_per_s.point();
        self.down.map(|down| (rate(&self.up), rate(&down).max(1)))
    }
}

/// Sums beyond this are refused: products of two of them must stay exact.
pub(super) const LARGEST: u128 = 1 << 55;

/// The end of its interval that each cost takes; for a link, the end of its transfer time.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub nodes: End,
    pub up: End,
    pub down: End,
}

impl At {
    pub(super) const fn all(end: End) -> Self {
        Self { nodes: end, up: end, down: end }
    }
}

/// The constraints of a split: processors that cannot run a node, and tensors that may not leave
/// the device.
pub(super) fn closure(costs: &Costs, ends: &Ends) -> Closure {
    let nodes = costs.nodes();
    let mut on_device: Vec<bool> =
        nodes.iter().map(|n| n.latency_ns[ends.server].is_none()).collect();
    let on_server = nodes.iter().map(|n| n.latency_ns[ends.device].is_none()).collect();
    for tensor in costs.tensors().iter().filter(|t| t.confined) {
        tensor.consumers.iter().chain(&tensor.producer).for_each(|&node| on_device[node] = true);
    }
    let mut returning = vec![false; nodes.len()];
    if let Some(down) = ends.down {
        for (tensor, node) in results(costs) {
            returning[node] = true;
            on_device[node] |= down.transfer_ns(tensor.size_bytes).is_none();
        }
    }
    let read = costs.tensors().iter().filter(|t| !t.consumers.is_empty());
    let sendable = read.map(|t| Sendable {
        producer: t.producer,
        consumers: t.consumers.clone(),
        blocked: ends.up.transfer_ns(t.size_bytes).is_none(),
    });
    let pins = Pins { on_device, on_server };
    Closure::new(sendable.collect(), costs.together().to_vec(), pins, returning)
}

/// Results of the model, with the node that provides each.
fn results(costs: &Costs) -> impl Iterator<Item = (&TensorCosts, usize)> {
    costs.tensors().iter().filter(|t| t.output).filter_map(|t| Some((t, t.producer?)))
}

/// The terms of one criterion, every cost at one end of its interval.
pub(super) fn terms(costs: &Costs, ends: &Ends, criterion: Criterion, at: At) -> Terms {
    let value =
        |interval: Option<Interval>, end: End| interval.map_or(0, |i| u128::from(i.at(end)));
    let node = |device: &dyn Fn(usize) -> u128, server: &dyn Fn(usize) -> u128| {
        let indices = || 0..costs.nodes().len();
        (indices().map(device).collect(), indices().map(server).collect())
    };
    let latency = |node: usize, processor: usize| costs.nodes()[node].latency_ns[processor];
    let returning = returning_ns(costs, ends, at.down);
    let (idle_w, transmit_w) = (costs.processors()[ends.device].idle_w, ends.up.transmit_w);
    let watts = |ns: u64, power_w: f64| u128::from(Interval::exact(ns).times(power_w).point());
    let memory =
        |processor: usize| move |n: usize| u128::from(costs.node_memory_bytes(n, processor));
    let setup = |link: Option<Link>| link.map_or(0, |link| link.setup_ns);
    let (up_ns, down_ns) = (setup(Some(ends.up)), setup(ends.down));
    let ((device, server), [offloaded, returned]) = match criterion {
        Criterion::Latency => (
            node(&|n| value(latency(n, ends.device), at.nodes), &|n| {
                value(latency(n, ends.server), at.nodes) + u128::from(returning[n])
            }),
            [up_ns, down_ns].map(u128::from),
        ),
        Criterion::DeviceEnergy => {
            let waiting = |n: usize| {
                let own = latency(n, ends.server).map_or(0, |ns| ns.at(at.nodes));
                watts(own.saturating_add(returning[n]), idle_w)
            };
            let own = |n: usize| value(costs.energy_nj(n, ends.device), at.nodes);
            (node(&own, &waiting), [up_ns, down_ns].map(|ns| watts(ns, idle_w)))
        }
        Criterion::DeviceMemory => (node(&memory(ends.device), &|_| 0), [0; 2]),
        Criterion::ServerMemory => (node(&|_| 0, &memory(ends.server)), [0; 2]),
        Criterion::BytesSent => (node(&|_| 0, &|_| 0), [0; 2]),
    };
    let transfer = |bytes: u64| ends.up.transfer_ns(bytes).map_or(0, |ns| ns.at(at.up));
    let sent = |bytes: u64| match criterion {
        Criterion::Latency => u128::from(transfer(bytes)),
        Criterion::DeviceEnergy => watts(transfer(bytes), transmit_w),
        Criterion::DeviceMemory | Criterion::ServerMemory => 0,
        Criterion::BytesSent => u128::from(bytes),
    };
    Terms { device, server, sent: sizes(costs).map(sent).collect(), offloaded, returned }
}

/// Sizes of the tensors that may be sent, in the closure's order.
pub(super) fn sizes(costs: &Costs) -> impl Iterator<Item = u64> {
    costs.tensors().iter().filter(|t| !t.consumers.is_empty()).map(|t| t.size_bytes)
}

/// For each node, the time of sending its results back to the device when it runs on the server,
/// ns.
fn returning_ns(costs: &Costs, ends: &Ends, end: End) -> Vec<u64> {
    let mut returning = vec![0u64; costs.nodes().len()];
    let Some(down) = ends.down else { return returning };
    for (tensor, node) in results(costs) {
        let transfer = down.transfer_ns(tensor.size_bytes).map_or(0, |ns| ns.at(end));
        returning[node] = returning[node].saturating_add(transfer);
    }
    returning
}

/// For each node, the size of its results in bytes and their number, where results are sent back.
pub(super) fn returned_bytes(costs: &Costs, ends: &Ends) -> Vec<Vec<u64>> {
    let mut returned = vec![Vec::new(); costs.nodes().len()];
    if ends.down.is_some() {
        results(costs).for_each(|(tensor, node)| returned[node].push(tensor.size_bytes));
    }
    returned
}
