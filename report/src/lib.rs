//! The report on datasets: every table and figure of the mobile ViT study, from the measurements at
//! hand.
//!
//! [`build`] reads datasets one environment at a time, sums each up as a [`survey::Survey`], trains
//! and evaluates the bundles that the section on accuracy shows, and returns a [`Site`]: the pages
//! and data files of the report, still in memory.
//!
//! ```no_run
//! use vitempo_report::{Options, Topic, build};
//!
//! let options = Options { topics: vec![Topic::Latency], bundles: "bundles".into(), seed: 1 };
//! let site = build(&["data".into()], &options, &mut |progress| eprintln!("{progress:?}"))?;
//! for (name, contents) in &site.files {
//!     println!("{name}: {} bytes", contents.len());
//! }
//! # Ok::<(), vitempo_report::ReportError>(())
//! ```
//!
//! Each study is a function from all surveys to [`Block`]s, in a file of its own; `chart.rs` and
//! `table.rs` say what is shown, `draw.rs` draws it, and `site/` makes the pages.

mod accuracy;
mod activations;
mod architectures;
pub mod aria;
mod breakdown;
mod build;
pub mod chart;
mod depthwise;
pub mod devices;
pub mod draw;
mod environments;
mod error;
mod evaluate;
pub mod floor;
pub mod forecasts;
pub mod front;
pub mod group;
mod hue;
mod importance;
mod inputs;
mod intensity;
mod latency;
mod markup;
mod memory;
mod memory_format;
mod notes;
mod paper;
mod quantization;
mod read;
mod scale;
pub mod site;
pub mod sizes;
mod slugs;
mod statistics;
pub mod survey;
pub mod table;

pub use build::{Options, Progress, build};
pub use error::ReportError;
pub use hue::Hue;
pub use site::Site;

use chart::{Chart, ModelKey};
use group::Group;
use survey::Survey;
use table::Table;

/// A section of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Latency against FLOPs
    Latency,
    /// Time by operator family
    Breakdown,
    /// FLOPs per byte against achieved FLOP/s
    Intensity,
    /// Peak memory against model size and resolution
    Memory,
    /// Memory formats and convolutions
    MemoryFormat,
    /// Activations, and GELU by input values
    Activations,
    /// Depthwise convolution against channels
    Depthwise,
    /// What int8 and bf16 gain, by operator
    Quantization,
    /// Which features decide convolutions
    Importance,
    /// Forecasts against measurements
    Accuracy,
}

impl Topic {
    /// Every section, in the order of the report.
    pub const ALL: [Self; 10] = [
        Self::Latency,
        Self::Breakdown,
        Self::Intensity,
        Self::Memory,
        Self::MemoryFormat,
        Self::Activations,
        Self::Depthwise,
        Self::Quantization,
        Self::Importance,
        Self::Accuracy,
    ];

    /// The name in flags and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Breakdown => "breakdown",
            Self::Intensity => "intensity",
            Self::Memory => "memory",
            Self::MemoryFormat => "memory-format",
            Self::Activations => "activations",
            Self::Depthwise => "depthwise",
            Self::Quantization => "quantization",
            Self::Importance => "importance",
            Self::Accuracy => "accuracy",
        }
    }

    /// One line on what the section shows.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Latency => "Latency against FLOPs",
            Self::Breakdown => "Time by operator family",
            Self::Intensity => "FLOPs per byte against achieved FLOP/s",
            Self::Memory => "Peak memory against model size and resolution",
            Self::MemoryFormat => "Memory formats and convolutions",
            Self::Activations => "Activations, and GELU by input values",
            Self::Depthwise => "Depthwise convolution against channels",
            Self::Quantization => "What int8 and bf16 gain, by operator",
            Self::Importance => "Which features decide convolutions",
            Self::Accuracy => "Forecasts against measurements",
        }
    }

    /// The section of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.name() == name)
    }

    /// The heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Latency => "Latency against FLOPs",
            Self::Breakdown => "Where the time goes",
            Self::Intensity => "Arithmetic intensity",
            Self::Memory => "Memory",
            Self::MemoryFormat => "Memory format and convolution",
            Self::Activations => "Activations",
            Self::Depthwise => "Depthwise convolution",
            Self::Quantization => "Quantisation",
            Self::Importance => "Which features matter",
            Self::Accuracy => "Forecast accuracy",
        }
    }

    /// The section's contents.
    pub fn blocks(self, surveys: &[Survey]) -> Vec<Block> {
        match self {
            Self::Latency => latency::section(surveys),
            Self::Breakdown => breakdown::section(surveys),
            Self::Intensity => intensity::section(surveys),
            Self::Memory => memory::section(surveys),
            Self::MemoryFormat => memory_format::section(surveys),
            Self::Activations => activations::section(surveys),
            Self::Depthwise => depthwise::section(surveys),
            Self::Quantization => quantization::section(surveys),
            Self::Importance => importance::section(surveys),
            Self::Accuracy => accuracy::section(surveys),
        }
    }
}

/// The parts of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// Rows under headings.
    Table(Table),
    /// A chart.
    Figure(Figure),
    /// Why a part is missing, and what to measure for it.
    Missing(String),
}

/// A chart with the words under it.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Names the SVG file; unique in a report.
    pub name: String,
    /// The words under the chart: what, how many, where and when.
    pub caption: String,
    /// What is drawn.
    pub chart: Chart,
}

impl Block {
    /// A paragraph.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A figure, or why there is none.
    pub fn figure(
        name: impl Into<String>,
        caption: impl Into<String>,
        chart: Chart,
        otherwise: &str,
    ) -> Self {
        if chart.is_empty() {
            Self::Missing(otherwise.to_owned())
        } else {
            Self::Figure(Figure { name: name.into(), caption: caption.into(), chart })
        }
    }

    /// A table, or why there is none.
    pub fn table(table: Table, otherwise: &str) -> Self {
        if table.rows.is_empty() { Self::Missing(otherwise.to_owned()) } else { Self::Table(table) }
    }
}

/// The figures among blocks, or the reason why there is none.
fn figures(blocks: impl Iterator<Item = Block>, otherwise: &str) -> Vec<Block> {
    let shown: Vec<Block> = blocks.filter(|b| matches!(b, Block::Figure(_))).collect();
    if shown.is_empty() { vec![Block::Missing(otherwise.to_owned())] } else { shown }
}

/// The models of the points of a group, by name and architecture: real ones are known by theirs,
/// synthetic ones are a cloud.
fn models_of<'a>(group: Group, models: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<ModelKey> {
    match group {
        Group::Synthetic => Vec::new(),
        _ => models.map(|(name, architecture)| ModelKey::new(name, architecture)).collect(),
    }
}

/// How many environments have figures of their own; tables show all.
const LEADING: usize = 3;

/// Of these environments those with the most models, in the order given.
fn leading<'a>(surveys: impl IntoIterator<Item = &'a Survey>) -> Vec<&'a Survey> {
    let mut by_models: Vec<(usize, &Survey)> = surveys.into_iter().enumerate().collect();
    by_models.sort_by_key(|(index, s)| (std::cmp::Reverse(s.measured_models()), *index));
    by_models.truncate(LEADING);
    by_models.sort_by_key(|(index, _)| *index);
    by_models.into_iter().map(|(_, survey)| survey).collect()
}

/// The description of a caption's data: counts, environment, machine, origin and dates.
fn source(what: &str, surveys: &[&Survey]) -> String {
    let mut machines: Vec<&str> = surveys.iter().map(|s| s.environment.device.as_str()).collect();
    machines.sort_unstable();
    machines.dedup();
    let mut whens: Vec<String> = surveys.iter().map(|s| s.when()).collect();
    whens.sort_unstable();
    whens.dedup();
    let environments = match surveys {
        [one] => one.environment.describe(),
        few if few.len() <= 4 => {
            few.iter().map(|s| s.label.as_str()).collect::<Vec<_>>().join("; ")
        }
        many => format!("{} environments", many.len()),
    };
    let machines =
        if surveys.len() == 1 { String::new() } else { format!(", {}", machines.join(" and ")) };
    format!("{what}. {environments}{machines}; {}.", whens.join("; "))
}

/// A word for file names: lower case, digits and dashes.
fn slug(text: &str) -> String {
    let lower = text.to_lowercase();
    lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

#[cfg(test)]
mod tests;
