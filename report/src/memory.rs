//! Peak memory against model size and input resolution, and which operators take it (figures 7 and
//! 8 of the mobile ViT study). MB are 10^6 bytes. Model size is the weights in the environment's
//! precision.

use super::{
    Block,
    chart::{Axis, Chart, Mark, Series},
    figures,
    group::Group,
    hue::Hue,
    latency::counts_where,
    leading, paper, source,
    statistics::quantile,
    survey::{Model, Survey},
    table::{Cell, Table},
};
use std::collections::BTreeMap;
use vitempo::graph::OpFamily;
use vitempo::predictors::metrics::median;

const MB: f64 = 1e6;
/// Models with more weights are left out of the table by groups, as in the study.
const LARGEST_MB: f64 = 65.0;

pub fn section(surveys: &[Survey]) -> Vec<Block> {
    let missing = "No measurement has the memory of a process of its own: measure with `vitempo \
        profile MODELS --peak-memory alone --out data/`, on a system that reports it.";
    let mut blocks = vec![Block::text(paper::TEXT.memory)];
    let reported =
        leading(surveys.iter().filter(|s| s.models.iter().any(|m| m.peak_memory_bytes.is_some())));
    let of = |survey: &&Survey| {
        let counts = counts_where(survey, |model| model.peak_memory_bytes.is_some());
        let caption = source(&format!("Peak memory against model size, {counts}"), &[survey]);
        Block::figure(format!("memory-{}", survey.slug), caption, figure(survey), missing)
    };
    blocks.extend(figures(reported.iter().map(of), missing));
    if let Some(survey) = reported.iter().find(|s| resolutions(s).len() > 1) {
        let caption = source(
            "Peak memory in addition to the weights against input resolution; the line joins \
            medians of synthetic models",
            &[survey],
        );
        blocks.push(Block::figure("memory-resolution", caption, by_resolution(survey), missing));
    }
    blocks.push(Block::table(groups_table(surveys), missing));
    blocks.push(Block::table(resolution_table(surveys), missing));
    let missing_operators = "No measured engine reports memory by operator; ONNX Runtime does (`vitempo \
        profile MODELS --backend onnxruntime --out data/`).";
    blocks.push(Block::table(operators_table(surveys), missing_operators));
    blocks
}

/// Size and peak of one model, MB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    pub side: Option<usize>,
    pub weights_mb: f64,
    pub peak_mb: f64,
}

impl Need {
    /// `None` where there is no peak, or one that the weights alone exceed.
    fn of(model: &Model, bytes_per_weight: usize) -> Option<Self> {
        let weights_mb = weights_mb(model, bytes_per_weight)?;
        let need = Self { side: model.side, weights_mb, peak_mb: model.peak_memory_bytes? / MB };
        Some(need).filter(|need| need.added_mb() >= 0.0)
    }

    fn added_mb(&self) -> f64 {
        self.peak_mb - self.weights_mb
    }
}

fn needs(survey: &Survey, group: Group) -> Vec<Need> {
    let bytes = survey.environment.precision.size_bytes();
    survey.group(group).filter_map(|(_, m)| Need::of(m, bytes)).collect()
}

/// How many measured models of a group have no more weights than the study's.
fn small(survey: &Survey, group: Group) -> usize {
    let bytes = survey.environment.precision.size_bytes();
    let small = |m: &&Model| weights_mb(m, bytes).is_some_and(|mb| mb <= LARGEST_MB);
    survey.group(group).map(|(_, m)| m).filter(small).count()
}

/// Weights in the environment's precision.
fn weights_mb(model: &Model, bytes_per_weight: usize) -> Option<f64> {
    Some(model.work?.params as f64 * bytes_per_weight as f64 / MB)
}

fn figure(survey: &Survey) -> Chart {
    let marks = [
        (Group::Synthetic, Mark::Ring),
        (Group::Transformer, Mark::Dot),
        (Group::Convolutional, Mark::Triangle),
    ];
    let series = marks.map(|(group, mark)| {
        Series::new(
            group.to_string(),
            mark,
            needs(survey, group).iter().map(|n| (n.weights_mb, n.peak_mb)).collect(),
        )
        .hue(Hue::Group(group))
    });
    Chart::Points {
        x: Axis::log("weights, MB"),
        y: Axis::log("peak memory, MB"),
        series: series.into(),
    }
}

/// Memory in addition to the weights, MB, of synthetic models by input side.
fn resolutions(survey: &Survey) -> BTreeMap<usize, Vec<f64>> {
    let mut sides: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for need in needs(survey, Group::Synthetic) {
        if let Some(side) = need.side {
            sides.entry(side).or_default().push(need.added_mb());
        }
    }
    sides
}

fn by_resolution(survey: &Survey) -> Chart {
    let of = |group: Group| {
        needs(survey, group).iter().filter_map(|n| Some((n.side? as f64, n.added_mb()))).collect()
    };
    let medians = resolutions(survey)
        .iter()
        .filter_map(|(side, mb)| Some((*side as f64, median(mb)?)))
        .collect();
    let series = vec![
        Series::new("synthetic", Mark::Ring, of(Group::Synthetic))
            .hue(Hue::Group(Group::Synthetic)),
        Series::new("real ViT", Mark::Dot, of(Group::Transformer))
            .hue(Hue::Group(Group::Transformer)),
        Series::new("real CNN", Mark::Triangle, of(Group::Convolutional))
            .hue(Hue::Group(Group::Convolutional)),
        Series::new("synthetic, median", Mark::Line, medians).hue(Hue::Reference),
    ];
    Chart::Points {
        x: Axis::linear("width of the input image, pixels"),
        y: Axis::log("peak memory in addition to the weights, MB"),
        series,
    }
}

fn groups_table(surveys: &[Survey]) -> Table {
    let caption = source(
        "Peak memory of models with at most 65 MB of weights, as in the study. In addition to the \
        weights: peak minus weights. A peak of 0, or below the weights, is not a measurement; \
        models without a valid peak have a column of their own",
        &surveys.iter().collect::<Vec<_>>(),
    );
    let headings = [
        "Environment",
        "Models of",
        "Count",
        "Without a peak",
        "Weights, MB, median",
        "Peak, MB, median",
        "In addition to the weights, MB, median",
        "90th percentile",
    ];
    let mut table = Table::new("memory", caption, headings);
    for survey in surveys.iter().filter(|s| s.models.iter().any(|m| m.peak_memory_bytes.is_some()))
    {
        for group in Group::ALL {
            let small = small(survey, group);
            if small == 0 {
                continue;
            }
            let needs: Vec<Need> =
                needs(survey, group).into_iter().filter(|n| n.weights_mb <= LARGEST_MB).collect();
            let all = |of: fn(&Need) -> f64| needs.iter().map(of).collect::<Vec<f64>>();
            let added = all(Need::added_mb);
            table.rows.push(vec![
                Cell::text(&survey.label),
                Cell::text(group.to_string()),
                Cell::Count(needs.len()),
                Cell::Count(small - needs.len()),
                Cell::number(median(&all(|n| n.weights_mb))),
                Cell::number(median(&all(|n| n.peak_mb))),
                Cell::number(median(&added)),
                Cell::number(quantile(&added, 0.9)),
            ]);
        }
    }
    table
}

fn resolution_table(surveys: &[Survey]) -> Table {
    let caption = source(
        "Peak memory in addition to the weights of synthetic models, by width of the input image",
        &surveys.iter().collect::<Vec<_>>(),
    );
    let mut table = Table::new(
        "memory-resolution",
        caption,
        [
            "Environment",
            "Width, pixels",
            "Models",
            "Median, MB",
            "10th percentile",
            "90th percentile",
        ],
    );
    for survey in surveys {
        for (side, mb) in resolutions(survey) {
            let cells = [median(&mb), quantile(&mb, 0.1), quantile(&mb, 0.9)].map(Cell::number);
            table.rows.push(
                [Cell::text(&survey.label), Cell::Count(side), Cell::Count(mb.len())]
                    .into_iter()
                    .chain(cells)
                    .collect(),
            );
        }
    }
    table
}

fn operators_table(surveys: &[Survey]) -> Table {
    let reporting: Vec<&Survey> = surveys.iter().filter(|s| !s.memory_shares.is_empty()).collect();
    let caption = source(
        "Memory that the engine reports for each operator: share by family, the mean over models",
        &reporting,
    );
    let headings = ["Environment", "Models of"]
        .map(str::to_owned)
        .into_iter()
        .chain(OpFamily::ALL.iter().map(|f| f.name().replace('_', " ")));
    let mut table = Table::new("memory-operators", caption, headings);
    for survey in reporting {
        for (group, shares) in &survey.memory_shares {
            table.rows.push(
                [Cell::text(&survey.label), Cell::text(group.to_string())]
                    .into_iter()
                    .chain(shares.map(Cell::share))
                    .collect(),
            );
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo::graph::Work;

    #[test]
    fn what_a_model_needs() {
        let work = Work { params: 2_000_000, ..Work::default() };
        let model = Model {
            name: "m".to_owned(),
            architecture: "a".to_owned(),
            group: Some(Group::Synthetic),
            work: Some(work),
            side: Some(224),
            latency_ns: None,
            runs_ns: Vec::new(),
            peak_memory_bytes: Some(30e6),
        };
        let need = Need::of(&model, 4).expect("size and peak");
        assert_eq!((need.weights_mb, need.added_mb()), (8.0, 22.0));
        for peak_memory_bytes in [None, Some(0.0), Some(7.9e6)] {
            let model = Model { peak_memory_bytes, ..model.clone() };
            assert_eq!(Need::of(&model, 4), None, "{peak_memory_bytes:?}");
        }
    }
}
