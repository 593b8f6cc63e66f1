//! "Multi-DNN Inference of Sparse Models on Edge SoCs" (SparseLoom): stitched variants of
//! ResNet-101 in every order of CPU, GPU and NPU.
//!
//! [`Tables::as_one_task`] and [`Tables::as_tasks`] put table 2 to the optimiser, each order
//! standing for a processor of its own that runs the whole variant; [`claims`] recomputes
//! percentages; [`additivity`] tests eq. 5 without fitting anything.

use super::{
    PaperError,
    claim::{Basis, Claim, Figure, Reproduced},
};
use serde::Deserialize;
use std::{collections::BTreeMap, sync::Arc};
use vitempo::planners::{
    Evidence,
    cost::Interval,
    stitch::{Additive, Subgraph, Task, Zoo, profiling::Profiling},
};

/// A row of table 2.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderRow {
    /// Processors in the order of the subgraphs: `N-G-C`.
    pub name: String,
    /// By variant, ms.
    pub latency_ms: Vec<f64>,
}

/// Figure 13 and section 5.3.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Name of the platform.
    pub name: String,
    /// Throughput of the worst order, queries/s.
    pub least_per_s: f64,
    /// Throughput of the best order, queries/s.
    pub most_per_s: f64,
    /// The best order.
    pub best: String,
    /// Memory that preloading saves, %.
    pub memory_saved_pct: f64,
}

/// The tables.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// Names of the variants.
    pub variants: Vec<String>,
    /// The best order of each variant, as printed.
    pub best: Vec<String>,
    /// Table 2 by order.
    pub order: Vec<OrderRow>,
    /// Figure 13 by platform.
    pub platform: Vec<Platform>,
}

impl Tables {
    /// The tables as printed.
    ///
    /// # Errors
    /// [`PaperError::Table`] when the file is damaged.
    pub fn read() -> Result<Self, PaperError> {
        Ok(toml::from_str(include_str!("../../data/model_stitching.toml"))?)
    }

    /// All variants as those of one task, equally accurate.
    ///
    /// # Errors
    /// [`PaperError`] when the table is damaged.
    pub fn as_one_task(&self) -> Result<Zoo, PaperError> {
        self.zoo(vec![self.task("ResNet-101", &(0..self.variants.len()).collect::<Vec<_>>())?])
    }

    /// Each variant as the only one of a task of its own.
    ///
    /// # Errors
    /// [`PaperError`] when the table is damaged.
    pub fn as_tasks(&self) -> Result<Zoo, PaperError> {
        self.zoo(
            self.variants
                .iter()
                .enumerate()
                .map(|(index, name)| self.task(name, &[index]))
                .collect::<Result<_, _>>()?,
        )
    }

    fn zoo(&self, tasks: Vec<Task>) -> Result<Zoo, PaperError> {
        Ok(Zoo::new(
            self.order.iter().map(|row| row.name.clone()).collect(),
            BTreeMap::new(),
            tasks,
        )?)
    }

    fn task(&self, name: &str, variants: &[usize]) -> Result<Task, PaperError> {
        let ns = |row: &OrderRow, variant: usize| {
            row.latency_ms.get(variant).map(|ms| Interval::exact((ms * 1e6).round() as u64))
        };
        let subgraph = |&variant: &usize| Subgraph {
            latency_ns: self.order.iter().map(|row| ns(row, variant)).collect(),
            memory_bytes: 0,
            boundary_bytes: 0,
            boundary_tensors: 1,
            load_ns: Vec::new(),
        };
        let accuracy = Additive::new(0, vec![vec![0; variants.len()]])?;
        let names =
            variants.iter().filter_map(|&variant| self.variants.get(variant).cloned()).collect();
        Ok(Task {
            name: name.to_owned(),
            variants: names,
            subgraphs: vec![variants.iter().map(subgraph).collect()],
            accuracy: Arc::new(accuracy),
        })
    }

    fn row(&self, name: &str) -> Result<&[f64], PaperError> {
        let found =
            self.order.iter().find(|row| row.name == name).map(|row| row.latency_ms.as_slice());
        found.ok_or_else(|| PaperError::Row(format!("order {name}")))
    }
}

/// The percentages that its tables and formulas allow to recompute.
///
/// # Errors
/// [`PaperError`] when the tables are damaged.
pub fn claims() -> Result<Vec<Claim>, PaperError> {
    let tables = Tables::read()?;
    let whole = |value: f64| Figure::new(value, 0);
    let saved = |variants: u32| {
        let profiling = Profiling { tasks: 4, variants, subgraphs: 3, processors: 3 };
        100.0 * profiling.saved().unwrap_or(f64::NAN)
    };
    let mut claims = vec![
        Claim::new(
            "section 2.2",
            "compiling and loading of all the time to switch, %",
            Figure::new(96.4, 1),
            &[Figure::new(23.7, 1), whole(3.0)],
            |x| 100.0 * (x[0] + x[1]) / (x[0] + x[1] + 1.0),
        ),
        Claim::new(
            "section 5.3",
            "profiling on the laptop in 5 instead of 468 minutes, %",
            whole(99.0),
            &[whole(5.0), whole(468.0)],
            |x| 100.0 * (1.0 - x[0] / x[1]),
        ),
        Claim::new(
            "section 3.2",
            "runs saved by eq. 6 over tasks (3 variants), %",
            whole(84.0),
            &[],
            |_| saved(3),
        ),
        Claim::new(
            "section 3.2",
            "runs saved by eq. 6 over variants (10), %",
            whole(98.0),
            &[],
            |_| saved(10),
        ),
    ];
    let memory: Vec<Figure> = tables.platform.iter().map(|p| whole(p.memory_saved_pct)).collect();
    claims.push(Claim::new("abstract", "memory saved, mean, %", whole(28.0), &memory, |x| {
        x.iter().sum::<f64>() / x.len() as f64
    }));
    let rates: Vec<Figure> =
        tables.platform.iter().flat_map(|p| [whole(p.most_per_s), whole(p.least_per_s)]).collect();
    let ratio = |x: &[f64]| x.chunks(2).map(|pair| pair[0] / pair[1]).fold(0.0, f64::max);
    claims.push(Claim::new(
        "section 5.3",
        "best over worst order, throughput",
        whole(2.0),
        &rates,
        ratio,
    ));
    Ok(claims)
}

/// Eq. 5 without any fit: with as many positions as processors, adding up latencies makes a
/// variant's sum over the three even orders equal to that over the three odd ones, since both
/// contain each subgraph on each processor once. Even sums as printed, odd sums as modelled, ms;
/// each is off their common mean by half of what separates them.
///
/// # Errors
/// [`PaperError`] when the table is damaged.
pub fn additivity() -> Result<Vec<Reproduced>, PaperError> {
    let tables = Tables::read()?;
    let rows = |names: [&str; 3]| {
        names.into_iter().map(|name| tables.row(name)).collect::<Result<Vec<_>, _>>()
    };
    let (even, odd) = (rows(["N-G-C", "G-C-N", "C-N-G"])?, rows(["C-G-N", "G-N-C", "N-C-G"])?);
    let sum =
        |rows: &[&[f64]], variant: usize| rows.iter().filter_map(|row| row.get(variant)).sum();
    let reproduced = |(index, name): (usize, &String)| Reproduced {
        what: format!("{name} over three orders, ms"),
        printed: sum(&even, index),
        modelled: sum(&odd, index),
        evidence: Evidence::PaperTable,
        basis: Basis::Predicted,
    };
    Ok(tables.variants.iter().enumerate().map(reproduced).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::mape;
    use vitempo::planners::stitch::{Optimiser, Reading, Slo, orders};

    const ANY: Slo = Slo { accuracy_bp: 0, latency_ns: u64::MAX };

    fn ms(value: f64) -> u64 {
        (value * 1e6).round() as u64
    }

    #[test]
    fn table_2s_best_orders_come_out() {
        let tables = Tables::read().expect("the tables");
        let orders = orders::each_once(6, 1).expect("orders");
        for (index, printed) in tables.best.iter().enumerate() {
            let task = tables
                .task("one", &[index])
                .and_then(|task| tables.zoo(vec![task]))
                .expect("a zoo");
            let best = Optimiser::new(&task, &orders)
                .and_then(|o| o.best(&[vec![ANY]]))
                .expect("an order");
            assert_eq!(task.named(&best[0].order), *printed, "{}", tables.variants[index]);
        }
        // All variants as tasks: the order with the least mean, the desktop's best in figure 13.
        // The widely used N-G-C is the worst.
        let zoo = tables.as_tasks().expect("a zoo");
        let all = vec![vec![ANY; 6]];
        let optimiser = Optimiser::new(&zoo, &orders).expect("orders");
        for found in [
            optimiser.best(&all),
            optimiser.as_printed(&all, Reading::Algorithm),
            optimiser.as_printed(&all, Reading::Text),
        ] {
            let found = found.expect("an order").remove(0);
            assert_eq!(zoo.named(&found.order), tables.platform[0].best);
            assert_eq!(found.mean_latency_ns(), 13.375e6);
        }
        let mean = |order: &orders::Order| {
            Optimiser::new(&zoo, std::slice::from_ref(order))
                .and_then(|o| o.best(&all))
                .expect("one")[0]
                .total_latency_ns
        };
        let worst = orders.iter().max_by_key(|order| mean(order)).expect("an order");
        assert_eq!((zoo.named(worst), mean(worst)), ("N-G-C".to_owned(), ms(96.70)));
    }

    #[test]
    fn the_algorithm_and_its_description_choose_differently() {
        let tables = Tables::read().expect("the tables");
        let zoo = tables.as_one_task().expect("a zoo");
        let orders = orders::each_once(6, 1).expect("orders");
        let optimiser = Optimiser::new(&zoo, &orders).expect("orders");
        for (reading, order, latency) in
            [(Reading::Algorithm, "C-N-G", 10.77), (Reading::Text, "G-C-N", 12.14)]
        {
            let found = optimiser.as_printed(&[vec![ANY]], reading).expect("an order").remove(0);
            assert_eq!(
                (zoo.named(&found.order), found.total_latency_ns),
                (order.to_owned(), ms(latency))
            );
        }
    }

    #[test]
    fn the_least_mean_can_miss_objectives_that_another_order_keeps() {
        let tables = Tables::read().expect("the tables");
        let zoo = tables.as_tasks().expect("a zoo");
        let orders = orders::each_once(6, 1).expect("orders");
        let optimiser = Optimiser::new(&zoo, &orders).expect("orders");
        let slos = [vec![Slo { accuracy_bp: 0, latency_ns: ms(13.0) }; 6]];
        let printed = optimiser.as_printed(&slos, Reading::Algorithm).expect("an order").remove(0);
        assert_eq!((zoo.named(&printed.order), printed.violations), ("G-C-N".to_owned(), 4));
        let best = optimiser.best(&slos).expect("an order").remove(0);
        assert_eq!((zoo.named(&best.order), best.violations), ("C-N-G".to_owned(), 3));
    }

    #[test]
    fn claims_hold_but_one() {
        let claims = claims().expect("the tables");
        let broken: Vec<&str> =
            claims.iter().filter(|c| !c.holds()).map(|c| c.what.as_str()).collect();
        assert_eq!(
            broken,
            ["runs saved by eq. 6 over variants (10), %"],
            "98.57 % was cut off, not rounded"
        );
    }

    #[test]
    fn latencies_of_table_2_add_up() {
        let sums = additivity().expect("the tables");
        assert!((100.0 * mape(&sums) - 2.49).abs() < 0.005, "{}", mape(&sums));
        assert!(
            sums.iter().all(|row| row.error().abs() < 0.045),
            "each sum is off their mean by half of that, 2.25 % at most"
        );
    }
}
