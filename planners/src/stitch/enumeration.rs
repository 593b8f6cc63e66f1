//! Enumerates every stitched variant of a task: the reference for tests of exact methods, and the
//! method where there are few.

use super::{Order, StitchError, Zoo};

/// Largest number of stitched variants that are enumerated.
pub const MOST_ENUMERATED: u128 = 1 << 20;

/// Visits every stitched variant that can run in an order, with its latency (ns) and accuracy
/// (basis points), the last position changing fastest.
///
/// # Errors
/// [`StitchError::TooMany`] above [`MOST_ENUMERATED`].
pub fn each_variant(
    zoo: &Zoo,
    task: usize,
    order: &Order,
    mut visit: impl FnMut(&[usize], u64, u32),
) -> Result<(), StitchError> {
    zoo.check_order(order)?;
    let found = zoo
        .tasks()
        .get(task)
        .ok_or_else(|| StitchError::zoo(format!("there is no task {task}")))?;
    let count = zoo.stitched_variants(task).unwrap_or(u128::MAX);
    if count > MOST_ENUMERATED {
        return Err(StitchError::TooMany {
            task: found.name.clone(),
            variants: count,
            what: "enumeration",
            most: MOST_ENUMERATED,
        });
    }
    let parts = zoo.parts(task, order);
    if parts.iter().any(Vec::is_empty) {
        return Ok(());
    }
    let mut at = vec![0; parts.len()];
    let mut stitched = vec![0; parts.len()];
    loop {
        let mut latency_ns = 0u64;
        for ((chosen, row), &index) in stitched.iter_mut().zip(&parts).zip(&at) {
            *chosen = row[index].variant;
            latency_ns = latency_ns.saturating_add(row[index].latency_ns);
        }
        visit(&stitched, latency_ns, found.accuracy.of(&stitched));
        // The next variant: a counter whose digits have the sizes of the rows.
        let Some(digit) = at.iter().zip(&parts).rposition(|(&index, row)| index + 1 < row.len())
        else {
            return Ok(());
        };
        at[digit] += 1;
        at[digit + 1..].fill(0);
    }
}
