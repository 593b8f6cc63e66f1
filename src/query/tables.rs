//! [`Tables`]: forecasts for a whole search space without graphs. Rows are computed when they are
//! first needed, and cached.
//!
//! An architecture is a sum of parts ([`super::link`]). A part's class determines the kernels it
//! adds, as patterns derived from lowering small graphs of that class; its numbers determine their
//! sizes; common kernels of different parts share a row. An architecture without a template,
//! because its class is rare or its kernels follow no formula, is answered by lowering its graph
//! and adding up its kernels. A sample of the answers from tables is compared with graphs: the
//! first architecture of every class, and then a small share. A class with a difference is answered
//! by graphs from then on.

use super::{
    Amount, Meter, QueryError,
    asked::{Asked, Found},
    known::{Known, Lookup, known_of, unlearned},
    link::{CLASSES, Class, Link, links},
    pool::{CHECKS, Pool},
    rows::Rows,
    template::{Example, Template, is_same_form},
};
use std::collections::BTreeSet;
use vitempo_graph::OpSpec;
use vitempo_search_space::{Architecture, Space};

/// Architectures answered together: their missing rows are computed in one batch.
pub(super) const TOGETHER: usize = 1024;
/// Of these, so many at a time, as the processor's own cache holds the rows of.
const AT_ONCE: usize = 64;
/// Bytes of a row with its place in the index, and of the kernels behind it.
const ROW_BYTES: usize = 128;
/// Graphs whose kernels are measured together.
const GRAPHS: usize = 64;
/// Architectures of a class that are compared with the whole way before its answers are used.
pub(super) const COMPARED: u8 = 1;
/// Once the answers of every class are used, one answer in this many is compared.
const ONE_IN: u64 = 1 << 16;

/// How queries were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// By looking up rows.
    pub by_tables: u64,
    /// By making the graph and lowering it.
    pub by_graphs: u64,
    /// Answers of tables that were compared with those of graphs.
    pub compared: u64,
    /// Of these, how many disagreed; their classes are answered by graphs.
    pub disagreed: u64,
    /// Rows kept.
    pub rows: u64,
    /// Classes of parts that have templates.
    pub templates: u64,
}

/// Sums, and which of them are to be compared, some anyway.
type Answers<A> = (Vec<A>, Vec<(usize, bool)>);

/// Sums over the kernels of a space's architectures.
pub struct Tables<M: Meter> {
    space: Space,
    pub(super) meter: M,
    pool: Option<Pool>,
    pub(super) classes: Vec<Known>,
    /// How many answers of each class, in all its details, were compared.
    pub(super) compared: Vec<u8>,
    pub(super) rows: Rows<M>,
    statistics: Statistics,
}

impl<M: Meter> std::fmt::Debug for Tables<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables")
            .field("space", &self.space.name())
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}

impl<M: Meter> Tables<M> {
    /// Empty tables over a space.
    pub fn new(space: &Space, meter: M) -> Self {
        let classes = (0..CLASSES).map(|_| Known::Nothing).collect();
        let compared = vec![0; CLASSES];
        Self {
            space: space.clone(),
            meter,
            pool: None,
            classes,
            compared,
            rows: Rows::new(),
            statistics: Statistics::default(),
        }
    }

    /// The space they are over.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// What adds up.
    pub fn meter(&self) -> &M {
        &self.meter
    }

    /// How questions were answered so far.
    pub fn statistics(&self) -> Statistics {
        let templates =
            self.classes.iter().filter(|c| matches!(c, Known::Template(_))).count() as u64;
        Statistics { rows: self.rows.len() as u64, templates, ..self.statistics }
    }

    /// Rows that are kept.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Bytes that they take, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        ROW_BYTES.saturating_mul(self.rows.len()) + self.rows.heap_bytes()
    }

    /// The sum over the kernels of each architecture, in their order. Those outside of the space
    /// are answered by graphs.
    ///
    /// # Errors
    /// [`QueryError`] for an architecture that cannot be built, or a framework without lowering
    /// rules.
    pub fn sums(&mut self, architectures: &[Architecture]) -> Result<Vec<M::Amount>, QueryError> {
        self.sums_where(architectures, false)
    }

    /// As [`Tables::sums`]; `inside`: all are known to be of the space, and are not checked again.
    ///
    /// # Errors
    /// As [`Tables::sums`].
    pub fn sums_where(
        &mut self,
        architectures: &[Architecture],
        inside: bool,
    ) -> Result<Vec<M::Amount>, QueryError> {
        let mut sums = Vec::with_capacity(architectures.len());
        for chunk in architectures.chunks(TOGETHER) {
            sums.extend(self.chunk(chunk, inside)?);
        }
        Ok(sums)
    }

    /// The sum over the kernels of one architecture, by its graph.
    ///
    /// # Errors
    /// As [`Tables::sums`].
    pub fn sum_by_graph(&self, architecture: &Architecture) -> Result<M::Amount, QueryError> {
        Ok(self.sums_by_graphs([architecture])?.pop().unwrap_or_default())
    }

    /// The same for several, whose kernels are measured together.
    fn sums_by_graphs<'a>(
        &self,
        architectures: impl IntoIterator<Item = &'a Architecture>,
    ) -> Result<Vec<M::Amount>, QueryError> {
        let lowered =
            |architecture: &Architecture| -> Result<(Vec<OpSpec>, Vec<M::Context>), QueryError> {
                let kernels = self.meter.kernels(architecture.to_graph()?)?;
                let contexts = self.meter.contexts(&kernels);
                Ok((kernels, contexts))
            };
        let models = architectures.into_iter().map(lowered).collect::<Result<Vec<_>, _>>()?;
        let amounts = self.meter.measure(|each| {
            models.iter().for_each(|(kernels, contexts)| {
                kernels.iter().zip(contexts).for_each(|(kernel, context)| each(kernel, *context));
            });
        });
        let mut amounts = amounts.into_iter();
        let mut sum = |kernels: &[OpSpec]| {
            amounts
                .by_ref()
                .take(kernels.len())
                .fold(M::Amount::default(), |sum, amount| sum.plus(&amount, 1))
        };
        Ok(models.iter().map(|(kernels, _)| sum(kernels)).collect())
    }

    /// Answers until all compared answers of tables agree with graphs.
    fn chunk(
        &mut self,
        architectures: &[Architecture],
        inside: bool,
    ) -> Result<Vec<M::Amount>, QueryError> {
        loop {
            let before = self.statistics;
            let (sums, uncertain) = self.answers(architectures, inside)?;
            let mut agreed = true;
            for some in self.to_compare(architectures, uncertain).chunks(GRAPHS) {
                let by_graphs =
                    self.sums_by_graphs(some.iter().map(|&index| &architectures[index]))?;
                for (&index, by_graph) in some.iter().zip(by_graphs) {
                    agreed &= self.compare(&architectures[index], &sums[index], &by_graph);
                }
            }
            if agreed {
                return Ok(sums);
            }
            (self.statistics.by_tables, self.statistics.by_graphs) =
                (before.by_tables, before.by_graphs);
        }
    }

    /// Sums, and which of them are to be compared: a class of theirs still needs it, or it is their
    /// turn.
    fn answers(
        &mut self,
        architectures: &[Architecture],
        inside: bool,
    ) -> Result<Answers<M::Amount>, QueryError> {
        let mut sums = vec![M::Amount::default(); architectures.len()];
        let mut uncertain = Vec::new();
        let local = self.meter.is_local();
        let mut open: Vec<usize> = (0..architectures.len()).collect();
        while !open.is_empty() {
            self.rows.make_room();
            let mut unknown = BTreeSet::new();
            let (mut waiting, mut irregular, mut late) = (Vec::new(), Vec::new(), Vec::new());
            let mut asked = Asked::new();
            for some in open.chunks(AT_ONCE) {
                asked.clear();
                for &index in some {
                    let architecture = &architectures[index];
                    let ours = local && (inside || self.space.includes(architecture));
                    let found = if ours {
                        self.ask(architecture, &mut asked, &mut unknown)
                    } else {
                        Found::Irregular
                    };
                    match found {
                        Found::Rows(new) => {
                            asked.of.push((index, asked.keys.len()));
                            self.statistics.by_tables += 1;
                            let turn = self.statistics.by_tables.is_multiple_of(ONE_IN);
                            if new || turn {
                                uncertain.push((index, turn));
                            }
                        }
                        Found::Waiting => waiting.push(index),
                        Found::Irregular => irregular.push(index),
                    }
                    asked.take_back();
                }
                self.look_up(&mut asked, &mut sums, &mut late);
            }
            self.catch_up(late, &mut sums);
            for some in irregular.chunks(GRAPHS) {
                let answers =
                    self.sums_by_graphs(some.iter().map(|&index| &architectures[index]))?;
                some.iter().zip(answers).for_each(|(&index, sum)| sums[index] = sum);
                self.statistics.by_graphs += some.len() as u64;
            }
            for class in unknown {
                self.learn(class)?;
            }
            open = waiting;
        }
        Ok((sums, uncertain))
    }

    /// Finds the template of a class.
    fn learn(&mut self, class: Class) -> Result<(), QueryError> {
        self.classes[usize::from(class)] = match self.template(class)? {
            Some(mut template) => {
                let groups = std::mem::take(&mut template.groups)
                    .into_iter()
                    .map(|(mask, patterns)| (self.rows.group(mask, patterns), mask))
                    .collect();
                Known::Template(Lookup { template, groups })
            }
            None => unlearned(class),
        };
        Ok(())
    }

    fn template(&mut self, class: Class) -> Result<Option<Template>, QueryError> {
        let pool = self.pool.get_or_insert_with(|| Pool::draw(&self.space));
        let (links, Some(like)) = pool.examples(class) else { return Ok(None) };
        let mut examples = Vec::with_capacity(links.len());
        for link in &links {
            let Some(example) = self.example(link, &like)? else { continue };
            if examples.first().is_some_and(|first| !is_same_form(first, &example)) {
                return Ok(None);
            }
            examples.push(example);
        }
        let quantities = links.first().map(Link::quantities).unwrap_or_default();
        Ok(Template::fit(examples, CHECKS, quantities))
    }

    /// The kernels that a part adds, by lowering.
    fn example(&self, link: &Link, like: &Architecture) -> Result<Option<Example>, QueryError> {
        let Some(window) = link.window(like) else { return Ok(None) };
        let counted =
            |architecture: &Architecture, times: i64| -> Result<Vec<(OpSpec, i64)>, QueryError> {
                Ok(self
                    .meter
                    .kernels(architecture.to_graph()?)?
                    .into_iter()
                    .map(|op| (op, times))
                    .collect())
            };
        let mut kernels = counted(&window.plus, 1)?;
        if let Some(minus) = &window.minus {
            kernels.extend(counted(minus, -1)?);
        }
        Ok(Some(Example { numbers: link.numbers, kernels }))
    }

    /// Of uncertain answers those that need comparing, if those before them agree: a class of
    /// their answers are not used yet, or they are compared anyway.
    fn to_compare(
        &self,
        architectures: &[Architecture],
        mut uncertain: Vec<(usize, bool)>,
    ) -> Vec<usize> {
        let mut compared = if uncertain.is_empty() { Vec::new() } else { self.compared.clone() };
        uncertain.retain(|&(index, anyway)| {
            let classes = classes_of(&architectures[index]);
            let needed =
                anyway || classes.iter().any(|class| compared[usize::from(*class)] < COMPARED);
            if needed {
                count(&mut compared, &classes);
            }
            needed
        });
        uncertain.into_iter().map(|(index, _)| index).collect()
    }

    /// Whether an answer of tables is the graph's; classes that disagree are not asked again.
    fn compare(
        &mut self,
        architecture: &Architecture,
        sum: &M::Amount,
        by_graph: &M::Amount,
    ) -> bool {
        let (agrees, classes) = (sum.agrees(by_graph), classes_of(architecture));
        self.statistics.compared += 1;
        self.statistics.disagreed += u64::from(!agrees);
        if agrees {
            count(&mut self.compared, &classes);
        } else {
            let wrong: BTreeSet<Class> =
                classes.iter().map(|class| known_of(&self.classes, *class).0).collect();
            wrong.into_iter().for_each(|class| self.classes[usize::from(class)] = unlearned(class));
        }
        agrees
    }
}

/// The classes of an architecture's parts.
fn classes_of(architecture: &Architecture) -> BTreeSet<Class> {
    links(architecture).map(|(link, _)| link.class()).collect()
}

/// One more answer of these classes was compared.
fn count(compared: &mut [u8], classes: &BTreeSet<Class>) {
    for class in classes {
        let count = &mut compared[usize::from(*class)];
        *count = count.saturating_add(1);
    }
}
