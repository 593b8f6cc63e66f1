//! [`read`]: frames of a camera from a folder, with poses and lens, as footage. [`convert`] makes
//! such a folder from those of others.
//!
//! | file | what |
//! |---|---|
//! | `intrinsics.csv` | `width,height,fx,fy,cx,cy`: one row, pixels |
//! | `poses.csv` | `file,tx,ty,tz,qx,qy,qz,qw`: one row per frame, in order: position in metres and rotation from the camera's axes (x right, y down, z forward) to the world's, as in TUM's RGB-D files |
//! | the files that it names | PNG, JPEG or PPM, all of one size |
//! | the same with `.depth.png` or `.pgm` | where there is one: depth along the camera's axis in millimetres, 16 bits, 0 where it is not known |

mod convert;
mod pictures;
mod poses;

pub use convert::{Converted, convert};

use super::AriaStudyError;
use std::path::Path;
use vitempo::aria::{
    Grid, Intrinsics, Pose,
    scene::{Camera, Picture},
};

/// Headings of the two tables.
const LENS: [&str; 6] = ["width", "height", "fx", "fy", "cx", "cy"];
const POSES: [&str; 8] = ["file", "tx", "ty", "tz", "qx", "qy", "qz", "qw"];

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
        return Err(refuse(&lens_file, format!("no row under `{}`", LENS.join(","))));
    };
    // Pixels of the pictures to patches of the grid.
    let [across, down] = [grid.cols() as f64 / width, grid.rows() as f64 / height];
    let intrinsics = Intrinsics::new([fx * across, fy * down], [cx * across, cy * down])
        .map_err(|e| refuse(&lens_file, e))?;
    let camera = Camera { grid, patch, intrinsics, noise: 0.0 };
    let mut pictures = Vec::new();
    for (name, [tx, ty, tz, qx, qy, qz, qw]) in rows::<7>(&poses_file, 1)? {
        let path = folder.join(&name);
        let colours = pictures::colours(&path)?;
        if [f64::from(colours.width()), f64::from(colours.height())] != [width, height] {
            let found = format!("{} x {} pixels", colours.width(), colours.height());
            return Err(refuse(&path, format!("{found}; intrinsics.csv says {width} x {height}")));
        }
        let depths = ["depth.png", "pgm"].map(|end| path.with_extension(end));
        let depths_m = match depths.iter().find(|depths| depths.exists()) {
            Some(depths) => pictures::nearest(&pictures::depths(depths)?, grid, patch, 1000.0),
            None => vec![0.0; grid.patches() * patch * patch],
        };
        let rotation = poses::rotation([qx, qy, qz, qw])
            .ok_or_else(|| refuse(&poses_file, format!("{name}: the quaternion has length 0")))?;
        pictures.push(Picture {
            height: grid.rows() * patch,
            width: grid.cols() * patch,
            colours: pictures::means(&colours, grid, patch),
            things: vec![0; depths_m.len()],
            depths_m,
            pose: Pose { rotation, position: [tx, ty, tz] },
            frame: pictures.len() as u64,
        });
    }
    if pictures.is_empty() {
        return Err(refuse(&poses_file, format!("no row under `{}`", POSES.join(","))));
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
            ("a.pgm", &b"P5 1 1 255 a"[..], "16 bits"),
            ("a.ppm", b"P6\n8 4\n255\nabc", "not a picture"),
            ("a.ppm", b"P6", "not a picture"),
            ("poses.csv", b"file,tx,ty,tz,qx,qy,qz,qw\na.ppm,1,2,x,0,0,0,2\n", "`x` is not"),
            ("poses.csv", b"file,tx,ty,tz,qx,qy,qz,qw\n", "no row"),
            ("intrinsics.csv", b"width,height,fx,fy,cx,cy\n8,4,0,4,4,2\n", "focal"),
        ] {
            write(name, bytes);
            let refused = again().err().map(|e| e.to_string()).unwrap_or_default();
            assert!(refused.contains(reason) && refused.contains(name), "{refused}");
        }
    }
}
