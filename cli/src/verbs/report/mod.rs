//! `vitempo report`: every table and figure from a dataset, as one page.
//!
//! Reads one environment at a time, sums it up, trains and judges bundles where the report wants
//! accuracy, and writes the page when all are done.

mod judge;
mod read;
mod remarks;

use super::{
    error::{CliError, CliResult, io_error},
    files,
    output::{self, Format, Report, Table},
    progress,
};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use judge::Trainer;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};
use vitempo::graph::{MemoryFormat, OpKind};
use vitempo::predictors::{PredictorError, TrainingRow, TrainingRows};
use vitempo_report::{
    Topic,
    page::{self, Page},
    survey::{FormatImportance, Survey, tell_apart},
};

/// Rebuilds every table and figure from datasets, as a page that works offline
///
/// Example: vitempo report data/ --out docs/report
///
/// Writes index.html, report.md, tables.json and one SVG file per figure. Forecast accuracy trains
/// bundles, which takes minutes for each environment: they are kept, so that the same command goes
/// on where an interrupted one stopped, and reads what is there.
#[derive(clap::Args, Debug)]
pub struct ReportArgs {
    /// Dataset folders
    #[arg(required = true, value_name = "FOLDER")]
    data: Vec<PathBuf>,

    /// Folder to write to
    #[arg(long, default_value = "docs/report", value_name = "FOLDER")]
    out: PathBuf,

    /// Folder of trained bundles; those missing are trained and kept there. By default beside
    /// --out, with `-bundles` added
    #[arg(long, value_name = "FOLDER")]
    bundles: Option<PathBuf>,

    /// Only these sections
    #[arg(long, value_delimiter = ',', value_name = "SECTIONS", value_parser = topics())]
    only: Vec<Topic>,

    /// Seed of splits and training
    #[arg(long, default_value_t = 1)]
    seed: u64,

    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Reads the name of a section; `--help` shows them all.
fn topics() -> impl TypedValueParser<Value = Topic> {
    PossibleValuesParser::new(Topic::ALL.map(|t| PossibleValue::new(t.name()).help(t.summary())))
        .try_map(|name| Topic::named(&name).ok_or("the report has no such section"))
}

pub fn run(args: &ReportArgs) -> CliResult {
    let mut topics = if args.only.is_empty() { Topic::ALL.to_vec() } else { args.only.clone() };
    topics.sort_unstable();
    topics.dedup();
    let remarks = remarks::read(&args.data)?;
    let trainer = Trainer { folder: bundles_folder(args), seed: args.seed };
    let mut surveys = Vec::new();
    read::environments(&args.data, &mut |environment| {
        if let Some(survey) = survey(environment, &topics, &trainer)? {
            surveys.push(survey);
        }
        Ok(())
    })?;
    if surveys.is_empty() {
        return Err(CliError::user("no environment in these folders has usable operator rows")
            .hint("measure models first: vitempo profile MODELS --out data/"));
    }
    tell_apart(&mut surveys);
    let page = page::page(&surveys, &topics, &remarks).map_err(CliError::ours)?;
    write(&args.out, &page)?;
    output::print(&Written { page: &page, out: &args.out }, args.format)
}

fn bundles_folder(args: &ReportArgs) -> PathBuf {
    args.bundles.clone().unwrap_or_else(|| {
        let name = args
            .out
            .file_name()
            .map_or_else(|| "report".into(), |n| n.to_string_lossy().into_owned());
        args.out.with_file_name(format!("{name}-bundles"))
    })
}

/// `None` for an environment without usable rows, which is said and left out.
fn survey(
    environment: &read::Environment,
    topics: &[Topic],
    trainer: &Trainer,
) -> CliResult<Option<Survey>> {
    progress::say(format!(
        "{} in {}: {} visits",
        environment.id,
        environment.folder,
        environment.dataset.profiles.len()
    ));
    let (mut survey, rows) = match Survey::of(&environment.visited()) {
        Ok(found) => found,
        Err(PredictorError::NoRows { .. }) => {
            progress::say(format!("warning: left out {}: no usable operator rows", environment.id));
            return Ok(None);
        }
        Err(error) => {
            return Err(CliError::from(error)
                .hint("a report reads environments whose visits have one origin"));
        }
    };
    if topics.contains(&Topic::Importance) {
        survey.importances = importances(&rows, trainer.seed)?;
    }
    if topics.contains(&Topic::Accuracy) {
        survey.judged = trainer.judge(&environment.dataset)?;
    }
    Ok(Some(survey))
}

/// Fewest convolutions of a memory format for a say on what decides them.
const FEWEST_CONVOLUTIONS: usize = 200;

fn importances(rows: &TrainingRows, seed: u64) -> CliResult<Vec<FormatImportance>> {
    let mut found = Vec::new();
    for format in [MemoryFormat::ChannelsFirst, MemoryFormat::ChannelsLast, MemoryFormat::Blocked] {
        let own: Vec<&TrainingRow> = rows
            .rows
            .iter()
            .filter(|r| r.op.kind == OpKind::Conv && r.op.format() == format)
            .collect();
        if own.len() < FEWEST_CONVOLUTIONS {
            continue;
        }
        let importance = vitempo::predictors::importance(own, seed).map_err(CliError::ours)?;
        found.extend(importance.map(|importance| FormatImportance { format, importance }));
    }
    Ok(found)
}

fn write(out: &Path, page: &Page) -> CliResult {
    fs::create_dir_all(out).map_err(|e| io_error("make folder", out, &e))?;
    page.files
        .iter()
        .try_for_each(|(name, contents)| files::write(&out.join(name), contents.as_bytes()))
}

struct Written<'a> {
    page: &'a Page,
    out: &'a Path,
}

impl Written<'_> {
    fn sections(&self) -> Table {
        let mut table = Table::new(&["Section", "Not shown", "Tables", "Figures"], 2);
        for s in &self.page.sections {
            table.row([
                s.topic.title().to_owned(),
                s.missing.join(" "),
                s.tables.to_string(),
                s.figures.to_string(),
            ]);
        }
        table
    }
}

impl Report for Written<'_> {
    fn table(&self) -> String {
        format!(
            "{}\n{} files in {}, to be read from index.html\n",
            self.sections().to_text(),
            self.page.files.len(),
            self.out.display()
        )
    }

    fn csv(&self) -> CliResult<String> {
        self.sections().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let section = |s: &page::SectionCount| json!({"section": s.topic.title(), "tables": s.tables, "figures": s.figures, "missing": s.missing});
        let files: Vec<&str> = self.page.files.iter().map(|(name, _)| name.as_str()).collect();
        Ok(
            json!({"out": self.out, "files": files, "sections": self.page.sections.iter().map(section).collect::<Vec<_>>()}),
        )
    }
}
