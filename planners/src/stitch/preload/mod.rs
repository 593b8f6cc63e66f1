//! Chooses the subgraphs that stay in memory, so that variants can be changed without compiling and
//! loading.
//!
//! | way | where |
//! |---|---|
//! | algorithm 2 as printed: at most one subgraph for each task and position | [`as_printed`] |
//! | the same, round after round until nothing fits | [`round_robin`] |
//! | the most objectives that loaded subgraphs can meet, by exact search | [`exact`](mod@exact) |
//! | the same, where tasks can fetch subgraphs for their present objectives | [`exact_with_present`] |
//! | faster variants in what is left of the budget | [`with_faster`] |
//!
//! Memory is that of the subgraph on its position's processor in the chosen order.

mod bound;
mod cover;
pub mod exact;
mod faster;
mod fetched;
mod greedy;

pub use super::loaded::Loaded;
pub use exact::{Exact, Present, exact, exact_with_present};
pub use faster::with_faster;
pub use greedy::{as_printed, round_robin};

use super::{Order, Slo, StitchError, Zoo, menu::Menu};

impl Loaded {
    /// The number of objectives, over all tasks and configurations, that some fully loaded variant
    /// meets in an order.
    ///
    /// # Errors
    /// [`StitchError::Zoo`] for an order that does not fit.
    pub fn keeps(
        &self,
        zoo: &Zoo,
        order: &Order,
        configurations: &[Vec<Slo>],
    ) -> Result<usize, StitchError> {
        zoo.check_order(order)?;
        zoo.check_configurations(configurations)?;
        let menus: Vec<Option<Menu<'_>>> =
            (0..zoo.tasks().len()).map(|task| Menu::new(zoo, task, order, Some(self))).collect();
        let kept = |menu: &Option<Menu<'_>>, slo: &Slo| {
            menu.as_ref()
                .and_then(|m| m.fastest(slo.accuracy_bp))
                .is_some_and(|s| s.latency_ns <= slo.latency_ns)
        };
        Ok(configurations
            .iter()
            .map(|slos| menus.iter().zip(slos).filter(|(menu, slo)| kept(menu, slo)).count())
            .sum())
    }
}
