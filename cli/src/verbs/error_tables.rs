//! Errors of forecasts as tables and JSON: `evaluate`, `demo` and `bundle inspect` print an
//! [`Evaluation`] with these. MAPE and p90 are in percent, shares between 0 and 1.

use super::output::{Table, level, percent};
use vitempo::predictors::{EndToEnd, Evaluation, KindMetrics};

/// Headings of end-to-end rows.
pub const E2E_HEADINGS: &[&str] = &[
    "Models",
    "Method",
    "Count",
    "MAPE",
    "p90",
    "Within 5 %",
    "Within 10 %",
    "Interval",
    "Covered",
    "Width",
    "Plain covered",
    "Plain width",
    "Executed kernels",
    "Noise floor",
    "raw",
];

/// One end-to-end row: forecasts from the file, then from the kernels that were executed.
pub fn e2e_cells(set: &str, e: &Evaluation) -> Vec<String> {
    let blank = EndToEnd {
        mape: f64::NAN,
        p90_ape: f64::NAN,
        within_5pct: f64::NAN,
        within_10pct: f64::NAN,
        interval_level: f64::NAN,
        interval_coverage: f64::NAN,
        interval_width: f64::NAN,
        plain_coverage: f64::NAN,
        plain_width: f64::NAN,
        models: 0,
    };
    let whole = e.e2e.as_ref().unwrap_or(&blank);
    let executed = e.e2e_executed.as_ref().map_or(f64::NAN, |x| x.mape);
    let (floor, raw) =
        e.noise_floor.as_ref().map_or((f64::NAN, f64::NAN), |n| (n.mape, n.mape_raw));
    vec![
        set.to_owned(),
        e.method.to_string(),
        whole.models.to_string(),
        points(whole.mape),
        points(whole.p90_ape),
        percent(whole.within_5pct),
        percent(whole.within_10pct),
        level(whole.interval_level),
        percent(whole.interval_coverage),
        percent(whole.interval_width),
        percent(whole.plain_coverage),
        percent(whole.plain_width),
        points(executed),
        points(floor),
        points(raw),
    ]
}

/// Formats a number in percent.
pub fn points(value: f64) -> String {
    percent(value / 100.0)
}

/// Errors by operator kind, in falling order of time.
pub fn kinds_table(e: &Evaluation) -> Table {
    let mut kinds: Vec<(&String, &KindMetrics)> = e.operators.iter().collect();
    kinds.sort_by(|a, b| b.1.time_share.total_cmp(&a.1.time_share));
    let mut table = Table::new(
        &[
            "Operator",
            "Rows",
            "Share of time",
            "MAPE",
            "p90",
            "Within 10 %",
            "Time-weighted",
            "Fallback",
        ],
        1,
    );
    for (kind, m) in kinds {
        table.row([
            kind.clone(),
            m.rows.to_string(),
            percent(m.time_share),
            points(m.mape),
            points(m.p90_ape),
            percent(m.within_10pct),
            points(m.weighted_ape),
            m.fallback_rows.to_string(),
        ]);
    }
    table
}
