//! Before the clock starts: results of whole models, loading, and warm-up.

use super::{super::RunError, LoadWhen, Place, Runtime};
use std::{collections::BTreeMap, sync::Arc};

impl Runtime<'_> {
    /// Results of whole models; then loads what fits and runs each way once that is loaded wholly.
    pub fn prepare(&mut self) -> Result<(), RunError> {
        let mut empty: BTreeMap<usize, Option<u64>> = BTreeMap::new();
        for (lane, route) in self.routes.routes.iter().enumerate() {
            let processor = route.lane.steps[0].processor;
            let (values, resident_bytes) = self.session.expected(lane, processor, route.task)?;
            self.wholes.push(values);
            empty.insert(processor, resident_bytes);
        }
        for (processor, resident_bytes) in empty {
            self.resident(processor, resident_bytes, 0, 0);
        }
        if self.options.cold || self.plan.cold {
            return Ok(());
        }
        let sizes: BTreeMap<Place, u64> = (0..self.plan.processors.len())
            .flat_map(|p| (0..self.session.parts.len()).map(move |part| (p, part)))
            .map(|place| (place, self.session.parts[place.1].bytes))
            .collect();
        for (processor, part) in self.memory.first(&sizes) {
            let load = self.session.rig.load(processor, part)?;
            let parts = [(part, self.session.parts[part].bytes)];
            self.memory.pin(processor, &parts);
            self.memory.unpin(processor, &parts);
            if let Some(load) = load {
                self.loaded(processor, load, 0, LoadWhen::Before);
                let loaded_bytes = self.memory.bytes_on(processor);
                self.resident(processor, load.resident_bytes, loaded_bytes, 0);
            }
        }
        self.warm_up()
    }

    fn warm_up(&self) -> Result<(), RunError> {
        for (route, steps) in self.routes.routes.iter().zip(&self.session.steps) {
            let places = || {
                let each = route.lane.steps.iter().zip(steps);
                each.flat_map(|(step, parts)| parts.iter().map(|part| (step.processor, part.0)))
            };
            if !places().all(|place| self.memory.holds(place)) {
                continue;
            }
            let mut values = self.session.inputs[route.task].clone();
            for (processor, part) in places() {
                let answer = self.session.rig.ask(part, processor, &values)?.wait()?;
                values = answer.values.into_iter().map(Arc::new).collect();
            }
        }
        Ok(())
    }
}
