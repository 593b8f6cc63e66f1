//! Energy, temperatures, frequency levels and policies: the update once per tick, and the sum of
//! the energy.

use super::{Engine, Event, Policy, Reading, Throttle};

impl Engine<'_, '_> {
    /// Adds the energy of a processor since the last update.
    pub(super) fn account(&mut self, processor: usize) {
        let model = &self.scenario.processors[processor];
        let state = &mut self.processors[processor];
        let watts = if state.running.is_some() { model.busy_w(state.level) } else { model.idle_w };
        state.energy_j += watts * (self.now_ns - state.accounted_ns) as f64 / 1e9;
        state.accounted_ns = self.now_ns;
    }

    pub(super) fn tick(&mut self) {
        (0..self.processors.len()).for_each(|processor| self.account(processor));
        let seconds = self.scenario.tick_ns as f64 / 1e9;
        let drawn: f64 = self.processors.iter().map(|p| p.energy_j).sum();
        let watts = self.scenario.base_w + (drawn - self.ticked_energy_j) / seconds;
        self.ticked_energy_j = drawn;
        let levels: Vec<usize> = self.processors.iter().map(|p| p.level).collect();
        let Some((model, state)) = &mut self.thermal else { return };
        state.step(model, watts, seconds);
        let wanted = if model.throttle == Throttle::Never {
            levels.clone()
        } else {
            state.levels(model.throttle, &self.scenario.processors, &levels)
        };
        let (junction_c, skin_c) = (state.junction_c, state.skin_c);
        for (processor, (level, wanted)) in levels.into_iter().zip(wanted).enumerate() {
            if level != wanted {
                self.processors[processor].level = wanted;
                self.reschedule(processor);
            }
        }
        let ghz = self
            .processors
            .iter()
            .zip(&self.scenario.processors)
            .map(|(state, model)| model.ghz(state.level))
            .collect();
        self.readings.push(Reading { time_ns: self.now_ns, watts, junction_c, skin_c, ghz });
        self.apply_policies(skin_c);
        self.events.at(self.now_ns + self.scenario.tick_ns, Event::Tick);
    }

    pub(super) fn apply_policies(&mut self, temperature: f64) {
        for (state, stream) in self.streams.iter_mut().zip(&self.scenario.streams) {
            let Policy::SwitchAbove { skin_c, check_ns } = stream.policy else { continue };
            if self.now_ns - state.checked_ns >= check_ns {
                state.checked_ns = self.now_ns;
                if temperature > skin_c {
                    state.alternative = (state.alternative + 1) % stream.alternatives.len();
                }
            }
        }
    }
}
