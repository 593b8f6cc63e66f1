//! The thesis's dynamic rule, simulated: frames alternate between two placements whenever the
//! device is warmer, or one of their processors is busier, than a threshold at a check (section
//! 4.1.1, where it was found harmful). Beside it, each of the two placements alone.

use super::{MultitaskError, Placements};
use serde::Serialize;
use vitempo_planners::{
    pipeline::multitask::Schedule,
    simulator::{
        Outcome, Policy, Scenario, Source, StageModel, Stream, Task, Thermal, Throttle,
        constants::Constants, simulate,
    },
};

/// Temperature of the air and of the device at the start, degrees Celsius.
pub const AMBIENT_C: f64 = 25.0;
/// Period of the work of other applications, ns.
const BACKGROUND_NS: u64 = 50_000_000;

/// When frames change to the other placement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// The device's surface is warmer, degrees Celsius.
    Temperature(f64),
    /// Other applications use a processor of the current placement for more than this share of the
    /// time.
    Load(f64),
}

/// Work of other applications on one processor.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// Name of the processor.
    pub processor: String,
    /// Share of the time for which it is busy with it, above 0 and up to 1.
    pub share: f64,
    /// From when, ns.
    pub from_ns: u64,
    /// Until when, ns.
    pub until_ns: u64,
}

/// The rule, and the device that it runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// When to change.
    pub trigger: Trigger,
    /// Time between checks, ns.
    pub check_ns: u64,
    /// Simulated time, ns.
    pub duration_ns: u64,
    /// Power of processors while they compute, by name, W; 0 for others.
    pub power_w: Vec<(String, f64)>,
    /// Power of everything else, W.
    pub base_w: f64,
    /// Work of other applications.
    pub background: Vec<Background>,
}

impl Rule {
    fn draws_power(&self) -> bool {
        self.power_w.iter().any(|(_, watts)| *watts > 0.0)
    }
}

/// What became of the frames. Level of evidence: simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Course {
    /// Results per second.
    pub frames_per_s: f64,
    /// 99th percentile of the latency, ns.
    pub p99_ns: Option<u64>,
    /// Highest temperature of the surface, degrees Celsius; `None` without power.
    pub hottest_c: Option<f64>,
    /// Energy of the whole device per result, J; `None` without power.
    pub energy_per_frame_j: Option<f64>,
    /// How often the placement changed.
    pub switches: u64,
}

/// The two placements and the rule between them.
#[derive(Clone, Debug)]
pub struct Dynamic {
    /// The placements, first the chosen one.
    pub placements: [Schedule; 2],
    /// Each alone.
    pub fixed: [Course; 2],
    /// Under the rule.
    pub rule: Course,
}

impl Placements {
    /// Simulates the rule between the placement of least period and the best one of the same
    /// execution that leaves the processor of its encoder; where none leaves it wholly, the best
    /// one with another processor for the encoder.
    ///
    /// # Errors
    /// [`MultitaskError::Rule`] where there is no other placement, where a processor is not known,
    /// or where a number is out of range.
    pub fn dynamic(&self, rule: &Rule) -> Result<Dynamic, MultitaskError> {
        self.check(rule)?;
        let [first, second] = alternatives(self)
            .ok_or_else(|| refuse("no placement has its encoder on another processor"))?;
        let scenario = self.device(&first, rule);
        let other = self.simulation.scenario(&self.model, &second);
        let ways = [&scenario, &other].map(|s| s.streams[0].alternatives[0].clone());
        let run = |alternatives: Vec<Vec<StageModel>>, policy| {
            let mut scenario = scenario.clone();
            (scenario.streams[0].alternatives, scenario.streams[0].policy) = (alternatives, policy);
            Ok::<Course, MultitaskError>(course(&simulate(&scenario, 0)?))
        };
        let [a, b] = ways.clone().map(|way| run(vec![way], Policy::First));
        let check_ns = rule.check_ns;
        let policy = match rule.trigger {
            Trigger::Temperature(skin_c) => Policy::SwitchAbove { skin_c, check_ns },
            Trigger::Load(busy_share) => Policy::SwitchAboveLoad { busy_share, check_ns },
        };
        let rule = run(ways.to_vec(), policy)?;
        Ok(Dynamic { placements: [first, second], fixed: [a?, b?], rule })
    }

    fn check(&self, rule: &Rule) -> Result<(), MultitaskError> {
        let named = rule.power_w.iter().map(|(name, _)| name);
        let named = named.chain(rule.background.iter().map(|b| &b.processor));
        if let Some(name) = named.into_iter().find(|name| !self.model.processors.contains(name)) {
            return Err(refuse(&format!("there is no processor `{name}`")));
        }
        let lacks_power = |name: &&String| rule.power_w.iter().all(|(given, _)| given != *name);
        if let Some(name) = self.model.processors.iter().find(lacks_power)
            && !rule.power_w.is_empty()
        {
            return Err(refuse(&format!("the power of `{name}` is not given")));
        }
        if matches!(rule.trigger, Trigger::Temperature(_)) && !rule.draws_power() {
            return Err(refuse("temperatures need the power of a processor"));
        }
        if matches!(rule.trigger, Trigger::Load(_)) && rule.background.is_empty() {
            return Err(refuse("a load needs other applications"));
        }
        let is_wrong = |b: &&Background| {
            !(b.share > 0.0 && b.share <= 1.0)
                || b.until_ns <= b.from_ns
                || b.from_ns >= rule.duration_ns
        };
        match rule.background.iter().find(is_wrong) {
            Some(b) => Err(refuse(&format!(
                "other applications on `{}` need a share above 0 % and up to 100 %, and a time \
                within the simulated one",
                b.processor
            ))),
            None => Ok(()),
        }
    }

    /// The scenario of a placement on the device, with the work of other applications.
    fn device(&self, schedule: &Schedule, rule: &Rule) -> Scenario {
        let mut scenario = self.simulation.scenario(&self.model, schedule);
        scenario.duration_ns = rule.duration_ns;
        if rule.draws_power() {
            // Power does not depend on a frequency here, so that there is nothing to throttle.
            let (constants, throttle) = (Constants::default(), Throttle::Never);
            scenario.base_w = rule.base_w;
            scenario.thermal = Some(Thermal::estimated(&constants, AMBIENT_C, throttle));
        }
        for processor in &mut scenario.processors {
            let watts = rule.power_w.iter().find(|(name, _)| *name == processor.name);
            processor.active_w = watts.map_or(0.0, |(_, watts)| *watts);
        }
        for background in &rule.background {
            let at = self.model.processors.iter().position(|p| *p == background.processor);
            scenario.streams.push(others(background, at.unwrap_or(0), rule.duration_ns));
        }
        scenario
    }
}

fn refuse(reason: &str) -> MultitaskError {
    MultitaskError::Rule { reason: reason.to_owned() }
}

/// The chosen placement, and the one that the rule changes to.
fn alternatives(placed: &Placements) -> Option<[Schedule; 2]> {
    let mut schedules = placed.rows.iter().map(|row| &row.schedule);
    let first = schedules.next()?;
    let same: Vec<&Schedule> = schedules.filter(|s| s.execution == first.execution).collect();
    let leaves = |s: &&&Schedule| !s.places().contains(&first.encoder);
    let other = same.iter().find(leaves);
    let second = other.or_else(|| same.iter().find(|s| s.encoder != first.encoder))?;
    Some([first.clone(), (*second).clone()])
}

/// Other applications as a stream of short tasks.
fn others(background: &Background, processor: usize, duration_ns: u64) -> Stream {
    let until_ns = background.until_ns.min(duration_ns);
    let count = (until_ns - background.from_ns) / BACKGROUND_NS;
    let arrivals = (0..count).map(|i| background.from_ns + i * BACKGROUND_NS).collect();
    let compute_ns = (background.share * BACKGROUND_NS as f64) as u64;
    let task = Task { processor, compute_ns, ..Task::default() };
    let stage = StageModel { name: "work".to_owned(), queue: 0, steps: vec![vec![task]] };
    let name = format!("others on {}", background.processor);
    Stream::new(name, Source::Arrivals(arrivals), vec![stage])
}

fn course(outcome: &Outcome) -> Course {
    let hottest_c = outcome.readings.iter().map(|r| r.skin_c).reduce(f64::max);
    Course {
        frames_per_s: outcome.frames_per_s(0),
        p99_ns: outcome.streams.first().and_then(|s| s.latency_quantile(0.99)),
        hottest_c,
        energy_per_frame_j: hottest_c.map(|_| outcome.energy_per_frame_j(0)),
        switches: outcome.switches.first().copied().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Planning, *};
    use vitempo_planners::{
        cost::Interval,
        pipeline::{Tasks, multitask::Execution},
    };

    const S: u64 = 1_000_000_000;

    /// An encoder and a decoder of 60 ms each on `npu`, and slower on `cpu`.
    fn placements(cpu_ms: u64) -> Placements {
        let names = ["encoder", "decoder"].map(str::to_owned).to_vec();
        let tasks = Tasks { part_of: Vec::new(), names, postprocessing: Vec::new() };
        let mut planning = Planning::new("m", &tasks, &[], None, None);
        for (name, ms) in [("npu", 60), ("cpu", cpu_ms)] {
            let latency = [Some(Interval::exact(ms * 1_000_000)); 2];
            // Too slow a link for a model in two places.
            planning.model.add_processor(name, &latency, &|_| Some(Interval::exact(S)));
        }
        planning.simulated().expect("placements")
    }

    fn rule(trigger: Trigger) -> Rule {
        Rule {
            trigger,
            check_ns: 10 * S,
            duration_ns: 40 * S,
            power_w: Vec::new(),
            base_w: 3.0,
            background: Vec::new(),
        }
    }

    fn run(rule: &Rule) -> Result<Dynamic, MultitaskError> {
        placements(110).dynamic(rule)
    }

    #[test]
    fn switching_by_temperature_costs_frames_as_in_the_thesis() {
        let power_w = ["npu", "cpu"].map(|name| (name.to_owned(), 5.0)).to_vec();
        let found = run(&Rule { power_w, ..rule(Trigger::Temperature(25.5)) }).expect("a course");
        let [fast, slow] = &found.placements;
        assert_eq!((fast.places(), slow.places()), (vec![0, 0], vec![1, 1]));
        assert_eq!(fast.execution, Execution::Sequential);
        let [fast, slow] = found.fixed;
        assert!(found.rule.switches > 0 && fast.switches == 0);
        assert!(slow.frames_per_s < found.rule.frames_per_s);
        assert!(found.rule.frames_per_s < fast.frames_per_s);
        assert!(found.rule.hottest_c > Some(25.5) && found.rule.energy_per_frame_j.is_some());
    }

    #[test]
    fn switching_by_load_leaves_a_busy_processor() {
        let busy =
            Background { processor: "npu".to_owned(), share: 0.9, from_ns: 0, until_ns: 40 * S };
        let loaded = Rule { background: vec![busy], check_ns: S, ..rule(Trigger::Load(0.3)) };
        let found = placements(70).dynamic(&loaded).expect("a course");
        assert_eq!(found.rule.switches, 1);
        assert!(found.rule.frames_per_s > found.fixed[0].frames_per_s);
        assert_eq!((found.rule.hottest_c, found.rule.energy_per_frame_j), (None, None));
    }

    #[test]
    fn what_has_no_effect_or_no_meaning_is_refused() {
        let refused = |rule: &Rule| run(rule).map_or_else(|e| e.to_string(), |_| "run".to_owned());
        let warm = rule(Trigger::Temperature(30.0));
        assert!(refused(&warm).contains("need the power"));
        let power_w = vec![("gpu".to_owned(), 1.0)];
        assert!(refused(&Rule { power_w, ..warm }).contains("no processor `gpu`"));
        let power_w = vec![("npu".to_owned(), 1.0)];
        assert!(refused(&Rule { power_w, ..rule(Trigger::Temperature(30.0)) }).contains("`cpu`"));
        let load = rule(Trigger::Load(0.5));
        assert!(refused(&load).contains("needs other applications"));
        let late = Background {
            processor: "npu".to_owned(),
            share: 0.5,
            from_ns: 50 * S,
            until_ns: 60 * S,
        };
        assert!(refused(&Rule { background: vec![late], ..load }).contains("within the simulated"));
    }
}
