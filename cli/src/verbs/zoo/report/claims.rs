//! The paper's claims beside the results.

use super::Page;
use crate::verbs::output::percent;
use std::fmt::Write;
use vitempo::plan::stitch::assessment::SystemRates;
use vitempo::planners::Evidence;
use vitempo::zoo::recall::Recall;

impl Page<'_> {
    /// The paper's claims beside the results.
    pub(super) fn claims(&self) -> String {
        let beside = |of, show| self.beside_others(of, show);
        let queries = |per_s: f64| format!("{per_s:.1}");
        let saved = self
            .found
            .memory_saved_percent()
            .map_or_else(|| "-".to_owned(), |percent| format!("{percent} %"));
        let profiling = self.found.profiling().saved().map_or_else(|| "-".to_owned(), percent);
        let recall = |of: fn(&Recall) -> f64| {
            self.found.recall().map_or_else(|| "-".to_owned(), |recall| percent(of(recall)))
        };
        let sums = self
            .record
            .trials
            .error(|tried| Some(tried.summed_ns))
            .map_or_else(|| "-".to_owned(), |(_, share)| percent(share));
        let rows = [
            (
                "SLOs violated, several tasks at once: the paper's setting",
                "up to 74 % fewer than without stitching",
                beside(|j| j.at_once, percent),
                Evidence::Simulation,
            ),
            (
                "queries/s, several tasks at once: the paper's setting",
                "up to 2.31 times those without stitching",
                beside(|j| j.queries_per_s, queries),
                Evidence::Simulation,
            ),
            (
                "SLOs violated, each query alone: not the paper's setting",
                "-",
                beside(|j| j.alone, percent),
                Evidence::Simulation,
            ),
            (
                "memory saved at as many SLOs met, within a point",
                "28 %",
                saved,
                Evidence::CostModel,
            ),
            (
                "profiling runs saved by estimators (eq. 6)",
                "84 to 98 %",
                profiling,
                Evidence::CostModel,
            ),
            (
                "best tenth of stitched variants found, all samples drawn at random and every \
                accuracy estimated: the paper's protocol",
                "90.78 %",
                recall(|r| r.at_random),
                Evidence::Live,
            ),
            (
                "best tenth of stitched variants found, half of the samples chosen near its border \
                and measured accuracies kept: not the paper's protocol",
                "-",
                recall(Recall::mean),
                Evidence::Live,
            ),
            ("error of summed subgraph latencies (eq. 5), mean", "8.9 %", sums, Evidence::Live),
        ];
        let mut text = "## The paper's claims\n| | paper (paper table) | here | level of evidence \
            |\n|---|---|---|---|\n"
            .to_owned();
        for (what, paper, here, evidence) in rows {
            let _ = writeln!(text, "| {what} | {paper} | {here} | {evidence} |");
        }
        text.push_str(
            "\nThe paper's zoos, processors and data differ from these: its figures are for \
            orientation only. A row that is not the paper's setting or protocol has no figure of \
            the paper beside it.\n\n",
        );
        if self.found.stitching_is_worst() {
            text.push_str(
                "In the paper's setting, several tasks at once, stitching violates the most \
                SLOs here and answers the fewest queries per second of all systems.\n\n",
            );
        }
        text
    }

    /// A figure of stitching, beside the range over the systems that do not stitch.
    fn beside_others(&self, of: fn(&SystemRates) -> f64, show: fn(f64) -> String) -> String {
        self.found.beside_others(of).map_or_else(
            || "-".to_owned(),
            |(stitched, [least, most])| {
                format!(
                    "{} with stitching, {} to {} without",
                    show(stitched),
                    show(least),
                    show(most)
                )
            },
        )
    }
}
