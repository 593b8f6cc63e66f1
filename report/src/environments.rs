//! The table at the head of the report: the environments, their models, dates and noise.

use super::{
    source,
    survey::{Group, Survey},
    table::{Cell, Table},
};
use vitempo::graph::MemoryFormat;

/// One row per environment.
pub fn table(surveys: &[Survey]) -> Table {
    let caption = source(
        "Environments. Noise floor: mean difference between one measurement of a model and the \
         next",
        &surveys.iter().collect::<Vec<_>>(),
    );
    let headings = [
        "Environment",
        "Machine",
        "Engine",
        "Threads",
        "Ran in",
        "When",
        "Sessions",
        "Synthetic",
        "Real ViTs",
        "Real CNNs",
        "Single operators",
        "Failed runs",
        "Noise floor, synthetic",
        "Noise floor, real ViTs",
        "Noise floor, real CNNs",
        "Dataset",
    ];
    let mut table = Table::new("environments", caption, headings);
    table.rows = surveys.iter().map(row).collect();
    table
}

fn row(s: &Survey) -> Vec<Cell> {
    let count =
        |group: Option<Group>| Cell::Count(s.models.iter().filter(|m| m.group == group).count());
    let floor = |group: Group| Cell::percent(s.floors.models.get(&group).map(|f| f.mape));
    let e = &s.environment;
    vec![
        Cell::text(&s.label),
        Cell::text(format!("{} ({} {} cores)", e.device, e.cores_available, e.processor)),
        Cell::text(format!("{} {}", e.framework, e.framework_version)),
        Cell::Count(e.threads),
        Cell::text(s.executed.map_or("-", MemoryFormat::name)),
        Cell::text(s.when()),
        Cell::Count(s.sessions),
        count(Some(Group::Synthetic)),
        count(Some(Group::Transformer)),
        count(Some(Group::Convolutional)),
        count(None),
        Cell::Count(s.failed),
        floor(Group::Synthetic),
        floor(Group::Transformer),
        floor(Group::Convolutional),
        Cell::text(&s.folder),
    ]
}
