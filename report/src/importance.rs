//! Which features decide the latency of convolutions, by memory format (figure 14 of the mobile ViT
//! study).

use super::{
    Block,
    chart::{BarSeries, Chart},
    hue::Hue,
    leading, paper, source,
    survey::{FormatImportance, Survey},
    table::{Cell, Table},
};
use std::collections::BTreeMap;

/// Columns listed per format.
const LISTED: usize = 10;

pub fn section(surveys: &[Survey]) -> Vec<Block> {
    let missing = "Too few convolutions were timed: profile models on an engine that reports \
        operator times; for both formats, `--memory-format channels-first` and `channels-last`.";
    let found: Vec<(&Survey, &FormatImportance)> =
        surveys.iter().flat_map(|s| s.importances.iter().map(move |i| (s, i))).collect();
    let used: Vec<&Survey> = surveys.iter().filter(|s| !s.importances.is_empty()).collect();
    let what =
        "Mean decrease of impurity: boosted trees on the logarithm of the latency of convolutions";
    let drawn: Vec<(&Survey, &FormatImportance)> = leading_of(surveys)
        .into_iter()
        .flat_map(|s| s.importances.iter().map(move |i| (s, i)))
        .collect();
    vec![
        Block::text(format!(
            "{} Correlated features share their importance, so FLOPs, MACs and MACs \
             padded to a vector are shown together as work.",
            paper::TEXT.importance
        )),
        Block::figure("importance", source(what, &leading_of(surveys)), figure(&drawn), missing),
        Block::table(
            columns_table(
                &found,
                source(&format!("{what}: the {LISTED} columns that explain most"), &used),
            ),
            missing,
        ),
    ]
}

fn leading_of(surveys: &[Survey]) -> Vec<&Survey> {
    leading(surveys).into_iter().filter(|s| !s.importances.is_empty()).collect()
}

/// Groups of columns that say nearly the same, in the order of the figure.
const GROUPS: [&str; 8] = [
    "work",
    "input size",
    "output size",
    "weights",
    "all bytes",
    "channels",
    "kernel and stride",
    "other",
];

/// The group of a column.
pub fn group_of(column: &str) -> &'static str {
    match column {
        "flops" | "macs" | "macs_dense" | "macs_grouped" | "flops_per_byte" | "reduction"
        | "window_elements" => "work",
        "bytes_in" | "elements_in" | "height_in" | "width_in" => "input size",
        "bytes_out" | "elements_out" | "height_out" | "width_out" | "pixels_out"
        | "output_rows" | "extent_last" | "extent_second_last" | "activated_elements" => {
            "output size"
        }
        "bytes_weights" | "params" => "weights",
        name if name.starts_with("bytes_") => "all bytes",
        name if name.starts_with("channels_")
            || name == "groups"
            || name == "extent_third_last" =>
        {
            "channels"
        }
        name if name.starts_with("kernel_")
            || name.starts_with("stride_")
            || name == "dilation"
            || name == "padding" =>
        {
            "kernel and stride"
        }
        _ => "other",
    }
}

/// Shares of the groups, in the order of [`GROUPS`].
fn by_group(of: &FormatImportance) -> BTreeMap<&'static str, f64> {
    let mut sums = BTreeMap::new();
    of.importance
        .features
        .iter()
        .for_each(|(column, share)| *sums.entry(group_of(column)).or_insert(0.0) += share);
    sums
}

fn figure(found: &[(&Survey, &FormatImportance)]) -> Chart {
    let series = |(survey, of): &(&Survey, &FormatImportance)| {
        let sums = by_group(of);
        BarSeries {
            name: format!(
                "{}: {} convolutions {}",
                survey.label,
                of.importance.rows,
                of.format.name().replace('_', " ")
            ),
            values: GROUPS
                .iter()
                .map(|g| Some(100.0 * sums.get(g).copied().unwrap_or(0.0)))
                .collect(),
            floors: Vec::new(),
            hue: Hue::Environment(survey.number),
        }
    };
    let groups = GROUPS.iter().map(|g| (*g).to_owned()).collect();
    Chart::Bars {
        value: "share of what the trees explain, %".to_owned(),
        groups,
        series: found.iter().map(series).collect(),
        reference: None,
    }
}

fn columns_table(found: &[(&Survey, &FormatImportance)], caption: String) -> Table {
    let mut table = Table::new(
        "importance",
        caption,
        ["Environment", "Memory format", "Convolutions", "Column", "Stands for", "Share"],
    );
    for (survey, of) in found {
        for (column, share) in of.importance.features.iter().take(LISTED) {
            table.rows.push(vec![
                Cell::text(&survey.label),
                Cell::text(of.format.name()),
                Cell::Count(of.importance.rows),
                Cell::text(*column),
                Cell::text(group_of(column)),
                Cell::share(*share),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo::predictors::features::Family;

    #[test]
    fn groups_have_columns_and_columns_have_groups() {
        let found: std::collections::BTreeSet<&str> =
            Family::Convolution.columns().map(group_of).collect();
        assert_eq!(found.len(), GROUPS.len(), "{found:?}");
        assert!(found.iter().all(|g| GROUPS.contains(g)));
        assert_eq!(
            (
                group_of("macs_dense"),
                group_of("bytes_beyond_l2"),
                group_of("channels_out_remainder")
            ),
            ("work", "all bytes", "channels")
        );
    }
}
