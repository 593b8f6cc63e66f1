//! Errors by the number of synthetic models that were training data: the study's table 4, as a
//! figure and as a table.

use super::{floor, paper_set};
use crate::{
    chart::{Axis, Chart, Mark, Series},
    group::Group,
    hue::Hue,
    paper::PAPER,
    survey::Survey,
    table::{Cell, Table},
};
use std::collections::BTreeSet;
use vitempo::predictors::Method;

fn sizes(survey: &Survey) -> BTreeSet<(usize, bool)> {
    survey.evaluations.iter().map(|j| (j.models, j.operators > 0)).collect()
}

pub fn by_size(survey: &Survey) -> Chart {
    let curve = |method: Method, group: Group, operators: bool| {
        let own = survey
            .evaluations
            .iter()
            .filter(|j| j.method == method && (j.operators > 0) == operators);
        let mut points: Vec<(f64, f64)> =
            own.filter_map(|j| Some((j.models as f64, j.mape(group)?))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let apart = if operators { "" } else { ", no single operators" };
        let name = format!("{method}, {group}{apart}");
        let series = Series::new(name, Mark::Line, points).hue(Hue::Method(method));
        Series { dashed: group != Group::Synthetic, ..series }
    };
    let kinds = [Group::Synthetic, Group::Transformer]
        .into_iter()
        .flat_map(|g| Method::ALL.map(|m| (m, g)));
    let series = [true, false]
        .into_iter()
        .flat_map(|operators| kinds.clone().map(move |(m, g)| (m, g, operators)));
    let ends = [
        survey.evaluations.iter().map(|j| j.models).min(),
        survey.evaluations.iter().map(|j| j.models).max(),
    ];
    let flat = |group: Group| {
        let points = floor(survey, group)
            .map(|f| ends.into_iter().flatten().map(|models| (models as f64, f)).collect());
        let name = format!("noise floor, {group}");
        Series::new(name, Mark::Line, points.unwrap_or_default()).hue(Hue::Reference)
    };
    let floors = [Group::Synthetic, Group::Transformer].map(flat);
    let series: Vec<Series> = series
        .map(|(m, g, o)| curve(m, g, o))
        .chain(floors)
        .filter(|s| s.points.len() > 1)
        .collect();
    Chart::Points {
        x: Axis::log("synthetic models trained on"),
        y: Axis::suited("mean absolute percentage error, %", &series),
        series,
    }
}

pub fn sizes_table(surveys: &[&Survey], caption: String) -> Table {
    let headings = [
        "Models",
        "Environment",
        "Trained on",
        "Single operators too",
        "lasso",
        "random-forest",
        "gbdt",
        "Noise floor",
    ];
    let mut table = Table::new("accuracy-sizes", caption, headings);
    for group in [Group::Synthetic, Group::Transformer, Group::Convolutional] {
        for survey in surveys.iter().filter(|s| sizes(s).len() > 1) {
            for (models, operators) in sizes(survey) {
                let own = |m: Method| {
                    survey.evaluations.iter().find(|j| {
                        j.method == m && j.models == models && (j.operators > 0) == operators
                    })
                };
                let errors = Method::ALL.map(|m| own(m).and_then(|j| j.mape(group)));
                if errors.iter().all(Option::is_none) {
                    continue;
                }
                let start = [
                    Cell::text(group.to_string()),
                    Cell::text(&survey.label),
                    Cell::Count(models),
                    Cell::text(if operators { "yes" } else { "no" }),
                ];
                table.rows.push(
                    start
                        .into_iter()
                        .chain(errors.map(Cell::percent))
                        .chain([Cell::percent(floor(survey, group))])
                        .collect(),
                );
            }
        }
    }
    if !table.rows.is_empty() {
        table.rows.extend(PAPER.sizes.iter().map(|p| {
            let errors = [p.lasso, p.random_forest, p.gbdt].map(Cell::Percent);
            let start = [
                Cell::text(paper_set(&p.set)),
                Cell::text(format!("study: {} Mobile, CPUs", p.framework)),
                Cell::Count(p.models),
                Cell::text("no"),
            ];
            start.into_iter().chain(errors).chain([Cell::Blank]).collect()
        }));
    }
    table
}
