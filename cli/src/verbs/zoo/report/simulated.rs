//! Sections by simulation and cost model: violated SLOs, throughput, and memory.

use super::Page;
use crate::verbs::output::percent;
use std::fmt::Write;
use vitempo::plan::stitch::{
    assessment::EVALUATIONS,
    systems::{QUERIES, fixed_order},
};
use vitempo::planners::{Evidence, multi_dnn::Kind};

impl Page<'_> {
    pub(super) fn systems(&self) -> String {
        let mut text = "## SLOs violated, and throughput\n| system | grid, alone | grid, at \
            once | best accuracy | least latency | queries/s |\n|---|---|---|---|---|---|\n"
            .to_owned();
        for j in &self.found.systems {
            let (alone, at_once, accurate, fast) = (
                percent(j.alone),
                percent(j.at_once),
                percent(j.best_accuracy),
                percent(j.least_latency),
            );
            let _ = writeln!(
                text,
                "| {} | {alone} | {at_once} | {accurate} | {fast} | {:.1} |",
                j.name, j.queries_per_s
            );
        }
        for row in &self.found.together {
            let at_once = percent(row.violated as f64 / row.queries.max(1) as f64);
            let _ = writeln!(
                text,
                "| {} | - | {at_once} | - | - | {:.1} |",
                row.name, row.queries_per_s
            );
        }
        let together = match self.found.together.is_empty() {
            true => String::new(),
            false => format!(
                " Planned together: not of the paper; `plan place` for each configuration of the \
                grid, with {EVALUATIONS} evaluations of plans whose tasks wait for each other."
            ),
        };
        let _ = writeln!(
            text,
            "\nLevel of evidence: {}, with measured costs. Grid: 5 x 5 SLOs over the ranges \
            of the originals, widened as in the paper; best accuracy: that of the most accurate \
            original, at five latencies; least \
             latency: that of the fastest, at five accuracies. Alone: each query has the chip to \
             itself; at once: one of each task comes at the same time, over all orders of \
             arrival. Throughput: {QUERIES} queries of each task, mean over the \
             grid. -P: cut, in the order {}; -NP: whole, on the processor where it is done \
             first.{together}\n",
            Evidence::Simulation,
            self.found.zoo.named(&fixed_order(&self.found.zoo))
        );
        text
    }

    pub(super) fn fronts(&self) -> String {
        let mut text = "## What stitching adds\n| task | on the front | originals, whole | \
            originals, cut | stitched | objectives met by whole originals | by all \
            |\n|---|---|---|---|---|---|---|\n"
            .to_owned();
        for found in &self.found.fronts {
            let [whole, cut, stitched] =
                [Kind::Whole, Kind::Cut, Kind::Stitched].map(|kind| found.count(kind));
            let _ = writeln!(
                text,
                "| {} | {} | {whole} | {cut} | {stitched} | {} of {} | {} |",
                found.task,
                found.front.len(),
                found.met_whole,
                found.asked,
                found.met
            );
        }
        let _ = writeln!(
            text,
            "\nLevel of evidence: {}, with measured costs. On the front: the variants that no \
            other of the task is at least as fast and as accurate as, over all orders of \
            processors, each query alone. Objectives: those of the grid.\n",
            Evidence::CostModel
        );
        text
    }

    pub(super) fn memory(&self) -> String {
        let mut text = "## Memory\n| budget, % of all subgraphs | violated, exact | violated, \
            round-robin by hotness |\n|---|---|---|\n"
            .to_owned();
        for b in &self.found.budgets {
            let _ = writeln!(
                text,
                "| {} | {} | {} |",
                b.percent,
                percent(b.exact),
                percent(b.round_robin)
            );
        }
        let _ = writeln!(
            text,
            "\nLevel of evidence: {}. SLOs of the grid that no stitched variant wholly in \
            memory meets, in the order that meets the most with everything there. The paper: 24 \
            to 30 % violated with 15 % of the memory, within 2.7 points with 55 %.\n",
            Evidence::CostModel
        );
        text
    }
}
