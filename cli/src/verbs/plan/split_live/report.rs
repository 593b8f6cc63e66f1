//! The results of a live split as text and JSON.

use super::super::{
    super::{error::CliResult, output::Table},
    live::{in_a_line, other_results, share},
};
use serde_json::{Value, json};
use vitempo::{
    plan::split::live::{Compared, LiveSplit, MeasuredSplit, Similarity},
    planners::{Evidence, duration, rate},
    profiler::split::Features,
};

/// Forecast and measurement, part by part.
pub fn table(compared: &[Compared]) -> String {
    let mut table = Table::new(&["Part", "Forecast", "Measured", "Difference"], 1);
    for row in compared {
        let dash = || "-".to_owned();
        table.row([
            row.what.to_owned(),
            duration(row.forecast_ns),
            row.measured_ns.map_or_else(dash, duration),
            row.off().map_or_else(dash, |off| format!("{:+.1} %", 100.0 * off)),
        ]);
    }
    table.to_text()
}

pub fn ends(live: &LiveSplit) -> String {
    let described: Vec<(String, String)> = live
        .ends()
        .into_iter()
        .map(|end| {
            let environment = end.environment;
            let version = environment.framework_version;
            let engine =
                format!("{} {version} on cores {:?}", environment.framework, environment.cores);
            (end.processor, engine)
        })
        .collect();
    format!("{}   ({})", in_a_line(&described), Evidence::Live)
}

/// What else there is to say of a run.
pub fn said(
    live: &LiveSplit,
    measured: &MeasuredSplit,
    features: Features,
    [sent, back]: [u64; 2],
) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(link) = measured.link {
        lines.push(format!(
            "sent {sent} B in {features}, {back} B back; link measured at {} to the server, {} back",
            rate(link.there_bytes_per_s),
            rate(link.back_bytes_per_s)
        ));
        lines.extend(link.slower_than(live.declared()).into_iter().map(|(way, said, is)| {
            format!(
                "warning: the link {way} is slower than declared: {} instead of {}",
                rate(is),
                rate(said)
            )
        }));
    }
    lines.extend(measured.similarity.as_ref().map(|s| {
        format!(
            "results are those of the whole model to {} of the largest value; cosine {:.6}   \
            ({} inputs)",
            share(s.apart),
            s.cosine,
            s.inputs
        )
    }));
    if let Some(first) = measured.lost.first() {
        let (lost, not_run) = (measured.lost.len(), measured.not_run);
        lines.push(format!(
            "warning: {lost} frames were lost and {not_run} not run; the first: {}",
            first.reason
        ));
    }
    lines
}

pub fn plan_json(
    live: &LiveSplit,
    measured: &MeasuredSplit,
    compared: &[Compared],
    features: Features,
    [sent, back]: [u64; 2],
) -> Value {
    let rows = compared.iter().map(|row| {
        let both = json!({"forecast_ns": row.forecast_ns, "measured_ns": row.measured_ns, "off": row.off()});
        (row.what.to_owned(), both)
    });
    let slower = measured.link.map(|link| {
        let slower = link.slower_than(live.declared()).into_iter();
        slower.map(|(way, ..)| way).collect::<Vec<_>>()
    });
    json!({
        "ends": live.ends(),
        "features": features,
        "sent_bytes": sent,
        "received_bytes": back,
        "compared": rows.collect::<serde_json::Map<_, _>>(),
        "link": measured.link,
        "slower_than_declared": slower,
        "similarity": measured.similarity,
        "frames": measured.alone.len(),
        "lost": measured.lost,
        "not_run": measured.not_run,
        "evidence": Evidence::Live,
    })
}

/// Refuses results that are further from the whole model's than the precision of the model and of
/// what is sent explains.
pub fn check(found: Option<&Similarity>, live: &LiveSplit, features: Features) -> CliResult {
    let most = live.tolerance();
    match found.filter(|found| found.apart > most) {
        None => Ok(()),
        Some(found) => {
            let error = other_results(&found.output, [found.apart, most], &ends(live));
            Err(match features {
                Features::F32 => error,
                _ => error.hint("send more precise tensors: --features f32"),
            })
        }
    }
}
