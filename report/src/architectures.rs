//! FLOPs and parameters of the measured models, for transformers and CNNs: figure 2 of the mobile
//! ViT study.

use super::{
    Block,
    chart::{Axis, Chart, Mark, Series},
    group::Group,
    hue::Hue,
    source,
    statistics::quantile,
    survey::Survey,
    table::{Cell, Table},
};
use std::collections::BTreeMap;

/// GFLOPs and millions of parameters.
type Size = (f64, f64);

/// The models of all surveys, each architecture once.
pub fn blocks(surveys: &[Survey]) -> Vec<Block> {
    let missing = "No model has a graph.";
    let (found, all) = (models(surveys), surveys.iter().collect::<Vec<_>>());
    let caption = source("FLOPs and parameters of the models, each architecture once", &all);
    let figure = Block::figure("architectures", caption.clone(), figure(&found), missing);
    vec![figure, Block::table(table(&found, caption), missing)]
}

fn models(surveys: &[Survey]) -> BTreeMap<Group, Vec<Size>> {
    let mut each: BTreeMap<&str, (Group, Size)> = BTreeMap::new();
    for model in surveys.iter().flat_map(|survey| &survey.models) {
        let (Some(group), Some(work)) = (model.group, model.work) else { continue };
        if work.flops > 0 && work.params > 0 {
            let size = (work.flops as f64 / 1e9, work.params as f64 / 1e6);
            each.insert(&model.architecture, (group, size));
        }
    }
    let mut groups: BTreeMap<Group, Vec<Size>> = BTreeMap::new();
    each.into_values().for_each(|(group, size)| groups.entry(group).or_default().push(size));
    groups
}

fn figure(groups: &BTreeMap<Group, Vec<Size>>) -> Chart {
    let mark = |group: &Group| match group {
        Group::Synthetic => Mark::Ring,
        Group::Transformer => Mark::Dot,
        Group::Convolutional => Mark::Triangle,
        Group::Real => Mark::Cross,
    };
    let series = groups
        .iter()
        .map(|(group, sizes)| {
            Series::new(group.to_string(), mark(group), sizes.clone()).hue(Hue::Group(*group))
        })
        .collect();
    Chart::Points { x: Axis::log("GFLOPs"), y: Axis::log("parameters, millions"), series }
}

fn table(groups: &BTreeMap<Group, Vec<Size>>, caption: String) -> Table {
    let headings = [
        "Models",
        "Architectures",
        "GFLOPs, median",
        "10th percentile",
        "90th percentile",
        "Million parameters, median",
        "10th percentile of parameters",
        "90th percentile of parameters",
    ];
    let mut table = Table::new("architectures", caption, headings);
    for (group, sizes) in groups {
        let of = |pick: fn(&Size) -> f64| {
            let values: Vec<f64> = sizes.iter().map(pick).collect();
            [0.5, 0.1, 0.9].map(|share| Cell::number(quantile(&values, share)))
        };
        let start = [Cell::text(group.to_string()), Cell::Count(sizes.len())];
        let row = start.into_iter().chain(of(|size| size.0)).chain(of(|size| size.1));
        table.rows.push(row.collect());
    }
    table
}
