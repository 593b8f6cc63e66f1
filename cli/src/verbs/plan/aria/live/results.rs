//! Results of a live run, as text, CSV and JSON.

use super::super::{
    super::super::{
        error::CliResult,
        output::{Report, Table},
    },
    planned,
};
use serde_json::{Value, json};
use vitempo::aria::scheduler::cycles;
use vitempo::planners::{Evidence, aria::System, simulator::nearest_rank};

/// What one system came to.
pub struct Came {
    pub system: System,
    pub latency_ns: Vec<u64>,
    pub dropped: u64,
    pub cycles: u64,
    pub full_age: u64,
    pub full_frames: u64,
    pub regions: u64,
}

/// What was measured of the parts alone, and of all systems.
pub struct Live {
    pub engines: String,
    pub came: Vec<Came>,
    pub cycle_ns: [u64; 2],
    pub full_ns: Vec<u64>,
    pub planned_cycles: u64,
    pub forecast_cycle_ns: f64,
    pub target_ns: f64,
    pub rest_ns: f64,
}

impl Came {
    fn in_time(&self, target_ns: f64) -> usize {
        self.latency_ns.iter().filter(|ns| **ns as f64 <= target_ns).count()
    }

    fn quantile(&self, share: f64) -> u64 {
        let mut sorted = self.latency_ns.clone();
        sorted.sort_unstable();
        nearest_rank(&sorted, share).unwrap_or(0)
    }

    fn frames(&self) -> f64 {
        self.latency_ns.len().max(1) as f64
    }
}

impl Live {
    /// Cycles that really fit: with what one took beside full frames.
    fn really(&self) -> u64 {
        cycles(self.target_ns as u64, self.rest_ns as u64, self.cycle_ns[1])
    }

    fn rows(&self) -> Table {
        let mut table = Table::new(
            &[
                "System",
                "In time",
                "Late",
                "Dropped",
                "Median",
                "99 %",
                "Longest",
                "Cycles",
                "Asked",
                "Full frames",
                "Full frame age",
            ],
            1,
        );
        for came in &self.came {
            let ms = |share: f64| format!("{:.1} ms", came.quantile(share) as f64 / 1e6);
            let in_time = came.in_time(self.target_ns);
            table.row([
                came.system.name().to_owned(),
                planned::success(in_time as f64 / came.frames()),
                (came.latency_ns.len() - in_time).to_string(),
                came.dropped.to_string(),
                ms(0.5),
                ms(0.99),
                ms(1.0),
                format!("{:.2}", came.cycles as f64 / came.frames()),
                format!("{:.1}", came.regions as f64 / came.frames()),
                came.full_frames.to_string(),
                format!("{:.1}", came.full_age as f64 / came.frames()),
            ]);
        }
        table
    }
}

impl Report for Live {
    fn table(&self) -> String {
        let ms = |ns: f64| format!("{:.1} ms", ns / 1e6);
        let mut text = format!("{}\ntarget {}\n\n", self.engines, ms(self.target_ns));
        text += &format!(
            "A cycle: forecast {}, measured {} alone and {} beside full frames\nCycles per frame: \
            planned {}, really fit {}\nFull frames, lowest resolution first: {}\n\n",
            ms(self.forecast_cycle_ns),
            ms(self.cycle_ns[0] as f64),
            ms(self.cycle_ns[1] as f64),
            self.planned_cycles,
            self.really(),
            self.full_ns.iter().map(|ns| ms(*ns as f64)).collect::<Vec<_>>().join(", "),
        );
        text += &self.rows().to_text();
        text + &format!("Evidence: {}\n", Evidence::Live)
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let system = |came: &Came| {
            json!({"system": came.system, "frames": came.latency_ns.len(), "in_time": came.in_time(self.target_ns), "dropped": came.dropped,
                "latency_p50_ns": came.quantile(0.5), "latency_p99_ns": came.quantile(0.99), "latency_ns": came.latency_ns,
                "cycles": came.cycles, "full_frames": came.full_frames})
        };
        Ok(
            json!({"engines": self.engines, "target_ns": self.target_ns, "cycle_forecast_ns": self.forecast_cycle_ns, "cycle_alone_ns": self.cycle_ns[0],
            "cycle_beside_ns": self.cycle_ns[1], "full_frame_ns": self.full_ns, "planned_cycles": self.planned_cycles, "cycles_that_fit": self.really(),
            "systems": self.came.iter().map(system).collect::<Vec<_>>(), "evidence": Evidence::Live}),
        )
    }
}
