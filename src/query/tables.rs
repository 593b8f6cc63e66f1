//! [`Tables`]: a whole search space asked without making graphs. Rows are computed when they are first needed and kept.
//!
//! A stage's class tells which kernels it adds, as patterns learned from lowering small graphs of that class for real; its numbers tell how large they
//! are; equal parts of different stages share a row. Whatever has no template, because its class is rare or its kernels follow no formula, is answered
//! by making its graph, lowering it and adding up its kernels. So is a sample of what tables answer, to compare: the first architectures of every
//! class, and then one in many. A class that disagrees is answered by graphs from then on.

use super::{
    Amount, Meter, QueryError,
    link::{CLASSES, Class, Link, coarse, is_coarse, links},
    numbers::Numbers,
    pool::{CHECKS, Pool},
    template::{Counted, Example, Template},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
};
use vitempo_graph::OpSpec;
use vitempo_predictors::Span;
use vitempo_search_space::{Architecture, Space};

/// Architectures answered together: their missing rows are computed in one batch.
const TOGETHER: usize = 1024;
/// Architectures of a class that are compared with the whole way before it is believed.
const COMPARED: u8 = 2;
/// Once every class is believed, one answer in this many is compared.
const ONE_IN: u64 = 1 << 16;

/// Rows kept at most, about half a gigabyte; then all begin anew.
const MOST_ROWS: usize = 1 << 23;

/// How questions were answered.
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
    /// Classes of stages that have templates.
    pub templates: u64,
}

/// What is known of a class.
enum Known {
    Nothing,
    /// A coarse class whose finer ones differ.
    Split,
    /// No template, or one that disagreed.
    Irregular,
    Template(Lookup),
}

/// Where a class's rows are.
struct Lookup {
    template: Template,
    groups: Vec<usize>,
}

/// Patterns, and where their rows are, by the numbers they depend on.
struct Group {
    mask: u128,
    patterns: Counted,
    places: HashMap<u128, usize, BuildHasherDefault<RowHasher>>,
}

/// What the patterns of a group come to at some numbers: in most cases in one context, in few they are asked for in others.
struct Row<M: Meter> {
    group: usize,
    key: u128,
    span: Span,
    first: Option<(M::Context, M::Amount)>,
    others: Vec<(M::Context, M::Amount)>,
}

impl<M: Meter> Row<M> {
    fn amount(&self, context: M::Context) -> Option<&M::Amount> {
        self.first.iter().chain(&self.others).find(|(own, _)| *own == context).map(|(_, amount)| amount)
    }

    fn keep(&mut self, context: M::Context, amount: M::Amount) {
        match self.first {
            None => self.first = Some((context, amount)),
            Some(_) => self.others.push((context, amount)),
        }
    }
}

/// What a question lacks: templates, rows, and what a row comes to in a context.
struct Wanted<C> {
    classes: BTreeSet<Class>,
    rows: HashSet<(usize, u128)>,
    amounts: BTreeMap<C, BTreeSet<usize>>,
}

/// Sums, and which of them are to be compared, some anyway.
type Answers<A> = (Vec<A>, Vec<(usize, bool)>);

enum Answer<A> {
    /// The sum, and whether it is yet to be compared.
    Found(A, bool),
    /// Something must be learned first.
    Waiting,
    /// Tables have no say.
    Irregular,
}

/// Sums over the kernels of a space's architectures.
pub struct Tables<M: Meter> {
    space: Space,
    meter: M,
    pool: Option<Pool>,
    classes: Vec<Known>,
    /// How many answers of each class, in all its details, were compared.
    compared: Vec<u8>,
    groups: Vec<Group>,
    rows: Vec<Row<M>>,
    group_of: HashMap<(u128, Counted), usize>,
    statistics: Statistics,
}

impl<M: Meter> std::fmt::Debug for Tables<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").field("space", &self.space.name()).field("statistics", &self.statistics()).finish_non_exhaustive()
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
            groups: Vec::new(),
            rows: Vec::new(),
            group_of: HashMap::new(),
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
        let templates = self.classes.iter().filter(|c| matches!(c, Known::Template(_))).count() as u64;
        Statistics { rows: self.rows.len() as u64, templates, ..self.statistics }
    }

    /// The sum over the kernels of each architecture, in their order. Those outside of the space are answered by graphs.
    ///
    /// # Errors
    /// [`QueryError`] for an architecture that cannot be built, or a framework without lowering rules.
    pub fn sums(&mut self, architectures: &[Architecture]) -> Result<Vec<M::Amount>, QueryError> {
        self.sums_where(architectures, false)
    }

    /// As [`Tables::sums`]; `inside`: all are known to be of the space.
    pub(super) fn sums_where(&mut self, architectures: &[Architecture], inside: bool) -> Result<Vec<M::Amount>, QueryError> {
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
        let kernels = self.meter.kernels(&architecture.to_graph()?)?;
        let span = kernels.iter().fold(Span::default(), |span, kernel| span.plus(&Span::of(kernel), 1));
        let amounts = self.meter.measure(&kernels, self.meter.context(&span));
        Ok(amounts.iter().fold(M::Amount::default(), |sum, amount| sum.plus(amount, 1)))
    }

    /// Answers until nothing that tables say disagrees with graphs.
    fn chunk(&mut self, architectures: &[Architecture], inside: bool) -> Result<Vec<M::Amount>, QueryError> {
        loop {
            let before = self.statistics;
            let (sums, uncertain) = self.answers(architectures, inside)?;
            let mut agreed = true;
            for (index, anyway) in uncertain {
                agreed &= self.compare(&architectures[index], &sums[index], anyway)?;
            }
            if agreed {
                return Ok(sums);
            }
            (self.statistics.by_tables, self.statistics.by_graphs) = (before.by_tables, before.by_graphs);
        }
    }

    /// Sums, and which of them are to be compared: a class of theirs still needs it, or it is their turn.
    fn answers(&mut self, architectures: &[Architecture], inside: bool) -> Result<Answers<M::Amount>, QueryError> {
        let mut sums = vec![M::Amount::default(); architectures.len()];
        let (mut uncertain, mut places) = (Vec::new(), Vec::new());
        let mut open: Vec<usize> = (0..architectures.len()).collect();
        while !open.is_empty() {
            let mut wanted = Wanted { classes: BTreeSet::new(), rows: HashSet::new(), amounts: BTreeMap::new() };
            let mut waiting = Vec::new();
            for index in open {
                match self.look_up(&architectures[index], inside, &mut places, &mut wanted) {
                    Answer::Found(sum, new) => {
                        sums[index] = sum;
                        self.statistics.by_tables += 1;
                        let turn = self.statistics.by_tables.is_multiple_of(ONE_IN);
                        if new || turn {
                            uncertain.push((index, turn));
                        }
                    }
                    Answer::Waiting => waiting.push(index),
                    Answer::Irregular => {
                        sums[index] = self.sum_by_graph(&architectures[index])?;
                        self.statistics.by_graphs += 1;
                    }
                }
            }
            self.learn(wanted)?;
            open = waiting;
        }
        Ok((sums, uncertain))
    }

    /// Adds up the rows of an architecture; `places` is room to work in.
    fn look_up(&self, architecture: &Architecture, inside: bool, places: &mut Vec<(usize, i64)>, wanted: &mut Wanted<M::Context>) -> Answer<M::Amount> {
        if !self.meter.is_local() || (!inside && self.space.contains(architecture).is_err()) {
            return Answer::Irregular;
        }
        places.clear();
        let (mut span, mut complete, mut new) = (Span::default(), true, false);
        for (link, times) in links(architecture) {
            let (class, known) = self.known(link.class());
            match known {
                Known::Nothing => {
                    wanted.classes.insert(class);
                    complete = false;
                }
                Known::Template(lookup) if lookup.template.covers(link.numbers) => {
                    new |= self.compared[usize::from(link.class())] < COMPARED;
                    for &index in &lookup.groups {
                        let key = link.numbers.0 & self.groups[index].mask;
                        match self.groups[index].places.get(&key) {
                            Some(&place) => {
                                span = span.plus(&self.rows[place].span, times);
                                places.push((place, times));
                            }
                            None => {
                                wanted.rows.insert((index, key));
                                complete = false;
                            }
                        }
                    }
                }
                _ => return Answer::Irregular,
            }
        }
        if !complete {
            return Answer::Waiting;
        }
        let (context, mut sum) = (self.meter.context(&span), M::Amount::default());
        for &(place, times) in places.iter() {
            match self.rows[place].amount(context) {
                Some(amount) => sum = sum.plus(amount, times),
                None => {
                    wanted.amounts.entry(context).or_default().insert(place);
                    complete = false;
                }
            }
        }
        if complete { Answer::Found(sum, new) } else { Answer::Waiting }
    }

    /// What is known of a class, or of the coarse one where that is enough; and which of them it is.
    fn known(&self, class: Class) -> (Class, &Known) {
        let whole = coarse(class);
        match &self.classes[usize::from(whole)] {
            Known::Split => (class, &self.classes[usize::from(class)]),
            known => (whole, known),
        }
    }

    /// Finds templates and computes rows.
    fn learn(&mut self, wanted: Wanted<M::Context>) -> Result<(), QueryError> {
        for class in wanted.classes {
            self.classes[usize::from(class)] = match self.template(class)? {
                Some(template) => Known::Template(self.placed(template)),
                None => unlearned(class),
            };
        }
        if self.rows.len() > MOST_ROWS {
            self.rows.clear();
            self.groups.iter_mut().for_each(|group| group.places.clear());
            return Ok(());
        }
        for (context, places) in wanted.amounts {
            let places: Vec<usize> = places.into_iter().collect();
            places.chunks(TOGETHER).for_each(|some| self.fill(some, context));
        }
        let mut rows: Vec<(usize, u128)> = wanted.rows.into_iter().collect();
        rows.sort_unstable();
        for (group, key) in rows {
            let span = self.kernels(group, key).fold(Span::default(), |span, (kernel, times)| span.plus(&Span::of(&kernel), times));
            self.groups[group].places.insert(key, self.rows.len());
            self.rows.push(Row { group, key, span, first: None, others: Vec::new() });
        }
        Ok(())
    }

    /// The kernels of a row, and how often each counts.
    fn kernels(&self, group: usize, key: u128) -> impl Iterator<Item = (OpSpec, i64)> {
        self.groups[group].patterns.iter().map(move |(pattern, times)| (pattern.at(Numbers(key)), *times))
    }

    fn template(&mut self, class: Class) -> Result<Option<Template>, QueryError> {
        let pool = self.pool.get_or_insert_with(|| Pool::draw(&self.space));
        let (links, Some(like)) = pool.examples(class) else { return Ok(None) };
        let mut examples = Vec::with_capacity(links.len());
        for link in &links {
            examples.extend(self.example(link, &like)?);
        }
        Ok(Template::fit(examples, CHECKS, links.first().is_some_and(Link::attention)))
    }

    /// The kernels that a stage adds, by lowering.
    fn example(&self, link: &Link, like: &Architecture) -> Result<Option<Example>, QueryError> {
        let Some(window) = link.window(like) else { return Ok(None) };
        let counted = |architecture: &Architecture, times: i64| -> Result<Vec<(OpSpec, i64)>, QueryError> {
            Ok(self.meter.kernels(&architecture.to_graph()?)?.into_iter().map(|op| (op, times)).collect())
        };
        let mut kernels = counted(&window.plus, 1)?;
        if let Some(minus) = &window.minus {
            kernels.extend(counted(minus, -1)?);
        }
        Ok(Some(Example { numbers: link.numbers, kernels }))
    }

    /// Gives a template's groups their rows; groups that other templates have too are shared.
    fn placed(&mut self, mut template: Template) -> Lookup {
        let mut groups = Vec::with_capacity(template.groups.len());
        for (mask, patterns) in std::mem::take(&mut template.groups) {
            let fresh = self.groups.len();
            let index = *self.group_of.entry((mask, patterns.clone())).or_insert(fresh);
            if index == fresh {
                self.groups.push(Group { mask, patterns, places: HashMap::default() });
            }
            groups.push(index);
        }
        Lookup { template, groups }
    }

    /// Computes what rows come to in a context.
    fn fill(&mut self, places: &[usize], context: M::Context) {
        let kernels: Vec<OpSpec> = places.iter().flat_map(|&place| self.kernels(self.rows[place].group, self.rows[place].key)).map(|(op, _)| op).collect();
        let mut amounts = self.meter.measure(&kernels, context).into_iter();
        for &place in places {
            let patterns = &self.groups[self.rows[place].group].patterns;
            let sum = patterns.iter().zip(amounts.by_ref()).fold(M::Amount::default(), |sum, ((_, times), amount)| sum.plus(&amount, *times));
            self.rows[place].keep(context, sum);
        }
    }

    /// Compares an answer of tables with the graph's, if one of its classes needs that or `anyway`; classes that disagree are not asked again.
    fn compare(&mut self, architecture: &Architecture, sum: &M::Amount, anyway: bool) -> Result<bool, QueryError> {
        let classes: BTreeSet<Class> = links(architecture).map(|(link, _)| link.class()).collect();
        if !anyway && classes.iter().all(|class| self.compared[usize::from(*class)] >= COMPARED) {
            return Ok(true);
        }
        let agrees = sum.agrees(&self.sum_by_graph(architecture)?);
        self.statistics.compared += 1;
        self.statistics.disagreed += u64::from(!agrees);
        if agrees {
            for class in classes {
                let count = &mut self.compared[usize::from(class)];
                *count = count.saturating_add(1);
            }
        } else {
            let wrong: BTreeSet<Class> = classes.iter().map(|class| self.known(*class).0).collect();
            wrong.into_iter().for_each(|class| self.classes[usize::from(class)] = unlearned(class));
        }
        Ok(agrees)
    }
}

/// What becomes of a class whose template is missing or wrong: the finer ones have their turn, where there are any.
fn unlearned(class: Class) -> Known {
    if is_coarse(class) { Known::Split } else { Known::Irregular }
}

/// Mixes the 128 bits of a row's key: a folded product.
#[derive(Default)]
pub(super) struct RowHasher(u64);

impl Hasher for RowHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(16) {
            let mut padded = [0; 16];
            padded[..chunk.len()].copy_from_slice(chunk);
            self.write_u128(u128::from_le_bytes(padded));
        }
    }

    fn write_u128(&mut self, bits: u128) {
        let (low, high) = (bits as u64 ^ self.0 ^ 0x9e37_79b9_7f4a_7c15, (bits >> 64) as u64 ^ 0xbf58_476d_1ce4_e5b9);
        let product = u128::from(low) * u128::from(high);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}
