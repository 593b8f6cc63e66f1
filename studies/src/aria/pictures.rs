//! [`sheet`]: what systems show of one frame, side by side (figure 14).

use super::{AriaStudyError, OnEngine, Way, top};
use image::{Rgb, RgbImage};
use vitempo::aria::scene::{Footage, Kind, LABELS, Picture, Scene, watched};

/// The ways that are drawn.
const DRAWN: [&str; 5] =
    ["reference, no deadline", "NPU-only", "ARIA-base", "ARIA (+ S3)", "ARIA, whole windows"];
/// The frame: any, but the same.
const FRAME: u64 = 40;
/// Depths at the ends of the scale, m.
const DEPTHS: [f32; 2] = [0.5, 8.0];
/// Colours of near and far.
const ENDS: [[f32; 3]; 2] = [[253.0, 231.0, 37.0], [40.0, 20.0, 90.0]];
/// Colours of labels.
const COLOURS: [[u8; 3]; LABELS] = [
    [200, 200, 200],
    [120, 120, 120],
    [166, 206, 227],
    [31, 120, 180],
    [178, 223, 138],
    [51, 160, 44],
    [251, 154, 153],
    [227, 26, 28],
    [253, 191, 111],
    [255, 127, 0],
    [106, 61, 154],
];

/// A picture of the camera, the truth, and what five of the ways show: depth above labels. Also the
/// names of its columns.
///
/// # Errors
/// [`AriaStudyError`] when the network fails.
pub fn sheet(
    network: &mut OnEngine,
    ways: &[Way],
    patch: usize,
) -> Result<(Vec<String>, RgbImage), AriaStudyError> {
    let scene = Scene::furnished(Kind::Crowded, Scene::HELD_OUT, top()?, patch)?;
    let pictures: Vec<Picture> = (0..=FRAME).map(|frame| scene.picture(frame)).collect();
    let footage =
        Footage { camera: scene.camera(), pictures: &pictures, world: Some(scene.world()) };
    let drawn: Vec<&Way> =
        DRAWN.iter().filter_map(|name| ways.iter().find(|way| way.name == *name)).collect();
    let shows: Vec<_> = drawn.iter().map(|way| way.show.clone()).collect();
    let last = &pictures[FRAME as usize];
    let (height, width) = (last.height, last.width);
    let truth = last.depths_m.iter().zip(&last.things);
    let truth = truth.map(|(depth, thing)| (*depth, usize::from(scene.world().label(*thing))));
    let mut columns: Vec<Vec<(f32, usize)>> = vec![truth.collect()];
    watched(&footage, network, 0, &shows, &mut |_, picture, dense| {
        if picture.frame == FRAME {
            columns.push(dense.answers(height, width));
        }
    })?;
    let mut image = RgbImage::from_pixel(
        ((columns.len() + 1) * width) as u32,
        2 * height as u32,
        Rgb([255; 3]),
    );
    let mut put = |column: usize, row: usize, pixel: usize, colour: [u8; 3]| {
        let (x, y) = (column * width + pixel % width, row * height + pixel / width);
        image.put_pixel(x as u32, y as u32, Rgb(colour));
    };
    for (pixel, colour) in last.colours.iter().enumerate() {
        put(0, 0, pixel, colour.map(|part| (255.0 * part).clamp(0.0, 255.0) as u8));
    }
    for (number, answers) in columns.iter().enumerate() {
        for (pixel, (depth, label)) in answers.iter().enumerate() {
            put(number + 1, 0, pixel, far(*depth));
            put(number + 1, 1, pixel, COLOURS[(*label).min(LABELS - 1)]);
        }
    }
    let names = ["camera", "truth"].into_iter().chain(drawn.iter().map(|way| way.name.as_str()));
    Ok((names.map(str::to_owned).collect(), image))
}

/// The colour of a depth.
fn far(depth_m: f32) -> [u8; 3] {
    let [near, end] = DEPTHS.map(f32::ln);
    let share = ((depth_m.max(1e-3).ln() - near) / (end - near)).clamp(0.0, 1.0);
    std::array::from_fn(|part| (ENDS[0][part] + share * (ENDS[1][part] - ENDS[0][part])) as u8)
}
