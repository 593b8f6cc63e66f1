//! The accuracy of a stand-in model, in place of figure 13.

use super::sheet::Sheet;
use crate::table::{Cell, Table};
use vitempo::{
    aria::scene::{Kind, Score},
    plan::aria::{Accuracy, Details},
    planners::Evidence,
};

/// In place of figure 13: the accuracy of a stand-in model.
pub fn accuracy(page: &mut Sheet, details: &Details) {
    page.heading("Accuracy of a stand-in model (in the place of figure 13)");
    page.words(
        "Scenes rendered with known depth and labels are shown as the systems would show them: \
        full frames as often and cycles as many as in the simulation, regions and warping by \
        `vitempo-aria` itself. What stands in for \
         encoder and decoder answers with the median depth and the most frequent label of each \
         patch; it has no other error than the size of patches and age. MobiSR-like is left out: \
         what a network loses when a frame is cut \
         into blocks, the stand-in does not lose.",
    );
    let words = format!(
        "Scenes: {}, {} frames each. Evidence: {}, of a model that is none.",
        Accuracy::SCENES.map(Kind::name).join(", "),
        Accuracy::FRAMES,
        Evidence::Simulation
    );
    let cells =
        |score: &Score| [Cell::number(score.depth_rmse_m()), Cell::number(score.label_miou())];
    let mut alone = Table::new(
        "resolution",
        format!("The stand-in model's own error, where every frame is seen whole. {words}"),
        ["Patches", "Depth RMSE, m", "Label mIoU"],
    );
    for scored in &details.accuracy.resolutions {
        let name = [Cell::text(&scored.name)];
        alone.rows.push(name.into_iter().chain(cells(&scored.score)).collect());
    }
    let mut together = Table::new(
        "accuracy",
        format!("The same model as the systems show it. {words}"),
        ["System", "Pace", "Depth RMSE, m", "Label mIoU"],
    );
    for scored in &details.accuracy.systems {
        let names = [Cell::text(&scored.name), Cell::text(&scored.pace)];
        together.rows.push(names.into_iter().chain(cells(&scored.score)).collect());
    }
    page.table(&alone);
    page.table(&together);
}
