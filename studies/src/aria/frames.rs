//! [`read`]: frames of a camera from a folder, with poses and lens, as footage.
//!
//! | file | what |
//! |---|---|
//! | `intrinsics.csv` | `width,height,fx,fy,cx,cy`: one row, pixels |
//! | `poses.csv` | `file,tx,ty,tz,qx,qy,qz,qw`: one row per frame, in order: position in metres and rotation from the camera's axes (x right, y down, z forward) to the world's, as in TUM's RGB-D files |
//! | the files that it names | binary PPM (`P6`, 8 bits), all of one size |
//! | the same with `.pgm` | where there is one: depth along the camera's axis in millimetres, binary PGM (`P5`, 16 bits), 0 where it is not known |

use super::AriaStudyError;
use std::path::Path;
use vitempo::aria::{
    Grid, Intrinsics, Pose,
    scene::{Camera, Picture},
};

/// Largest side of a picture, pixels.
const MOST: usize = 1 << 14;

/// Pictures of a camera.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The camera, at the network's highest resolution.
    pub camera: Camera,
    /// Its pictures; depth is 0 where it is not known.
    pub pictures: Vec<Picture>,
}

fn refuse(path: &Path, reason: impl ToString) -> AriaStudyError {
    AriaStudyError::File { path: path.to_owned(), reason: reason.to_string() }
}

/// Reads a folder, resized to `grid` patches of `patch` pixels.
///
/// # Errors
/// [`AriaStudyError::File`] naming the file and what is wrong with it.
pub fn read(folder: &Path, grid: Grid, patch: usize) -> Result<Recorded, AriaStudyError> {
    let (lens_file, poses_file) = (folder.join("intrinsics.csv"), folder.join("poses.csv"));
    let lens = rows::<6>(&lens_file, 0)?;
    let Some((_, [width, height, fx, fy, cx, cy])) = lens.first().cloned() else {
        return Err(refuse(&lens_file, "no row under `width,height,fx,fy,cx,cy`"));
    };
    // Pixels of the pictures to patches of the grid.
    let [across, down] = [grid.cols() as f64 / width, grid.rows() as f64 / height];
    let intrinsics = Intrinsics::new([fx * across, fy * down], [cx * across, cy * down])
        .map_err(|e| refuse(&lens_file, e))?;
    let camera = Camera { grid, patch, intrinsics, noise: 0.0 };
    let mut pictures = Vec::new();
    for (name, [tx, ty, tz, qx, qy, qz, qw]) in rows::<7>(&poses_file, 1)? {
        let path = folder.join(&name);
        let colours = Netpbm::read(&path, b"P6", 255)?;
        if [colours.width as f64, colours.height as f64] != [width, height] {
            let found = format!("{} x {} pixels", colours.width, colours.height);
            return Err(refuse(&path, format!("{found}; intrinsics.csv says {width} x {height}")));
        }
        let depths = path.with_extension("pgm");
        let depths_m = if depths.exists() {
            Netpbm::read(&depths, b"P5", 65535)?.nearest(grid, patch, 1000.0)
        } else {
            vec![0.0; grid.patches() * patch * patch]
        };
        let rotation = rotation([qx, qy, qz, qw])
            .ok_or_else(|| refuse(&poses_file, format!("{name}: the quaternion has length 0")))?;
        pictures.push(Picture {
            height: grid.rows() * patch,
            width: grid.cols() * patch,
            colours: colours.colours(grid, patch),
            things: vec![0; depths_m.len()],
            depths_m,
            pose: Pose { rotation, position: [tx, ty, tz] },
            frame: pictures.len() as u64,
        });
    }
    if pictures.is_empty() {
        return Err(refuse(&poses_file, "no row under `file,tx,ty,tz,qx,qy,qz,qw`"));
    }
    Ok(Recorded { camera, pictures })
}

/// Numbers of each row behind `names` columns of text (0 or 1), which must be finite.
fn rows<const N: usize>(
    path: &Path,
    names: usize,
) -> Result<Vec<(String, [f64; N])>, AriaStudyError> {
    let mut reader = csv::Reader::from_path(path).map_err(|e| refuse(path, e))?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| refuse(path, e))?;
        let line = rows.len() + 2;
        if record.len() != names + N {
            let wrong = format!("line {line} has {} fields, not {}", record.len(), names + N);
            return Err(refuse(path, wrong));
        }
        let mut numbers = [0.0; N];
        for (number, text) in numbers.iter_mut().zip(record.iter().skip(names)) {
            *number = text.trim().parse().unwrap_or(f64::NAN);
            if !number.is_finite() {
                return Err(refuse(path, format!("line {line}: `{text}` is not a number")));
            }
        }
        rows.push((record.get(0).unwrap_or_default().to_owned(), numbers));
    }
    Ok(rows)
}

/// The matrix of a rotation; `None` for a quaternion of length 0.
fn rotation(quaternion: [f64; 4]) -> Option<[[f64; 3]; 3]> {
    let length = quaternion.iter().map(|q| q * q).sum::<f64>().sqrt();
    let [x, y, z, w] = quaternion.map(|q| q / length);
    let matrix = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
    ];
    (length > 1e-9).then_some(matrix)
}

/// A binary picture of the Netpbm formats.
struct Netpbm {
    width: usize,
    height: usize,
    /// Numbers of each pixel in turn.
    values: Vec<u16>,
}

impl Netpbm {
    fn read(path: &Path, magic: &[u8; 2], most: usize) -> Result<Self, AriaStudyError> {
        let bytes = std::fs::read(path).map_err(|e| refuse(path, e))?;
        let magic_text = String::from_utf8_lossy(magic).into_owned();
        let wrong = || refuse(path, format!("not a binary {magic_text} picture up to {most}"));
        if !bytes.starts_with(magic) {
            return Err(wrong());
        }
        let (mut at, mut sizes) = (2, [0usize; 3]);
        for size in &mut sizes {
            at += bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let text = std::str::from_utf8(&bytes[at..at + digits]).unwrap_or_default();
            *size = text.parse().map_err(|_| wrong())?;
            at += digits;
        }
        let [width, height, maximum] = sizes;
        let numbers = if magic == b"P6" { 3 } else { 1 };
        let size = if maximum > 255 { 2 } else { 1 };
        let fits = (1..=MOST).contains(&width) && (1..=MOST).contains(&height) && maximum == most;
        let pixels = bytes.get(at + 1..).unwrap_or_default();
        if !fits || pixels.len() < width * height * numbers * size {
            return Err(wrong());
        }
        let values = pixels[..width * height * numbers * size]
            .chunks_exact(size)
            .map(|number| number.iter().fold(0, |sum, byte| sum << 8 | u16::from(*byte)));
        Ok(Self { width, height, values: values.collect() })
    }

    /// Means of areas, from 0 to 1.
    fn colours(&self, grid: Grid, patch: usize) -> Vec<[f32; 3]> {
        let (rows, cols) = (grid.rows() * patch, grid.cols() * patch);
        let span = |pixel: usize, count: usize, of: usize| {
            let from = pixel * of / count;
            from..((pixel + 1) * of).div_ceil(count).max(from + 1).min(of)
        };
        let mut colours = Vec::with_capacity(rows * cols);
        for y in 0..rows {
            for x in 0..cols {
                let (mut sum, mut count) = ([0.0f32; 3], 0.0);
                for line in span(y, rows, self.height) {
                    for pixel in span(x, cols, self.width) {
                        let at = 3 * (line * self.width + pixel);
                        (0..3).for_each(|c| sum[c] += f32::from(self.values[at + c]));
                        count += 255.0;
                    }
                }
                colours.push(sum.map(|sum| sum / count));
            }
        }
        colours
    }

    /// Nearest numbers, divided.
    fn nearest(&self, grid: Grid, patch: usize, by: f32) -> Vec<f32> {
        let (rows, cols) = (grid.rows() * patch, grid.cols() * patch);
        let at = |pixel: usize| {
            let (y, x) = (pixel / cols * self.height / rows, pixel % cols * self.width / cols);
            f32::from(self.values[y * self.width + x]) / by
        };
        (0..rows * cols).map(at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_with_its_lens_and_poses_and_refused_with_a_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let grid = Grid::new(1, 2).expect("a grid");
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.path().join(name), bytes).expect("a file");
        };
        let again = || read(folder.path(), grid, 2);
        write("intrinsics.csv", b"width,height,fx,fy,cx,cy\n8,4,4,4,4,2\n");
        write("poses.csv", b"file,tx,ty,tz,qx,qy,qz,qw\na.ppm,1,2,3,0,0,0,2\n");
        let pixels: Vec<u8> = (0..8 * 4).flat_map(|pixel| [pixel as u8, 0, 255]).collect();
        write("a.ppm", &[b"P6\n8 4\n255\n", &pixels[..]].concat());
        let depths: Vec<u8> = (0..8 * 4u16).flat_map(|_| 1500u16.to_be_bytes()).collect();
        write("a.pgm", &[b"P5 8 4 65535 ", &depths[..]].concat());
        let recorded = again().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(recorded.camera.intrinsics.focal(), [1.0, 1.0]);
        let [picture] = &recorded.pictures[..] else { panic!("one picture") };
        // The first two pixels of two lines: 0, 1, 8 and 9.
        assert!((picture.colours[0][0] - 4.5 / 255.0).abs() < 1e-6);
        assert_eq!((picture.colours[7][2], picture.depths_m[3]), (1.0, 1.5));
        assert_eq!(picture.pose, Pose { position: [1.0, 2.0, 3.0], ..Pose::default() });
        for (name, bytes, reason) in [
            ("a.ppm", &b"P6\n8 4\n255\nabc"[..], "not a binary P6"),
            ("a.ppm", b"P6", "not a binary P6"),
            ("poses.csv", b"file,tx,ty,tz,qx,qy,qz,qw\na.ppm,1,2,x,0,0,0,2\n", "`x` is not"),
            ("poses.csv", b"file,tx,ty,tz,qx,qy,qz,qw\n", "no row"),
            ("intrinsics.csv", b"width,height,fx,fy,cx,cy\n8,4,0,4,4,2\n", "focal"),
        ] {
            write(name, bytes);
            let refused = again().err().map(|e| e.to_string()).unwrap_or_default();
            assert!(refused.contains(reason) && refused.contains(name), "{refused}");
        }
        let half = std::f64::consts::FRAC_1_SQRT_2;
        let turned = rotation([0.0, half, 0.0, half]).expect("a rotation");
        assert!((turned[0][2] - 1.0).abs() < 1e-9 && (turned[2][0] + 1.0).abs() < 1e-9);
    }
}
