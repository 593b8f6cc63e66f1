//! Sections on the measurements: the accuracy estimator, latencies, and the origin of the figures.

use super::Page;
use crate::verbs::{output::percent, plan::place::words};
use std::fmt::Write;
use vitempo::graph::Latency;
use vitempo::plan::stitch::record::LatencyErrors;
use vitempo::planners::Evidence;
use vitempo::zoo::recall::{DRAWS, SAMPLES};

impl Page<'_> {
    pub(super) fn accuracy(&self) -> String {
        let mut text = "## Accuracy estimator\n".to_owned();
        for (task, recall) in &self.found.recalls {
            let ends = recall
                .recall
                .first()
                .zip(recall.recall.last())
                .map(|(least, most)| format!("{} to {}", percent(*least), percent(*most)));
            let _ = writeln!(
                text,
                "`{}`: when {SAMPLES} of {} stitched variants are measured beside the originals, \
                half at random and half where the estimate is near the border of the best tenth, \
                {} of the best tenth are found on average ({} over {DRAWS} draws), with \
                accuracies {:.2} points off on average. By the paper's protocol, with all \
                {SAMPLES} drawn at random and every accuracy estimated, also the measured ones, \
                {} are found on average over the same draws (the paper: 90.78 %). Level of \
                evidence: {} (accuracy really computed).",
                task.name,
                task.accuracies_bp.len(),
                percent(recall.mean()),
                ends.unwrap_or_default(),
                recall.error,
                percent(recall.at_random),
                Evidence::Live
            );
        }
        if self.found.recalls.is_empty() {
            text.push_str(
                "All stitched variants of a task have to be measured, more than the \
                samples of the estimator: here they were not.\n",
            );
        }
        let profiling = self.found.profiling();
        let exhaustive = profiling
            .exhaustive()
            .map_or_else(|| "more than 2^128".to_owned(), |runs| runs.to_string());
        let _ = writeln!(
            text,
            "\nProfiling takes {} runs instead of {exhaustive} (eq. 6), and {SAMPLES} more per \
            task for the estimator.\n",
            profiling.estimated()
        );
        text
    }

    pub(super) fn latency(&self) -> String {
        let trials = &self.record.trials;
        let mut text = "## Latency\n| task | stitched variants run | error of summed subgraphs | \
            error of summed forecasts |\n|---|---|---|---|\n"
            .to_owned();
        let show = |error: Option<(f64, f64)>| {
            error.map_or_else(
                || "-".to_owned(),
                |(ns, share)| format!("{} ({})", percent(share), Latency::from_ns(ns)),
            )
        };
        let tasks = self.record.tasks.iter().map(|task| task.name.as_str());
        for LatencyErrors { task, count, summed, forecast } in trials.errors(tasks) {
            let _ = writeln!(
                text,
                "| {} | {count} | {} | {} |",
                task.unwrap_or("all"),
                show(summed),
                show(forecast)
            );
        }
        text.push_str(
            "\n| order | predicted | measured | missed, predicted | missed, measured \
            |\n|---|---|---|---|---|\n",
        );
        for tried in &trials.orders {
            let (predicted, measured) = (
                Latency::from_ns(tried.predicted_ns as f64),
                Latency::from_ns(tried.measured_ns as f64),
            );
            let _ = writeln!(
                text,
                "| {} | {predicted} | {measured} | {} | {} |",
                tried.order.join("-"),
                tried.predicted_misses,
                tried.measured_misses
            );
        }
        let regret = trials.regret().map_or_else(|| "-".to_owned(), percent);
        let _ = writeln!(
            text,
            "\nLevel of evidence: {}. Mean latencies over tasks, each order with the variants \
            that are best in it; regret of the order chosen: {regret}.\n",
            Evidence::Live
        );
        text
    }

    pub(super) fn origin(&self) -> String {
        let mut text = "## What was measured\n".to_owned();
        for (name, what) in &self.record.processors {
            let _ = writeln!(text, "- processor `{name}`: {what}");
        }
        let _ = writeln!(text, "- {}", words::hand_over(&self.found.zoo));
        if let Some(what) = &self.record.accuracy_is {
            let _ = writeln!(text, "- accuracies: {what}");
        }
        for task in &self.record.tasks {
            let asked = format!(
                "{:.2} %, {}",
                f64::from(task.asked.0) / 100.0,
                Latency::from_ns(task.asked.1 as f64)
            );
            let _ = writeln!(
                text,
                "- task `{}`: {}; accuracies: {}; asked: {asked}",
                task.name,
                task.variants.join(", "),
                task.accuracy_how
            );
        }
        text
    }
}
