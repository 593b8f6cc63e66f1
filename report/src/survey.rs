//! [`Survey`]: the summary of one environment's measurements, small enough to keep those of all
//! environments in memory.
//!
//! Operators are those of `TrainingRows`: distinct ones per model, drift-corrected, the median of
//! all measurements. Latencies are ns, memory is bytes.

mod labels;
mod rows;
mod shares;

pub use labels::identify;
pub use shares::{FAMILIES, Shares, family_index, mean_shares, shares};

use super::{
    floor::Floors,
    forecasts::BundleEvaluation,
    group::Group,
    inputs::{self, InputEffect},
    slug,
};
use jiff::Timestamp;
use labels::label;
use rows::row;
use shares::memory_shares;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};
use vitempo::graph::{
    Environment, Executed, Graph, MemoryFormat, ModelProfile, OpKind, Origin, PeakFault, Work,
};
use vitempo::predictors::{
    Drift, Importance, MeasuredModel, PredictorError, TrainingRows, metrics::median,
};

/// The measurements of one environment, as read.
pub struct Measurements<'a> {
    /// The dataset's folder, by name.
    pub folder: String,
    /// Successful measurements with the usual inputs.
    pub profiles: &'a [ModelProfile],
    /// Successful measurements with other input values.
    pub other_inputs: &'a [ModelProfile],
    /// Graphs of the models, by architecture.
    pub graphs: &'a BTreeMap<String, Graph>,
    /// Model runs that failed.
    pub failed: usize,
}

/// One model in one environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The model's name.
    pub name: String,
    /// Digest of its operators.
    pub architecture: String,
    /// `None` for a network around a single operator.
    pub group: Option<Group>,
    /// Of its graph.
    pub work: Option<Work>,
    /// Width of its input image, pixels.
    pub side: Option<usize>,
    /// Median end-to-end latency, ns.
    pub latency_ns: Option<f64>,
    /// End-to-end latency in each model run, ns; drift-corrected, in the order of the runs.
    pub runs_ns: Vec<f64>,
    /// Median peak memory over the measurements in a process of their own whose peak can be one,
    /// bytes.
    pub peak_memory_bytes: Option<f64>,
}

/// A convolution's extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Window {
    /// Output channels.
    pub channels: u32,
    /// Kernel height.
    pub height: u32,
    /// Kernel width.
    pub width: u32,
    /// Kernel height times width.
    pub kernel: u32,
    /// Of both sides where they are equal.
    pub stride: u32,
}

/// One distinct operator in one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Operator kind.
    pub kind: OpKind,
    /// Kernel class within the kind, without what it says about the output's memory format.
    pub class: Cow<'static, str>,
    /// Index of its model.
    pub model: usize,
    /// How many kernels of the model are this operator.
    pub count: usize,
    /// Of one of them.
    pub latency_ns: f64,
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes read and written.
    pub bytes: f64,
    /// Elements of the first output.
    pub elements: f64,
    /// Of a convolution.
    pub window: Option<Window>,
}

impl Row {
    /// Time of all its kernels in one run of its model.
    pub fn time_ns(&self) -> f64 {
        self.latency_ns * self.count as f64
    }
}

/// Feature importance for the convolutions of one memory format.
#[derive(Clone, Debug, PartialEq)]
pub struct FormatImportance {
    /// The format that it is about.
    pub format: MemoryFormat,
    /// Which features matter.
    pub importance: Importance,
}

/// One environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// Its place in the report, which gives it a colour.
    pub number: usize,
    /// Short name, unique in a report.
    pub label: String,
    /// Names its files; unique in a report.
    pub slug: String,
    /// The dataset.
    pub folder: String,
    /// Where it was measured.
    pub environment: Environment,
    /// Measured, imported or simulated.
    pub origin: Origin,
    /// Of imported numbers: who published them.
    pub published: Option<String>,
    /// First and last day; `None` if unknown.
    pub days: Option<(String, String)>,
    /// When the first and the last model run started, ms since 1970; `None` if unknown.
    pub started_ms: Option<(u64, u64)>,
    /// Measurement sessions.
    pub sessions: usize,
    /// Measurements that failed.
    pub failed: usize,
    /// In which most models spent the time of their convolutions.
    pub executed: Option<MemoryFormat>,
    /// Whole models.
    pub models: Vec<Model>,
    /// Their operators.
    pub rows: Vec<Row>,
    /// Who takes the memory that the engine reports by operator: the mean over models.
    pub memory_shares: BTreeMap<Group, Shares>,
    /// What input values change.
    pub input_effects: Vec<InputEffect>,
    /// How much repeats differ.
    pub floors: Floors,
    /// Filled where it was asked for.
    pub importances: Vec<FormatImportance>,
    /// Filled where it was asked for.
    pub evaluations: Vec<BundleEvaluation>,
}

fn floors(
    rows: &TrainingRows,
    groups: &[Option<Group>],
    measurements: &Measurements<'_>,
) -> Result<Floors, PredictorError> {
    Floors::of(rows, groups, measurements.profiles)
        .map_err(|source| PredictorError::Metric { what: measurements.folder.clone(), source })
}

impl Survey {
    /// Sums up an environment's measurements; also the rows they come from.
    ///
    /// # Errors
    /// As [`TrainingRows::from_profiles`].
    pub fn of(measurements: &Measurements<'_>) -> Result<(Self, TrainingRows), PredictorError> {
        let rows = TrainingRows::from_profiles(measurements.profiles)?;
        let by_model = by_model(measurements.profiles);
        let of_model = |m: &MeasuredModel| Model {
            latency_ns: m.e2e_ns,
            runs_ns: m.runs.iter().map(|(_, corrected)| *corrected).collect(),
            ..model((&m.name, &m.architecture), &by_model, measurements.graphs)
        };
        let mut models: Vec<Model> = rows.models.iter().map(of_model).collect();
        let in_rows: BTreeSet<(&str, &str)> =
            rows.models.iter().map(|m| (m.name.as_str(), m.architecture.as_str())).collect();
        let of_memory = by_model.keys().filter(|key| !in_rows.contains(key));
        // Behind the others, whose places the rows have.
        models.extend(
            of_memory
                .map(|&key| model(key, &by_model, measurements.graphs))
                .filter(|model| model.peak_memory_bytes.is_some()),
        );
        let groups: Vec<Option<Group>> = models.iter().map(|m| m.group).collect();
        let of_models = Self::of_models(measurements, models, rows.origin);
        let survey = Self {
            input_effects: inputs::effects(&rows, measurements.other_inputs),
            floors: floors(&rows, &groups, measurements)?,
            rows: rows.rows.iter().map(row).collect(),
            ..of_models.ok_or(PredictorError::NoRows {
                profiles: 0,
                skipped: 0,
                reasons: String::new(),
            })?
        };
        Ok((survey, rows))
    }

    /// The noise floors again, corrected as a bundle corrects what its forecasts are held against.
    ///
    /// # Errors
    /// As [`TrainingRows::from_profiles`].
    pub fn correct_floors(
        &mut self,
        drift: Drift,
        measurements: &Measurements<'_>,
    ) -> Result<(), PredictorError> {
        let rows = TrainingRows::with_drift(measurements.profiles, drift)?;
        // The models of `Survey::of`, in its order.
        let groups: Vec<Option<Group>> = self.models.iter().map(|m| m.group).collect();
        self.floors = floors(&rows, &groups, measurements)?;
        Ok(())
    }

    /// Sums up measurements of memory in which no operator was timed; their latencies, of a few
    /// runs of new processes, are not used. `None` without memory.
    pub fn of_memory(measurements: &Measurements<'_>) -> Option<Self> {
        let by_model = by_model(measurements.profiles);
        let models: Vec<Model> =
            by_model.keys().map(|&key| model(key, &by_model, measurements.graphs)).collect();
        let is_measured = models.iter().any(|m| m.peak_memory_bytes.is_some());
        let origin = measurements.profiles.first()?.origin;
        is_measured.then(|| Self::of_models(measurements, models, origin)).flatten()
    }

    /// Models of an environment, and no operators; `None` without measurements.
    fn of_models(
        measurements: &Measurements<'_>,
        models: Vec<Model>,
        origin: Origin,
    ) -> Option<Self> {
        let first = measurements.profiles.first()?;
        let times = || measurements.profiles.iter().map(|p| p.started_unix_ms).filter(|ms| *ms > 0);
        let label = label(&first.environment);
        Some(Self {
            number: 0,
            slug: slug(&label),
            label,
            folder: measurements.folder.clone(),
            environment: first.environment.clone(),
            origin,
            published: first.source.clone(),
            days: times().min().zip(times().max()).map(|(first, last)| (day(first), day(last))),
            started_ms: times().min().zip(times().max()),
            sessions: measurements
                .profiles
                .iter()
                .map(|p| p.session.as_str())
                .collect::<BTreeSet<_>>()
                .len(),
            failed: measurements.failed,
            executed: executed(measurements.profiles),
            memory_shares: memory_shares(measurements.profiles, measurements.graphs),
            input_effects: Vec::new(),
            floors: Floors::default(),
            rows: Vec::new(),
            models,
            importances: Vec::new(),
            evaluations: Vec::new(),
        })
    }

    /// Models with an end-to-end latency; single operators are none.
    pub fn measured_models(&self) -> usize {
        self.models.iter().filter(|m| m.group.is_some() && m.latency_ns.is_some()).count()
    }

    /// The models of a group.
    pub fn group(&self, group: Group) -> impl Iterator<Item = (usize, &Model)> {
        self.models.iter().enumerate().filter(move |(_, m)| m.group == Some(group))
    }

    /// Rows that ran in whole models.
    pub fn model_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|r| self.models.get(r.model).is_some_and(|m| m.group.is_some()))
    }

    /// Total time by the `key` of a row, for every model: `None` keys are left out.
    pub fn times<K: Ord>(&self, key: impl Fn(&Row) -> Option<K>) -> Vec<BTreeMap<K, f64>> {
        let mut times: Vec<BTreeMap<K, f64>> =
            self.models.iter().map(|_| BTreeMap::new()).collect();
        for row in &self.rows {
            if let Some((key, of)) = key(row).zip(times.get_mut(row.model)) {
                *of.entry(key).or_default() += row.time_ns();
            }
        }
        times
    }

    /// `measured, 21 November 2026`; of imported numbers also whose they are.
    pub fn when(&self) -> String {
        let origin = match self.origin {
            Origin::Measured => "measured",
            Origin::Imported => "imported",
            Origin::Simulated => "simulated",
        };
        let published = self.published.as_ref().map(|by| format!(" from {by}")).unwrap_or_default();
        let days = match &self.days {
            None => "date unknown".to_owned(),
            Some((first, last)) if first == last => first.clone(),
            Some((first, last)) => format!("{first} to {last}"),
        };
        format!("{origin}{published}, {days}")
    }
}

/// Measurements by name and architecture of their model.
type ByModel<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a ModelProfile>>;

fn by_model(profiles: &[ModelProfile]) -> ByModel<'_> {
    let mut by_model = ByModel::new();
    for profile in profiles {
        let key = (profile.model.name.as_str(), profile.model.architecture.as_str());
        by_model.entry(key).or_default().push(profile);
    }
    by_model
}

/// A model of which no latency is known.
fn model(
    (name, architecture): (&str, &str),
    by_model: &ByModel<'_>,
    graphs: &BTreeMap<String, Graph>,
) -> Model {
    let own = by_model.get(&(name, architecture)).map_or(&[][..], Vec::as_slice);
    let graph = graphs.get(architecture);
    let peaks: Vec<f64> = own.iter().filter_map(|p| peak(p, graph)).map(|b| b as f64).collect();
    Model {
        name: name.to_owned(),
        architecture: architecture.to_owned(),
        group: own.first().and_then(|p| Group::of(&p.model, graph)),
        work: graph.map(Work::of_graph),
        side: graph.and_then(image_side),
        latency_ns: None,
        runs_ns: Vec::new(),
        peak_memory_bytes: median(&peaks),
    }
}

/// A measurement's peak memory, where it can be one: of a process that ran other models before, it
/// says nothing.
fn peak(measurement: &ModelProfile, graph: Option<&Graph>) -> Option<u64> {
    measurement.running_memory_bytes?;
    let faulty = |bytes| PeakFault::of(bytes, graph, measurement.environment.precision).is_some();
    measurement.peak_memory_bytes.filter(|&bytes| !faulty(bytes))
}

/// Width of the first input that is an image of few channels, channels first or last.
fn image_side(graph: &Graph) -> Option<usize> {
    let shapes = graph
        .inputs()
        .iter()
        .filter_map(|i| graph.value(*i).tensor.as_ref().map(|t| t.shape.as_slice()));
    shapes
        .filter_map(|shape| {
            if let [_, a, b, c] = shape {
                Some(if *a > 4 && *c <= 4 { *b } else { *c })
            } else {
                None
            }
        })
        .next()
}

fn executed(profiles: &[ModelProfile]) -> Option<MemoryFormat> {
    let mut counts: BTreeMap<MemoryFormat, usize> = BTreeMap::new();
    profiles
        .iter()
        .filter_map(|p| p.executed.or_else(|| Executed::of(&p.operators)))
        .for_each(|e| *counts.entry(e.memory_format).or_default() += 1);
    counts.into_iter().max_by_key(|(_, n)| *n).map(|(format, _)| format)
}

/// `21 November 2026` in UTC.
pub fn day(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.unwrap_or_default().strftime("%-d %B %Y").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1 January 1970"),
            (951_782_400, "29 February 2000"),
            (1_709_164_800, "29 February 2024"),
            (1_795_219_200, "21 November 2026"),
            (1_798_761_599, "31 December 2026"),
        ] {
            assert_eq!(day(seconds * 1000), expected);
        }
    }
}
