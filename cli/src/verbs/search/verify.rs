//! `--verify`: measures members of the front, beside their forecasts.

use crate::verbs::{
    error::CliError,
    output::{Table, percent},
};
use serde_json::json;
use vitempo::graph::Latency;
use vitempo::search::verify::{Verified, VerifiedModel, VerifyError};

impl From<VerifyError> for CliError {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Campaign(error) => error.into(),
            VerifyError::NotMeasured { .. } => Self::user(format!("{error} (--verify)")),
            other => Self::user(other),
        }
    }
}

pub fn table(verified: &Verified) -> String {
    let mut table = Table::new(&["Measured", "Forecast", "Interval", "Measured", "Error"], 1);
    for VerifiedModel { name, forecast: p, measured_ns: ns } in &verified.models {
        let error = format!("{:+.1} %", (p.point().ns() / ns - 1.0) * 100.0);
        table.row([
            name.clone(),
            p.point().to_string(),
            format!("[{} .. {}]", p.lower(), p.upper()),
            Latency::from_ns(*ns).to_string(),
            error,
        ]);
    }
    let rank =
        verified.correlation().map_or_else(|| "not defined".to_owned(), |r| format!("{r:.3}"));
    let share = percent(verified.covered() as f64 / verified.models.len() as f64);
    format!(
        "\n{}\nrank correlation (Spearman) of forecast and measured latency: {rank}; {share} \
        within their intervals   {}\n",
        table.to_text(),
        verified.environment
    )
}

pub fn json(verified: &Verified) -> serde_json::Value {
    let row = |m: &VerifiedModel| json!({"name": m.name, "forecast_ns": m.forecast, "measured_ns": m.measured_ns});
    json!({"environment": verified.environment, "models": verified.models.iter().map(row).collect::<Vec<_>>(), "spearman": verified.correlation(),
        "within_interval": verified.covered()})
}
