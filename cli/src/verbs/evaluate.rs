//! `vitempo evaluate`: errors of forecasts for measured models outside the training data.

use super::{
    error::CliResult,
    error_tables::{E2E_HEADINGS, e2e_cells, kinds_table, points},
    output::{self, Format, Report, Table},
    progress, quantity,
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
    /// Trained bundles: files, or names that `vitempo bundle list` shows; each is evaluated on the
    /// measurements of its own environment
    #[arg(required = true, value_name = "NAMES")]
    pub bundles: Vec<PathBuf>,

    /// Dataset folder or lake
    #[arg(long, value_name = "FOLDER")]
    pub on: PathBuf,

    /// Gate: exit code 1 when an end-to-end MAPE is above this, in percent
    #[arg(long, value_name = "PERCENT", value_parser = quantity::zero_or_more)]
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
    evaluated.iter().for_each(warn_of_left_out);
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

/// Warns of measured models that are in no table.
fn warn_of_left_out(evaluated: &Evaluated) {
    let Evaluated { name, all, left_out, .. } = evaluated;
    let Some(first) = left_out.first() else { return };
    let about = |(what, _): &&(String, String)| what.starts_with(first.as_str());
    let reason = all.skipped.iter().find(about).map_or("", |(_, reason)| reason.as_str());
    progress::say(format!(
        "warning: {name}: {} of {} measured models are left out, the first is {first}: {reason}",
        left_out.len(),
        left_out.len() + all.models.len()
    ));
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
        let headings = ["Models", "Method", "Conv", "Linear", "Activation", "End-to-end"];
        let left = self.bundle_heading().len() + 2;
        let mut table = Table::new(&[self.bundle_heading(), &headings].concat(), left);
        for (bundle, set, e) in self.rows() {
            let group =
                |name| e.groups.get(name).map_or_else(|| "-".to_owned(), |m| points(m.mape));
            let e2e = e.e2e.as_ref().map_or(f64::NAN, |x| x.mape);
            table.row(
                self.bundle_cell(bundle)
                    .chain([set.to_owned(), e.method.to_string()])
                    .chain(GROUPS.map(group))
                    .chain([points(e2e)]),
            );
        }
        table
    }

    fn e2e_table(&self) -> Table {
        let headings = [self.bundle_heading(), E2E_HEADINGS].concat();
        let mut table = Table::new(&headings, self.bundle_heading().len() + 2);
        for (bundle, set, e) in self.rows() {
            table.row(self.bundle_cell(bundle).chain(e2e_cells(set, e)));
        }
        table
    }

    /// Several bundles are told apart by name.
    const fn bundle_heading(&self) -> &'static [&'static str] {
        if self.evaluated.len() > 1 { &["Bundle"] } else { &[] }
    }

    fn bundle_cell(&self, bundle: &str) -> impl Iterator<Item = String> {
        self.bundle_heading().iter().map(move |_| bundle.to_owned()).collect::<Vec<_>>().into_iter()
    }

    /// Bundle, set and errors: synthetic first, then real; bundles in the order given.
    fn rows(&self) -> impl Iterator<Item = (&str, &'static str, &Evaluation)> {
        ["synthetic", "real"].into_iter().flat_map(move |set| {
            self.evaluated.iter().filter_map(move |j| {
                let (_, evaluation) = j.sets().find(|s| s.0 == set)?;
                Some((j.name.as_str(), set, evaluation))
            })
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
                let of =
                    self.bundle_cell(&j.name).map(|name| format!(", {name}")).collect::<String>();
                text += &format!("\nOperators of {set} models, {}{of}\n\n", e.method);
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
