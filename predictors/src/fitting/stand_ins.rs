//! The baselines that stand in for missing regressors ([`Fallbacks`]).

use super::{
    on_threads,
    predictors::{FEWEST_ROWS, Table, Tables, fit_baseline, law, laws},
};
use crate::{
    PredictorKey,
    features::{BYTES_REORDERED, Family, TOTALS_WIDTH},
    metrics,
    predictors::Fallbacks,
    regressors::{Baseline, baseline::Columns},
};
use std::collections::{BTreeMap, BTreeSet};

/// Columns of the roofline: FLOPs, bytes, elements written. They are totals, the same in every
/// family.
const ROOFLINE: [&str; 3] = ["flops", "bytes_total", "elements_out"];
/// Most rows of a key by which it is decided whether classes stand in.
const MOST_ROWS: usize = 500;
/// A copied operand takes no more than this share of a latency.
const MOST_COPIED: f64 = 0.9;

/// Tables by name.
type Named = BTreeMap<String, (Family, Table)>;

pub(super) fn fallbacks(tables: &Tables, threads: usize) -> Fallbacks {
    let Tables { keys, kinds, kindred, everything, laws: of_kinds } = tables;
    let columns = Family::Movement.positions(&ROOFLINE);
    let columns = Columns { count: TOTALS_WIDTH, chosen: &columns, calls: None, per_call: &[] };
    let roofline = Baseline::fit(&everything.x, columns, &everything.y, &everything.weights);
    let errors: Vec<f64> = everything
        .x
        .chunks_exact(TOTALS_WIDTH)
        .zip(&everything.y)
        .map(|(x, y)| (y / roofline.predict(x)).ln().abs())
        .collect();
    let copying = copying(of_kinds);
    let classes = by_class(keys, &format_free(keys, threads));
    let stand_ins = |tables: &Named, laws| stand_ins(tables, laws, copying);
    Fallbacks {
        classes: stand_ins(&classes, laws(&classes, threads)),
        kinds: stand_ins(kinds, of_kinds.clone()),
        kin: stand_ins(kindred, laws(kindred, threads)),
        roofline,
        typical_log_error: metrics::median(&errors).unwrap_or(0.7).min(5.0),
    }
}

/// Baselines as they stand in for missing regressors.
fn stand_ins(
    tables: &Named,
    laws: BTreeMap<String, Baseline>,
    copying: Option<f64>,
) -> BTreeMap<String, Baseline> {
    laws.into_iter()
        .zip(tables.values())
        .map(|((name, law), (family, table))| {
            let apart = copying.and_then(|cost| without_copying(*family, table, cost));
            (name, limited(*family, table, apart.unwrap_or(law)))
        })
        .collect()
}

/// A law as it stands in.
fn limited(family: Family, table: &Table, law: Baseline) -> Baseline {
    if family.moves_bytes() { law.limited_to(&table.x, family.width()) } else { law }
}

/// What copying an operand into another order costs in this environment, ns per byte: the median
/// over the kinds whose rows can separate it.
fn copying(laws: &BTreeMap<String, Baseline>) -> Option<f64> {
    let all = laws.values().flat_map(|law| &law.coefficients);
    let costs: Vec<f64> =
        all.filter(|(column, _)| *column == BYTES_REORDERED).map(|(_, ns)| *ns).collect();
    metrics::median(&costs)
}

/// The law of rows that all copy an operand, so that they cannot separate what the copy costs: it
/// costs what it does elsewhere. `None` for other rows.
fn without_copying(family: Family, table: &Table, cost: f64) -> Option<Baseline> {
    let columns = family.width();
    let copied = || table.x.iter().skip(BYTES_REORDERED).step_by(columns);
    if !copied().all(|bytes| *bytes > 0.0) {
        return None;
    }
    let chosen = family.baseline_columns();
    if !Baseline::inseparable(&table.x, columns, &chosen).contains(&BYTES_REORDERED) {
        return None;
    }
    let rest: Vec<f64> = table
        .y
        .iter()
        .zip(copied())
        .map(|(y, bytes)| y - (cost * bytes).min(MOST_COPIED * y))
        .collect();
    let mut law = fit_baseline(family, &table.x, &rest, &table.weights);
    law.add(&[(BYTES_REORDERED, cost)], &[]);
    Some(law)
}

/// Families whose classes take about as long in one memory format as in another: each key that has
/// a sibling in another format is forecast by its siblings, and by all others of its kind.
fn format_free(keys: &BTreeMap<PredictorKey, (Family, Table)>, threads: usize) -> BTreeSet<Family> {
    let enough: Vec<(&PredictorKey, Family, Table)> = keys
        .iter()
        .filter(|(_, (_, table))| table.y.len() >= FEWEST_ROWS)
        .map(|(key, (family, table))| (key, *family, table.sample(family.width(), MOST_ROWS)))
        .collect();
    let errors = on_threads(threads, enough.len(), |i| {
        let (key, family, own) = &enough[i];
        let of = |wanted: &dyn Fn(&PredictorKey) -> bool| {
            let others = enough.iter().filter(|(other, ..)| other != key && wanted(other));
            let table = joined(others.map(|(_, _, table)| table));
            (!table.y.is_empty()).then(|| limited(*family, &table, law(*family, &table)))
        };
        let siblings = of(&|other| other.class_name() == key.class_name())?;
        let kind = of(&|other| other.kind == key.kind)?;
        let error = |law: &Baseline| {
            let rows = own.x.chunks_exact(family.width()).zip(&own.y);
            metrics::median(&rows.map(|(x, y)| (y / law.predict(x)).ln().abs()).collect::<Vec<_>>())
        };
        Some((*family, error(&kind)? - error(&siblings)?))
    });
    let mut gains: BTreeMap<Family, f64> = BTreeMap::new();
    errors
        .into_iter()
        .flatten()
        .for_each(|(family, gain)| *gains.entry(family).or_default() += gain);
    gains.into_iter().filter(|(_, gain)| *gain > 0.0).map(|(family, _)| family).collect()
}

/// The rows of these families by kind and class, over all formats.
fn by_class(keys: &BTreeMap<PredictorKey, (Family, Table)>, of: &BTreeSet<Family>) -> Named {
    let mut classes: BTreeMap<String, (Family, Vec<&Table>)> = BTreeMap::new();
    for (key, (family, table)) in keys.iter().filter(|(_, (family, _))| of.contains(family)) {
        classes.entry(key.class_name()).or_insert((*family, Vec::new())).1.push(table);
    }
    classes.into_iter().map(|(name, (family, of))| (name, (family, joined(of)))).collect()
}

fn joined<'t>(tables: impl IntoIterator<Item = &'t Table>) -> Table {
    let mut all = Table::default();
    for table in tables {
        all.x.extend_from_slice(&table.x);
        all.y.extend_from_slice(&table.y);
        all.weights.extend_from_slice(&table.weights);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;
    use vitempo_graph::MemoryFormat::{self, ChannelsFirst, ChannelsLast};

    const FAMILY: Family = Family::Elementwise;

    /// Rows of 1 to 40 KB, of which `copied` are copied first.
    fn rows(ns_per_byte: f64, copied: f64, ns_per_copied: f64) -> Table {
        let mut table = Table::default();
        for bytes in (1..=40).map(|i| f64::from(i) * 1e3) {
            let value = |name| match name {
                "bytes_in" => bytes,
                "bytes_reordered" => copied * bytes,
                _ => 0.0,
            };
            table.x.extend(FAMILY.columns().map(value));
            table.y.push(300.0 + (ns_per_byte + copied * ns_per_copied) * bytes);
            table.weights.push(1.0);
        }
        table
    }

    fn key(class: &'static str, format: MemoryFormat) -> PredictorKey {
        PredictorKey { kind: Cow::Borrowed("add"), class: Cow::Borrowed(class), format }
    }

    fn keys(
        costs: [(&'static str, MemoryFormat, f64); 4],
    ) -> BTreeMap<PredictorKey, (Family, Table)> {
        let of = |(class, format, cost)| (key(class, format), (FAMILY, rows(cost, 0.0, 0.0)));
        costs.into_iter().map(of).collect()
    }

    #[test]
    fn a_class_stands_in_where_siblings_are_better_than_the_kind() {
        let by_class = [
            ("same", ChannelsFirst, 1.0),
            ("same", ChannelsLast, 1.1),
            ("row", ChannelsFirst, 20.0),
            ("row", ChannelsLast, 22.0),
        ];
        let by_format = [
            ("same", ChannelsFirst, 1.0),
            ("same", ChannelsLast, 20.0),
            ("row", ChannelsFirst, 1.1),
            ("row", ChannelsLast, 22.0),
        ];
        for threads in [1, 3] {
            assert_eq!(format_free(&keys(by_class), threads), BTreeSet::from([FAMILY]));
            assert!(format_free(&keys(by_format), threads).is_empty());
        }
        let of = super::by_class(&keys(by_class), &BTreeSet::from([FAMILY]));
        let sizes: Vec<(&str, usize)> =
            of.iter().map(|(name, (_, table))| (&**name, table.y.len())).collect();
        assert_eq!(sizes, [("add/row", 80), ("add/same", 80)]);
    }

    #[test]
    fn a_copy_that_all_rows_make_costs_what_it_does_elsewhere() {
        let always = rows(1.0, 0.5, 3.0);
        let elsewhere = {
            let (plain, copied) = (rows(2.0, 0.0, 0.0), rows(2.0, 1.0, 3.0));
            law(FAMILY, &joined([&plain, &copied]))
        };
        let cost = copying(&BTreeMap::from([("mul".to_owned(), elsewhere)])).expect("a cost");
        assert!((cost / 3.0 - 1.0).abs() < 0.05, "{cost}");
        let apart = without_copying(FAMILY, &always, cost).expect("rows that cannot tell");
        let (with, without) = (rows(1.0, 0.5, 3.0), rows(1.0, 0.0, 0.0));
        for (x, y) in
            [&with, &without].iter().flat_map(|t| t.x.chunks_exact(FAMILY.width()).zip(&t.y))
        {
            assert!((apart.predict(x) / y - 1.0).abs() < 0.1, "{} beside {y}", apart.predict(x));
        }
        assert!(without_copying(FAMILY, &joined([&with, &without]), cost).is_none());
    }
}
