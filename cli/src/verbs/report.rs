//! `vitempo report`: every table and figure from a dataset, as a site that needs no server.

use super::{
    error::{CliError, CliResult, io_error},
    files,
    output::{self, Format, Report, Table},
    progress,
    train::Training,
};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};
use vitempo_report::{Options, Progress, ReportError, Site, Topic, site::SectionCount};

/// Of splits and training, where none is given.
const SEED: u64 = 1;

/// Makes a site from datasets: results, environments, studies and models
///
/// Example: vitempo report data/ --out site
///
/// Writes index.html, a page per environment, study and model, a data file per environment,
/// report.md, tables.json and one SVG file per figure. Forecast accuracy trains bundles, which
/// takes minutes per environment. They are kept, so that the same command continues an interrupted
/// one and reuses finished bundles.
#[derive(clap::Args, Debug)]
pub struct ReportArgs {
    /// Dataset folders or lakes
    #[arg(required = true, value_name = "FOLDER")]
    data: Vec<PathBuf>,

    /// Folder to write to
    #[arg(long, default_value = "site", value_name = "FOLDER")]
    out: PathBuf,

    /// Folder of trained bundles; missing ones are trained and stored there. By default beside
    /// --out, with `-bundles` added
    #[arg(long, value_name = "FOLDER")]
    bundles: Option<PathBuf>,

    /// Only these studies; environments and models have their pages all the same
    #[arg(long, value_delimiter = ',', value_name = "SECTIONS", value_parser = topics())]
    only: Vec<Topic>,

    /// Seed of splits and training
    #[arg(long, default_value_t = SEED)]
    seed: u64,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Reads the name of a section; `--help` shows them all.
fn topics() -> impl TypedValueParser<Value = Topic> {
    PossibleValuesParser::new(Topic::ALL.map(|t| PossibleValue::new(t.name()).help(t.summary())))
        .try_map(|name| Topic::named(&name).ok_or("the report has no such section"))
}

pub fn run(args: &ReportArgs) -> CliResult {
    let options =
        Options { topics: args.only.clone(), bundles: bundles_folder(args), seed: args.seed };
    check(args, &options)?;
    let mut display = Display::default();
    let site = vitempo_report::build(&args.data, &options, &mut |event| display.show(event))?;
    write(&args.out, &site)?;
    output::print(&Written { site: &site, out: &args.out }, args.format)
}

/// Refuses what would have no effect on the sections of this report.
fn check(args: &ReportArgs, options: &Options) -> CliResult {
    let without = |flag: &str, sections: &str| {
        CliError::user(format!("{flag} has no effect: no section of this report uses it"))
            .hint(format!("leave it out, or add {sections} to --only"))
    };
    if args.bundles.is_some() && !options.trains_bundles() {
        return Err(without("--bundles", "`accuracy`"));
    }
    if args.seed != SEED && !options.uses_seed() {
        return Err(without("--seed", "`accuracy` or `importance`"));
    }
    Ok(())
}

fn bundles_folder(args: &ReportArgs) -> PathBuf {
    args.bundles.clone().unwrap_or_else(|| {
        let name = args
            .out
            .file_name()
            .map_or_else(|| "site".into(), |n| n.to_string_lossy().into_owned());
        args.out.with_file_name(format!("{name}-bundles"))
    })
}

/// Messages, and a bar while a bundle is trained.
#[derive(Default)]
struct Display {
    bar: Option<Training>,
}

impl Display {
    fn show(&mut self, event: Progress<'_>) {
        match event {
            Progress::Environment { id, folder, measurements } => {
                progress::say(format!("{id} in {folder}: {measurements} measurements"));
            }
            Progress::Warning(warning) => progress::say(format!("warning: {warning}")),
            Progress::Training { method, models, operators } => {
                let extra = if operators { "" } else { ", no single operators" };
                progress::say(format!("  training {method} on {models} synthetic models{extra}"));
                self.bar = Some(Training::start());
            }
            Progress::Fitting { method, fitted } => {
                if let Some(bar) = &self.bar {
                    bar.show(&fitted, method);
                }
            }
            Progress::Trained => self.bar = None,
            _ => {}
        }
    }
}

impl From<ReportError> for CliError {
    fn from(error: ReportError) -> Self {
        match &error {
            ReportError::Measurements { .. } => Self::user(error)
                .hint("a report reads environments whose measurements have one origin"),
            ReportError::NothingMeasured => {
                Self::user(error).hint("measure models first: vitempo profile MODELS --out data/")
            }
            ReportError::UnknownSection { .. } => {
                let sections = Topic::ALL.map(Topic::name).join(", ");
                Self::user(error).hint(format!("its sections are {sections}"))
            }
            ReportError::UnreadableNotes { path, source } => io_error("read", path, source),
            ReportError::BundleFolder { path, source } => io_error("make folder", path, source),
            ReportError::Importance { .. } => Self::ours(error),
            _ => Self::user(error),
        }
    }
}

/// The overview comes last, so that it never leads to a page that is not yet there.
fn write(out: &Path, site: &Site) -> CliResult {
    for (name, contents) in site.files.iter().rev() {
        let path = out.join(name);
        let folder = path.parent().unwrap_or(out);
        fs::create_dir_all(folder).map_err(|e| io_error("make folder", folder, &e))?;
        files::write(&path, contents.as_bytes())?;
    }
    Ok(())
}

struct Written<'a> {
    site: &'a Site,
    out: &'a Path,
}

impl Written<'_> {
    fn sections(&self) -> Table {
        let mut table = Table::new(&["Section", "Not shown", "Tables", "Figures"], 2);
        for s in &self.site.sections {
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
            "{}\n{} files in {}, open index.html\n",
            self.sections().to_text(),
            self.site.files.len(),
            self.out.display()
        )
    }

    fn csv(&self) -> CliResult<String> {
        self.sections().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let section = |s: &SectionCount| {
            json!({
                "section": s.topic.title(),
                "tables": s.tables,
                "figures": s.figures,
                "missing": s.missing,
            })
        };
        let files: Vec<&str> = self.site.files.iter().map(|(name, _)| name.as_str()).collect();
        Ok(json!({
            "out": self.out,
            "files": files,
            "sections": self.site.sections.iter().map(section).collect::<Vec<_>>(),
        }))
    }
}
