//! Where the time goes: shares of operator families, per environment and group of models (figure 4
//! of the mobile ViT study).

use super::{
    Block,
    chart::{Chart, Part},
    group::Group,
    hue::Hue,
    paper, source,
    survey::{Shares, Survey, family_index, mean_shares, shares},
    table::{Cell, Table},
};
use vitempo::graph::OpFamily;

pub fn section(surveys: &[Survey]) -> Vec<Block> {
    let missing = "No operator was timed in a whole model: profile models on an engine that \
        reports operator times (`vitempo backends list`).";
    let found = breakdowns(surveys);
    let all: Vec<&Survey> = surveys.iter().collect();
    let caption = |what: &str| {
        source(&format!("{what}: share of operator time by family, the mean over models"), &all)
    };
    vec![
        Block::text(format!(
            "{} Conversion is what an engine adds to suit its kernels: changes of memory format \
            and of element type.",
            paper::TEXT.breakdown
        )),
        Block::figure("breakdown", caption("Where the time goes"), figure(&found), missing),
        Block::table(table(&found, caption("As drawn")), missing),
    ]
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakdown {
    pub environment: String,
    pub group: Group,
    pub models: usize,
    pub shares: Shares,
}

fn breakdowns(surveys: &[Survey]) -> Vec<Breakdown> {
    surveys
        .iter()
        .flat_map(|survey| Group::ALL.into_iter().filter_map(|group| of_group(survey, group)))
        .collect()
}

/// Mean shares of a group's models; `None` without any.
pub fn of_group(survey: &Survey, group: Group) -> Option<Breakdown> {
    let times = survey.times(|row| Some(family_index(&row.kind)));
    let each: Vec<Shares> = survey
        .group(group)
        .filter_map(|(index, _)| shares(times.get(index)?.iter().map(|(f, ns)| (*f, *ns))))
        .collect();
    Some(Breakdown {
        environment: survey.label.clone(),
        group,
        models: each.len(),
        shares: mean_shares(&each)?,
    })
}

fn figure(found: &[Breakdown]) -> Chart {
    let part = |(index, family): (usize, &OpFamily)| {
        let lengths =
            found.iter().map(|b| b.shares.get(index).map_or(0.0, |s| 100.0 * s)).collect();
        Part { name: family.name().replace('_', " "), lengths, hue: Hue::Family(*family) }
    };
    Chart::Stacked {
        value: "share of operator time, %".to_owned(),
        rows: found.iter().map(|b| format!("{}: {}", b.environment, b.group)).collect(),
        parts: OpFamily::ALL.iter().enumerate().map(part).collect(),
    }
}

fn table(found: &[Breakdown], caption: String) -> Table {
    let headings = ["Environment", "Models of", "Count"]
        .map(str::to_owned)
        .into_iter()
        .chain(OpFamily::ALL.iter().map(|f| f.name().replace('_', " ")));
    let mut table = Table::new("breakdown", caption, headings);
    for b in found {
        let start =
            [Cell::text(&b.environment), Cell::text(b.group.to_string()), Cell::Count(b.models)];
        table.rows.push(start.into_iter().chain(b.shares.map(Cell::share)).collect());
    }
    table
}
