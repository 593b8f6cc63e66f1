//! Pictures of files, and their pixels on a grid of patches.

use super::{AriaStudyError, refuse};
use image::{DynamicImage, ImageBuffer, ImageReader, Limits, Luma, RgbImage};
use std::path::Path;
use vitempo::aria::Grid;

/// Depths in the unit of a file.
pub type Depths = ImageBuffer<Luma<u16>, Vec<u16>>;

/// Largest side of a picture, pixels.
const MOST: u32 = 1 << 14;

fn open(path: &Path) -> Result<DynamicImage, AriaStudyError> {
    let wrong = |e: &dyn std::fmt::Display| refuse(path, format!("not a picture: {e}"));
    let mut reader = ImageReader::open(path).map_err(|e| refuse(path, e))?;
    let mut limits = Limits::default();
    (limits.max_image_width, limits.max_image_height) = (Some(MOST), Some(MOST));
    reader.limits(limits);
    reader.with_guessed_format().map_err(|e| wrong(&e))?.decode().map_err(|e| wrong(&e))
}

/// The colours of a PNG, JPEG or PPM file.
///
/// # Errors
/// [`AriaStudyError::File`] where it is none.
pub fn colours(path: &Path) -> Result<RgbImage, AriaStudyError> {
    Ok(open(path)?.into_rgb8())
}

/// The depths of a PNG or PGM file of 16 bits and one channel.
///
/// # Errors
/// [`AriaStudyError::File`] where it is none.
pub fn depths(path: &Path) -> Result<Depths, AriaStudyError> {
    match open(path)? {
        DynamicImage::ImageLuma16(depths) => Ok(depths),
        other => {
            Err(refuse(path, format!("depths are one number of 16 bits, not {:?}", other.color())))
        }
    }
}

/// Means of areas, from 0 to 1.
pub fn means(picture: &RgbImage, grid: Grid, patch: usize) -> Vec<[f32; 3]> {
    let (rows, cols) = (grid.rows() * patch, grid.cols() * patch);
    let span = |pixel: usize, count: usize, of: u32| {
        let from = pixel * of as usize / count;
        let to = ((pixel + 1) * of as usize).div_ceil(count).max(from + 1).min(of as usize);
        from as u32..to as u32
    };
    let mut means = Vec::with_capacity(rows * cols);
    for y in 0..rows {
        for x in 0..cols {
            let (mut sum, mut count) = ([0.0f32; 3], 0.0);
            for line in span(y, rows, picture.height()) {
                for pixel in span(x, cols, picture.width()) {
                    let colour = picture.get_pixel(pixel, line).0;
                    sum.iter_mut().zip(colour).for_each(|(sum, part)| *sum += f32::from(part));
                    count += 255.0;
                }
            }
            means.push(sum.map(|sum| sum / count));
        }
    }
    means
}

/// Nearest numbers in metres, of which the file counts so many parts.
pub fn nearest(depths: &Depths, grid: Grid, patch: usize, parts: f32) -> Vec<f32> {
    let (rows, cols) = ((grid.rows() * patch) as u32, (grid.cols() * patch) as u32);
    let at = |pixel: u32| {
        let (y, x) = (pixel / cols * depths.height() / rows, pixel % cols * depths.width() / cols);
        f32::from(depths.get_pixel(x, y).0[0]) / parts
    };
    (0..rows * cols).map(at).collect()
}
