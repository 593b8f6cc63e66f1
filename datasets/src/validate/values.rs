//! Is each value possible at all? Counts of what cannot be counted, negative numbers that were
//! stored as unsigned ones, moments before there was vitempo, empty names: no engine reports these.

use super::{Inspection, Readable};
use crate::{
    journal::Entry,
    tables::{environments, model_measurements, models, operator_measurements},
};
use std::collections::HashSet;
use vitempo_graph::{Environment, ModelIdentity, Origin, Protocol, Samples, Status};

/// No machine has so much memory, bytes. Negative numbers stored as unsigned ones are larger.
const MOST_MEMORY_BYTES: u64 = 1 << 50;
/// Nobody asks for so many rounds, repeats, threads or cores.
const MOST_COUNTED: usize = 1 << 20;
/// 2000-01-01 and 2100-01-01, in ms since 1970.
const MOMENTS_MS: std::ops::Range<u64> = 946_684_800_000..4_102_444_800_000;
/// No package or board takes so many watts.
const MOST_WATTS: f64 = 1e5;

/// What a model run says beside its samples.
struct Run<'a> {
    identity: Option<&'a ModelIdentity>,
    session: &'a str,
    round: u64,
    started_unix_ms: u64,
    origin: Origin,
    source: Option<&'a str>,
    status: &'a Status,
    protocol: &'a Protocol,
    e2e: &'a Samples,
    reference: &'a Samples,
    peak_memory_bytes: Option<u64>,
    energy_uj: Option<u64>,
}

impl Inspection<'_> {
    pub(super) fn check_values(&mut self, readable: &Readable) {
        let file = environments::SCHEMA.file_name();
        for (row, found) in readable.environments.iter().flatten().enumerate() {
            self.check_environment(&file, row, &found.environment);
            if found.variant.is_empty() {
                self.impossible(&file, row, "variant", "it is empty");
            }
        }
        let file = models::SCHEMA.file_name();
        for (row, model) in readable.models.iter().flatten().enumerate() {
            self.check_identity(&file, row, &model.identity);
        }
        let file = model_measurements::SCHEMA.file_name();
        for (row, run) in readable.runs.iter().flatten().enumerate() {
            self.check_run_values(
                &file,
                row,
                &Run {
                    identity: None,
                    session: &run.key.session,
                    round: run.key.round,
                    started_unix_ms: run.started_unix_ms,
                    origin: run.origin,
                    source: run.source.as_deref(),
                    status: &run.status,
                    protocol: &run.protocol,
                    e2e: &run.e2e,
                    reference: &run.reference,
                    peak_memory_bytes: run.peak_memory_bytes,
                    energy_uj: run.energy_per_inference_uj,
                },
            );
        }
        let file = operator_measurements::SCHEMA.file_name();
        if let Some(operators) = &readable.operator_runs {
            for row in operators.runs.iter().flat_map(|run| operators.rows(run)) {
                self.check_memory(&file, row.number(), "memory_bytes", row.memory_bytes());
                if row.status().is_ok_and(|status| has_no_reason(&status)) {
                    self.impossible(&file, row.number(), "reason", "it is empty");
                }
            }
        }
        self.check_journal_values(readable);
    }

    fn check_journal_values(&mut self, readable: &Readable) {
        for (index, entry) in readable.journal.entries.iter().enumerate() {
            let Entry::Run(profile) = entry else { continue };
            let (file, line) = readable.journal.place(index);
            self.check_environment(&file, line, &profile.environment);
            self.check_run_values(
                &file,
                line,
                &Run {
                    identity: Some(&profile.model),
                    session: &profile.session,
                    round: profile.round as u64,
                    started_unix_ms: profile.started_unix_ms,
                    origin: profile.origin,
                    source: profile.source.as_deref(),
                    status: &profile.status,
                    protocol: &profile.protocol,
                    e2e: &profile.e2e,
                    reference: &profile.reference,
                    peak_memory_bytes: profile.peak_memory_bytes,
                    energy_uj: profile.energy_per_inference_uj,
                },
            );
            for measurement in &profile.operators {
                self.check_memory(&file, line, "memory_bytes", measurement.memory_bytes);
                if has_no_reason(&measurement.status) {
                    self.impossible(&file, line, "reason", "it is empty");
                }
            }
        }
    }

    fn impossible(&mut self, file: &str, row: usize, column: &str, what: &str) {
        self.error("impossible-value", file, row, format!("column `{column}`: {what}"));
    }

    fn check_environment(&mut self, file: &str, row: usize, environment: &Environment) {
        let e = environment;
        for (column, text) in [("device", &e.device), ("framework", &e.framework)] {
            if text.trim().is_empty() {
                self.impossible(file, row, column, "it is empty");
            }
        }
        for (column, count) in [("threads", e.threads), ("cores_available", e.cores_available)] {
            if !(1..=MOST_COUNTED).contains(&count) {
                self.impossible(file, row, column, &format!("{count} is not possible"));
            }
        }
        let distinct: HashSet<usize> = e.cores.iter().copied().collect();
        if distinct.len() < e.cores.len() || e.cores.iter().any(|&core| core > MOST_COUNTED) {
            let what =
                format!("cores {:?} are not different cores", &e.cores[..e.cores.len().min(8)]);
            self.impossible(file, row, "cores", &what);
        }
    }

    fn check_identity(&mut self, file: &str, row: usize, identity: &ModelIdentity) {
        for (column, text) in [("architecture", &identity.architecture), ("model", &identity.name)]
        {
            if text.trim().is_empty() {
                self.impossible(file, row, column, "it is empty");
            }
        }
        if identity.encoding.is_some() && identity.space.is_none() {
            self.impossible(file, row, "encoding", "there is no search space that it is of");
        }
    }

    fn check_run_values(&mut self, file: &str, row: usize, run: &Run<'_>) {
        if let Some(identity) = run.identity {
            self.check_identity(file, row, identity);
        }
        if run.session.trim().is_empty() {
            self.impossible(file, row, "sitting", "it is empty");
        }
        if run.round > MOST_COUNTED as u64 {
            self.impossible(file, row, "round", &format!("{} is not possible", run.round));
        }
        if has_no_reason(run.status) {
            self.impossible(file, row, "reason", "it is empty");
        }
        match (run.origin, run.source) {
            (Origin::Imported, _) | (_, None) => {}
            (_, Some(_)) => {
                self.impossible(file, row, "source", "the model run is not imported");
            }
        }
        // What was imported has no moment.
        if run.origin != Origin::Imported && !MOMENTS_MS.contains(&run.started_unix_ms) {
            let what = format!("{} ms is before 2000 or after 2100", run.started_unix_ms);
            self.impossible(file, row, "started_unix_ms", &what);
        }
        self.check_protocol(file, row, run.protocol);
        self.check_memory(file, row, "peak_memory_bytes", run.peak_memory_bytes);
        self.check_energy(file, row, run);
        self.check_reference(file, row, run.reference);
    }

    fn check_protocol(&mut self, file: &str, row: usize, protocol: &Protocol) {
        let p = protocol;
        let counts = [p.warmups, p.min_repeats, p.max_repeats, p.rounds];
        if counts.iter().any(|&count| count > MOST_COUNTED) || p.min_repeats > p.max_repeats {
            self.impossible(file, row, "protocol_json", "its repeats or rounds are not possible");
        }
        if !(p.target_spread.is_finite() && p.target_spread >= 0.0) {
            let what = format!("a target spread of {} is not possible", p.target_spread);
            self.impossible(file, row, "protocol_json", &what);
        }
    }

    fn check_memory(&mut self, file: &str, row: usize, column: &str, bytes: Option<u64>) {
        let Some(bytes) = bytes.filter(|&bytes| bytes > MOST_MEMORY_BYTES) else { return };
        let negative = bytes as i64;
        let what = match negative {
            ..0 => format!("{bytes} B, which is {negative} as a signed number"),
            _ => format!("{bytes} B are more than any machine has"),
        };
        self.impossible(file, row, column, &what);
    }

    fn check_energy(&mut self, file: &str, row: usize, run: &Run<'_>) {
        let (Some(energy), Some(median)) = (run.energy_uj, run.e2e.median_ns()) else { return };
        let watts = energy as f64 * 1e3 / median.max(1.0);
        if energy == 0 || watts > MOST_WATTS {
            let what = format!("{energy} uJ in {median} ns are {watts:.0} W");
            self.impossible(file, row, "energy_per_inference_uj", &what);
        }
    }

    fn check_reference(&mut self, file: &str, row: usize, reference: &Samples) {
        let longest = self.tolerances.longest_sample_ns;
        for (column, samples) in
            [("reference_wall_ns", &reference.wall_ns), ("reference_cpu_ns", &reference.cpu_ns)]
        {
            let wall = column == "reference_wall_ns";
            if let Some(ns) = samples.iter().find(|&&ns| ns > longest || (wall && ns == 0)) {
                self.impossible(file, row, column, &format!("a sample of {ns} ns"));
            }
        }
        if !reference.cpu_ns.is_empty() && reference.cpu_ns.len() != reference.wall_ns.len() {
            self.impossible(file, row, "reference_cpu_ns", "not as many samples as of wall time");
        }
    }
}

fn has_no_reason(status: &Status) -> bool {
    matches!(status, Status::Failed(reason) if reason.trim().is_empty())
}
