//! Temperatures of chip and skin, and throttling.
//!
//! Two nodes: C_j dT_j/dt = P - (T_j - T_s) / R_js and C_s dT_s/dt = (T_j - T_s) / R_js - (T_s -
//! T_a) / R_sa, stepped once per tick (explicit Euler), in shorter steps where a time constant is
//! below the tick. Throttling chooses frequency levels: from a
//! power budget by a PID rule as in the Linux kernel's power allocator, or step by step around a
//! trip point.

use super::{constants::Constants, device::ProcessorModel};
use serde::{Deserialize, Serialize};

/// Heat capacities, resistances, and the rule that keeps the chip cool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thermal {
    /// Temperature of the air, degrees Celsius.
    pub ambient_c: f64,
    /// Thermal resistance from chip to skin, K/W.
    pub junction_to_skin_k_per_w: f64,
    /// Heat capacity of the chip, J/K.
    pub junction_j_per_k: f64,
    /// Thermal resistance from skin to air, K/W.
    pub skin_to_ambient_k_per_w: f64,
    /// Heat capacity of the skin, J/K.
    pub skin_j_per_k: f64,
    /// Initial temperature of both nodes, degrees Celsius.
    pub start_c: f64,
    /// The rule of the governor.
    pub throttle: Throttle,
}

/// Most steps within a tick.
const MOST_STEPS: f64 = 1000.0;

impl Thermal {
    /// Steps within a tick of so many seconds: none is longer than the time constant of a node, so
    /// that temperatures approach their steady state from one side.
    fn steps(&self, seconds: f64) -> f64 {
        let [outward, away] = [self.junction_to_skin_k_per_w, self.skin_to_ambient_k_per_w];
        let junction_per_s = 1.0 / (outward * self.junction_j_per_k);
        let skin_per_s = (1.0 / outward + 1.0 / away) / self.skin_j_per_k;
        (junction_per_s.max(skin_per_s) * seconds).ceil().max(1.0)
    }

    /// The reason why constants are invalid for this tick, if they are.
    pub(super) fn refusal(&self, tick_s: f64) -> Option<String> {
        let above_zero = [
            ("junction_to_skin_k_per_w", self.junction_to_skin_k_per_w),
            ("junction_j_per_k", self.junction_j_per_k),
            ("skin_to_ambient_k_per_w", self.skin_to_ambient_k_per_w),
            ("skin_j_per_k", self.skin_j_per_k),
        ];
        let mut finite = vec![("ambient_c", self.ambient_c), ("start_c", self.start_c)];
        match self.throttle {
            Throttle::Never => {}
            Throttle::Stepwise { trip_c, hysteresis_k } => {
                finite.extend([("trip_c", trip_c), ("hysteresis_k", hysteresis_k)]);
            }
            Throttle::PowerAllocator {
                switch_on_c,
                desired_c,
                sustainable_w,
                k_p_w_per_k,
                k_i_w_per_k,
            } => finite.extend([
                ("switch_on_c", switch_on_c),
                ("desired_c", desired_c),
                ("sustainable_w", sustainable_w),
                ("k_p_w_per_k", k_p_w_per_k),
                ("k_i_w_per_k", k_i_w_per_k),
            ]),
        }
        let wrong = |name: &str, value: f64, must: &str| {
            Some(format!("thermal model: `{name}` is {value}; it must be {must}"))
        };
        if let Some((name, value)) = above_zero.iter().find(|(_, x)| !(*x > 0.0 && *x < 1e9)) {
            return wrong(name, *value, "above 0, below 10^9");
        }
        if let Some((name, value)) = finite.iter().find(|(_, x)| !x.is_finite() || x.abs() >= 1e6) {
            return wrong(name, *value, "between -10^6 and 10^6");
        }
        (self.steps(tick_s) > MOST_STEPS).then(|| {
            format!(
                "thermal model: a resistance times a heat capacity is below a thousandth of the \
                tick of {tick_s} s; a chip has some J/K, its case some hundred, with some K/W \
                between them"
            )
        })
    }

    /// A phone as [`Constants`] estimate it, at the temperature of the air.
    #[must_use]
    pub fn estimated(constants: &Constants, ambient_c: f64, throttle: Throttle) -> Self {
        Self {
            ambient_c,
            junction_to_skin_k_per_w: constants.junction_to_skin_k_per_w,
            junction_j_per_k: constants.junction_j_per_k,
            skin_to_ambient_k_per_w: constants.skin_to_ambient_k_per_w,
            skin_j_per_k: constants.skin_j_per_k,
            start_c: ambient_c,
            throttle,
        }
    }
}

/// How frequency levels follow the chip's temperature.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Throttle {
    /// Always the highest level.
    Never,
    /// One level down per tick above the trip, one up below it by more than the hysteresis.
    Stepwise {
        /// The trip, degrees Celsius.
        trip_c: f64,
        /// The hysteresis, K.
        hysteresis_k: f64,
    },
    /// Budget = sustainable power + k_p e + k_i sum(e), e being the distance to the desired
    /// temperature; from `switch_on_c` on.
    PowerAllocator {
        /// Temperature from which the rule applies, degrees Celsius.
        switch_on_c: f64,
        /// The desired temperature, degrees Celsius.
        desired_c: f64,
        /// Sustainable power, W.
        sustainable_w: f64,
        /// k_p, W/K.
        k_p_w_per_k: f64,
        /// k_i, W/K.
        k_i_w_per_k: f64,
    },
}

/// Temperatures and the state of the throttle.
#[derive(Clone, Debug)]
pub(super) struct ThermalState {
    pub junction_c: f64,
    pub skin_c: f64,
    integral: f64,
}

impl ThermalState {
    pub(super) fn new(model: &Thermal) -> Self {
        Self { junction_c: model.start_c, skin_c: model.start_c, integral: 0.0 }
    }

    /// Updates the temperatures by the mean power of the last tick.
    pub(super) fn step(&mut self, model: &Thermal, watts: f64, seconds: f64) {
        let steps = model.steps(seconds);
        let seconds = seconds / steps;
        for _ in 0..steps as usize {
            let outward = (self.junction_c - self.skin_c) / model.junction_to_skin_k_per_w;
            let away = (self.skin_c - model.ambient_c) / model.skin_to_ambient_k_per_w;
            self.junction_c += (watts - outward) / model.junction_j_per_k * seconds;
            self.skin_c += (outward - away) / model.skin_j_per_k * seconds;
        }
    }

    /// The level of each processor for the next tick.
    pub(super) fn levels(
        &mut self,
        throttle: Throttle,
        processors: &[ProcessorModel],
        now: &[usize],
    ) -> Vec<usize> {
        let top = |p: &ProcessorModel| p.top_level();
        match throttle {
            Throttle::Never => processors.iter().map(top).collect(),
            Throttle::Stepwise { trip_c, hysteresis_k } => {
                let step = |(p, &level): (&ProcessorModel, &usize)| match self.junction_c {
                    t if t > trip_c => level.saturating_sub(1),
                    t if t < trip_c - hysteresis_k => (level + 1).min(p.top_level()),
                    _ => level,
                };
                processors.iter().zip(now).map(step).collect()
            }
            Throttle::PowerAllocator {
                switch_on_c,
                desired_c,
                sustainable_w,
                k_p_w_per_k,
                k_i_w_per_k,
            } => {
                if self.junction_c < switch_on_c {
                    self.integral = 0.0;
                    return processors.iter().map(top).collect();
                }
                let error = desired_c - self.junction_c;
                self.integral += error;
                let budget = sustainable_w + k_p_w_per_k * error + k_i_w_per_k * self.integral;
                within_budget(processors, budget)
            }
        }
    }
}

/// The highest levels, lowered by a common number of steps from the top, at which all processors,
/// busy, are within the budget together; the lowest levels where none are.
fn within_budget(processors: &[ProcessorModel], budget_w: f64) -> Vec<usize> {
    let deepest = processors.iter().map(ProcessorModel::top_level).max().unwrap_or(0);
    let levels = |down: usize| processors.iter().map(move |p| p.top_level().saturating_sub(down));
    let watts = |down: usize| {
        processors.iter().zip(levels(down)).map(|(p, level)| p.busy_w(level)).sum::<f64>()
    };
    let down = (0..=deepest).find(|&down| watts(down) <= budget_w).unwrap_or(deepest);
    levels(down).collect()
}

#[cfg(test)]
mod tests {
    use super::super::device::Dvfs;
    use super::*;

    fn model() -> Thermal {
        Thermal {
            ambient_c: 25.0,
            junction_to_skin_k_per_w: 5.0,
            junction_j_per_k: 2.0,
            skin_to_ambient_k_per_w: 5.0,
            skin_j_per_k: 200.0,
            start_c: 25.0,
            throttle: Throttle::Never,
        }
    }

    #[test]
    fn steady_state_is_power_times_resistance() {
        let model = model();
        let mut state = ThermalState::new(&model);
        (0..200_000).for_each(|_| state.step(&model, 3.0, 0.1));
        assert!(
            (state.skin_c - 40.0).abs() < 0.01 && (state.junction_c - 55.0).abs() < 0.01,
            "{state:?}"
        );
    }

    /// The chip follows its steady state within a tick, without overshooting it.
    #[test]
    fn small_heat_capacities_are_stepped_finely_and_constants_without_meaning_are_refused() {
        let light = Thermal { junction_j_per_k: 0.001, ..model() };
        assert_eq!(light.refusal(0.1), None);
        let mut state = ThermalState::new(&light);
        for _ in 0..100 {
            state.step(&light, 3.0, 0.1);
            assert!((25.0..55.0).contains(&state.junction_c), "{state:?}");
        }
        assert!((state.junction_c - state.skin_c - 15.0).abs() < 0.1, "{state:?}");
        let refused = |change: &dyn Fn(&mut Thermal)| {
            let mut changed = model();
            change(&mut changed);
            changed.refusal(0.1).unwrap_or_default()
        };
        assert_eq!(refused(&|_| {}), "");
        assert!(
            refused(&|t| t.junction_j_per_k = 0.0).contains("`junction_j_per_k` is 0; it must")
        );
        assert!(refused(&|t| t.skin_to_ambient_k_per_w = -5.0).contains("above 0, below"));
        assert!(refused(&|t| t.skin_j_per_k = f64::NAN).contains("`skin_j_per_k`"));
        assert!(refused(&|t| t.junction_j_per_k = 1e-9).contains("tick of 0.1 s"));
        assert!(refused(&|t| t.start_c = f64::INFINITY).contains("`start_c`"));
        let trip = Throttle::Stepwise { trip_c: f64::NAN, hysteresis_k: 1.0 };
        assert!(refused(&|t| t.throttle = trip).contains("`trip_c`"));
    }

    #[test]
    fn throttling_lowers_levels_when_hot_and_raises_them_when_cool() {
        let dvfs =
            Dvfs { levels_ghz: vec![0.5, 1.0, 1.5, 2.0], a_w_per_ghz: 0.5, b_w_per_ghz3: 0.3 };
        let processors = [ProcessorModel { dvfs: Some(dvfs), ..ProcessorModel::named("gpu") }];
        let mut state = ThermalState::new(&model());
        let stepwise = Throttle::Stepwise { trip_c: 60.0, hysteresis_k: 5.0 };
        for (celsius, from, to) in
            [(61.0, 3, 2), (58.0, 2, 2), (50.0, 2, 3), (50.0, 3, 3), (90.0, 0, 0)]
        {
            state.junction_c = celsius;
            assert_eq!(state.levels(stepwise, &processors, &[from]), [to], "{celsius}");
        }
        let allocator = Throttle::PowerAllocator {
            switch_on_c: 60.0,
            desired_c: 75.0,
            sustainable_w: 1.2,
            k_p_w_per_k: 0.1,
            k_i_w_per_k: 0.0,
        };
        for (celsius, to) in [(50.0, 3), (74.0, 1), (65.0, 2), (95.0, 0)] {
            state.junction_c = celsius;
            assert_eq!(state.levels(allocator, &processors, &[3]), [to], "{celsius}");
        }
    }
}
