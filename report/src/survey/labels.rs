//! [`identify`]: short names of environments and of their files, unique in a report.

use super::Survey;
use crate::slugs::Slugs;
use std::collections::BTreeSet;
use vitempo::graph::{Environment, Precision};

/// Engine, precision, and what differs from one thread and the engine's own memory format.
pub fn label(e: &Environment) -> String {
    let precision = if e.precision == Precision::I8 { "int8" } else { e.precision.name() };
    let threads = if e.threads == 1 { String::new() } else { format!(" {}t", e.threads) };
    let format =
        e.memory_format.map(|f| format!(" {}", f.name().replace('_', " "))).unwrap_or_default();
    let settings = e.settings_after(" ");
    format!("{} {precision}{threads}{format}{settings}", e.framework)
}

/// Numbers surveys in their order, and makes labels unique: by folder, then by number. Files are
/// named by labels, also where two labels differ in nothing that a file name has.
pub fn identify(surveys: &mut [Survey]) {
    surveys.iter_mut().enumerate().for_each(|(number, survey)| survey.number = number);
    let shared = |surveys: &[Survey]| -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        surveys.iter().filter(|s| !seen.insert(s.label.clone())).map(|s| s.label.clone()).collect()
    };
    let twice = shared(surveys);
    surveys
        .iter_mut()
        .filter(|s| twice.contains(&s.label))
        .for_each(|s| s.label = format!("{} ({})", s.label, s.folder));
    let still = shared(surveys);
    for (number, survey) in surveys.iter_mut().filter(|s| still.contains(&s.label)).enumerate() {
        survey.label = format!("{} #{}", survey.label, number + 1);
    }
    let mut slugs = Slugs::default();
    surveys.iter_mut().for_each(|s| s.slug = slugs.unique(&s.label, &s.folder));
}
