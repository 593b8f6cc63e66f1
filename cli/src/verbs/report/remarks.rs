//! What those who measured say of it: `remarks.toml` in a dataset's folder, a text for each section
//! that needs one.

use crate::verbs::error::{CliError, CliResult, io_error};
use std::{collections::BTreeMap, fs, path::PathBuf};
use vitempo_report::{Topic, page::Remarks};

const FILE: &str = "remarks.toml";

/// The remarks of these folders, in their order; most have none.
pub fn read(folders: &[PathBuf]) -> CliResult<Remarks> {
    let mut remarks = Remarks::new();
    for file in folders.iter().map(|folder| folder.join(FILE)).filter(|file| file.exists()) {
        let text = fs::read_to_string(&file).map_err(|e| io_error("read", &file, &e))?;
        let sections: BTreeMap<String, String> = toml::from_str(&text)
            .map_err(|e| CliError::user(format!("{}: {e}", file.display())))?;
        for (section, remark) in sections {
            let topic = Topic::named(&section).ok_or_else(|| {
                let known = Topic::ALL.map(Topic::name);
                CliError::user(format!("{}: the report has no section `{section}`", file.display()))
                    .hint(format!("its sections are {}", known.join(", ")))
            })?;
            remarks.entry(topic).or_default().push(remark.trim().to_owned());
        }
    }
    Ok(remarks)
}
