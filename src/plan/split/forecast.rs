//! [`Forecast`]: what the costs say of a split, part by part, beside what is measured.

use serde::{Deserialize, Serialize};
use vitempo_planners::{
    Plan,
    cost::{Costs, Interval, Link},
};
use vitempo_profiler::split::MESSAGE_BYTES;

/// The forecast of a split, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forecast {
    /// From input to result: the sum of the parts.
    pub latency_ns: Interval,
    /// Between the results of two frames, while device, both directions of the link and server
    /// each work on another frame: the longest part.
    pub period_ns: Interval,
    /// The device's half.
    pub device_ns: Interval,
    /// Tensors to the server, with the link's set-up.
    pub there_ns: Interval,
    /// The server's half.
    pub server_ns: Interval,
    /// Results back, with that link's set-up.
    pub back_ns: Interval,
}

impl Forecast {
    /// The forecast of a plan between the first processor of the costs and the second. All tensors
    /// of a direction go in one message, whose own bytes ([`MESSAGE_BYTES`]) count here; costs know
    /// tensors only.
    #[must_use]
    pub fn of(plan: &Plan, costs: &Costs) -> Self {
        let name = |index: usize| costs.processors().get(index).map(|p| p.name.as_str());
        let stage = |index: usize| {
            let stages = plan.stages.iter().filter(|s| Some(s.processor.as_str()) == name(index));
            stages.map(|stage| stage.latency_ns).sum::<Interval>()
        };
        let transfer = |from: usize| {
            let transfers = plan.transfers.iter().filter(|t| Some(t.from.as_str()) == name(from));
            transfers.map(|t| t.latency_ns).sum::<Interval>()
        };
        let is_used = plan.stages.iter().any(|s| Some(s.processor.as_str()) == name(1));
        let message = |from: usize, to: usize| {
            // Handing over counts for each tensor already.
            let link = costs.link(from, to).filter(|_| is_used);
            let link = link.map(|link| Link { message_ns: 0, ..*link });
            link.and_then(|link| link.transfer_ns(MESSAGE_BYTES[from])).unwrap_or(Interval::ZERO)
        };
        let messages = [message(0, 1), message(1, 0)];
        let parts @ [device_ns, there_ns, server_ns, back_ns] =
            [stage(0), transfer(0) + messages[0], stage(1), transfer(1) + messages[1]];
        let period_ns = parts.into_iter().fold(Interval::ZERO, Interval::max);
        let latency_ns = plan.predicted.latency_ns + messages[0] + messages[1];
        Self { latency_ns, period_ns, device_ns, there_ns, server_ns, back_ns }
    }
}
