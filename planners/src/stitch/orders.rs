//! [`Order`]: which processor runs which position, the same for all tasks; and the sets of orders a
//! plan may choose from.

use super::StitchError;

/// Largest number of orders that are listed.
const MOST_ORDERS: u128 = 100_000;

/// The processor of each position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order(Vec<usize>);

impl Order {
    /// An order from processor indices by position.
    #[must_use]
    pub const fn new(processors: Vec<usize>) -> Self {
        Self(processors)
    }

    /// Processor indices by position.
    #[must_use]
    pub fn processors(&self) -> &[usize] {
        &self.0
    }
}

/// Every order in which no processor has two positions (the paper's: P! of them where there are as
/// many positions as processors).
///
/// # Errors
/// [`StitchError::Zoo`] for more positions than processors, and for too many orders.
pub fn each_once(processors: usize, positions: usize) -> Result<Vec<Order>, StitchError> {
    if positions > processors {
        let reason = format!(
            "{positions} positions on {processors} processors: each can take one only; let \
            processors take several, or cut into fewer subgraphs"
        );
        return Err(StitchError::zoo(reason));
    }
    let count = (0..positions)
        .try_fold(1u128, |count, taken| count.checked_mul((processors - taken) as u128));
    list(processors, positions, true, count)
}

/// All P^S orders: processors may have several positions, and some none.
///
/// # Errors
/// [`StitchError::Zoo`] for too many orders.
pub fn any(processors: usize, positions: usize) -> Result<Vec<Order>, StitchError> {
    let count = u32::try_from(positions)
        .ok()
        .and_then(|positions| (processors as u128).checked_pow(positions));
    list(processors, positions, false, count)
}

/// All orders in which `count` tasks can arrive.
///
/// # Errors
/// [`StitchError::Zoo`] for too many tasks.
pub fn arrivals(count: usize) -> Result<Vec<Vec<usize>>, StitchError> {
    Ok(each_once(count, count)?.into_iter().map(|order| order.0).collect())
}

fn list(
    processors: usize,
    positions: usize,
    once: bool,
    count: Option<u128>,
) -> Result<Vec<Order>, StitchError> {
    if count.is_none_or(|count| count > MOST_ORDERS) {
        return Err(StitchError::zoo(format!(
            "{positions} places for {processors}: more than {MOST_ORDERS} orders"
        )));
    }
    let mut orders = vec![Vec::new()];
    for _ in 0..positions {
        let longer = |order: &Vec<usize>| {
            let free = (0..processors).filter(|p| !once || !order.contains(p));
            free.map(|p| [order.as_slice(), &[p]].concat()).collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    Ok(orders.into_iter().map(Order).collect())
}
