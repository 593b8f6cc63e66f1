//! The best split of a chain by one scan (Neurosurgeon, ASPLOS 2017): after how many nodes to
//! switch to the server. [`super::Split`] is for graphs with branches.
//!
//! For a chain both give the same latency; the scan is fast enough to plan at every frame.

use super::{Criterion, SplitError, criteria};
use crate::cost::{Costs, End};

/// The number of nodes on the device (0 to all) that gives the least latency, and that latency in
/// ns. `None` when the model is not a chain: each node except the first reads only the output of
/// the node before it.
///
/// # Errors
/// As [`super::Split::new`].
pub fn best_split(
    costs: &Costs,
    device: usize,
    server: usize,
) -> Result<Option<(usize, u64)>, SplitError> {
    let split = super::Split::new(costs, device, server)?;
    let Some(handed_over) = handed_over(costs) else { return Ok(None) };
    let terms =
        criteria::terms(costs, &split.ends, Criterion::Latency, criteria::At::all(End::Point));
    let nodes = costs.nodes().len();
    let closure = &split.closure;
    let mut latency = terms.server.iter().sum::<u128>();
    let mut best = None;
    for on_device in 0..=nodes {
        if let Some(node) = on_device.checked_sub(1) {
            latency = latency + terms.device[node] - terms.server[node];
        }
        let sent = handed_over.get(on_device);
        let handing = sent.map_or(0, |&tensor| terms.sent[tensor] + terms.offloaded);
        let comes_back = closure.returning[on_device..].contains(&true);
        let total = latency + handing + if comes_back { terms.returned } else { 0 };
        let allowed = !closure.on_server[..on_device].contains(&true)
            && !closure.on_device[on_device..].contains(&true)
            && sent.is_none_or(|&tensor| !closure.tensors[tensor].blocked);
        if allowed && best.is_none_or(|(_, least)| total < least) {
            best = Some((on_device, total));
        }
    }
    let impossible = SplitError::Impossible { bounds: super::CONSTRAINTS.to_owned() };
    let (on_device, total) = best.ok_or(impossible)?;
    Ok(Some((on_device, u64::try_from(total).unwrap_or(u64::MAX))))
}

/// For each node of a chain, the tensor (among those that are read) that it needs.
fn handed_over(costs: &Costs) -> Option<Vec<usize>> {
    let mut needed = vec![None; costs.nodes().len()];
    for (index, tensor) in costs.tensors().iter().filter(|t| !t.consumers.is_empty()).enumerate() {
        let [consumer] = tensor.consumers[..] else { return None };
        let follows = tensor.producer.map_or(consumer == 0, |producer| producer + 1 == consumer);
        if !follows || needed[consumer].replace(index).is_some() {
            return None;
        }
    }
    if costs.together().is_empty() { needed.into_iter().collect() } else { None }
}
