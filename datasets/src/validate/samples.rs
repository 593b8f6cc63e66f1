//! Checks that numbers are plausible. Times in ns.

use super::{Inspection, OperatorShare, Readable, Severity, graphs};
use crate::{
    RunKey,
    journal::Entry,
    tables::{model_measurements, operator_measurements, origin_name},
};
use std::collections::{HashMap, HashSet};
use vitempo_graph::{Environment, Origin, Processor, Samples, Setting, Status, Work};

/// What samples of an environment can be.
#[derive(Clone, Copy)]
struct Plausible {
    /// Highest rate, in FLOP per ns.
    flops_per_ns: f64,
    /// Whether an operator can take no time: in a CUDA graph, where nothing ran for it.
    operators_of_0: bool,
}

impl Plausible {
    const ANY: Self = Self { flops_per_ns: f64::INFINITY, operators_of_0: false };
}

/// One row with samples.
struct Row<'a> {
    file: &'a str,
    number: usize,
    /// The quantity, e.g. `e2e`.
    quantity: &'a str,
    samples: &'a Samples,
    status: &'a Status,
    flops: u64,
    limit: Plausible,
}

impl Inspection<'_> {
    pub(super) fn check_samples(&mut self, readable: &Readable) {
        let graphs: HashMap<&str, u64> = flops_of_models(readable);
        let limits: HashMap<&str, Plausible> = readable
            .environments
            .iter()
            .flatten()
            .map(|row| (row.id.as_str(), self.plausible(&row.environment)))
            .collect();
        let operators: HashMap<&str, u64> = readable
            .operators
            .iter()
            .flatten()
            .map(|row| (row.op_id.as_str(), Work::of_operator(&row.op).flops))
            .collect();
        let sums = self.check_operator_rows(readable, &operators, &limits);
        let alone: HashSet<&str> = readable
            .models
            .iter()
            .flatten()
            .map(|row| &row.identity)
            .filter(|m| m.is_operator())
            .map(|m| m.architecture.as_str())
            .collect();
        let file = model_measurements::SCHEMA.file_name();
        for (number, run) in readable.runs.iter().flatten().enumerate() {
            let flops = graphs.get(run.key.architecture.as_str()).copied().unwrap_or(0);
            let limit = limit_of(&limits, &run.key);
            self.count_run(run.origin, &run.status);
            if alone.contains(run.key.architecture.as_str()) {
                continue; // its operators were checked; it has no end-to-end time
            }
            if run.origin == Origin::Imported && run.source.is_none() {
                self.warn(
                    "no-source",
                    &file,
                    number,
                    format!("{} is imported, but names no source", run.key),
                );
            }
            // Others may have published the operators of a model alone.
            if run.origin == Origin::Imported && run.operators > 0 && run.e2e.wall_ns.is_empty() {
                continue;
            }
            self.check_run(
                &Row {
                    file: &file,
                    number,
                    quantity: "e2e",
                    samples: &run.e2e,
                    status: &run.status,
                    flops,
                    limit,
                },
                &run.e2e_profiled,
            );
            let sum = sums.get(&run.key).copied();
            self.check_share(&run.key, (&file, number), sum, &run.e2e_profiled, &run.e2e);
        }
        self.check_journal_samples(readable, &graphs);
    }

    fn check_operator_rows<'r>(
        &mut self,
        readable: &'r Readable,
        flops: &HashMap<&str, u64>,
        limits: &HashMap<&str, Plausible>,
    ) -> HashMap<&'r RunKey, f64> {
        let file = operator_measurements::SCHEMA.file_name();
        let mut sums = HashMap::new();
        let Some(operators) = &readable.operator_runs else { return sums };
        for run in &operators.runs {
            let limit = limit_of(limits, &run.key);
            let mut sum = 0.0;
            for row in operators.rows(run) {
                let Ok(status) = row.status() else { continue };
                let samples = row.samples();
                let flops = flops.get(row.op_id()).copied().unwrap_or(0);
                self.check_row(&Row {
                    file: &file,
                    number: row.number(),
                    quantity: "operator",
                    samples: &samples,
                    status: &status,
                    flops,
                    limit,
                });
                self.count_failure(&status);
                sum += samples.median_ns().unwrap_or(0.0);
            }
            sums.insert(&run.key, sum);
        }
        sums
    }

    fn check_journal_samples(&mut self, readable: &Readable, graphs: &HashMap<&str, u64>) {
        let stored: HashSet<&RunKey> = readable.runs.iter().flatten().map(|run| &run.key).collect();
        for (index, entry) in readable.journal.entries.iter().enumerate() {
            let Entry::Run(profile) = entry else { continue };
            let key = RunKey::from(&**profile);
            if stored.contains(&key) {
                continue;
            }
            let (file, number) = readable.journal.place(index);
            let flops = graphs.get(key.architecture.as_str()).copied().unwrap_or(0);
            let limit = self.plausible(&profile.environment);
            self.count_run(profile.origin, &profile.status);
            if !profile.model.is_operator() {
                let row = Row {
                    file: &file,
                    number,
                    quantity: "e2e",
                    samples: &profile.e2e,
                    status: &profile.status,
                    flops,
                    limit,
                };
                self.check_run(&row, &profile.e2e_profiled);
            }
            for m in &profile.operators {
                let quantity = format!("operator `{}`", m.node);
                let flops = Work::of_operator(&m.op).flops;
                self.count_failure(&m.status);
                self.check_row(&Row {
                    file: &file,
                    number,
                    quantity: &quantity,
                    samples: &m.samples,
                    status: &m.status,
                    flops,
                    limit,
                });
            }
            let sum = profile.operators.iter().filter_map(|m| m.samples.median_ns()).sum();
            if profile.model.is_operator() {
                continue;
            }
            self.check_share(
                &key,
                (&file, number),
                (!profile.operators.is_empty()).then_some(sum),
                &profile.e2e_profiled,
                &profile.e2e,
            );
        }
    }

    /// The null framework does no work, so that no rate is too high for it.
    fn plausible(&self, environment: &Environment) -> Plausible {
        let flops_per_ns = match environment.processor {
            _ if environment.framework == "null" => f64::INFINITY,
            Processor::Cpu => {
                self.tolerances.thread_flops_per_ns * environment.threads.max(1) as f64
            }
            Processor::Gpu | Processor::Npu => self.tolerances.accelerator_flops_per_ns,
        };
        let operators_of_0 = environment.settings.contains(&Setting::CudaGraph);
        Plausible { flops_per_ns, operators_of_0 }
    }

    fn count_run(&mut self, origin: Origin, status: &Status) {
        *self.report.origins.entry(origin_name(origin).to_owned()).or_default() += 1;
        self.count_failure(status);
    }

    fn count_failure(&mut self, status: &Status) {
        if let Status::Failed(reason) = status {
            *self.report.failed.entry(reason.clone()).or_default() += 1;
        }
    }

    fn check_run(&mut self, row: &Row<'_>, profiled: &Samples) {
        self.check_row(row);
        if !profiled.wall_ns.is_empty() {
            self.check_row(&Row { quantity: "e2e_profiled", samples: profiled, ..*row });
        }
    }

    fn check_row(&mut self, row: &Row<'_>) {
        let Row { file, number, quantity, samples, .. } = *row;
        match (row.status, samples.median_ns()) {
            (Status::Failed(_), _) => return,
            (Status::Ok, None) => {
                return self.error(
                    "no-samples",
                    file,
                    number,
                    format!("{quantity} has status `ok` but no samples"),
                );
            }
            (Status::Ok, Some(median)) => {
                let rate = row.flops as f64 / median.max(1.0);
                if rate > row.limit.flops_per_ns {
                    let rate = if median > 0.0 { format!("{rate:.0}") } else { "infinite".into() };
                    let what = format!(
                        "{quantity}: {} FLOP in {median} ns are {rate} GFLOP/s; are these ns?",
                        row.flops
                    );
                    self.warn("wrong-unit", file, number, what);
                }
            }
        }
        // Some engines report operators in whole microseconds; a model takes longer.
        let is_operator = !quantity.starts_with("e2e");
        if is_operator && row.limit.operators_of_0 {
            // Nothing ran for it.
        } else if samples.wall_ns.iter().all(|&ns| ns == 0) {
            let severity = if is_operator { Severity::Warning } else { Severity::Error };
            let what = format!("{quantity} takes 0 ns in every run");
            self.find(severity, "zero-sample", file, Some(number), what);
        } else if samples.wall_ns.contains(&0) {
            self.warn("zero-sample", file, number, format!("{quantity} has a sample of 0 ns"));
        }
        if let Some(longest) = samples
            .wall_ns
            .iter()
            .chain(&samples.cpu_ns)
            .find(|&&ns| ns > self.tolerances.longest_sample_ns)
        {
            self.error(
                "absurd-sample",
                file,
                number,
                format!("{quantity} has a sample of {longest} ns"),
            );
        }
        if !samples.cpu_ns.is_empty() && samples.cpu_ns.len() != samples.wall_ns.len() {
            let what = format!(
                "{quantity} has {} wall and {} CPU samples",
                samples.wall_ns.len(),
                samples.cpu_ns.len()
            );
            self.error("unequal-samples", file, number, what);
        }
    }

    fn check_share(
        &mut self,
        key: &RunKey,
        (file, number): (&str, usize),
        sum: Option<f64>,
        profiled: &Samples,
        e2e: &Samples,
    ) {
        let (Some(sum), Some(whole)) = (sum, profiled.median_ns().or(e2e.median_ns())) else {
            return;
        };
        let share = sum / whole.max(1.0);
        if (share - 1.0).abs() > self.tolerances.operator_sum {
            let percent = share * 100.0;
            self.warn(
                "operator-sum",
                file,
                number,
                format!(
                    "the operators of `{}` add up to {percent:.1} % of its end-to-end time",
                    key.model
                ),
            );
        }
        self.report.operator_shares.push(OperatorShare {
            model: key.model.clone(),
            session: key.session.clone(),
            round: key.round,
            share,
        });
    }

    pub(super) fn check_origins(&mut self) {
        if self.report.origins.len() > 1 {
            let parts: Vec<String> = self
                .report
                .origins
                .iter()
                .map(|(origin, runs)| format!("{runs} {origin}"))
                .collect();
            let what = format!(
                "model runs of different origins: {}; do not train on them together unseen",
                parts.join(", ")
            );
            self.find(
                Severity::Warning,
                "mixed-origins",
                &model_measurements::SCHEMA.file_name(),
                None,
                what,
            );
        }
    }
}

fn limit_of(limits: &HashMap<&str, Plausible>, key: &RunKey) -> Plausible {
    limits.get(key.environment_id.as_str()).copied().unwrap_or(Plausible::ANY)
}

fn flops_of_models(readable: &Readable) -> HashMap<&str, u64> {
    let flops = |(architecture, graph)| (architecture, Work::of_graph(graph).flops);
    graphs(readable).into_iter().map(flops).collect()
}
