//! [`Warning`]: latencies that are valid but implausible. A wrong unit is found by comparison with
//! the forecast from the sources alone, or from physical limits where there are no sources.

use super::{latencies::Unit, same_graph::GraphLatency};
use crate::predictors::{
    adapt::{DevicePrior, Measured, Trait, Workload, adapt},
    metrics,
};
use std::fmt;

/// Samples of one model that differ by more than this ratio cause a warning.
const NOTED_RATIO: f64 = 1.5;
/// Devices differ from what sources forecast by less than the first factor, as far as the width of
/// the forecasts allows up to the second.
const FACTORS: [f64; 2] = [30.0, 200.0];
/// A single latency differs by less than this from its forecast.
const MOST_OF_ONE: f64 = 1000.0;

/// Implausible latencies, which are used nevertheless.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// Two samples of one model differ much.
    SamplesDiffer {
        /// The model.
        model: String,
        /// Lines of the shortest and the longest sample, in the order of the file.
        lines: [usize; 2],
        /// Longest over shortest.
        ratio: f64,
    },
    /// Several names of one graph.
    SameGraph {
        /// The models, in their order.
        models: Vec<String>,
    },
    /// All models have the same latency.
    AllEqual {
        /// How many there are.
        models: usize,
    },
    /// The latencies differ much from a forecast without them: median of latency over forecast.
    FarFromForecast {
        /// Below one where the latencies are shorter.
        factor: f64,
        /// Whether sources forecast; physics alone otherwise.
        from_sources: bool,
        /// The unit that the heading states.
        unit: Unit,
        /// The unit in which they would be nearest to the forecasts.
        suggested: Option<Unit>,
    },
    /// One latency differs much more from a forecast without it than the others do.
    OneFarFromForecast {
        /// The model.
        model: String,
        /// Its first line in the file.
        line: usize,
        /// Below one where the latency is shorter.
        factor: f64,
        /// Whether sources forecast; physics alone otherwise.
        from_sources: bool,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SamplesDiffer { model, lines: [a, b], ratio } => {
                write!(f, "lines {a} and {b}: two latencies of `{model}` differ by a factor of ")?;
                write!(f, "{ratio:.1}; their median is used")
            }
            Self::SameGraph { models } => {
                let names: Vec<String> = models.iter().map(|name| format!("`{name}`")).collect();
                write!(f, "{} have the same graph: ", names.join(", "))?;
                write!(f, "their latencies are samples of one model")
            }
            Self::AllEqual { models } => {
                write!(f, "all {models} models have the same latency")
            }
            Self::FarFromForecast { factor, from_sources, .. } => {
                write!(f, "the latencies are {}", far(*factor, *from_sources))
            }
            Self::OneFarFromForecast { model, line, factor, from_sources } => {
                let far = far(*factor, *from_sources);
                write!(f, "line {line}: the latency of `{model}` is {far}")
            }
        }
    }
}

/// `50 times longer than the sources forecast`
fn far(factor: f64, from_sources: bool) -> String {
    let by = if from_sources { "the sources forecast" } else { "physical limits give" };
    let (times, than) = if factor > 1.0 { (factor, "longer") } else { (1.0 / factor, "shorter") };
    format!("{times:.0} times {than} than {by}")
}

/// Names of one graph, samples that differ, and equal latencies; `names`: of the models that the
/// latencies were read with.
pub(super) fn among_themselves(graphs: &[GraphLatency], names: &[&str]) -> Vec<Warning> {
    let name = |model: &usize| names.get(*model).copied().unwrap_or_default().to_owned();
    let mut warnings: Vec<Warning> = Vec::new();
    for GraphLatency { models, latency } in graphs {
        if models.len() > 1 {
            warnings.push(Warning::SameGraph { models: models.iter().map(name).collect() });
        }
        let Some((least, most)) = latency.extremes() else { continue };
        let ratio = most.latency_ns / least.latency_ns;
        if ratio > NOTED_RATIO {
            warnings.push(Warning::SamplesDiffer {
                model: name(&latency.model),
                lines: [least.line.min(most.line), least.line.max(most.line)],
                ratio,
            });
        }
    }
    let first = graphs.first().map_or(0.0, |graph| graph.latency.latency_ns);
    let is_equal = |graph: &GraphLatency| (graph.latency.latency_ns / first - 1.0).abs() < 1e-9;
    if graphs.len() > 1 && graphs.iter().all(is_equal) {
        warnings.push(Warning::AllEqual { models: graphs.len() });
    }
    warnings
}

/// What is forecast of measured models without their latencies.
pub(super) struct Forecasts {
    /// Of latency over forecast, by row.
    logs: Vec<f64>,
    /// Half widths of the forecasts, by row.
    widths: Vec<f64>,
    from_sources: bool,
}

impl Forecasts {
    pub fn of(
        prior: &DevicePrior,
        workloads: &[Workload],
        measured: &[Measured],
        kind: &Trait,
    ) -> Self {
        let before = adapt(prior, workloads, &[], Some(kind));
        let of_row = |m: &Measured| {
            let forecast = before.forecast(&workloads[m.model], Some(m.model));
            (m.ns.ln() - forecast.log_ns, forecast.half_width)
        };
        let (logs, widths) = measured.iter().map(of_row).unzip();
        Self { logs, widths, from_sources: prior.sources() > 0 }
    }

    /// Latencies that differ much from them: all, and each that differs much more than all do.
    /// `graphs`: of the rows; `names`: of the models.
    pub fn warnings(&self, graphs: &[GraphLatency], names: &[&str], unit: Unit) -> Vec<Warning> {
        let all = self.all(unit);
        let of_all = if all.is_some() { metrics::median(&self.logs).unwrap_or(0.0) } else { 0.0 };
        // Either from the others, or from its forecast where that is not said of all.
        let is_far = |log: f64| {
            let (from_others, most) = ((log - of_all).abs(), MOST_OF_ONE.ln());
            from_others > most || (log.abs() > most && from_others > FACTORS[0].ln())
        };
        let one = |(graph, log): (&GraphLatency, &f64)| Warning::OneFarFromForecast {
            model: names.get(graph.latency.model).copied().unwrap_or_default().to_owned(),
            line: graph.latency.samples.first().map_or(0, |sample| sample.line),
            factor: log.exp(),
            from_sources: self.from_sources,
        };
        let ones = graphs.iter().zip(&self.logs).filter(|(_, log)| is_far(**log)).map(one);
        all.into_iter().chain(ones).collect()
    }

    /// The latencies as a whole.
    fn all(&self, unit: Unit) -> Option<Warning> {
        let (log_factor, width) = (metrics::median(&self.logs)?, metrics::median(&self.widths)?);
        let accepted = width.clamp(FACTORS[0].ln(), FACTORS[1].ln());
        (log_factor.abs() > accepted).then(|| Warning::FarFromForecast {
            factor: log_factor.exp(),
            from_sources: self.from_sources,
            unit,
            suggested: nearest_unit(unit, log_factor).filter(|suggested| *suggested != unit),
        })
    }
}

/// The unit in which a factor becomes nearest to one.
fn nearest_unit(unit: Unit, log_factor: f64) -> Option<Unit> {
    let away = |other: &Unit| (log_factor + (other.ns() / unit.ns()).ln()).abs();
    Unit::ALL.into_iter().min_by(|a, b| away(a).total_cmp(&away(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptation::latencies::{ModelLatency, Sample};

    fn of(samples: &[&[f64]]) -> Vec<GraphLatency> {
        let model = |(model, ns): (usize, &&[f64])| {
            let sample = |(i, &latency_ns): (usize, &f64)| Sample { line: i + 2, latency_ns };
            let samples = ns.iter().enumerate().map(sample).collect();
            let latency = ModelLatency { model, latency_ns: ns[0], samples };
            GraphLatency { models: vec![model], latency }
        };
        samples.iter().enumerate().map(model).collect()
    }

    #[test]
    fn differing_samples_and_equal_latencies_are_noted() {
        let names = ["vit", "resnet18"];
        assert!(among_themselves(&of(&[&[1e6, 1.2e6], &[3e6]]), &names).is_empty());
        let expected = Warning::SamplesDiffer { model: "vit".into(), lines: [2, 3], ratio: 4.0 };
        assert_eq!(among_themselves(&of(&[&[4e6, 1e6], &[3e6]]), &names), [expected]);
        assert_eq!(
            among_themselves(&of(&[&[1e6], &[1e6]]), &names),
            [Warning::AllEqual { models: 2 }]
        );
        assert!(among_themselves(&of(&[&[1e6]]), &names).is_empty(), "one is equal to itself");
        let mut one = of(&[&[1e6, 1.1e6]]);
        one[0].models.push(1);
        let models = vec!["vit".to_owned(), "resnet18".to_owned()];
        assert_eq!(among_themselves(&one, &names), [Warning::SameGraph { models }]);
    }

    #[test]
    fn the_nearest_unit_is_suggested() {
        let suggested = |factor: f64| nearest_unit(Unit::Milliseconds, factor.ln());
        assert_eq!(suggested(700.0), Some(Unit::Microseconds), "too long: they were microseconds");
        assert_eq!(suggested(1.0 / 3000.0), Some(Unit::Seconds));
        assert_eq!(suggested(2e6), Some(Unit::Nanoseconds));
        assert_eq!(suggested(2.0), Some(Unit::Milliseconds));
    }

    #[test]
    fn a_latency_that_is_far_off_alone_is_named() {
        let names = ["vit", "resnet18", "deit"];
        let graphs = of(&[&[1e6], &[1e6], &[1e6]]);
        let warnings = |factors: [f64; 3]| {
            let logs = factors.map(f64::ln).to_vec();
            let forecasts = Forecasts { logs, widths: vec![0.1; 3], from_sources: true };
            forecasts.warnings(&graphs, &names, Unit::Milliseconds)
        };
        assert!(warnings([1.0, 900.0, 0.5]).is_empty());
        let alone = warnings([1.0, 5000.0, 0.5]);
        let says =
            "line 2: the latency of `resnet18` is 5000 times longer than the sources forecast";
        assert_eq!(alone.iter().map(ToString::to_string).collect::<Vec<_>>(), [says]);
        let all = warnings([4000.0, 5000.0, 6000.0]);
        assert!(matches!(all[..], [Warning::FarFromForecast { .. }]), "{all:?}");
        let one_of_two = warnings([1.0, 1e4, 100.0]);
        assert_eq!(one_of_two.len(), 2, "{one_of_two:?}");
        let both = warnings([4000.0, 5000.0, 1.0]);
        let is_one =
            |w: &Warning| matches!(w, Warning::OneFarFromForecast { model, .. } if model == "deit");
        assert!(both.len() == 2 && is_one(&both[1]), "{both:?}");
    }
}
