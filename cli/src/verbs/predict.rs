//! `vitempo predict`: forecasts latencies of models in a bundle's environment, with intervals and
//! the time of each operator.

use super::{
    error::{CliError, CliResult},
    models::{Model, ModelArgs},
    output::{self, Format, Report, Table, percent},
    progress,
};
use serde_json::json;
use std::{collections::BTreeMap, fmt::Write, path::PathBuf};
use vitempo::graph::{
    Environment, GraphPrediction, Latency, LatencyModel, OperatorPrediction, PredictionSource,
    TensorSpec,
};
use vitempo::predictors::adapt::{ListedModel, Match};
use vitempo::{Bundle, models::Models};

/// Forecasts the latency of models
///
/// A model that cannot be read or forecast is left out, with a warning; the exit code is 1 then.
///
/// Example: vitempo predict tests/models/vit_tiny_patch16_224.onnx --bundle demo.vtb --breakdown
#[derive(clap::Args, Debug)]
pub struct PredictArgs {
    #[command(flatten)]
    pub models: ModelArgs,

    /// Bundle of either kind: a file, or a name that `vitempo bundle list` shows
    #[arg(long, value_name = "NAME")]
    pub bundle: PathBuf,

    /// Show every operator that will run
    #[arg(long)]
    pub breakdown: bool,

    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(args: &PredictArgs) -> CliResult {
    let bundle = super::bundle::open(&args.bundle)?;
    let options = args.models.read_options();
    let Models { read, unreadable } = args.models.read_each()?;
    let mut left_out: Vec<(PathBuf, CliError)> =
        unreadable.into_iter().map(|(path, error)| (path, error.into())).collect();
    let mut forecasts = Vec::new();
    for model in read {
        match bundle.predict_within(&model.graph, &options.budget()) {
            Ok(prediction) => forecasts.push(Forecast {
                prediction,
                adapted: bundle.adapted().is_some(),
                measured: listed(&bundle, &model),
                model,
            }),
            Err(error) => left_out.push((model.path, error.into())),
        }
    }
    let asked = forecasts.len() + left_out.len();
    if asked == 1
        && let Some((_, error)) = left_out.pop()
    {
        return Err(error);
    }
    for (path, error) in &left_out {
        progress::say(format!("warning: {} left out: {error}", path.display()));
    }
    if !forecasts.is_empty() {
        let report = Forecasts { bundle: &bundle, forecasts, breakdown: args.breakdown };
        output::print(&report, args.format)?;
    }
    match left_out.len() {
        0 => Ok(()),
        count => Err(CliError::user(format!("{count} of {asked} models left out"))),
    }
}

/// The latency that the bundle lists for this graph; warns where it is of another one.
fn listed(bundle: &Bundle, model: &Model) -> Option<Latency> {
    match bundle.adapted()?.listed(&model.identity.name, &model.graph)? {
        Match::SameGraph(listed) => Some(Latency::from_ns(listed.latency_ns)),
        Match::OtherGraph(listed) => {
            warn_of_other_graph(model, listed);
            None
        }
    }
}

/// Says that a listed latency is that of another graph of the model.
fn warn_of_other_graph(model: &Model, listed: &ListedModel) {
    let Some(graph) = &listed.graph else { return };
    progress::say(format!(
        "warning: {}: the bundle lists `{}` with {}, measured on another graph ({} operators, this \
        one has {}): that latency is not the one of this graph",
        model.identity.name,
        listed.name,
        Latency::from_ns(listed.latency_ns),
        graph.operators,
        model.graph.nodes().len()
    ));
}

struct Forecast {
    model: Model,
    prediction: GraphPrediction,
    /// Whether the bundle was adapted from end-to-end latencies.
    adapted: bool,
    /// The latency that the bundle lists for this graph.
    measured: Option<Latency>,
}

struct Forecasts<'a> {
    bundle: &'a Bundle,
    forecasts: Vec<Forecast>,
    breakdown: bool,
}

impl Report for Forecasts<'_> {
    fn table(&self) -> String {
        let environment = self.bundle.environment();
        let texts: Vec<String> =
            self.forecasts.iter().map(|f| f.table(environment, self.breakdown)).collect();
        texts.join("\n")
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(
            &[
                "model",
                "bundle",
                "environment",
                "latency_ns",
                "lower_ns",
                "upper_ns",
                "level",
                "operators",
                "fallback",
                "extrapolating",
            ],
            3,
        );
        for f in &self.forecasts {
            let p = f.prediction.latency;
            let numbers = [p.point(), p.lower(), p.upper()].map(|l| format!("{:.0}", l.ns()));
            let counts = [
                p.level.to_string(),
                f.prediction.operators.len().to_string(),
                f.prediction.fallbacks().count().to_string(),
                f.prediction.extrapolating().count().to_string(),
            ];
            let words = [
                f.model.identity.name.clone(),
                self.bundle.name().to_owned(),
                self.bundle.environment().id(),
            ];
            table.row(words.into_iter().chain(numbers).chain(counts));
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        Ok(self.forecasts.iter().map(|f| f.json(self.bundle, self.breakdown)).collect())
    }
}

impl Forecast {
    fn table(&self, environment: &Environment, breakdown: bool) -> String {
        let mut text = String::new();
        let graph = &self.model.graph;
        let inputs: Vec<String> = graph
            .inputs()
            .iter()
            .filter_map(|&i| graph.value(i).tensor.as_ref())
            .map(TensorSpec::to_string)
            .collect();
        let _ = writeln!(
            text,
            "{}   {}   {}\n",
            self.model.identity.name,
            inputs.join(", "),
            environment.describe()
        );
        let p = self.prediction.latency;
        let _ = writeln!(
            text,
            "Latency    {}   [{} .. {}]   {:.0} % interval",
            p.point(),
            p.lower(),
            p.upper(),
            p.level * 100.0
        );
        if let Some(measured) = self.measured {
            let _ = writeln!(text, "Measured   {measured}, listed in the bundle for this graph");
        }
        let _ = writeln!(text, "{}", self.coverage_line());
        self.extrapolating_line().into_iter().for_each(|line| text += &(line + "\n"));
        text.push('\n');
        text += &self.kinds_table();
        for kind in self.fallback_kinds() {
            let _ = writeln!(
                text,
                "hint: `{kind}` has no trained predictor: its share is an estimate; `vitempo \
                profile MODELS --ops {kind}` would measure it"
            );
        }
        if breakdown {
            text.push('\n');
            text += &self.operators_table();
        }
        text
    }

    /// What part of the operators' time these take.
    fn share<'a>(&self, operators: impl Iterator<Item = &'a OperatorPrediction>) -> f64 {
        let all: Latency = self.prediction.operators.iter().map(|o| o.latency_ns).sum();
        let these: Latency = operators.map(|o| o.latency_ns).sum();
        these.ns() / all.ns().max(f64::MIN_POSITIVE)
    }

    fn coverage_line(&self) -> String {
        let operators = self.prediction.operators.len();
        let fallback = self.prediction.fallbacks().count();
        let share = 1.0 - self.share(self.prediction.fallbacks());
        if self.adapted {
            return format!(
                "Coverage   {operators} operators by unit costs adapted from end-to-end latencies; \
                no operator was measured"
            );
        }
        format!(
            "Coverage   {} of predicted time by trained operators ({} of {operators} operators; \
            {fallback} by fallback)",
            percent(share),
            operators - fallback
        )
    }

    /// `None` where every operator lies within the range of the training data.
    fn extrapolating_line(&self) -> Option<String> {
        let share = self.share(self.prediction.extrapolating());
        let count = self.prediction.extrapolating().count();
        (count > 0).then(|| {
            let outside = if self.adapted {
                let kinds: std::collections::BTreeSet<&str> =
                    self.prediction.extrapolating().map(|o| o.kind.name()).collect();
                let kinds: Vec<&str> = kinds.into_iter().collect();
                format!("of classes that no measured model contains: {}", kinds.join(", "))
            } else {
                "outside the range of the training data".to_owned()
            };
            format!(
                "Outside    {} of predicted time by {count} operators {outside} (extrapolating)",
                percent(share)
            )
        })
    }

    fn fallback_kinds(&self) -> std::collections::BTreeSet<&str> {
        self.prediction.fallbacks().map(|o| o.kind.name()).collect()
    }

    fn kinds_table(&self) -> String {
        let mut kinds: BTreeMap<&str, (usize, Latency)> = BTreeMap::new();
        for operator in &self.prediction.operators {
            let entry = kinds.entry(operator.kind.name()).or_default();
            *entry = (entry.0 + 1, entry.1 + operator.latency_ns);
        }
        let mut rows: Vec<_> = kinds.into_iter().collect();
        rows.sort_by(|a, b| b.1.1.ns().total_cmp(&a.1.1.ns()));
        let total = self.prediction.latency.point().ns();
        let mut table = Table::new(&["Operator", "Count", "Latency", "Share"], 1);
        for (kind, (count, latency)) in rows {
            table.row([
                kind.to_owned(),
                count.to_string(),
                latency.to_string(),
                percent(latency.ns() / total),
            ]);
        }
        let overhead = self.prediction.overhead;
        table.row([
            "(calibration)".to_owned(),
            String::new(),
            overhead.to_string(),
            percent(overhead.ns() / total),
        ]);
        table.to_text()
    }

    fn operators_table(&self) -> String {
        let mut table = Table::new(&["Node", "Kind", "Latency", "Source"], 2);
        for o in &self.prediction.operators {
            table.row([
                o.name.clone(),
                o.kind.name().to_owned(),
                o.latency_ns.to_string(),
                source_name(o),
            ]);
        }
        table.to_text()
    }

    fn json(&self, bundle: &Bundle, breakdown: bool) -> serde_json::Value {
        let p = self.prediction.latency;
        let operators = &self.prediction.operators;
        let fallback = self.prediction.fallbacks().count();
        let unsupported: Vec<_> = self
            .model
            .graph
            .unsupported()
            .map(|(node, op)| json!({"node": node, "operator": op}))
            .collect();
        let mut out = json!({
            "model": self.model.identity.name,
            "bundle": bundle.name(),
            "environment": bundle.environment().id(),
            "latency_ns": {"point": p.point(), "lower": p.lower(), "upper": p.upper(), "level": p.level},
            "overhead_ns": self.prediction.overhead,
            "coverage": {
                "operators": operators.len(),
                "trained": operators.len() - fallback,
                "fallback": fallback,
                "extrapolating": self.prediction.extrapolating().count(),
                "unsupported": unsupported,
            },
        });
        if let Some(measured) = self.measured {
            out["measured_ns"] = json!(measured);
        }
        if breakdown {
            out["operators"] = operators
                .iter()
                .map(|o| {
                    json!({
                        "name": o.name,
                        "kind": o.kind,
                        "latency_ns": o.latency_ns,
                        "source": o.source,
                        "extrapolating": o.extrapolating,
                    })
                })
                .collect();
        }
        out
    }
}

fn source_name(operator: &OperatorPrediction) -> String {
    match operator.source {
        PredictionSource::Model if operator.extrapolating => "model, extrapolating",
        PredictionSource::Model => "model",
        PredictionSource::Fallback => "fallback",
    }
    .to_owned()
}
