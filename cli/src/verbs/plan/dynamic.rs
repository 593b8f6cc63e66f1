//! The dynamic rule of `plan multitask`: its flags, and the result as a table and JSON.

use super::super::{error::CliResult, output::Table, quantity};
use super::twice::refuse_twice;
use serde_json::{Value, json};
use vitempo::graph::Latency;
use vitempo::plan::multitask::{
    Placements,
    dynamic::{AMBIENT_C, Background, Course, Dynamic, Rule, Trigger},
};
use vitempo::planners::{Evidence, pipeline::multitask::Schedule};

/// A rule that changes the placement while frames run, simulated.
#[derive(clap::Args, Clone, Debug)]
pub struct DynamicArgs {
    /// Simulate a rule that changes to a placement away from the encoder's processor, and back, at
    /// checks that find the device warmer (38C), or its processors busier with others (50%)
    #[arg(long, value_name = "TEMPERATURE|LOAD", value_parser = parse_trigger)]
    pub switch_above: Option<Trigger>,

    /// Time between checks of the rule
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "10s", requires = "switch_above")]
    pub check_every: u64,

    /// Time that the rule is simulated for
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "10m", requires = "switch_above")]
    pub simulate_for: u64,

    /// Power of a processor while it computes, e.g. npu=2W; may be repeated
    #[arg(long, value_name = "NAME=POWER", value_parser = parse_power, requires = "switch_above")]
    pub power: Vec<(String, f64)>,

    /// Power of everything else
    #[arg(long, value_name = "POWER", value_parser = quantity::power_w, default_value = "3W", requires = "power")]
    pub base_power: f64,

    /// Other applications use this share of a processor, e.g. cpu=80%, or for some time
    /// cpu=80%@60s..120s; may be repeated
    #[arg(long, value_name = "NAME=SHARE[@FROM..UNTIL]", value_parser = parse_background, requires = "switch_above")]
    pub background: Vec<Background>,
}

fn parse_trigger(text: &str) -> Result<Trigger, String> {
    let degrees = text.strip_suffix('C').and_then(|number| number.parse::<f64>().ok());
    let degrees = degrees.filter(|c| c.is_finite()).map(Trigger::Temperature);
    let load = quantity::share(text).ok().map(Trigger::Load);
    degrees.or(load).ok_or_else(|| "expected a temperature (38C) or a load (50%)".to_owned())
}

fn parse_power(text: &str) -> Result<(String, f64), String> {
    let (name, power) = text.split_once('=').ok_or("expected NAME=POWER, e.g. npu=2W")?;
    Ok((name.to_owned(), quantity::power_w(power)?))
}

fn parse_background(text: &str) -> Result<Background, String> {
    const EXPECTED: &str = "expected NAME=SHARE or NAME=SHARE@FROM..UNTIL, e.g. cpu=80%@60s..120s";
    let (name, load) = text.split_once('=').ok_or(EXPECTED)?;
    let (load, window) = load.split_once('@').map_or((load, None), |(l, w)| (l, Some(w)));
    let (from_ns, until_ns) = match window {
        None => (0, u64::MAX),
        Some(window) => {
            let (from, until) = window.split_once("..").ok_or(EXPECTED)?;
            (quantity::time_ns(from)?, quantity::time_ns(until)?)
        }
    };
    let share = quantity::share(load).map_err(|e| format!("{e}; {EXPECTED}"))?;
    Ok(Background { processor: name.to_owned(), share, from_ns, until_ns })
}

impl DynamicArgs {
    /// The rule's course, where one is asked for.
    pub fn simulate(&self, placements: &Placements) -> CliResult<Option<Dynamic>> {
        let Some(trigger) = self.switch_above else { return Ok(None) };
        let powers = self.power.iter().map(|(name, _)| name.as_str());
        refuse_twice("--power", &powers.collect::<Vec<_>>())?;
        let rule = Rule {
            trigger,
            check_ns: self.check_every,
            duration_ns: self.simulate_for,
            power_w: self.power.clone(),
            base_w: self.base_power,
            background: self.background.clone(),
        };
        Ok(Some(placements.dynamic(&rule)?))
    }
}

/// The courses of both placements and of the rule between them.
pub fn table(dynamic: &Dynamic, describe: impl Fn(&Schedule) -> String) -> String {
    let headings = ["Dynamic rule", "Frames/s", "p99", "Hottest", "Energy per frame", "Switches"];
    let mut table = Table::new(&headings, 1);
    let dash = || "-".to_owned();
    let mut row = |name: String, course: &Course| {
        table.row([
            name,
            format!("{:.2}", course.frames_per_s),
            course.p99_ns.map_or_else(dash, |ns| Latency::from_ns(ns as f64).to_string()),
            course.hottest_c.map_or_else(dash, |c| format!("{c:.1} C")),
            course.energy_per_frame_j.map_or_else(dash, |j| format!("{j:.3} J")),
            course.switches.to_string(),
        ]);
    };
    let fixed = dynamic.placements.iter().zip(&dynamic.fixed);
    fixed.for_each(|(placement, course)| row(describe(placement), course));
    row("switching between them".to_owned(), &dynamic.rule);
    let gain = dynamic.rule.frames_per_s / dynamic.fixed[0].frames_per_s - 1.0;
    format!(
        "{}the rule changes the frame rate of the first placement by {:+.1} %   ({}; air at \
        {AMBIENT_C} C, a phone's heat as estimated)\n",
        table.to_text(),
        100.0 * gain,
        Evidence::Simulation
    )
}

/// The same as JSON.
pub fn json(dynamic: &Dynamic, names: impl Fn(&Schedule) -> Vec<String>) -> Value {
    json!({
        "placements": dynamic.placements.iter().map(names).collect::<Vec<_>>(),
        "fixed": dynamic.fixed, "switching": dynamic.rule, "evidence": Evidence::Simulation,
    })
}
