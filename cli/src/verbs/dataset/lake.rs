//! `vitempo dataset append`, `compact` and `files`: lakes, in folders and in buckets.

use super::load;
use crate::verbs::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table},
};
use clap::Args;
use std::path::PathBuf;
use vitempo::datasets::{Filter, Lake, Part, table_names};

#[derive(Args, Debug)]
pub struct AppendArgs {
    /// Dataset folders or lakes
    #[arg(required = true, value_name = "FOLDERS")]
    data: Vec<PathBuf>,
    /// The lake: a folder, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "LAKE")]
    to: PathBuf,
}

#[derive(Args, Debug)]
pub struct CompactArgs {
    /// The lake: a folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "LAKE")]
    lake: PathBuf,
}

/// Which files of a lake.
#[derive(Args, Debug)]
pub struct FilterArgs {
    /// Of a lake, this environment alone; can be given several times
    #[arg(long = "environment", value_name = "ID")]
    environments: Vec<String>,
    /// Of a lake, operators of this kind alone; can be given several times
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
}

impl FilterArgs {
    pub fn filter(&self) -> Filter {
        Filter { environments: self.environments.clone(), kinds: self.kinds.clone() }
    }
}

#[derive(Args, Debug)]
pub struct FilesArgs {
    /// The lake: a folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "LAKE")]
    lake: PathBuf,
    /// One table alone: operators, operator_measurements, models, model_measurements or
    /// environments
    #[arg(long)]
    table: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Adds one dataset after the other, each in a commit of its own.
pub fn append(args: &AppendArgs) -> CliResult {
    let mut lake = Lake::open_or_create(&args.to)?;
    for folder in &args.data {
        let appended = lake.append(&load(folder)?)?;
        output::write_stdout(&format!(
            "{}: {} model runs and {} models added, {} model runs were there; {} is at commit {}\n",
            folder.display(),
            appended.runs,
            appended.models,
            appended.known,
            args.to.display(),
            appended.commit
        ))?;
    }
    Ok(())
}

pub fn compact(args: &CompactArgs) -> CliResult {
    let compacted = Lake::open(&args.lake)?.compact()?;
    output::write_stdout(&format!(
        "{} files, {} before; {} files of killed writers removed\n",
        compacted.after, compacted.before, compacted.abandoned
    ))
}

pub fn files(args: &FilesArgs) -> CliResult {
    let lake = Lake::open(&args.lake)?;
    let tables: Vec<&str> = match &args.table {
        Some(table) => vec![table],
        None => table_names(),
    };
    let filter = args.filter.filter();
    let mut files = Vec::new();
    for table in tables {
        files.extend(lake.parts(table, &filter)?);
    }
    output::print(&Files(files), args.format)
}

struct Files(Vec<Part>);

impl Files {
    fn rows(&self) -> Table {
        let mut table = Table::new(&["file", "rows", "bytes"], 1);
        for part in &self.0 {
            table.row([part.path.clone(), part.rows.to_string(), part.bytes.to_string()]);
        }
        table
    }
}

impl Report for Files {
    fn table(&self) -> String {
        self.rows().to_text()
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        serde_json::to_value(&self.0).map_err(CliError::ours)
    }
}
