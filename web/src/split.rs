//! A model between a device and a server.

use crate::{
    Failure, Session,
    answers::{BandwidthRange, Range, Split, SplitPlan, Stage, Transfer},
};
use vitempo::{
    graph::{ImageSize, Interval},
    plan::split::{self, Connection, DevicePower},
    planners::{
        self,
        cost::Costs,
        picture,
        split::{Criterion, Objective},
    },
};

impl Session {
    /// Where to cut a model between two bundles behind a link: bytes per second both ways, and
    /// nanoseconds of a round trip.
    ///
    /// # Errors
    /// The library's.
    pub fn split(
        &mut self,
        model: u32,
        size: Option<ImageSize>,
        [device, server]: [&str; 2],
        bytes_per_s: u64,
        round_trip_ns: u64,
    ) -> Result<Split, Failure> {
        let model = self.model(model, size)?;
        let (device, server) = (self.bundle(device)?, self.bundle(server)?);
        let link = Connection { round_trip_ns, ..Connection::of_bandwidth(bytes_per_s) };
        let power = DevicePower::default();
        let forecast = split::costs(&model.graph, device, server, &link, power);
        let costs = forecast.map_err(Failure::of)?.costs;
        let objective = Objective::least(Criterion::Latency);
        let best = split::best(&costs, &objective, split::budget()).map_err(Failure::of)?;
        let front = split::pareto(&costs, &[], split::budget()).map_err(Failure::of)?;
        let ranges = split::over_bandwidth(&costs, &objective, split::budget());
        Ok(Split {
            device: on_device(&costs),
            front: front.plans.iter().map(|plan| SplitPlan::of(plan, &costs)).collect(),
            is_complete: front.is_complete,
            ranges: ranges.map_err(Failure::of)?.iter().map(BandwidthRange::from).collect(),
            picture: picture::graph(&costs, &split::processors(&best)),
            best: SplitPlan::of(&best, &costs),
        })
    }
}

/// The whole model on the device, ns.
fn on_device(costs: &Costs) -> Range {
    let of_node = |node: &planners::cost::NodeCosts| node.latency_ns.first().copied().flatten();
    costs.nodes().iter().filter_map(of_node).sum::<Interval<u64>>().into()
}

fn count(on_device: &[bool]) -> usize {
    on_device.iter().filter(|here| **here).count()
}

impl From<&planners::split::BandwidthRange> for BandwidthRange {
    fn from(of: &planners::split::BandwidthRange) -> Self {
        let to = Some(of.to_bytes_per_s).filter(|to| to.is_finite());
        Self { from: of.from_bytes_per_s, to, device_operators: count(&of.on_device) }
    }
}

impl SplitPlan {
    fn of(of: &planners::split::SplitPlan, costs: &Costs) -> Self {
        let device = costs.processors().first().map(|p| p.name.as_str());
        let transfers = &of.plan.transfers;
        let sent = transfers.iter().filter(|transfer| Some(transfer.from.as_str()) == device);
        Self {
            latency: of.plan.predicted.latency_ns.into(),
            bytes_sent: sent.map(|transfer| transfer.size_bytes).sum(),
            device_operators: count(&of.on_device),
            operators: of.on_device.len(),
            stages: of.plan.stages.iter().map(Stage::from).collect(),
            transfers: transfers.iter().map(Transfer::from).collect(),
        }
    }
}

impl From<&planners::Stage> for Stage {
    fn from(of: &planners::Stage) -> Self {
        Self {
            processor: of.processor.clone(),
            count: of.nodes.len(),
            first: of.nodes.first().cloned().unwrap_or_default(),
            last: of.nodes.last().cloned().unwrap_or_default(),
            latency: of.latency_ns.into(),
        }
    }
}

impl From<&planners::Transfer> for Transfer {
    fn from(of: &planners::Transfer) -> Self {
        Self {
            from: of.from.clone(),
            tensors: of.tensors.clone(),
            bytes: of.size_bytes,
            latency: of.latency_ns.into(),
        }
    }
}
