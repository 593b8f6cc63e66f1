//! [`RunPlan::check`]: whether names, indices and numbers of a plan fit each other.

use super::{
    PlanSubgraph, PlanTask, RunError, RunPlan,
    file::{FORMAT, VERSION},
};
use std::collections::BTreeSet;
use vitempo_planners::multi_dnn::{Arrivals, MOST_PROCESSORS};

impl RunPlan {
    /// Checks that names, indices and numbers fit each other.
    ///
    /// # Errors
    /// [`RunError::Invalid`] naming the field.
    pub fn check(&self) -> Result<(), RunError> {
        if self.format != FORMAT || self.version != VERSION {
            let reason = format!(
                "`{}` version {}; this program reads `{FORMAT}` version {VERSION}",
                self.format, self.version
            );
            return Err(self.invalid("format", reason));
        }
        let count = self.processors.len();
        if !(1..=MOST_PROCESSORS).contains(&count) {
            let reason = format!("{count} of them; 1 to {MOST_PROCESSORS}");
            return Err(self.invalid("processors", reason));
        }
        self.unique("processors", self.processors.iter().map(|p| &p.name))?;
        self.unique("tasks", self.tasks.iter().map(|task| &task.name))?;
        if self.tasks.is_empty() {
            return Err(self.invalid("tasks", "there is none"));
        }
        for (index, task) in self.tasks.iter().enumerate() {
            self.check_task(&format!("tasks[{index}]"), task)?;
        }
        self.check_phases()?;
        let square =
            |rows: &Vec<Vec<f64>>| rows.len() == count && rows.iter().all(|row| row.len() == count);
        let slower = |rows: &Vec<Vec<f64>>| {
            rows.iter().flatten().all(|factor| factor.is_finite() && *factor >= 1.0)
        };
        if self.slowdown.as_ref().is_some_and(|rows| !square(rows) || !slower(rows)) {
            let reason = format!("{count} rows of {count} factors, each 1 or more");
            return Err(self.invalid("slowdown", reason));
        }
        match &self.arrivals {
            Arrivals::Over { tasks, .. } if tasks.len() != self.tasks.len() => {
                let reason = format!("{} tasks instead of {}", tasks.len(), self.tasks.len());
                Err(self.invalid("arrivals", reason))
            }
            Arrivals::AtOnce if self.phases.len() > 1 => {
                Err(RunError::ChangeAtOnce { at_ns: self.phases[1].from_ns })
            }
            _ => Ok(()),
        }
    }

    fn unique<'a>(
        &self,
        field: &str,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<(), RunError> {
        let mut seen = BTreeSet::new();
        match names.into_iter().find(|name| !seen.insert(*name)) {
            None => Ok(()),
            Some(twice) => Err(self.invalid(field, format!("`{twice}` is listed twice"))),
        }
    }

    fn check_task(&self, field: &str, task: &PlanTask) -> Result<(), RunError> {
        let positions = task.positions();
        if !task.nodes.is_empty() && (!task.cuts.is_empty() || task.variants.len() != 1) {
            let reason = "a model that is divided by its nodes has no cuts, and one variant";
            return Err(self.invalid(format!("{field}.nodes"), reason));
        }
        self.unique(&format!("{field}.variants"), task.variants.iter().map(|v| &v.name))?;
        for (index, way) in task.ways.iter().enumerate() {
            let field = format!("{field}.ways[{index}]");
            if way.variants.len() != positions {
                let reason = format!("{} variants for {positions} positions", way.variants.len());
                return Err(self.invalid(field, reason));
            }
            let mut next = 1;
            for piece in &way.pieces {
                if self.processor(&piece.processor).is_none() {
                    let reason = format!("there is no processor `{}`", piece.processor);
                    return Err(self.invalid(field, reason));
                }
                if piece.first != next || piece.last < piece.first {
                    let reason = format!("a piece of positions {} to {}", piece.first, piece.last);
                    return Err(self.invalid(field, reason));
                }
                next = piece.last.saturating_add(1);
            }
            if next != positions + 1 {
                let reason = format!("its pieces do not cover all {positions} positions");
                return Err(self.invalid(field, reason));
            }
            for (place, variant) in way.variants.iter().enumerate() {
                let is_listed = |s: &PlanSubgraph| s.position == place + 1 && s.variant == *variant;
                if !task.variants.iter().any(|v| v.name == *variant)
                    || !task.subgraphs.iter().any(is_listed)
                {
                    let reason =
                        format!("variant `{variant}` at position {} is not listed", place + 1);
                    return Err(self.invalid(field, reason));
                }
            }
        }
        Ok(())
    }

    fn check_phases(&self) -> Result<(), RunError> {
        if self.phases.first().is_none_or(|phase| phase.from_ns != 0) {
            return Err(self.invalid("phases", "the first one begins at 0"));
        }
        if !self.phases.is_sorted_by(|a, b| a.from_ns < b.from_ns) {
            return Err(self.invalid("phases", "times are not rising"));
        }
        for (index, phase) in self.phases.iter().enumerate() {
            let field = format!("phases[{index}]");
            if phase.tasks.len() != self.tasks.len() {
                let reason = format!("{} tasks instead of {}", phase.tasks.len(), self.tasks.len());
                return Err(self.invalid(field, reason));
            }
            for (own, task) in phase.tasks.iter().zip(&self.tasks) {
                let mut ways = own.ways.iter().chain(&own.fallbacks);
                if own.ways.is_empty() || ways.any(|&way| way >= task.ways.len()) {
                    let reason = format!(
                        "task `{}` has ways {:?} and fallbacks {:?} of {}",
                        task.name,
                        own.ways,
                        own.fallbacks,
                        task.ways.len()
                    );
                    return Err(self.invalid(field, reason));
                }
            }
        }
        Ok(())
    }
}
