//! [`Model`]: a problem as tables for searches and the evaluator: every order of processors, and
//! for each subgraph its latency, transfer time, fetch time and memory.

use super::{
    MultiDnnError, Problem,
    arrivals::{Arrival, Arrivals},
    expectation::Step,
    policy::{Kind, Way},
};
use crate::stitch::{Order, orders};

/// Largest number of processors.
pub const MOST_PROCESSORS: usize = 8;
/// Largest number of ways of one task: stitched variants times orders of processors.
pub const MOST_WAYS: u128 = 1 << 22;

/// The load of one query on each processor, ns.
pub(super) type Load = [u64; MOST_PROCESSORS];

/// Costs of one task; rows by position and variant.
#[derive(Debug)]
struct TaskTable {
    variants: usize,
    /// Accuracy by number of the stitched variant, basis points.
    accuracy_bp: Vec<u32>,
    /// Latency by row, processor and next processor (the last: none, or the same), ns.
    run: Vec<Option<u64>>,
    /// Fetch time by row and processor, ns.
    fetch: Vec<u64>,
    /// Memory by row, bytes.
    memory: Vec<u64>,
}

#[derive(Debug)]
pub(super) struct Model<'a> {
    pub problem: &'a Problem<'a>,
    /// Processor by position.
    pub orders: Vec<Order>,
    pub scenarios: Vec<Vec<Arrival>>,
    /// Arrivals of the scenario for queries per second.
    pub saturated: Vec<Arrival>,
    tasks: Vec<TaskTable>,
    processors: usize,
    positions: usize,
}

impl<'a> Model<'a> {
    pub(super) fn new(problem: &'a Problem<'a>) -> Result<Self, MultiDnnError> {
        problem.check()?;
        let zoo = problem.zoo;
        let (processors, positions) = (zoo.processors().len(), zoo.positions());
        if processors > MOST_PROCESSORS {
            return Err(MultiDnnError::TooMany {
                what: "processors".to_owned(),
                count: processors as u128,
                most: MOST_PROCESSORS as u128,
            });
        }
        let orders = orders::any(processors, positions)?;
        for (task, found) in zoo.tasks().iter().enumerate() {
            let variants = zoo.stitched_variants(task).unwrap_or(u128::MAX);
            let count = variants.saturating_mul(orders.len() as u128);
            if count > MOST_WAYS {
                let what = format!("ways of task `{}`", found.name);
                return Err(MultiDnnError::TooMany { what, count, most: MOST_WAYS });
            }
        }
        let tasks = (0..zoo.tasks().len()).map(|task| table(problem, task)).collect();
        let names: Vec<String> = zoo.tasks().iter().map(|task| task.name.clone()).collect();
        let scenarios = problem.arrivals.scenarios(&names)?;
        let saturated = (0..problem.saturation * names.len())
            .map(|query| Arrival { at_ns: 0, task: query % names.len() })
            .collect();
        let model = Self { problem, orders, scenarios, saturated, tasks, processors, positions };
        match (0..names.len()).find(|&task| model.lightest(task, &|_| 1.0).is_none()) {
            Some(task) => Err(MultiDnnError::Impossible { task: names[task].clone() }),
            None => Ok(model),
        }
    }

    pub(super) const fn processors(&self) -> usize {
        self.processors
    }

    pub(super) const fn tasks(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn at_once(&self) -> bool {
        self.problem.arrivals == Arrivals::AtOnce
    }

    /// Number of stitched variants of a task.
    pub(super) fn stitched(&self, task: usize) -> usize {
        self.tasks[task].accuracy_bp.len()
    }

    pub(super) fn accuracy_bp(&self, task: usize, way: Way) -> u32 {
        self.tasks[task].accuracy_bp[way.variant as usize]
    }

    pub(super) fn is_accurate(&self, task: usize, way: Way) -> bool {
        self.accuracy_bp(task, way) >= self.problem.slos[task].accuracy_bp
    }

    /// The variant of a position.
    pub(super) fn variant_at(&self, task: usize, way: Way, position: usize) -> usize {
        let variants = self.tasks[task].variants;
        let later = (self.positions - 1 - position) as u32;
        way.variant as usize / variants.pow(later) % variants
    }

    /// The number of a stitched variant.
    pub(super) fn variant_of(&self, task: usize, stitched: &[usize]) -> u32 {
        let variants = self.tasks[task].variants;
        stitched.iter().fold(0, |code, variant| code * variants + variant) as u32
    }

    pub(super) fn order_of(&self, order: &Order) -> u32 {
        order.processors().iter().fold(0, |code, p| code * self.processors + p) as u32
    }

    pub(super) fn processors_of(&self, way: Way) -> &[usize] {
        self.orders[way.order as usize].processors()
    }

    /// Whether neighbouring positions share a processor, so that joining them makes a difference.
    pub(super) fn repeats(&self, order: usize) -> bool {
        self.orders[order].processors().windows(2).any(|pair| pair[0] == pair[1])
    }

    pub(super) fn kind(&self, task: usize, way: Way) -> Kind {
        let first = self.variant_at(task, way, 0);
        if (1..self.positions).any(|position| self.variant_at(task, way, position) != first) {
            return Kind::Stitched;
        }
        let order = self.processors_of(way);
        let pieces = match way.joined {
            true => 1 + order.windows(2).filter(|pair| pair[0] != pair[1]).count(),
            false => order.len(),
        };
        if pieces == 1 { Kind::Whole } else { Kind::Cut }
    }

    /// Latency of a subgraph in an order, with the transfer of its output, ns.
    pub(super) fn run_ns(
        &self,
        task: usize,
        order: &[usize],
        position: usize,
        variant: usize,
    ) -> Option<u64> {
        let table = &self.tasks[task];
        let here = order[position];
        let next = order.get(position + 1).filter(|next| **next != here);
        let row = position * table.variants + variant;
        let to = next.copied().unwrap_or(self.processors);
        table.run[(row * self.processors + here) * (self.processors + 1) + to]
    }

    /// Adds the pieces of a way, on request with the fetches of the first query; `None` where it
    /// cannot run.
    pub(super) fn steps(
        &self,
        task: usize,
        way: Way,
        fetching: bool,
        steps: &mut Vec<Step>,
    ) -> Option<()> {
        let order = self.processors_of(way);
        let start = steps.len();
        for (position, &processor) in order.iter().enumerate() {
            let variant = self.variant_at(task, way, position);
            let mut ns = self.run_ns(task, order, position, variant)?;
            if fetching {
                ns = ns.saturating_add(self.fetch_ns(task, position, variant, processor));
            }
            match steps[start..].last_mut() {
                Some(last) if way.joined && last.processor == processor => {
                    last.ns = last.ns.saturating_add(ns);
                }
                _ => steps.push(Step { processor, ns }),
            }
        }
        Some(())
    }

    fn fetch_ns(&self, task: usize, position: usize, variant: usize, processor: usize) -> u64 {
        let table = &self.tasks[task];
        table.fetch[(position * table.variants + variant) * self.processors + processor]
    }

    /// Whether the first query of a way has to fetch something.
    pub(super) fn fetches(&self, task: usize, way: Way) -> bool {
        self.problem.fetches.is_some()
            && self.processors_of(way).iter().enumerate().any(|(position, &processor)| {
                let variant = self.variant_at(task, way, position);
                self.fetch_ns(task, position, variant, processor) > 0
            })
    }

    /// The load of one query on each processor when everything is loaded; `None` where it cannot
    /// run.
    pub(super) fn load(&self, task: usize, way: Way) -> Option<Load> {
        let order = self.processors_of(way);
        let mut load = [0u64; MOST_PROCESSORS];
        for (position, &processor) in order.iter().enumerate() {
            let variant = self.variant_at(task, way, position);
            let ns = self.run_ns(task, order, position, variant)?;
            load[processor] = load[processor].saturating_add(ns);
        }
        Some(load)
    }

    /// The way of least weighted load, with weights by processor, over all stitched variants and
    /// orders; among equals, the first variants.
    pub(super) fn lightest(
        &self,
        task: usize,
        weight: &dyn Fn(usize) -> f64,
    ) -> Option<(f64, Way)> {
        let each =
            (0..self.orders.len()).filter_map(|o| Some((self.lightest_in(task, o, weight)?, o)));
        let least = each.min_by(|((a, _), i), ((b, _), j)| a.total_cmp(b).then(i.cmp(j)))?;
        Some(least.0)
    }

    /// The same in one order: the choice at one position does not depend on the others.
    pub(super) fn lightest_in(
        &self,
        task: usize,
        order: usize,
        weight: &dyn Fn(usize) -> f64,
    ) -> Option<(f64, Way)> {
        let processors = self.orders[order].processors();
        let (mut total, mut code) = (0.0, 0);
        for (position, &processor) in processors.iter().enumerate() {
            let of = |v: usize| Some((self.run_ns(task, processors, position, v)?, v));
            let (ns, variant) = (0..self.tasks[task].variants).filter_map(of).min()?;
            total += ns as f64 * weight(processor);
            code = code * self.tasks[task].variants + variant;
        }
        let way = Way { order: order as u32, variant: code as u32, joined: self.repeats(order) };
        Some((total, way))
    }

    /// One variant of a task whole, on each processor that it runs on.
    pub(super) fn whole_on_each(&self, task: usize, variant: u32) -> Vec<Way> {
        let on = |processor: usize| {
            let order = self.order_of(&Order::new(vec![processor; self.positions]));
            let way = Way { order, variant, joined: self.positions > 1 };
            self.load(task, way).map(|_| way)
        };
        (0..self.processors).filter_map(on).collect()
    }

    /// Memory of the subgraphs of these ways, bytes; each subgraph counts once per processor.
    pub(super) fn memory_bytes(&self, ways: &[&[Way]]) -> u64 {
        let mut held: Vec<(usize, usize, usize, usize)> = Vec::new();
        for (task, ways) in ways.iter().enumerate() {
            for &way in *ways {
                for (position, &processor) in self.processors_of(way).iter().enumerate() {
                    held.push((task, position, self.variant_at(task, way, position), processor));
                }
            }
        }
        held.sort_unstable();
        held.dedup();
        let bytes = |&(task, position, variant, _): &(usize, usize, usize, usize)| {
            let table = &self.tasks[task];
            table.memory[position * table.variants + variant]
        };
        held.iter().map(bytes).fold(0, u64::saturating_add)
    }

    pub(super) fn fits_memory(&self, ways: &[&[Way]]) -> bool {
        self.problem.memory_bytes.is_none_or(|budget| self.memory_bytes(ways) <= budget)
    }

    /// The way whose subgraphs occupy the least memory.
    pub(super) fn smallest(&self, task: usize) -> Option<Way> {
        let table = &self.tasks[task];
        let of_order = |order: usize| {
            let processors = self.orders[order].processors();
            let (mut bytes, mut code) = (0u64, 0);
            for position in 0..self.positions {
                let of = |v: usize| {
                    self.run_ns(task, processors, position, v)
                        .map(|ns| (table.memory[position * table.variants + v], ns, v))
                };
                let (memory, _, variant) = (0..table.variants).filter_map(of).min()?;
                bytes = bytes.saturating_add(memory);
                code = code * table.variants + variant;
            }
            let (order, joined) = (order as u32, self.repeats(order));
            Some((bytes, Way { order, variant: code as u32, joined }))
        };
        (0..self.orders.len()).filter_map(of_order).min().map(|(_, way)| way)
    }

    /// Memory of the smallest subgraph at each position of each task, bytes: no plan takes less.
    pub(super) fn least_memory_bytes(&self) -> u64 {
        let least = |table: &TaskTable| {
            let rows = table.memory.chunks(table.variants);
            rows.filter_map(|row| row.iter().min()).fold(0u64, |sum, &b| sum.saturating_add(b))
        };
        self.tasks.iter().map(least).fold(0, u64::saturating_add)
    }
}

fn table(problem: &Problem<'_>, task: usize) -> TaskTable {
    let (zoo, found) = (problem.zoo, &problem.zoo.tasks()[task]);
    let (processors, positions, variants) =
        (zoo.processors().len(), zoo.positions(), found.variants.len());
    let (mut run, mut fetch, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for position in 0..positions {
        for variant in 0..variants {
            memory.push(found.subgraphs[position][variant].memory_bytes);
            for here in 0..processors {
                fetch.push(
                    problem.fetches.as_ref().map_or(0, |f| f.ns(task, position, variant, here)),
                );
                for next in 0..=processors {
                    let mut order = vec![here; positions];
                    if next < processors && position + 1 < positions {
                        order[position + 1] = next;
                    }
                    let ns = zoo.step_ns(task, &Order::new(order), position, variant);
                    run.push(ns.map(|ns| ns.point()));
                }
            }
        }
    }
    let code = |code: usize| -> Vec<usize> {
        (0..positions)
            .map(|position| code / variants.pow((positions - 1 - position) as u32) % variants)
            .collect()
    };
    let accuracy_bp =
        (0..variants.pow(positions as u32)).map(|c| found.accuracy.of(&code(c))).collect();
    TaskTable { variants, accuracy_bp, run, fetch, memory }
}
