//! `vitempo dataset validate`: whether files, keys, samples and sums are valid.

use crate::verbs::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table, counted},
};
use std::path::Path;
use vitempo::datasets::{Severity, Tolerances, ValidationReport};

/// Validates, prints, and fails where the data is invalid.
pub fn run(data: &Path, format: Format) -> CliResult {
    let report = vitempo::datasets::validate(data, &Tolerances::default())?;
    let valid = report.is_valid();
    let errors = report.of(Severity::Error).count();
    output::print(&Validated(report), format)?;
    if valid {
        Ok(())
    } else {
        let errors = counted(errors, "error");
        Err(CliError::user(format!("{}: {errors}", data.display()))
            .hint("measure again what the findings name, or restore it from a copy"))
    }
}

struct Validated(ValidationReport);

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

impl Report for Validated {
    fn table(&self) -> String {
        let r = &self.0;
        let mut text = String::new();
        for finding in &r.findings {
            text += &format!("{}: {finding}\n", severity(finding.severity));
        }
        for (check, n) in &r.unlisted {
            text += &format!("... and {n} more of {check}\n");
        }
        let rows: Vec<String> = r.rows.iter().map(|(table, n)| format!("{n} {table}")).collect();
        let count = |s| counted(r.of(s).count(), severity(s));
        text += &format!(
            "checked {}: {}, {}, {}\n",
            rows.join(", "),
            count(Severity::Error),
            count(Severity::Warning),
            count(Severity::Note)
        );
        if let Some([low, median, high]) = r.operator_share_range() {
            text += &format!(
                "sum over operators / end to end: median {median:.3}, from {low:.3} to {high:.3}\n"
            );
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(&["severity", "check", "file", "row", "what"], 5);
        for f in &self.0.findings {
            let row = f.row.map(|r| r.to_string()).unwrap_or_default();
            table.row([
                severity(f.severity).to_owned(),
                f.check.to_owned(),
                f.file.clone(),
                row,
                f.what.clone(),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let mut json = serde_json::to_value(&self.0).map_err(CliError::ours)?;
        json["valid"] = self.0.is_valid().into();
        Ok(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "error")), ["0 errors", "1 error", "2 errors"]);
    }
}
