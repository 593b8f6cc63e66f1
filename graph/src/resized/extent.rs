//! [`Dimension`]: an extent as the product of its factors, old and new; [`Known`]: all factors
//! found so far.

use crate::spending::Spending;
use foldhash::{HashMap, HashSet};
use std::{cell::RefCell, collections::VecDeque};

/// The side of the image that an extent comes from; products of both have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    Height,
    Width,
}

/// An extent before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    pub old: usize,
    pub new: usize,
    pub side: Option<Side>,
}

impl Extent {
    pub fn new(old: usize, new: usize, side: Option<Side>) -> Self {
        Self { old, new, side }
    }

    pub fn changed(self) -> bool {
        self.old != self.new
    }

    /// Whether a product is the same without it.
    pub fn is_one(self) -> bool {
        self.old == 1 && self.new == 1
    }
}

/// Factors in the order in which they lie in memory; their product is the extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dimension(pub Vec<Extent>);

impl Dimension {
    pub fn of(extent: Extent) -> Self {
        Self(vec![extent])
    }

    /// The product.
    pub fn whole(&self) -> Extent {
        let product =
            |of: fn(&Extent) -> usize| self.0.iter().map(of).fold(1usize, usize::saturating_mul);
        let mut sides = self.0.iter().filter(|e| e.changed()).map(|e| e.side);
        let first = sides.next().flatten();
        let side = first.filter(|side| sides.all(|other| other == Some(*side)));
        Extent::new(product(|e| e.old), product(|e| e.new), side)
    }
}

/// Dimensions that changed, and what the last tensor of each shape became. Each question takes the
/// same number of steps, however many dimensions there are.
#[derive(Debug)]
pub struct Known {
    dimensions: HashSet<Dimension>,
    /// The first dimension of several factors, by its old and new extent.
    factors: HashMap<(usize, usize), Dimension>,
    /// The new value of an old one, by the side, or of any side; `None` where there are several.
    became: HashMap<(usize, Option<Side>), Option<usize>>,
    shapes: HashMap<Vec<i64>, Vec<usize>>,
    parts: RefCell<Parts>,
    spending: Spending,
}

/// Sizes of windows, and numbers of windows, that extents were cut into, each with the first extent;
/// `None` where extents differ. One that several extents have in common is a constant of the model.
#[derive(Debug, Default)]
struct Parts {
    windows: HashMap<usize, Option<usize>>,
    counts: HashMap<usize, Option<usize>>,
}

/// Whether other extents were cut into such a part, too.
fn recurs(parts: &mut HashMap<usize, Option<usize>>, part: usize, extent: usize) -> bool {
    let first = parts.entry(part).or_insert(Some(extent));
    *first = first.filter(|&first| first == extent);
    first.is_none()
}

/// Why nothing more is followed; the refusal is in the [`Spending`].
pub const SPENT: &str = "the budget is spent";

impl Known {
    pub fn new(spending: Spending) -> Self {
        Self {
            dimensions: HashSet::default(),
            factors: HashMap::default(),
            became: HashMap::default(),
            shapes: HashMap::default(),
            parts: RefCell::default(),
            spending,
        }
    }

    /// Takes steps, and the memory of so many factors, from the budget.
    pub fn spend(&self, steps: usize, factors: usize) -> Result<(), String> {
        let bytes = factors.saturating_mul(size_of::<Extent>()) as u64;
        let steps = steps.saturating_add(factors) as u64;
        let granted = self.spending.steps(steps) && self.spending.bytes(bytes);
        if granted { Ok(()) } else { Err(SPENT.to_owned()) }
    }

    pub fn spending(&self) -> &Spending {
        &self.spending
    }

    pub fn remember(&mut self, dimension: &Dimension) {
        let whole = dimension.whole();
        if !whole.changed() || self.dimensions.contains(dimension) {
            return;
        }
        self.dimensions.insert(dimension.clone());
        if dimension.0.len() > 1 {
            self.factors.entry((whole.old, whole.new)).or_insert_with(|| dimension.clone());
        }
        let mut became = |side| {
            let new = self.became.entry((whole.old, side)).or_insert(Some(whole.new));
            *new = new.filter(|new| *new == whole.new);
        };
        became(None);
        if whole.side.is_some() {
            became(whole.side);
        }
    }

    /// A tensor of this shape was computed; it has changed to another.
    pub fn remember_shape(&mut self, old: &[usize], new: &[usize]) {
        self.shapes.insert(old.iter().map(|&d| d as i64).collect(), new.to_vec());
    }

    /// What the last tensor of a shape became.
    pub fn last_of(&self, old: &[i64]) -> Option<&[usize]> {
        self.shapes.get(old).map(Vec::as_slice)
    }

    /// Both sides of an image or a grid, and their product: tokens in one row.
    pub fn sides(&mut self, height: Extent, width: Extent) {
        self.remember(&Dimension::of(height));
        self.remember(&Dimension::of(width));
        if !height.is_one() && !width.is_one() {
            self.remember(&Dimension(vec![height, width]));
        }
    }

    /// An extent, with the factors that are known for one that changed in the same way.
    pub fn dimension(&self, extent: Extent) -> Dimension {
        self.factors(extent).cloned().unwrap_or_else(|| Dimension::of(extent))
    }

    fn factors(&self, extent: Extent) -> Option<&Dimension> {
        if extent.changed() { self.factors.get(&(extent.old, extent.new)) } else { None }
    }

    /// The new value of an extent of this side elsewhere, if it is always the same.
    pub fn became(&self, old: usize, side: Option<Side>) -> Option<usize> {
        self.became.get(&(old, side)).copied().flatten()
    }

    /// Cuts a part of old extent `wanted` off the front of `rest`.
    pub fn cut(&self, rest: &mut VecDeque<Extent>, wanted: usize) -> Result<Dimension, String> {
        let mut taken: Vec<Extent> = Vec::new();
        let mut left = wanted;
        while left > 1 {
            let Some(first) = rest.pop_front() else {
                return Err("its elements cannot be shared out".to_owned());
            };
            self.spend(1, 1)?;
            if first.old <= left && left.is_multiple_of(first.old) {
                left /= first.old;
                taken.push(first);
                continue;
            }
            let parts = self.split(first, left)?;
            self.spend(0, parts.len())?;
            parts.into_iter().rev().for_each(|part| rest.push_front(part));
        }
        if taken.is_empty() {
            taken.push(Extent::new(1, 1, None));
        }
        Ok(Dimension(taken))
    }

    /// Refuses an image that is cut into one window of the model's size: a larger one has several.
    pub fn check_window(&self, height: Extent, width: Extent) -> Result<(), String> {
        let parts = self.parts.borrow();
        let is_window = |e: Extent| e.changed() && parts.windows.contains_key(&e.old);
        if is_window(height) && is_window(width) {
            return Err(format!(
                "it is one window of {}, and other sizes have several: export the model at that size",
                height.old
            ));
        }
        Ok(())
    }

    /// An extent as two or more, the first of which divides `front`.
    fn split(&self, extent: Extent, front: usize) -> Result<Vec<Extent>, String> {
        let itself = |e: &Extent| (e.old, e.new) == (extent.old, extent.new);
        if let Some(known) = self
            .factors(extent)
            .filter(|d| front.is_multiple_of(d.0[0].old) || d.0[0].old.is_multiple_of(front))
            .filter(|d| !d.0.iter().any(itself))
        {
            return Ok(known.0.clone());
        }
        let Extent { old, new, side } = extent;
        let front = gcd(old, front);
        let back = old / front;
        match (front, back) {
            (1, _) => Err(format!("{old} cannot be cut there")),
            _ if old == new => {
                Ok(vec![Extent::new(front, front, side), Extent::new(back, back, side)])
            }
            // Windows have a fixed size; there are more of them in a larger image.
            _ if new.is_multiple_of(back) => {
                let parts = &mut *self.parts.borrow_mut();
                recurs(&mut parts.windows, back, old);
                if recurs(&mut parts.counts, front, old) {
                    return Err(format!("images are cut into {front} parts whatever their size"));
                }
                Ok(vec![Extent::new(front, new / back, side), Extent::new(back, back, None)])
            }
            _ if new.is_multiple_of(front) => {
                if recurs(&mut self.parts.borrow_mut().windows, back, old) {
                    return Err(format!(
                        "{old} is cut into windows of {back}, and {new} is no multiple of it: \
                        choose a size that is"
                    ));
                }
                Ok(vec![Extent::new(front, front, None), Extent::new(back, new / front, side)])
            }
            _ => Err(format!(
                "{old} is cut into {front} x {back}, and {new} is a multiple of neither: choose a \
                size that is"
            )),
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
