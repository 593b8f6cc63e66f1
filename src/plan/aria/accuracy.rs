//! [`Accuracy`]: depth and labels of a stand-in model in rendered scenes, as the systems of a
//! simulation show them; in place of figure 13, and of the accuracies in figures 15 and 17. The
//! scenes' ground truth is known pixel by pixel. The stand-in is not a network ([`Model`]); its own
//! error by resolution is listed beside.

use super::Simulated;
use vitempo_aria::{
    AriaError, Grid,
    scene::{Kind, Model, Scene, Score, Way, end_to_end},
};
use vitempo_planners::aria::{AriaOutcome, Level, System};

/// Seed of each scene.
const SEED: u64 = 41;
const PIXELS: usize = 4;
/// Number of distinct appearances in the stand-in's features.
const LOOKS: usize = 64;

/// Scores of the stand-in model over scenes of every kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// Resolutions alone, with every frame encoded whole.
    pub resolutions: Vec<Scored>,
    /// The systems at both targets, and full frames without a system.
    pub systems: Vec<Scored>,
}

/// One way of showing frames.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// The resolution, or the system and its target.
    pub name: String,
    /// The interval between full frames, and the number of regions updated in between.
    pub pace: String,
    /// Depth and labels against the truth.
    pub score: Score,
}

impl Accuracy {
    /// Kinds of scenes that are scored, one scene each.
    pub const SCENES: [Kind; 4] = Kind::ALL;
    /// Camera frames of each scene.
    pub const FRAMES: u64 = 40;

    /// Scores the output of each system, with the intervals of the simulation.
    ///
    /// # Errors
    /// [`AriaError`] where the highest resolution is not a grid of patches.
    pub fn of(simulated: &Simulated) -> Result<Self, AriaError> {
        let levels = &simulated.scenario.costs.levels;
        let (resolutions, systems) = (resolutions(levels), systems(simulated));
        let ways: Vec<Way> = resolutions.iter().chain(&systems).map(|shown| shown.way).collect();
        let top = levels.last().map_or([1, 1], |level| [level.rows, level.cols]);
        let mut scores = scored(top, &ways)?.into_iter();
        let mut with_scores = |shown: Vec<Shown>| {
            let scored = |(Shown { name, pace, .. }, score)| Scored { name, pace, score };
            shown.into_iter().zip(&mut scores).map(scored).collect()
        };
        Ok(Self { resolutions: with_scores(resolutions), systems: with_scores(systems) })
    }
}

/// One configuration that is scored.
struct Shown {
    name: String,
    pace: String,
    way: Way,
}

fn scored(top: [usize; 2], ways: &[Way]) -> Result<Vec<Score>, AriaError> {
    let (grid, model) = (Grid::new(top[0], top[1])?, Model::new(LOOKS, 1));
    let mut all = vec![Score::default(); ways.len()];
    for kind in Accuracy::SCENES {
        let scene = Scene::new(kind, SEED, grid, PIXELS)?;
        let scores = end_to_end(&scene, &model, Accuracy::FRAMES, ways)?;
        all.iter_mut().zip(scores).for_each(|(all, score)| all.add(&score));
    }
    Ok(all)
}

fn resolutions(levels: &[Level]) -> Vec<Shown> {
    let shown = |&Level { rows, cols, .. }: &Level| Shown {
        name: format!("{rows} x {cols}"),
        pace: String::new(),
        way: Way::Resized { rows, cols },
    };
    levels.iter().map(shown).collect()
}

fn systems(simulated: &Simulated) -> Vec<Shown> {
    let levels = &simulated.scenario.costs.levels;
    let (at_target, relaxed) = (&simulated.outcomes.outcomes, &simulated.outcomes.relaxed);
    let mut all = Vec::new();
    for outcome in at_target.iter().chain(relaxed) {
        let name = format!("{}, {:.1} ms", outcome.system.name(), outcome.target_ns / 1e6);
        all.extend(shown_by(levels, outcome).map(|(pace, way)| Shown { name, pace, way }));
    }
    let base = at_target.iter().find(|outcome| outcome.system == System::Base);
    all.extend(base.and_then(interval).map(|interval| Shown {
        name: "full frames as they are".to_owned(),
        pace: every(interval),
        way: Way::Stale { interval },
    }));
    all
}

fn every(interval: u64) -> String {
    format!("full frames every {interval} frames")
}

/// The interval between full frames, in camera frames. A full frame is between one and two
/// intervals old when it is shown. `None` where none is shown.
fn interval(outcome: &AriaOutcome) -> Option<u64> {
    Some((((outcome.full_frame_age? + 0.5) / 1.5).round() as u64).max(1))
}

/// The configuration of a system, where the stand-in can score it. A whole frame has no more
/// information for the stand-in than its blocks, so systems that cut frames into blocks are not
/// scored.
fn shown_by(levels: &[Level], outcome: &AriaOutcome) -> Option<(String, Way)> {
    let (interval, cycles) = (interval(outcome)?, outcome.cycles.round() as usize);
    let pace = format!("{}, {cycles} cycles", every(interval));
    let region = outcome.region;
    match outcome.system {
        System::NpuOnly => {
            let patches = outcome.patches?;
            let is_enough = |level: &&Level| (level.rows * level.cols) as f64 >= patches;
            let &Level { rows, cols, .. } = levels.iter().find(is_enough)?;
            Some((format!("every frame at {rows} x {cols} patches"), Way::Resized { rows, cols }))
        }
        System::Base => Some((pace, Way::Base { interval, cycles, region })),
        System::Aria => Some((pace, Way::Aria { interval, cycles, region })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::aria::{Scenario, Walk};
    use vitempo_planners::aria::{AriaCosts, Requirements};

    /// The costs of the paper's phone at its lowest resolutions, so that scenes are small.
    #[test]
    fn resolutions_and_systems_are_scored() {
        let (mut costs, device) = AriaCosts::paper_phone().expect("what ships");
        costs.levels.truncate(2);
        let most = costs.levels.last().map(|level| (level.rows, level.cols)).expect("a level");
        costs.regions.retain(|region| region.rows <= most.0 && region.cols <= most.1);
        let scenario =
            Scenario::new(costs, device, Requirements::for_target(33.3e6)).expect("a scenario");
        let walk = Walk { seconds: 4, scene_seconds: 2, ..Walk::default() };
        let trace = walk.trace().expect("a trace");
        let simulated = Simulated::of(&scenario, trace, "walk.csv", 0).expect("outcomes");
        let accuracy = Accuracy::of(&simulated).expect("scores");
        let [coarse, fine] = &accuracy.resolutions[..] else { panic!("two levels") };
        assert!(fine.score.depth_rmse_m() < coarse.score.depth_rmse_m());
        let shown = |name: &str| accuracy.systems.iter().find(|scored| scored.name == name);
        let (aria, stale) = (shown("ARIA, 33.3 ms"), shown("full frames as they are"));
        let depth = |scored: Option<&Scored>| scored.map(|s| s.score.depth_rmse_m());
        assert!(depth(aria) < depth(stale), "{:?} {:?}", depth(aria), depth(stale));
        assert!(aria.is_some_and(|s| s.pace.contains("cycles")));
    }
}
