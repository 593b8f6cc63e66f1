//! `vitempo backends check --lowering`: which share of the executed time did lowering predict, per
//! family of models, and what did it miss?

use crate::verbs::{
    error::{CliError, CliResult},
    interrupt::interrupted,
    models::{ModelArgs, asked, none_left_out},
    output::{self, Format, Report, Table},
    progress,
    worker::worker,
};
use serde_json::{Value, json};
use vitempo::engines::lowering::LoweringEvaluation;
use vitempo::graph::{Latency, OpSpec, TensorSpec, lowering::compare::Mismatch};
use vitempo::models::Models;
use vitempo::profiler::{
    RunOptions,
    lowering_accuracy::{LoweringAccuracy, LoweringAccuracyError, LoweringShortfall, Time},
};

/// Rows of the table of differences; JSON and CSV have all.
const ROWS_SHOWN: usize = 20;

/// Which models, on what.
pub struct Question<'a> {
    pub models: ModelArgs,
    pub backend: &'a str,
    pub options: RunOptions,
    pub repeats: usize,
}

/// Evaluates, prints, and fails if less than `least` percent of a family's time was predicted.
pub fn run(question: Question<'_>, least: Option<f64>, format: Format) -> CliResult {
    let models = question.models.read_some()?;
    let asked = asked(&models);
    let Models { read, unreadable } = models;
    let evaluation = LoweringEvaluation {
        models: read,
        engine: question.backend.to_owned(),
        options: question.options,
        profiled_repeats: question.repeats,
        worker: worker()?,
    };
    let bar = progress::bar(0, "evaluating");
    let accuracy =
        evaluation.evaluate(&interrupted(), &mut |p| progress::advance(&bar, p.done, p.total));
    bar.finish_and_clear();
    let accuracy = accuracy.map_err(error)?;
    output::print(&Lowering(&accuracy), format)?;
    accuracy.check(least)?;
    none_left_out(unreadable.len(), asked)
}

fn error(error: LoweringAccuracyError) -> CliError {
    match error {
        LoweringAccuracyError::Sweep(error) => error.into(),
        error @ LoweringAccuracyError::NoRules(_) => CliError::user(format!("{error} (--backend)"))
            .hint(format!(
                "engines with rules: {}",
                vitempo::graph::lowering::FRAMEWORKS.join(", ")
            )),
        error => CliError::user(error),
    }
}

impl From<LoweringShortfall> for CliError {
    fn from(error: LoweringShortfall) -> Self {
        match error {
            LoweringShortfall::BelowLimit { .. } => {
                Self::user(format!("{error} (--min-time-matched)"))
            }
            other => Self::user(other),
        }
    }
}

struct Lowering<'a>(&'a LoweringAccuracy);

/// `99.83 %`; only what is whole is `100 %`.
fn percent(share: f64) -> String {
    if share >= 1.0 {
        "100 %".to_owned()
    } else {
        format!("{:.2} %", (share * 1e4).floor() / 100.0)
    }
}

fn shapes<'t>(tensors: impl Iterator<Item = &'t TensorSpec>) -> String {
    let one =
        |t: &TensorSpec| t.shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
    tensors.map(one).collect::<Vec<_>>().join(" ")
}

/// `conv 1x64x56x56 -> 1x64x56x56`
fn brief(op: &OpSpec) -> String {
    format!("{} {} -> {}", op.kind, shapes(op.activations()), shapes(op.outputs.iter()))
}

impl Lowering<'_> {
    fn mismatches(&self) -> Vec<(&str, f64, &Mismatch)> {
        self.0.missed(|c| &c.mismatches)
    }

    fn summary(&self) -> Table {
        let mut table = Table::new(
            &["Family", "Models", "Time predicted", "in everything", "Lowest model", ""],
            1,
        );
        let row = |name: &str, time: Time, family| {
            let (lowest, model) = self
                .0
                .lowest(family)
                .map(|(m, c)| (percent(c.time_matched()), m.model.name.clone()))
                .unwrap_or_default();
            [
                name.to_owned(),
                time.models.to_string(),
                percent(time.matched()),
                percent(time.equal()),
                lowest,
                model,
            ]
        };
        for family in self.0.families() {
            table.row(row(family.name(), self.0.time(Some(family)), Some(family)));
        }
        table.row(row("all", self.0.time(None), None));
        table
    }

    fn differences(&self, most: usize) -> (Table, usize) {
        let mut table = Table::new(
            &["Model", "Node", "Kernel", "Executed", "Nearest predicted", "Time", "Share"],
            5,
        );
        let rows = self.mismatches();
        let all = rows.len();
        for (model, share, m) in rows.into_iter().take(most) {
            let nearest = m.nearest.as_ref().map_or_else(|| "-".to_owned(), |p| brief(&p.op));
            let texts =
                [model.to_owned(), m.node.clone(), m.kernel.clone(), brief(&m.executed), nearest];
            table
                .row(texts.into_iter().chain([Latency::from_ns(m.ns).to_string(), percent(share)]));
        }
        (table, all)
    }
}

impl Report for Lowering<'_> {
    fn table(&self) -> String {
        let mut text = format!("{}\n\n{}", self.0.environment.describe(), self.summary().to_text());
        let (table, all) = self.differences(ROWS_SHOWN);
        if all > 0 {
            text += &format!("\nKernels that were not predicted\n{}", table.to_text());
        }
        if all > ROWS_SHOWN {
            text += &format!("... and {} more with --format json or csv\n", all - ROWS_SHOWN);
        }
        for model in &self.0.models {
            if let Err(reason) = &model.outcome {
                text += &format!("failed: {}: {reason}\n", model.model.name);
            }
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        self.differences(usize::MAX).0.to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let j = self.0;
        let time = j.time(None);
        let by_family: serde_json::Map<String, Value> =
            j.families().map(|f| (f.name().to_owned(), json!(j.time(Some(f)).matched()))).collect();
        let families: Vec<Value> = j
            .families()
            .map(|f| {
                let t = j.time(Some(f));
                json!({"family": f.name(), "models": t.models, "time_matched": t.matched(), "time_equal": t.equal(), "executed_ns": t.executed_ns})
            })
            .collect();
        let by_model: Vec<Value> = j
            .compared(None)
            .map(|(m, c)| {
                json!({"model": m.model.name, "family": m.family, "time_matched": c.time_matched(), "time_equal": c.time_equal(), "executed_ns": c.executed_ns,
                    "executed": c.executed, "predicted": c.predicted, "only_predicted": c.only_predicted.iter().map(|p| json!({"node": p.node, "op": p.op})).collect::<Vec<_>>()})
            })
            .collect();
        let failed: Vec<Value> = j
            .models
            .iter()
            .filter_map(|m| {
                Some(json!({"model": m.model.name, "reason": m.outcome.as_ref().err()?}))
            })
            .collect();
        let row = |(model, share, m): (&str, f64, &Mismatch)| {
            json!({"model": model, "node": m.node, "kernel": m.kernel, "time_ns": m.ns, "time_share": share, "executed": m.executed,
                "predicted": m.nearest.as_ref().map(|p| json!({"node": p.node, "op": p.op}))})
        };
        Ok(json!({
            "engine": j.environment.framework,
            "environment": j.environment.id(),
            "models": time.models,
            "time_matched": time.matched(),
            "time_equal": time.equal(),
            "by_family": by_family,
            "families": families,
            "by_model": by_model,
            "mismatches": self.mismatches().into_iter().map(row).collect::<Vec<_>>(),
            "differing": j.missed(|c| &c.differing).into_iter().map(row).collect::<Vec<_>>(),
            "failed": failed,
        }))
    }
}
