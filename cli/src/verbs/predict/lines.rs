//! Lines about a forecast: its interval, how much of the model it covers, and the operators that it
//! does not.

use super::super::{
    models::Model,
    output::{level, percent},
    progress,
};
use std::{collections::BTreeMap, fmt::Write};
use vitempo::Bundle;
use vitempo::forecast::{ModelForecast, unsupported_operators, unsupported_reasons};
use vitempo::graph::{Graph, Latency, OpKind, Prediction};

/// A latency with its interval.
pub fn latency(p: Prediction) -> String {
    match p.upper().is_finite() {
        true => format!(
            "{}   [{} .. {}]   {} interval",
            p.point(),
            p.lower(),
            p.upper(),
            level(p.level)
        ),
        false => {
            format!("{}   [{} .. -]   no upper end: operators are missing", p.point(), p.lower())
        }
    }
}

/// Upper end and level as cells of a table.
pub fn upper_and_level(p: Prediction) -> [String; 2] {
    let held = match p.upper().is_finite() {
        true => level(p.level),
        false => "-".to_owned(),
    };
    [p.upper().to_string(), held]
}

/// `LSTM (1), GRU (2)`
fn named(operators: &BTreeMap<&str, usize>) -> String {
    let named = operators.iter().map(|(name, count)| format!("{name} ({count})"));
    named.collect::<Vec<_>>().join(", ")
}

/// The operators of which only the bytes are in the latency.
pub fn missing(graph: &Graph) -> Option<String> {
    let operators = unsupported_operators(graph);
    (!operators.is_empty()).then(|| {
        format!(
            "what these compute is not in this latency, only their bytes: {}; vitempo does not \
             know them",
            named(&operators)
        )
    })
}

/// The latency of operators of a kind: a lower bound where vitempo does not know what they compute.
pub fn of_kind(latency: Latency, is_known: bool) -> String {
    if is_known { latency.to_string() } else { format!("> {latency}") }
}

/// Warns of operators that are not in the latency of a model.
pub fn warn_of_missing(model: &Model) {
    let operators = unsupported_operators(&model.graph);
    if !operators.is_empty() {
        progress::say(format!(
            "warning: {}: vitempo does not know {}: what they compute is not in the latency, so it \
             is too low and has no upper end",
            model.identity.name,
            named(&operators)
        ));
        for (operator, reason) in unsupported_reasons(&model.graph) {
            progress::say(format!("note: {operator}: {reason}"));
        }
    }
}

/// A share of the latency, which is not known where operators are missing in it.
fn share(forecast: &ModelForecast, share: f64) -> String {
    match forecast.prediction.latency.upper().is_finite() {
        true => percent(share),
        false => "-".to_owned(),
    }
}

/// Which share of the time comes from what.
pub fn coverage(forecast: &ModelForecast, bundle: &Bundle) -> String {
    let unknown = |kind: &OpKind| matches!(kind, OpKind::Unsupported(_));
    let prediction = &forecast.prediction;
    let known = prediction.operators.iter().filter(|o| !unknown(&o.kind)).count();
    let mut text = if bundle.adapted().is_some() {
        format!(
            "Coverage   {known} operators by unit costs adapted from end-to-end latencies; no \
            operator was measured\n"
        )
    } else {
        let operators = prediction.operators.len();
        let fallback = prediction.fallbacks().count();
        let share = share(forecast, forecast.trained_share());
        format!(
            "Coverage   {share} of predicted time by trained operators ({} of {operators} \
            operators; {fallback} by fallback)\n",
            operators - fallback
        )
    };
    if let Some(missing) = missing(&forecast.model.graph) {
        let _ = writeln!(text, "Missing    {missing}");
    }
    text.extend(extrapolating(forecast, bundle));
    text
}

/// `None` where every operator lies within the range of the training data.
fn extrapolating(forecast: &ModelForecast, bundle: &Bundle) -> Option<String> {
    let count = forecast.prediction.extrapolating().count();
    (count > 0).then(|| {
        let outside = if bundle.adapted().is_some() {
            let kinds: Vec<&str> = forecast.extrapolating_kinds().into_iter().collect();
            format!("of classes that no measured model contains: {}", kinds.join(", "))
        } else {
            "outside the range of the training data".to_owned()
        };
        let share = share(forecast, forecast.extrapolating_share());
        format!(
            "Outside    {share} of predicted time by {count} operators {outside} (extrapolating)\n"
        )
    })
}
