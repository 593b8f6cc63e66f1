//! What the forecast of one kernel comes from, as text: features and predictor, or the demands on
//! an adapted device.

use super::super::output::{Table, percent};
use std::fmt::Write;
use vitempo::graph::Latency;
use vitempo::predictors::{
    Basis, Explanation, Feature,
    adapt::{Demand, Group},
};

pub fn trained(e: &Explanation) -> String {
    let ns = |ns: f64| Latency::from_ns(ns);
    let mut text = match e.basis {
        Basis::Regressor {
            rows,
            baseline_ns,
            linear_ns,
            trees_ns,
            trees_weight,
            in_distribution,
        } => {
            let size = if in_distribution { "a size of" } else { "no size of" };
            format!(
                "Predictor  {}   {rows} rows; {size} the models trained on\n\
                Parts      work and bytes {}, linear model {}, trees {} with weight {trees_weight:.2}\n",
                e.key,
                ns(baseline_ns),
                ns(linear_ns),
                ns(trees_ns)
            )
        }
        Basis::Class => format!(
            "Predictor  none for {}; fallback: work and bytes of its class in other formats\n",
            e.key
        ),
        Basis::Kind => format!(
            "Predictor  none for {}; fallback: work and bytes of all `{}`\n",
            e.key, e.key.kind
        ),
        Basis::Kin { kin } => {
            format!("Predictor  none for {}; fallback: work and bytes of `{kin}`\n", e.key)
        }
        Basis::Roofline => {
            format!("Predictor  none for {}; fallback: the roofline of the device\n", e.key)
        }
    };
    if e.with_bias {
        text += "           as if it had a bias, which all rows that it was trained on have\n";
    }
    if let Some(correction) = e.correction {
        let _ = writeln!(
            text,
            "Corrected  by a factor of {:.3}, measured in {} networks",
            correction.log_ratio.exp(),
            correction.networks
        );
    }
    let _ = writeln!(
        text,
        "Error      a factor of {:.2} is expected, by kernels held out in training\n",
        e.estimate.log_error.exp()
    );
    text + &features_table(&e.features)
}

fn features_table(features: &[Feature]) -> String {
    let mut table = Table::new(&["Feature", "Value", "Trained from", "to"], 1);
    for feature in features.iter().filter(|f| f.value != 0.0 || f.trained.is_some_and(varies)) {
        let [from, to] = match feature.trained {
            Some((from, to)) => [from, to].map(short),
            None => [const { String::new() }; 2],
        };
        table.row([feature.name.to_owned(), short(feature.value), from, to]);
    }
    table.to_text()
}

fn varies((from, to): (f64, f64)) -> bool {
    from != to
}

/// At most six significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{value:.5e}"),
        v if v.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.4}"),
    }
}

pub fn adapted(demands: &[Demand], merged: bool) -> String {
    let mut text =
        "Predictor  unit costs, adapted from end-to-end latencies of the device\n".to_owned();
    if merged {
        text += "           compilers run it with the operator before it: it is not counted\n";
    }
    if demands.is_empty() {
        return text + "           it demands nothing: it only changes a shape\n";
    }
    let mut table = Table::new(&["Demand", "Unit", "Amount", "Share of its time"], 2);
    for demand in demands {
        table.row([
            demand.cost.name().to_owned(),
            unit(demand.cost.group()).to_owned(),
            short(demand.amount),
            demand.share.map_or_else(String::new, percent),
        ]);
    }
    text + "\n" + &table.to_text()
}

fn unit(group: Group) -> &'static str {
    match group {
        Group::Launch => "launches",
        Group::Compute => "MACs",
        Group::Weights | Group::Traffic => "B",
        Group::Padding => "ln(padded / plain)",
    }
}
