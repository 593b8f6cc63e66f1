//! Energy, temperatures, frequency levels and policies: the update once per tick, and the sum of
//! the energy.

use super::{Engine, Event, Policy, Reading, Throttle};

impl Engine<'_, '_> {
    /// Adds the energy of a processor since the last update.
    pub(super) fn account(&mut self, processor: usize) {
        let model = &self.scenario.processors[processor];
        let state = &mut self.processors[processor];
        let elapsed_ns = self.now_ns - state.accounted_ns;
        let watts = if state.running.is_some() { model.busy_w(state.level) } else { model.idle_w };
        state.energy_j += watts * elapsed_ns as f64 / 1e9;
        if let Some(running) = &state.running {
            state.busy_by_stream_ns[running.job.stream] += elapsed_ns;
        }
        state.accounted_ns = self.now_ns;
    }

    pub(super) fn tick(&mut self) {
        (0..self.processors.len()).for_each(|processor| self.account(processor));
        self.heat();
        self.apply_policies();
        self.events.at(self.now_ns + self.scenario.tick_ns, Event::Tick);
    }

    /// A step of the temperatures, and the frequency levels that follow.
    fn heat(&mut self) {
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
    }

    fn apply_policies(&mut self) {
        for index in 0..self.streams.len() {
            let stream = &self.scenario.streams[index];
            let check_ns = match stream.policy {
                Policy::First => continue,
                Policy::SwitchAbove { check_ns, .. } | Policy::SwitchAboveLoad { check_ns, .. } => {
                    check_ns
                }
            };
            if self.now_ns - self.streams[index].checked_ns < check_ns {
                continue;
            }
            let (current, count) = (self.streams[index].alternative, stream.alternatives.len());
            let next = match stream.policy {
                Policy::First => current,
                Policy::SwitchAbove { skin_c, .. } => {
                    let state = self.thermal.as_ref().map(|(_, state)| state.skin_c);
                    if state > Some(skin_c) { (current + 1) % count } else { current }
                }
                Policy::SwitchAboveLoad { busy_share, .. } => (0..count)
                    .find(|&alternative| self.load_of_others(index, alternative) <= busy_share)
                    .unwrap_or(current),
            };
            let others_ns = (0..self.processors.len()).map(|p| self.others_ns(index, p)).collect();
            let state = &mut self.streams[index];
            (state.checked_ns, state.checked_others_ns) = (self.now_ns, others_ns);
            state.switches += u64::from(next != current);
            state.alternative = next;
        }
    }

    /// Time for which a processor worked for other streams, ns.
    fn others_ns(&self, stream: usize, processor: usize) -> u64 {
        let times = self.processors[processor].busy_by_stream_ns.iter().enumerate();
        times.filter(|(other, _)| *other != stream).map(|(_, ns)| ns).sum()
    }

    /// The largest share of the time since the last check for which a processor of an alternative
    /// worked for other streams.
    fn load_of_others(&self, stream: usize, alternative: usize) -> f64 {
        let state = &self.streams[stream];
        let since_ns = (self.now_ns - state.checked_ns).max(1) as f64;
        let stages = &self.scenario.streams[stream].alternatives[alternative];
        let used = stages.iter().flat_map(|s| s.steps.iter().flatten()).map(|t| t.processor);
        let load = |processor: usize| {
            let before = state.checked_others_ns.get(processor).copied().unwrap_or(0);
            (self.others_ns(stream, processor) - before) as f64 / since_ns
        };
        used.map(load).fold(0.0, f64::max)
    }
}
