//! The page on a simulation of a vision foundation model within a frame deadline: figures 7, 12 and
//! 15 to 19 of the ARIA paper in terms of this simulation. Every figure has its level of evidence.

mod ablation;
mod accuracy;
mod breakdown;
mod deadline;
mod introduction;
mod over_time;
mod priorities;
mod reaction;
mod robustness;
mod sheet;
mod words;

pub use words::{planned_at, resolutions, success, truth};

use sheet::Sheet;
use vitempo::plan::aria::{Details, Simulated};

/// The names and contents of the page's files; `report.md` is the first.
///
/// ```
/// use vitempo::{plan::aria::{Scenario, Simulated, Walk}, planners::aria::{AriaCosts, Requirements}};
///
/// let (mut costs, device) = AriaCosts::paper_phone()?;
/// costs.levels.truncate(2);
/// costs.regions.truncate(1);
/// let scenario = Scenario::new(costs, device, Requirements::for_target(33.3e6))?;
/// let trace = Walk { seconds: 2, scene_seconds: 2, ..Walk::default() }.trace()?;
/// let simulated = Simulated::of(&scenario, trace, "walk.csv", 0)?;
/// let files = vitempo_report::aria::page(&simulated, &simulated.details()?);
/// assert_eq!(files[0].0, "report.md");
/// assert!(files[0].1.contains("(figure 12)") && files.iter().any(|file| file.0 == "latency.svg"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn page(simulated: &Simulated, details: &Details) -> Vec<(String, String)> {
    let mut sheet = Sheet::new("ARIA on a simulated device");
    introduction::introduction(&mut sheet, simulated);
    deadline::deadline(&mut sheet, simulated);
    accuracy::accuracy(&mut sheet, details);
    ablation::ablation(&mut sheet, simulated);
    over_time::over_time(&mut sheet, simulated);
    reaction::reaction(&mut sheet, simulated);
    priorities::priorities(&mut sheet, simulated);
    breakdown::breakdown(&mut sheet, simulated);
    over_time::throttling(&mut sheet, simulated);
    robustness::biased(&mut sheet, simulated);
    robustness::perturbed(&mut sheet, simulated, details);
    sheet.files()
}
