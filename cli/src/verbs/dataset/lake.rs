//! `vitempo dataset append`, `compact` and `files`: lakes, in folders and in buckets.

use super::load;
use crate::verbs::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table},
};
use clap::Args;
use std::path::{Path, PathBuf};
use vitempo::datasets::{Filter, Lake, Part, SCHEMA_FILE, table_names};

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

/// Opens a lake; of a dataset in a folder it says that it is none.
fn open(path: &Path) -> CliResult<Lake> {
    let refused = |what: &str| CliError::user(format!("{} {what}, not a lake", path.display()));
    Lake::open(path).map_err(|error| {
        if path.is_file() {
            refused("is a file").hint("name the folder of a lake")
        } else if path.join(SCHEMA_FILE).is_file() {
            refused("is a dataset in a folder")
                .hint("`vitempo dataset append FOLDER --to LAKE` adds it to a lake")
        } else {
            error.into()
        }
    })
}

pub fn compact(args: &CompactArgs) -> CliResult {
    let compacted = open(&args.lake)?.compact()?;
    output::write_stdout(&format!(
        "{} files, {} before; {} files of killed writers removed\n",
        compacted.after, compacted.before, compacted.abandoned
    ))
}

pub fn files(args: &FilesArgs) -> CliResult {
    let lake = open(&args.lake)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_lake_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(SCHEMA_FILE);
        std::fs::write(&file, "{}").expect("a file");
        for (path, says) in
            [(folder.path(), "is a dataset in a folder"), (file.as_path(), "is a file")]
        {
            let error = open(path).map(drop).expect_err(says).to_string();
            assert!(error.contains(says) && error.contains("not a lake"), "{error}");
        }
    }
}
