//! [`models`]: every model of an environment as CSV, sampled ones too.

use crate::{
    accuracy::best_fed,
    group::Group,
    survey::{Model, Survey},
};
use std::collections::BTreeMap;
use vitempo::predictors::{Method, ModelRow};

const HEADINGS: &str = "model,architecture,group,flops,parameters,latency_ns,runs,forecast_ns,\
    lower_ns,upper_ns\n";

/// A row per whole model, in the order of names; a forecast only of those that were held out.
pub fn models(survey: &Survey) -> String {
    let mut forecasts: BTreeMap<(Group, &str), &ModelRow> = BTreeMap::new();
    for (group, evaluation) in best_fed(survey, Method::Gbdt).into_iter().flat_map(|e| &e.sets) {
        forecasts.extend(evaluation.models.iter().map(|m| ((*group, m.name.as_str()), m)));
    }
    let whole = survey.models.iter().filter_map(|m| Some((m, m.group?)));
    let rows =
        whole.map(|(m, group)| row(m, group, forecasts.get(&(group, m.name.as_str())).copied()));
    std::iter::once(HEADINGS.to_owned()).chain(rows).collect()
}

fn row(model: &Model, group: Group, forecast: Option<&ModelRow>) -> String {
    let ns = |value: Option<f64>| value.map(|ns| format!("{ns:.0}")).unwrap_or_default();
    let count = |value: Option<u64>| value.map(|n| n.to_string()).unwrap_or_default();
    let ends = forecast.map(|f| f.predicted.map(|latency| latency.ns()));
    let cells = [
        quoted(&model.name),
        quoted(&model.architecture),
        group.to_string(),
        count(model.work.map(|w| w.flops)),
        count(model.work.map(|w| w.params)),
        ns(model.latency_ns),
        model.runs_ns.len().to_string(),
        ns(ends.map(|e| e.point())),
        ns(ends.map(|e| e.lower())),
        ns(ends.map(|e| e.upper())),
    ];
    cells.join(",") + "\n"
}

/// As RFC 4180 has it.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_with_commas_are_quoted() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
