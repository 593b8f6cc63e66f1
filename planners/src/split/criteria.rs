//! What a split can be judged by, and what everything costs in that currency.
//!
//! | criterion | on the device | on the server | sent | once |
//! |---|---|---|---|---|
//! | latency, ns | latency there | latency there, and sending a result back | transfer | setup |
//! | device energy, nJ | its energy | idle power x latency there | transmit power x transfer | idle power x setup |
//! | device memory, B | weights | | | |
//! | bytes sent, B | | | size | |
//!
//! All sums are serial: device, link and server work one after the other for one inference.

use super::closure::{Closure, Sendable, Terms};
use crate::cost::{Costs, End, Interval, Link};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is minimised or bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// From input to result, ns.
    Latency,
    /// What the device draws meanwhile, nJ.
    DeviceEnergy,
    /// Weights on the device, bytes.
    DeviceMemory,
    /// What leaves the device, bytes.
    BytesSent,
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Latency => "latency",
            Self::DeviceEnergy => "device energy",
            Self::DeviceMemory => "device memory",
            Self::BytesSent => "bytes sent",
        })
    }
}

/// Device, server and the ways between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub device: usize,
    pub server: usize,
    pub up: Link,
    /// The way back, when results have to come back.
    pub down: Option<Link>,
}

/// Sums beyond this are refused: products of two of them must stay exact.
pub(super) const LARGEST: u128 = 1 << 55;

/// The constraints of a split: what cannot run, what may not leave.
pub(super) fn closure(costs: &Costs, ends: &Ends) -> Closure {
    let nodes = costs.nodes();
    let mut on_device: Vec<bool> =
        nodes.iter().map(|n| n.latency_ns[ends.server].is_none()).collect();
    let on_server = nodes.iter().map(|n| n.latency_ns[ends.device].is_none()).collect();
    for tensor in costs.tensors().iter().filter(|t| t.confined) {
        tensor.consumers.iter().chain(&tensor.producer).for_each(|&node| on_device[node] = true);
    }
    let read = costs.tensors().iter().filter(|t| !t.consumers.is_empty());
    let sendable =
        read.map(|t| Sendable { producer: t.producer, consumers: t.consumers.clone() }).collect();
    Closure::new(nodes.len(), sendable, costs.together().to_vec(), on_device, on_server)
}

/// The terms of one criterion, every cost at one end of its interval.
pub(super) fn terms(costs: &Costs, ends: &Ends, criterion: Criterion, end: End) -> Terms {
    let value = |interval: Option<Interval>| interval.map_or(0, |i| u128::from(i.at(end)));
    let node = |device: &dyn Fn(usize) -> u128, server: &dyn Fn(usize) -> u128| {
        let indices = || 0..costs.nodes().len();
        (indices().map(device).collect(), indices().map(server).collect())
    };
    let latency = |node: usize, processor: usize| costs.nodes()[node].latency_ns[processor];
    let returning = returning_ns(costs, ends);
    let server_ns = |node: usize| latency(node, ends.server).map(|own| own + returning[node]);
    let (idle_w, transmit_w) = (costs.processors()[ends.device].idle_w, ends.up.transmit_w);
    let ((device, server), offloaded) = match criterion {
        Criterion::Latency => (
            node(&|n| value(latency(n, ends.device)), &|n| value(server_ns(n))),
            u128::from(ends.up.setup_ns),
        ),
        Criterion::DeviceEnergy => {
            let waiting = |n: usize| value(server_ns(n).map(|ns| ns.times(idle_w)));
            let setup = Interval::exact(ends.up.setup_ns).times(idle_w);
            (node(&|n| value(costs.energy_nj(n, ends.device)), &waiting), u128::from(setup.point()))
        }
        Criterion::DeviceMemory => {
            (node(&|n| u128::from(costs.nodes()[n].memory_bytes), &|_| 0), 0)
        }
        Criterion::BytesSent => (node(&|_| 0, &|_| 0), 0),
    };
    let transfer = |bytes: u64| ends.up.transfer_ns(bytes);
    let sent = |bytes: u64| match criterion {
        Criterion::Latency => {
            transfer(bytes).map_or(super::flow::INFINITE, |t| u128::from(t.at(end)))
        }
        Criterion::DeviceEnergy => transfer(bytes)
            .map_or(super::flow::INFINITE, |t| u128::from(t.times(transmit_w).at(end))),
        Criterion::DeviceMemory => 0,
        Criterion::BytesSent => u128::from(bytes),
    };
    Terms { device, server, sent: sizes(costs).map(sent).collect(), offloaded }
}

/// Sizes of the tensors that may be sent, in the closure's order.
pub(super) fn sizes(costs: &Costs) -> impl Iterator<Item = u64> {
    costs.tensors().iter().filter(|t| !t.consumers.is_empty()).map(|t| t.size_bytes)
}

/// For each node, what sending its results back to the device takes when it runs on the server, ns.
fn returning_ns(costs: &Costs, ends: &Ends) -> Vec<Interval> {
    let mut returning = vec![Interval::ZERO; costs.nodes().len()];
    let Some(down) = ends.down else { return returning };
    for tensor in costs.tensors().iter().filter(|t| t.output) {
        let Some(producer) = tensor.producer else { continue };
        let transfer = down.transfer_ns(tensor.size_bytes).unwrap_or(Interval::exact(u64::MAX));
        returning[producer] = returning[producer] + transfer;
    }
    returning
}
