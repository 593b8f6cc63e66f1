//! Depth and labels of a stand-in model in rendered scenes, as the systems of a simulation would
//! show them: in the place of figure 13 and of what figures 15 and 17 say of accuracy. The scenes'
//! truth is known pixel by pixel; the model is none (`vitempo::aria::scene::Model`), and its own
//! error against resolution stands beside.

use super::simulated::Simulated;
use vitempo::aria::{
    AriaError, Grid,
    scene::{Kind, Model, Scene, Score, Way, end_to_end},
};
use vitempo::planners::{
    Evidence,
    aria::{AriaOutcome, System},
};
use vitempo_report::table::{Cell, Table};

/// Of each scene: seed, camera frames, and pixels on a side of a patch.
const SEED: u64 = 41;
const FRAMES: u64 = 40;
const PIXELS: usize = 4;
/// Features of looks.
const LOOKS: usize = 64;

/// What is scored.
struct Shown {
    name: String,
    pace: String,
    way: Way,
}

/// Resolutions alone, then systems at both targets.
pub fn tables(s: &Simulated) -> Result<[Table; 2], String> {
    let (resolutions, systems) = (resolutions(s), systems(s));
    let ways: Vec<Way> = resolutions.iter().chain(&systems).map(|shown| shown.way).collect();
    let scores = scored(s, &ways).map_err(|e| e.to_string())?;
    let (alone, together) = scores.split_at(resolutions.len());
    let words = format!(
        "Scenes: {}, {FRAMES} frames each. Evidence: {}, of a model that is none.",
        Kind::ALL.map(Kind::name).join(", "),
        Evidence::Simulation
    );
    let mut first = Table::new(
        "resolution",
        format!("The stand-in model's own error, where every frame is seen whole. {words}"),
        ["Patches", "Depth RMSE, m", "Label mIoU"],
    );
    let cells =
        |score: &Score| [Cell::number(score.depth_rmse_m()), Cell::number(score.label_miou())];
    resolutions.iter().zip(alone).for_each(|(shown, score)| {
        first.rows.push([Cell::text(&shown.name)].into_iter().chain(cells(score)).collect());
    });
    let mut second = Table::new(
        "accuracy",
        format!("The same model as the systems show it. {words}"),
        ["System", "Pace", "Depth RMSE, m", "Label mIoU"],
    );
    let rows = systems.iter().zip(together);
    rows.for_each(|(shown, score)| {
        second.rows.push(
            [Cell::text(&shown.name), Cell::text(&shown.pace)]
                .into_iter()
                .chain(cells(score))
                .collect(),
        );
    });
    Ok([first, second])
}

fn scored(s: &Simulated, ways: &[Way]) -> Result<Vec<Score>, AriaError> {
    let top = s.stage.costs.levels.last().map_or([1, 1], |level| [level.rows, level.cols]);
    let (grid, model) = (Grid::new(top[0], top[1])?, Model::new(LOOKS, 1));
    let mut all = vec![Score::default(); ways.len()];
    for kind in Kind::ALL {
        let scene = Scene::new(kind, SEED, grid, PIXELS)?;
        all.iter_mut()
            .zip(end_to_end(&scene, &model, FRAMES, ways)?)
            .for_each(|(all, score)| all.add(&score));
    }
    Ok(all)
}

fn resolutions(s: &Simulated) -> Vec<Shown> {
    let levels = s.stage.costs.levels.iter();
    let shown = |rows, cols| Shown {
        name: format!("{rows} x {cols}"),
        pace: String::new(),
        way: Way::Resized { rows, cols },
    };
    levels.map(|level| shown(level.rows, level.cols)).collect()
}

fn systems(s: &Simulated) -> Vec<Shown> {
    let mut all = Vec::new();
    for outcomes in [&s.outcomes, &s.relaxed] {
        for o in outcomes {
            let target = format!("{}, {:.1} ms", o.system.name(), o.target_ns / 1e6);
            all.extend(way(s, o).map(|(pace, way)| Shown { name: target, pace, way }));
        }
    }
    let interval = s.outcomes.iter().find(|o| o.system == System::Base).map_or(1, interval);
    all.push(Shown {
        name: "full frames as they are".to_owned(),
        pace: every(interval),
        way: Way::Stale { interval },
    });
    all
}

fn every(interval: u64) -> String {
    format!("full frames every {interval} frames")
}

/// Camera frames from full frame to full frame: one is between one and two of them old when it is
/// shown.
fn interval(o: &AriaOutcome) -> u64 {
    (((o.full_frame_age + 0.5) / 1.5).round() as u64).max(1)
}

/// What a system shows, where the stand-in can tell: it sees no more in a whole frame than in its
/// blocks, so it says nothing of those that are cut.
fn way(s: &Simulated, o: &AriaOutcome) -> Option<(String, Way)> {
    let (interval, cycles) = (interval(o), o.cycles.round() as usize);
    let pace = format!("{}, {cycles} cycles", every(interval));
    match o.system {
        System::NpuOnly => {
            let level = s
                .stage
                .costs
                .levels
                .iter()
                .find(|level| (level.rows * level.cols) as f64 >= o.patches)?;
            let (rows, cols) = (level.rows, level.cols);
            Some((format!("every frame at {rows} x {cols} patches"), Way::Resized { rows, cols }))
        }
        System::Base => Some((pace, Way::Base { interval, cycles, region: o.region })),
        System::Aria => Some((pace, Way::Aria { interval, cycles, region: o.region })),
        _ => None,
    }
}
