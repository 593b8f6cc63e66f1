//! [`models`]: every model of an environment as CSV, sampled ones too.

use crate::{
    ReportError,
    accuracy::best_fed,
    group::Group,
    survey::{Model, Survey},
};
use std::collections::BTreeMap;
use vitempo::predictors::{Method, ModelRow};

const HEADINGS: [&str; 10] = [
    "model",
    "architecture",
    "group",
    "flops",
    "parameters",
    "latency_ns",
    "runs",
    "forecast_ns",
    "lower_ns",
    "upper_ns",
];

/// A row per whole model, in the order of names; a forecast only of those that were held out.
pub fn models(survey: &Survey) -> Result<String, ReportError> {
    let evaluated = best_fed(survey, Method::Gbdt).into_iter().flat_map(|e| e.sets.values());
    // Two models may have one name.
    let forecasts: BTreeMap<(&str, &str), &ModelRow> = evaluated
        .flat_map(|evaluation| &evaluation.models)
        .map(|m| ((m.name.as_str(), m.architecture.as_str()), m))
        .collect();
    let forecast = |m: &Model| forecasts.get(&(&*m.name, &*m.architecture)).copied();
    let whole = survey.models.iter().filter_map(|m| Some((m, m.group?)));
    csv(whole.map(|(m, group)| row(m, group, forecast(m))))
}

fn csv(rows: impl Iterator<Item = [String; 10]>) -> Result<String, ReportError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let write = || -> csv::Result<()> {
        writer.write_record(HEADINGS)?;
        rows.into_iter().try_for_each(|row| writer.write_record(&row))
    };
    let failed = |e: &dyn std::error::Error| ReportError::Csv(e.to_string());
    write().map_err(|e| failed(&e))?;
    let bytes = writer.into_inner().map_err(|e| failed(&e))?;
    String::from_utf8(bytes).map_err(|e| failed(&e))
}

fn row(model: &Model, group: Group, forecast: Option<&ModelRow>) -> [String; 10] {
    let ns = |value: Option<f64>| value.map(|ns| format!("{ns:.0}")).unwrap_or_default();
    let count = |value: Option<u64>| value.map(|n| n.to_string()).unwrap_or_default();
    let ends = forecast.map(|f| f.predicted.map(|latency| latency.ns()));
    [
        model.name.clone(),
        model.architecture.clone(),
        group.to_string(),
        count(model.work.map(|w| w.flops)),
        count(model.work.map(|w| w.params)),
        ns(model.latency_ns),
        model.runs_ns.len().to_string(),
        ns(ends.map(|e| e.point())),
        ns(ends.map(|e| e.lower())),
        ns(ends.map(|e| e.upper())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_are_quoted() {
        let row = |name: &str| {
            let mut row = [""; 10].map(str::to_owned);
            row[0] = name.to_owned();
            row
        };
        let text = csv(["plain", "a,\"b\""].map(row).into_iter()).expect("a table");
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(rows, ["plain,,,,,,,,,", "\"a,\"\"b\"\"\",,,,,,,,,"]);
        assert!(text.starts_with("model,architecture,group,flops,parameters,latency_ns,runs,"));
    }
}
