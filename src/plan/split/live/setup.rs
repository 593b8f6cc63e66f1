//! What a live split starts from: the engines of both ends, the link as it is declared, and the
//! halves of the model.

use super::{LiveSplitError, RATES};
use crate::{
    models::Model,
    plan::{live::Engine, partition::Partition},
};
use vitempo_graph::Graph;
use vitempo_planners::cost::{Costs, Link};
use vitempo_profiler::split::{Halves, Shape, Shapes};

/// The engines of device and server.
pub(super) fn engines<'a>(
    names: [&str; 2],
    engines: &'a [Engine],
) -> Result<[&'a Engine; 2], LiveSplitError> {
    let of = |name: &str| {
        let mut found = engines.iter().filter(|engine| engine.name == name);
        let engine = found.next();
        engine.ok_or_else(|| LiveSplitError::NoEngine { processor: name.to_owned() })
    };
    let ends = [of(names[0])?, of(names[1])?];
    match engines.iter().find(|engine| ends.iter().all(|end| !std::ptr::eq(*end, *engine))) {
        Some(other) => Err(LiveSplitError::UnknownEngine {
            name: other.name.clone(),
            device: names[0].to_owned(),
            server: names[1].to_owned(),
        }),
        None => Ok(ends),
    }
}

/// The link to the server and the one back; results come back without cost where the costs have
/// none.
pub(super) fn links(costs: &Costs, names: [&str; 2]) -> Result<[Link; 2], LiveSplitError> {
    let one = |from: usize, to: usize| {
        let error = |reason| LiveSplitError::Link {
            from: names[from].to_owned(),
            to: names[to].to_owned(),
            reason,
        };
        let link = costs.link(from, to).ok_or_else(|| error("is not in the costs"))?;
        let rate = link.bandwidth_bytes_per_s.point() as f64;
        if !RATES.contains(&rate) {
            return Err(error("has a rate that cannot be shaped: expected 64 kbit/s to 4 Gbit/s"));
        }
        if link.conversion_bytes_per_s.is_some() {
            return Err(error("has conversion_bytes_per_s, which is not shaped"));
        }
        Ok(*link)
    };
    Ok([one(0, 1)?, one(1, 0)?])
}

/// The link at so many times its bandwidth.
pub(super) fn shapes(links: &[Link; 2], factor: f64) -> Shapes {
    let shape = |link: &Link| {
        let bytes_per_s = (link.bandwidth_bytes_per_s.point() as f64 * factor).round() as u64;
        Some(Shape { bytes_per_s: bytes_per_s.max(1), setup_ns: link.setup_ns })
    };
    Shapes { there: shape(&links[0]), back: shape(&links[1]) }
}

/// Both halves of a model; one where the other has no node.
pub(super) fn halves(
    whole: &Graph,
    model: &Model,
    nodes: &[usize],
    on_device: &[bool],
) -> Result<Halves, LiveSplitError> {
    let is_here = |&node: &usize| on_device.get(node).copied().unwrap_or(true);
    let part_of: Vec<usize> = nodes.iter().map(|node| usize::from(!is_here(node))).collect();
    if part_of.iter().all(|&part| part == 0) {
        return Ok(Halves { device: Some(whole.clone()), server: None });
    }
    if part_of.iter().all(|&part| part == 1) {
        return Ok(Halves { device: None, server: Some(whole.clone()) });
    }
    let mut parts = Partition::divide(whole, model, &part_of, &["device", "server"])?;
    let server = parts.pop();
    Ok(Halves { device: parts.pop(), server })
}
