//! Governors as rules over time: [`Processor::schedule`] is the frequency of a processor while
//! frames run, each phase slower or faster with it.
//!
//! A governor samples the load and sets the next frequency. Conservative and ondemand follow the
//! kernel's rules of that name (3.x, default thresholds), interactive those of Android with the
//! settings of the Nexus 6 (`init.shamu.power.rc` of LineageOS). One frequency stands for all
//! cores.

use super::Cycles;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What sets the frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Governor {
    /// Step by step up under load, down without.
    Conservative,
    /// To the highest under load, else in proportion to it.
    Ondemand,
    /// To an intermediate frequency at once, further while the load stays.
    Interactive,
    /// The lowest.
    Powersave,
    /// The highest.
    Performance,
}

/// Loads of the busiest core at the highest frequency, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loads {
    /// While an image is converted.
    pub conversion: f64,
    /// While a network runs.
    pub inference: f64,
    /// While data is sent, an answer or the camera is waited for, and between phases.
    pub waiting: f64,
}

/// A processor with its frequencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Its frequencies, ascending, GHz.
    pub steps_ghz: Vec<f64>,
    /// Loads that governors see.
    pub loads: Loads,
}

/// What a phase takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// Work of the processor.
    Work(Cycles),
    /// A time that no frequency changes, s.
    Wait(f64),
    /// Waits until this long after the last such phase ended, or after the launch, s: a frame that
    /// ends with it takes at least this long.
    Until(f64),
}

/// A phase of a frame as a governor sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// What it takes.
    pub demand: Demand,
    /// Load at the highest frequency, 0 to 1.
    pub load: f64,
}

/// A time at one frequency within one phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Number of the frame.
    pub frame: usize,
    /// Index of the phase.
    pub step: usize,
    /// Its length, s.
    pub seconds: f64,
    /// The frequency, GHz.
    pub ghz: f64,
}

impl Governor {
    /// All governors.
    pub const ALL: [Self; 5] =
        [Self::Conservative, Self::Ondemand, Self::Interactive, Self::Powersave, Self::Performance];
}

impl fmt::Display for Governor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Conservative => "conservative",
            Self::Ondemand => "ondemand",
            Self::Interactive => "interactive",
            Self::Powersave => "powersave",
            Self::Performance => "performance",
        })
    }
}

impl FromStr for Governor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(|g| g.to_string()).join(", ");
        Self::ALL
            .into_iter()
            .find(|g| g.to_string() == text)
            .ok_or_else(|| format!("there is no governor `{text}`: there are {}", known()))
    }
}

/// The time of equal load after which a frequency stays, s.
const SETTLED_S: f64 = 4.0;
/// The kernel's sampling time of ondemand and conservative on this kind of processor, s.
const SAMPLING_S: f64 = 0.05;
/// `up_threshold` of ondemand.
const ONDEMAND_UP: f64 = 0.9;
/// `up_threshold`, `down_threshold` and `freq_step` of conservative.
const CONSERVATIVE: (f64, f64, f64) = (0.8, 0.2, 0.05);
/// `timer_rate` of interactive, s.
const INTERACTIVE_S: f64 = 0.02;
/// `go_hispeed_load` and `hispeed_freq`, GHz.
const HISPEED: (f64, f64) = (0.99, 1.4976);
/// `min_sample_time`, s.
const MIN_SAMPLE_S: f64 = 0.04;

/// `target_loads` of interactive.
fn target_load(ghz: f64) -> f64 {
    match ghz {
        f if f < 1.5 => 0.85,
        f if f < 1.8 => 0.9,
        _ => 0.7,
    }
}

/// `above_hispeed_delay` of interactive, s.
fn delay_s(ghz: f64) -> f64 {
    if (1.4..1.7).contains(&ghz) { 0.04 } else { 0.02 }
}

impl Processor {
    /// The lowest and the highest frequency, GHz; `None` without frequencies.
    #[must_use]
    pub fn range_ghz(&self) -> Option<(f64, f64)> {
        Some((*self.steps_ghz.first()?, *self.steps_ghz.last()?))
    }

    /// The frequency over time under a governor, while `frames` frames of these phases follow each
    /// other, from the lowest frequency on. Empty for a processor without frequencies.
    #[must_use]
    pub fn schedule(&self, governor: Governor, steps: &[Step], frames: usize) -> Vec<Span> {
        let Some((low, high)) = self.range_ghz() else { return Vec::new() };
        let mut state = State::new(self, governor, low, high);
        let mut spans: Vec<Span> = Vec::new();
        let mut frame_s = 0.0;
        for frame in 0..frames {
            for (index, step) in steps.iter().enumerate() {
                let mut left = 1.0;
                let start_s = state.now_s;
                let demand = step.demand.after(start_s - frame_s);
                while left > 0.0 {
                    let ghz = state.ghz;
                    let whole_s = demand.seconds(ghz);
                    let need_s = left * whole_s;
                    let settled = state.now_s - start_s > SETTLED_S;
                    let seconds = if settled { need_s } else { need_s.min(state.until_sample_s()) };
                    left = if seconds < need_s { left - seconds / whole_s } else { 0.0 };
                    state.advance(seconds, step.load_at(ghz, high));
                    if seconds > 0.0 {
                        spans.push(Span { frame, step: index, seconds, ghz });
                    }
                }
                if matches!(step.demand, Demand::Until(_)) {
                    frame_s = state.now_s;
                }
            }
        }
        spans
    }

    /// The lowest frequency that is not below.
    fn at_least(&self, ghz: f64) -> f64 {
        let last = self.steps_ghz.last().copied().unwrap_or(ghz);
        self.steps_ghz.iter().copied().find(|&step| step >= ghz - 1e-9).unwrap_or(last)
    }

    /// The highest frequency that is not above.
    fn at_most(&self, ghz: f64) -> f64 {
        let first = self.steps_ghz.first().copied().unwrap_or(ghz);
        self.steps_ghz.iter().rev().copied().find(|&step| step <= ghz + 1e-9).unwrap_or(first)
    }
}

impl Demand {
    /// Time at a frequency, s.
    #[must_use]
    pub fn seconds(self, ghz: f64) -> f64 {
        match self {
            Self::Work(cycles) => cycles.seconds(ghz),
            Self::Wait(seconds) | Self::Until(seconds) => seconds,
        }
    }

    /// What is left of it so long after the last [`Demand::Until`] ended.
    #[must_use]
    pub fn after(self, seconds: f64) -> Self {
        match self {
            Self::Until(until_s) => Self::Wait((until_s - seconds).max(0.0)),
            other => other,
        }
    }
}

impl Step {
    /// The load at a frequency: the idle share of work shrinks in proportion to the frequency.
    fn load_at(&self, ghz: f64, highest_ghz: f64) -> f64 {
        match self.demand {
            Demand::Work(_) => 1.0 - (1.0 - self.load) * ghz / highest_ghz,
            Demand::Wait(_) | Demand::Until(_) => self.load,
        }
    }
}

/// A governor at some time.
struct State<'a> {
    processor: &'a Processor,
    governor: Governor,
    low: f64,
    high: f64,
    ghz: f64,
    /// Time, and load times time, since the last sample.
    window_s: f64,
    busy_s: f64,
    now_s: f64,
    /// Conservative: the frequency it wants, which need not exist.
    wanted_ghz: f64,
    /// Interactive: the frequency that it does not go below, since when; since when it may go up.
    floor: (f64, f64),
    hispeed_s: f64,
}

impl<'a> State<'a> {
    fn new(processor: &'a Processor, governor: Governor, low: f64, high: f64) -> Self {
        let ghz = if governor == Governor::Performance { high } else { low };
        Self {
            processor,
            governor,
            low,
            high,
            ghz,
            window_s: 0.0,
            busy_s: 0.0,
            now_s: 0.0,
            wanted_ghz: ghz,
            floor: (ghz, 0.0),
            hispeed_s: 0.0,
        }
    }

    fn sampling_s(&self) -> f64 {
        match self.governor {
            Governor::Conservative | Governor::Ondemand => SAMPLING_S,
            Governor::Interactive => INTERACTIVE_S,
            Governor::Powersave | Governor::Performance => f64::INFINITY,
        }
    }

    fn until_sample_s(&self) -> f64 {
        (self.sampling_s() - self.window_s).max(0.0)
    }

    fn advance(&mut self, seconds: f64, load: f64) {
        self.now_s += seconds;
        self.window_s += seconds;
        self.busy_s += load * seconds;
        if self.window_s >= self.sampling_s() - 1e-9 {
            let load = self.busy_s / self.window_s;
            (self.window_s, self.busy_s) = (0.0, 0.0);
            self.sample(load);
        }
    }

    fn sample(&mut self, load: f64) {
        match self.governor {
            Governor::Ondemand => {
                let ghz = if load > ONDEMAND_UP { self.high } else { load * self.high };
                self.ghz = self.processor.at_most(ghz);
            }
            Governor::Conservative => {
                let (up, down, step) = CONSERVATIVE;
                let step_ghz = step * self.high;
                if load > up {
                    self.wanted_ghz += step_ghz;
                } else if load < down {
                    self.wanted_ghz -= step_ghz;
                }
                self.wanted_ghz = self.wanted_ghz.clamp(self.low, self.high);
                self.ghz = self.processor.at_most(self.wanted_ghz);
            }
            Governor::Interactive => self.interactive(load),
            Governor::Powersave | Governor::Performance => {}
        }
    }

    fn interactive(&mut self, load: f64) {
        let (go, hispeed) = HISPEED;
        let target = self.target(load);
        let new = match load >= go {
            true if self.ghz < hispeed => self.processor.at_least(hispeed),
            true => target.max(hispeed),
            false if target > hispeed && self.ghz < hispeed => self.processor.at_least(hispeed),
            false => target,
        };
        let waits = self.now_s - self.hispeed_s < delay_s(self.ghz) - 1e-9;
        if self.ghz >= hispeed && new > self.ghz && waits {
            return;
        }
        self.hispeed_s = self.now_s;
        if new < self.floor.0 && self.now_s - self.floor.1 < MIN_SAMPLE_S - 1e-9 {
            return;
        }
        self.floor = (new, self.now_s);
        self.ghz = new;
    }

    /// The lowest frequency at which the load is at most the target of that frequency.
    fn target(&self, load: f64) -> f64 {
        let demand = load * self.ghz;
        let fits = |ghz: &f64| demand <= target_load(*ghz) * ghz + 1e-9;
        self.processor.steps_ghz.iter().copied().find(|ghz| fits(ghz)).unwrap_or(self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processor() -> Processor {
        Processor {
            steps_ghz: vec![0.3, 0.9, 1.4976, 1.9, 2.4, 2.65],
            loads: Loads { conversion: 1.0, inference: 1.0, waiting: 0.1 },
        }
    }

    fn work(seconds_at_highest: f64) -> Step {
        Step { demand: Demand::Work(Cycles::measured(seconds_at_highest, 2.65)), load: 1.0 }
    }

    fn wait(seconds: f64) -> Step {
        Step { demand: Demand::Wait(seconds), load: 0.1 }
    }

    /// Mean length of a frame, s, after the first ones.
    fn frame_s(governor: Governor, steps: &[Step]) -> f64 {
        let spans = processor().schedule(governor, steps, 20);
        spans.iter().filter(|s| s.frame >= 10).map(|s| s.seconds).sum::<f64>() / 10.0
    }

    #[test]
    fn each_governor_does_what_it_is_named_for() {
        let steps = [work(0.4), wait(0.4)];
        let spans = |governor| processor().schedule(governor, &steps, 3);
        assert!(spans(Governor::Powersave).iter().all(|s| s.ghz == 0.3));
        assert!(spans(Governor::Performance).iter().all(|s| s.ghz == 2.65));
        // Under load ondemand is at the highest after one sample, conservative climbs.
        let reaches = |governor| {
            let mut at_s = 0.0;
            spans(governor)
                .iter()
                .find(|s| {
                    at_s += s.seconds;
                    s.ghz >= 2.65
                })
                .map(|_| at_s)
                .expect("it gets there")
        };
        let ondemand = processor().schedule(Governor::Ondemand, &[work(2.0)], 1);
        assert_eq!((ondemand[0].ghz, ondemand[1].ghz), (0.3, 2.65));
        assert!((ondemand[0].seconds - 0.05).abs() < 1e-9);
        let interactive = processor().schedule(Governor::Interactive, &[work(2.0)], 1);
        assert_eq!((interactive[0].ghz, interactive[1].ghz), (0.3, 1.4976));
        assert!(reaches(Governor::Conservative) > 5.0 * reaches(Governor::Ondemand));
        // The work is done, whatever the frequency does in between.
        for governor in Governor::ALL {
            let cycles: f64 =
                spans(governor).iter().filter(|s| s.step == 0).map(|s| s.seconds * s.ghz).sum();
            assert!((cycles - 3.0 * 0.4 * 2.65).abs() < 1e-6, "{governor}: {cycles}");
        }
    }

    #[test]
    fn waiting_lets_the_frequency_fall_and_costs_the_next_frame() {
        let busy = frame_s(Governor::Interactive, &[work(0.4)]);
        let pausing = frame_s(Governor::Interactive, &[work(0.4), wait(0.4)]) - 0.4;
        assert!(pausing > busy + 0.02, "{pausing} s after a pause, {busy} s without");
        assert!((frame_s(Governor::Performance, &[work(0.4), wait(0.4)]) - 0.8).abs() < 1e-9);
        assert!(processor().schedule(Governor::Ondemand, &[wait(0.0)], 2).is_empty());
        let long = processor().schedule(Governor::Interactive, &[wait(1e9), work(0.4)], 2);
        assert!(long.len() < 1000 && long.iter().any(|s| s.seconds > 9e8), "{}", long.len());
    }

    #[test]
    fn a_frame_that_waits_for_a_time_takes_as_long_as_it() {
        for governor in Governor::ALL {
            // 0.1 s of work at the highest frequency, 0.883 s at the lowest.
            let until = Step { demand: Demand::Until(0.9), load: 0.1 };
            let spans = processor().schedule(governor, &[work(0.1), until], 30);
            for frame in 0..30 {
                let of = |s: &&Span| s.frame == frame;
                let seconds: f64 = spans.iter().filter(of).map(|s| s.seconds).sum();
                assert!((seconds - 0.9).abs() < 1e-9, "{governor}, frame {frame}: {seconds} s");
            }
        }
    }

    #[test]
    fn names_are_read() {
        for governor in Governor::ALL {
            assert_eq!(governor.to_string().parse(), Ok(governor));
        }
        assert!("turbo".parse::<Governor>().is_err_and(|e| e.contains("ondemand")));
    }
}
