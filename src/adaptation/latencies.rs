//! [`Latencies`]: a CSV of end-to-end latencies by model; the header names the unit.

use super::{
    Model,
    lines::Lines,
    names::{SameName, distinct, nearest},
    same_graph::{GraphLatency, first_of_graph},
};
use crate::predictors::metrics;
use std::{
    collections::BTreeMap,
    fmt,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

/// Samples of one model that differ by more than this ratio count as errors: two models, or two
/// units.
const REFUSED_RATIO: f64 = 10.0;
/// Shorter and longer ones are those of no device and no model, ns: 10 ns, 1 h.
const LATENCIES_NS: RangeInclusive<f64> = 10.0..=3.6e12;
/// Separators that other programs write.
const FOREIGN_SEPARATORS: [char; 3] = [';', '\t', '|'];

/// The unit of a column of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `latency_ns`.
    Nanoseconds,
    /// `latency_us`.
    Microseconds,
    /// `latency_ms`.
    Milliseconds,
    /// `latency_s`.
    Seconds,
}

impl Unit {
    /// All of them, the shortest first.
    pub const ALL: [Self; 4] =
        [Self::Nanoseconds, Self::Microseconds, Self::Milliseconds, Self::Seconds];

    /// The heading of a column in this unit.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Nanoseconds => "latency_ns",
            Self::Microseconds => "latency_us",
            Self::Milliseconds => "latency_ms",
            Self::Seconds => "latency_s",
        }
    }

    /// Its symbol.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
        }
    }

    /// Nanoseconds in one.
    #[must_use]
    pub const fn ns(self) -> f64 {
        match self {
            Self::Nanoseconds => 1.0,
            Self::Microseconds => 1e3,
            Self::Milliseconds => 1e6,
            Self::Seconds => 1e9,
        }
    }
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Its line in the file, from 1.
    pub line: usize,
    /// Its latency, ns.
    pub latency_ns: f64,
}

/// The samples of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelLatency {
    /// Index among the models that the file was read with.
    pub model: usize,
    /// The median of the samples, ns.
    pub latency_ns: f64,
    /// At least one, in the order of the file.
    pub samples: Vec<Sample>,
}

impl ModelLatency {
    /// The shortest and the longest sample.
    #[must_use]
    pub fn extremes(&self) -> Option<(Sample, Sample)> {
        let by_latency = |a: &&Sample, b: &&Sample| a.latency_ns.total_cmp(&b.latency_ns);
        let (least, most) =
            (self.samples.iter().min_by(by_latency), self.samples.iter().max_by(by_latency));
        least.copied().zip(most.copied())
    }
}

/// End-to-end latencies of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    /// The unit that the heading states.
    pub unit: Unit,
    /// By model, in the order of the models.
    pub models: Vec<ModelLatency>,
}

/// An invalid file of latencies.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", .path.display())]
pub struct LatencyError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: LatencyProblem,
}

/// See [`LatencyError`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LatencyProblem {
    /// Not a table.
    #[error("{0}")]
    Unreadable(String),
    /// Columns that no comma separates.
    #[error("its columns are separated by {found}, expected `,`")]
    Separator {
        /// What separates them.
        found: Separator,
    },
    /// No heading `model`.
    #[error("it has no column `model`")]
    NoModelColumn,
    /// No heading of [`Unit`].
    #[error("it has no column of latencies")]
    NoLatencyColumn,
    /// A heading that stands twice.
    #[error("it has two columns `{0}`")]
    RepeatedColumn(String),
    /// Two models of one name, so that a row may be of either.
    #[error(transparent)]
    SameName(#[from] SameName),
    /// Two headings of [`Unit`].
    #[error("it has two columns of latencies, `{}` and `{}`", .first.heading(), .second.heading())]
    TwoLatencyColumns {
        /// The shorter unit.
        first: Unit,
        /// The longer one.
        second: Unit,
    },
    /// A row of more or fewer columns than the first.
    #[error("line {line}: it has {found} columns, expected {expected}")]
    Columns {
        /// Line of the file, from 1.
        line: usize,
        /// Of the line.
        found: u64,
        /// Of the headings.
        expected: u64,
    },
    /// A name that no model has.
    #[error("line {line}: none of the models is called `{name}`")]
    UnknownModel {
        /// Line of the file, from 1.
        line: usize,
        /// As written there.
        name: String,
        /// Similar names.
        near: Vec<String>,
    },
    /// Not a number above zero.
    #[error("line {line}: `{text}` is not a latency, expected a number above zero")]
    NotALatency {
        /// Line of the file, from 1.
        line: usize,
        /// As written there.
        text: String,
    },
    /// A latency that no device has.
    #[error("line {line}: the latency of `{model}` is {text} {unit}, expected 10 ns to 1 h")]
    OutOfRange {
        /// Line of the file, from 1.
        line: usize,
        /// Name of the model.
        model: String,
        /// As written there.
        text: String,
        /// That the heading states.
        unit: &'static str,
    },
    /// No row.
    #[error("it holds no latency")]
    Empty,
    /// Samples of one model that cannot be of one graph in one setting.
    #[error(
        "lines {} and {}: two latencies of `{model}` differ by a factor of {ratio:.0}, at most {} \
        is accepted",
        .lines[0], .lines[1], REFUSED_RATIO
    )]
    SamplesDiffer {
        /// Name of the model.
        model: String,
        /// Lines of the shortest and the longest, in the order of the file.
        lines: [usize; 2],
        /// The longest over the shortest.
        ratio: f64,
    },
    /// The same of two models of one graph.
    #[error(
        "lines {} and {}: `{}` and `{}` have the same graph, and latencies that differ by a factor \
        of {ratio:.0}, at most {} is accepted",
        .lines[0], .lines[1], .models[0], .models[1], REFUSED_RATIO
    )]
    SameGraphDiffers {
        /// Names of the models, in the order of the lines.
        models: [String; 2],
        /// Lines of the shortest and the longest, in the order of the file.
        lines: [usize; 2],
        /// The longest over the shortest.
        ratio: f64,
    },
}

/// What separates columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Separator(pub char);

impl fmt::Display for Separator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            '\t' => f.write_str("tabs"),
            other => write!(f, "`{other}`"),
        }
    }
}

impl Latencies {
    /// Reads a CSV with the columns `model` and one of `latency_ns`, `latency_us`, `latency_ms`,
    /// `latency_s`; several rows of a model are samples. `models`: those that may stand in it.
    ///
    /// # Errors
    /// [`LatencyError`] naming the file and the line.
    pub fn read(path: &Path, models: &[Model<'_>]) -> Result<Self, LatencyError> {
        let wrong = |problem| LatencyError { path: path.to_owned(), problem };
        let unreadable = |e: std::io::Error| wrong(LatencyProblem::Unreadable(e.to_string()));
        let file = std::fs::File::open(path).map_err(unreadable)?;
        Self::parse(file, models).map_err(wrong)
    }

    /// The same of the text of such a file.
    ///
    /// # Errors
    /// [`LatencyProblem`] naming the line.
    pub fn parse(
        mut text: impl std::io::Read,
        models: &[Model<'_>],
    ) -> Result<Self, LatencyProblem> {
        distinct(models)?;
        let names: Vec<&str> = models.iter().map(|model| model.name).collect();
        let mut bytes = Vec::new();
        let unreadable = |e: std::io::Error| LatencyProblem::Unreadable(e.to_string());
        text.read_to_end(&mut bytes).map_err(unreadable)?;
        Self::of_names(&bytes, &names, &first_of_graph(models))
    }

    /// `graphs`: by model, what is equal for those of one graph.
    fn of_names(text: &[u8], names: &[&str], graphs: &[usize]) -> Result<Self, LatencyProblem> {
        let mut lines = Lines::of(text);
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
        let columns = Columns::of(reader.headers().map_err(|e| problem(&e, lines))?)?;
        let mut samples: BTreeMap<usize, Vec<Sample>> = BTreeMap::new();
        for record in reader.records() {
            let record = record.map_err(|e| problem(&e, lines))?;
            let line = lines.line(record.position().map_or(0, |at| at.byte() as usize));
            let (model, sample) = columns.sample(&record, line, names)?;
            samples.entry(model).or_default().push(sample);
        }
        let models: Vec<ModelLatency> = samples
            .into_iter()
            .map(|(model, samples)| of_model(model, names.get(model).copied(), samples))
            .collect::<Result<_, _>>()?;
        if models.is_empty() {
            return Err(LatencyProblem::Empty);
        }
        let of = Self { unit: columns.unit, models };
        of.check_graphs(names, graphs)?;
        Ok(of)
    }

    /// Whether models of one graph have latencies of one.
    fn check_graphs(&self, names: &[&str], graphs: &[usize]) -> Result<(), LatencyProblem> {
        for graph in GraphLatency::each(&self.models, |model| graphs[model]) {
            let Some(mut ends) = graph.extremes(&self.models) else { continue };
            let ratio = ends[1].1.latency_ns / ends[0].1.latency_ns;
            if ratio > REFUSED_RATIO {
                ends.sort_by_key(|(_, sample)| sample.line);
                return Err(LatencyProblem::SameGraphDiffers {
                    models: ends.map(|(model, _)| names[model].to_owned()),
                    lines: ends.map(|(_, sample)| sample.line),
                    ratio,
                });
            }
        }
        Ok(())
    }
}

/// Of a row that is not one, with the line on which it begins.
fn problem(error: &csv::Error, mut lines: Lines<'_>) -> LatencyProblem {
    let line = lines.line(error.position().map_or(0, |at| at.byte() as usize));
    match *error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len: expected, len: found, .. } => {
            LatencyProblem::Columns { line, found, expected }
        }
        csv::ErrorKind::Utf8 { .. } => {
            LatencyProblem::Unreadable(format!("line {line}: it is not UTF-8"))
        }
        _ => LatencyProblem::Unreadable(error.to_string()),
    }
}

fn of_model(
    model: usize,
    name: Option<&str>,
    samples: Vec<Sample>,
) -> Result<ModelLatency, LatencyProblem> {
    let ns: Vec<f64> = samples.iter().map(|s| s.latency_ns).collect();
    let latency_ns = metrics::median(&ns).ok_or(LatencyProblem::Empty)?;
    let of = ModelLatency { model, latency_ns, samples };
    match of.extremes() {
        Some((least, most)) if most.latency_ns > REFUSED_RATIO * least.latency_ns => {
            Err(LatencyProblem::SamplesDiffer {
                model: name.unwrap_or_default().to_owned(),
                lines: [least.line.min(most.line), least.line.max(most.line)],
                ratio: most.latency_ns / least.latency_ns,
            })
        }
        _ => Ok(of),
    }
}

/// The positions of the columns.
struct Columns {
    model: usize,
    latency: usize,
    unit: Unit,
}

impl Columns {
    fn of(headings: &csv::StringRecord) -> Result<Self, LatencyProblem> {
        let only = headings.get(0).filter(|_| headings.len() == 1).unwrap_or_default();
        if let Some(found) = FOREIGN_SEPARATORS.into_iter().find(|c| only.contains(*c)) {
            return Err(LatencyProblem::Separator { found: Separator(found) });
        }
        let known = || Unit::ALL.map(Unit::heading).into_iter().chain(["model"]);
        let times = |heading: &str| headings.iter().filter(|h| *h == heading).count();
        if let Some(repeated) = known().find(|heading| times(heading) > 1) {
            return Err(LatencyProblem::RepeatedColumn(repeated.to_owned()));
        }
        let place = |heading: &str| headings.iter().position(|h| h == heading);
        let model = place("model").ok_or(LatencyProblem::NoModelColumn)?;
        let mut units = Unit::ALL.into_iter().filter_map(|u| Some((place(u.heading())?, u)));
        let (latency, unit) = units.next().ok_or(LatencyProblem::NoLatencyColumn)?;
        match units.next() {
            Some((_, second)) => Err(LatencyProblem::TwoLatencyColumns { first: unit, second }),
            None => Ok(Self { model, latency, unit }),
        }
    }

    /// The model of a row, and its latency.
    fn sample(
        &self,
        record: &csv::StringRecord,
        line: usize,
        models: &[&str],
    ) -> Result<(usize, Sample), LatencyProblem> {
        let text = |column: usize| record.get(column).unwrap_or_default();
        let name = text(self.model);
        let name = name.strip_suffix(".onnx").unwrap_or(name);
        let model = models.iter().position(|m| *m == name).ok_or_else(|| {
            let near = nearest(name, models.iter().copied());
            LatencyProblem::UnknownModel { line, name: name.to_owned(), near }
        })?;
        let text = text(self.latency);
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
        let value =
            value.ok_or_else(|| LatencyProblem::NotALatency { line, text: text.to_owned() })?;
        let latency_ns = value * self.unit.ns();
        if !LATENCIES_NS.contains(&latency_ns) {
            let (model, unit) = (models[model].to_owned(), self.unit.symbol());
            return Err(LatencyProblem::OutOfRange { line, model, text: text.to_owned(), unit });
        }
        Ok((model, Sample { line, latency_ns }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Latencies, LatencyProblem> {
        Latencies::of_names(text.as_bytes(), &["vit", "resnet18", "deit"], &[0, 1, 0])
    }

    #[test]
    fn the_median_of_a_models_samples_counts() {
        let read = parse("latency_us,model\n3000,resnet18.onnx\n5000,vit\n4000,vit\n9000,vit\n")
            .expect("latencies");
        let ns: Vec<(usize, f64)> = read.models.iter().map(|m| (m.model, m.latency_ns)).collect();
        assert_eq!((read.unit, ns), (Unit::Microseconds, vec![(0, 5e6), (1, 3e6)]));
    }

    #[test]
    fn foreign_separators_are_named() {
        for (text, found) in [("model;latency_ms\nvit;3,5\n", ';'), ("model\tlatency_ms\n", '\t')] {
            let expected = LatencyProblem::Separator { found: Separator(found) };
            assert_eq!(parse(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn samples_that_cannot_be_of_one_model_are_refused_with_their_lines() {
        let refused = parse("model,latency_ms\nvit,100\nresnet18,3\nvit,2\n");
        let expected =
            LatencyProblem::SamplesDiffer { model: "vit".into(), lines: [2, 4], ratio: 50.0 };
        assert_eq!(refused, Err(expected));
        assert!(parse("model,latency_ms\nvit,10\nvit,2\n").is_ok());
    }

    #[test]
    fn a_latency_that_no_device_has_is_refused_with_line_and_model() {
        for text in ["1e-9", "1e300", "9e-6", "3.7e6"] {
            let refused = parse(&format!("model,latency_ms\nvit,2\nresnet18,{text}\n"));
            let expected = LatencyProblem::OutOfRange {
                line: 3,
                model: "resnet18".into(),
                text: text.into(),
                unit: "ms",
            };
            assert_eq!(refused, Err(expected));
        }
        for text in ["model,latency_ns\nvit,10\n", "model,latency_s\nvit,3600\n"] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn an_unknown_model_comes_with_near_names() {
        let refused = parse("model,latency_ms\nresnet_18,3\n");
        let Err(LatencyProblem::UnknownModel { line, near, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((line, near), (2, vec!["resnet18".to_owned()]));
    }

    #[test]
    fn models_of_one_graph_have_one_latency() {
        let refused = parse("model,latency_ms\ndeit,100\nresnet18,3\nvit,2\n");
        let expected = LatencyProblem::SameGraphDiffers {
            models: ["deit".into(), "vit".into()],
            lines: [2, 4],
            ratio: 50.0,
        };
        assert_eq!(refused, Err(expected));
        assert!(parse("model,latency_ms\ndeit,100\nresnet18,3\nvit,90\n").is_ok());
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let line = |text: &str| match parse(text) {
            Err(
                LatencyProblem::NotALatency { line, .. } | LatencyProblem::Columns { line, .. },
            ) => line,
            other => panic!("{text}: {other:?}"),
        };
        for (text, expected) in [
            ("model,latency_ms\nvit,fast\n", 2),
            ("model,latency_ms\n\n\nvit,1\n\nvit,fast\n", 6),
            ("model,latency_ms\r\n\r\nvit,1\r\nvit,fast\r\n", 4),
            ("note,model,latency_ms\n\"a\nb\",vit,1\n,vit,fast\n", 4),
            ("note,model,latency_ms\n\"a\nb\",vit,fast\n", 2),
            ("\n\nmodel,latency_ms\nvit,1\n\nvit,1,2\n", 6),
        ] {
            assert_eq!(line(text), expected, "{text}");
        }
    }

    #[test]
    fn a_heading_stands_once() {
        for (text, heading) in [
            ("model,latency_ms,latency_ms\nvit,1,2\n", "latency_ms"),
            ("model,model,latency_ms\nvit,resnet18,2\n", "model"),
        ] {
            assert_eq!(parse(text), Err(LatencyProblem::RepeatedColumn(heading.into())), "{text}");
        }
        assert!(parse("model,note,note,latency_ms\nvit,a,b,2\n").is_ok());
    }
}
