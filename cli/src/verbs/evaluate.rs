//! `vitempo evaluate`: errors of forecasts for measured models outside the training data.

use super::{
    error::CliResult,
    error_tables::{E2E_HEADINGS, e2e_row, kinds_table, points},
    output::{self, Format, Report, Table},
    progress,
    refine::CHANGED,
};
use serde_json::Value;
use std::path::PathBuf;
use vitempo::evaluation::{Evaluated, Evaluator, check_mape};
use vitempo::graph::Latency;
use vitempo::predictors::Evaluation;

/// Evaluates bundles on measured models outside their training data
///
/// Example: vitempo evaluate lasso.vtb forest.vtb gbdt.vtb --on data/ --max-mape 10
#[derive(clap::Args, Debug)]
pub struct EvaluateArgs {
    /// Trained bundles of one environment: files, or names that `vitempo bundle list` shows
    #[arg(required = true, value_name = "NAMES")]
    pub bundles: Vec<PathBuf>,

    /// Dataset folder or lake
    #[arg(long, value_name = "FOLDER")]
    pub on: PathBuf,

    /// Gate: exit code 1 when an end-to-end MAPE is above this, in percent
    #[arg(long, value_name = "PERCENT")]
    pub max_mape: Option<f64>,

    /// List every model, worst first
    #[arg(long)]
    pub models: bool,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(args: &EvaluateArgs) -> CliResult {
    let mut evaluator = Evaluator::new(&args.on)?;
    let mut evaluated = Vec::new();
    for path in &args.bundles {
        let bundle = super::bundle::open_trained(path)?;
        evaluated.push(evaluator.evaluate(
            path.display().to_string(),
            &bundle,
            &mut |warning| {
                progress::say(format!("warning: {warning}"));
            },
        )?);
    }
    evaluated.iter().for_each(warn_of_correction);
    let report = Evaluations { evaluated: &evaluated, models: args.models };
    output::print(&report, args.format)?;
    args.max_mape.map_or(Ok(()), |limit| Ok(check_mape(&evaluated, limit)?))
}

/// Warns where errors are of another speed than the machine had while these data were measured.
fn warn_of_correction(evaluated: &Evaluated) {
    let Evaluated { name, correction, .. } = evaluated;
    if correction.ln().abs() > CHANGED {
        progress::say(format!(
            "warning: {name}: the reference workload says that the machine had another speed: \
             measured latencies are divided by {correction:.2} before they are compared; without \
             that, errors differ"
        ));
    }
}

/// Several bundles evaluated on the same data.
pub struct Evaluations<'a> {
    pub evaluated: &'a [Evaluated],
    pub models: bool,
}

/// The groups of the paper's Table 2 that are shown first.
const GROUPS: [&str; 3] = ["conv", "linear", "activation"];

impl Evaluations<'_> {
    /// The shape of the paper's Table 2.
    fn groups_table(&self) -> Table {
        let mut table =
            Table::new(&["Models", "Method", "Conv", "Linear", "Activation", "End-to-end"], 2);
        for (set, e) in self.rows() {
            let group =
                |name| e.groups.get(name).map_or_else(|| "-".to_owned(), |m| points(m.mape));
            let e2e = e.e2e.as_ref().map_or(f64::NAN, |x| x.mape);
            table.row(
                [set.to_owned(), e.method.to_string()]
                    .into_iter()
                    .chain(GROUPS.map(group))
                    .chain([points(e2e)]),
            );
        }
        table
    }

    fn e2e_table(&self) -> Table {
        let mut table = Table::new(E2E_HEADINGS, 2);
        self.rows().for_each(|(set, e)| e2e_row(&mut table, set, e));
        table
    }

    /// Synthetic first, then real; methods in the order given.
    fn rows(&self) -> impl Iterator<Item = (&'static str, &Evaluation)> {
        ["synthetic", "real"].into_iter().flat_map(move |set| {
            self.evaluated.iter().filter_map(move |j| j.sets().find(|s| s.0 == set))
        })
    }

    fn models_table(&self) -> Table {
        let mut table = Table::new(
            &[
                "Model",
                "Bundle",
                "Measured",
                "Forecast",
                "Interval",
                "Error",
                "Executed kernels",
                "Kernels",
                "Lowered",
                "Largest differences",
            ],
            2,
        );
        for j in self.evaluated {
            let mut rows: Vec<_> = j.all.models.iter().collect();
            rows.sort_by(|a, b| b.by_error(a));
            for m in rows {
                let differences: Vec<String> = m
                    .contributions
                    .iter()
                    .take(3)
                    .map(|c| {
                        format!(
                            "{} {:+.1} %",
                            c.kind,
                            (c.predicted_ns - c.actual_ns) / m.actual_ns * 100.0
                        )
                    })
                    .collect();
                let predicted = m.predicted;
                let off = |ns: f64| format!("{:+.1} %", (ns / m.actual_ns - 1.0) * 100.0);
                table.row([
                    m.name.clone(),
                    j.name.clone(),
                    Latency::from_ns(m.actual_ns).to_string(),
                    predicted.point().to_string(),
                    format!("[{} .. {}]", predicted.lower(), predicted.upper()),
                    off(predicted.point().ns()),
                    off(m.predicted_executed_ns),
                    m.kernels.to_string(),
                    m.kernels_lowered.map_or_else(|| "-".to_owned(), |k| k.to_string()),
                    differences.join(", "),
                ]);
            }
        }
        table
    }
}

impl Report for Evaluations<'_> {
    fn table(&self) -> String {
        let mut text =
            String::from("Mean absolute percentage error by operator group and end to end\n\n");
        text += &self.groups_table().to_text();
        text += "\nEnd to end, forecast from the model's file\n\n";
        text += &self.e2e_table().to_text();
        for j in self.evaluated {
            for (set, e) in j.sets() {
                text += &format!("\nOperators of {set} models, {}\n\n", e.method);
                text += &kinds_table(e).to_text();
            }
        }
        if self.models {
            text += "\nModels, worst first; measured latencies are lower deciles, corrected by the \
                reference workload\n\n";
            text += &self.models_table().to_text();
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        if self.models { self.models_table().to_csv() } else { self.e2e_table().to_csv() }
    }

    fn json(&self) -> CliResult<Value> {
        match self.evaluated {
            [only] => Ok(only.json()),
            several => Ok(several.iter().map(Evaluated::json).collect()),
        }
    }
}
