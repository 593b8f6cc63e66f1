//! [`Placing::running`]: what runs for a frame of a plan for several models.

use super::Placing;
use vitempo_planners::{
    Stage,
    cost::Interval,
    energy::Running,
    multi_dnn::{Arrivals, PlacedTask, PlacedWay},
};

impl Placing {
    /// What runs for a frame.
    ///
    /// Where one query of each task comes at once, they are a frame, and the next is taken when the
    /// last of them ends, in the slowest order. Otherwise a query of the task that is asked most
    /// often is a frame, and the other tasks run on a share of the frames. A task with several ways
    /// takes each as often as its queries do. Pieces take what they take alone, with the transfer
    /// of their output.
    #[must_use]
    pub fn running(&self) -> Running {
        let tasks = &self.plan.tasks;
        let most = tasks.iter().map(|task| task.queries).max().unwrap_or(0).max(1);
        let stages = tasks.iter().flat_map(|task| self.stages(task, most)).collect();
        let latest = |of: fn(&PlacedTask) -> u64| tasks.iter().map(of).max().unwrap_or(0);
        let (latency_ns, period_ns) = match self.arrivals {
            Arrivals::Over { horizon_ns, .. } => {
                let mean = |task: &PlacedTask| task.mean_latency_ns.round() as u64;
                (latest(mean), Some(Interval::exact(horizon_ns / most)))
            }
            _ => (latest(|task| task.longest_ns), None),
        };
        let latency_ns = Interval::exact(latency_ns);
        Running { stages, transfers: Vec::new(), latency_ns, period_ns }
    }

    /// The stages of a task on one of `frames`.
    fn stages(&self, task: &PlacedTask, frames: u64) -> Vec<Stage> {
        let stage = |way: &PlacedWay, piece: &vitempo_planners::multi_dnn::PlacedPiece| {
            let share = way.queries as f64 / frames as f64;
            Stage {
                processor: self.zoo.processors()[piece.processor].clone(),
                nodes: piece.positions.clone().map(|p| format!("{}/{p}", task.name)).collect(),
                latency_ns: Interval::exact((piece.ns as f64 * share).round() as u64),
                memory_bytes: 0,
            }
        };
        let of_way = |way: &PlacedWay| way.pieces.iter().map(|p| stage(way, p)).collect::<Vec<_>>();
        task.ways.iter().flat_map(of_way).collect()
    }
}
