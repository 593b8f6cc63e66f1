//! [`convert`]: frames of published datasets in the format of [`super::read`].
//!
//! | folder of | what it has |
//! |---|---|
//! | TUM RGB-D | `rgb.txt`, `depth.txt` (`time file`) and `groundtruth.txt` (`time tx ty tz qx qy qz qw`); depth in 1/5000 m; the lens is not in it |
//! | ScanNet, as its SensReader writes it | `color/N.jpg`, `depth/N.png` in millimetres, `pose/N.txt` (camera to world, 4 x 4), `intrinsic/intrinsic_color.txt` |
//!
//! Both have cameras as here: x to the right, y down, z forward.

use super::{AriaStudyError, LENS, POSES, pictures, poses, refuse};
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};
use vitempo::aria::Intrinsics;

/// Longest time from a picture to its depth and its pose, s, as TUM's own tools take it.
const APART_S: f64 = 0.02;
/// TUM's depths in a millimetre.
const TUM_PER_MM: u32 = 5;

/// What was converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Frames written.
    pub frames: usize,
    /// Of these, how many have depth.
    pub depths: usize,
    /// Frames without a pose, or with one of which a number is not finite, which are left out.
    pub lost: usize,
}

/// A frame of another dataset.
struct Source {
    colours: PathBuf,
    depths: Option<PathBuf>,
    /// `tx ty tz qx qy qz qw`; none where the camera's place was lost.
    pose: Option<[f64; 7]>,
}

/// Frames of another dataset, and how it counts depth.
struct Sources {
    frames: Vec<Source>,
    /// `fx fy cx cy`, where the folder has them.
    lens: Option<[f64; 4]>,
    per_mm: u32,
}

/// A new folder beside another's place; whatever is left in it is removed with it.
struct Partial(PathBuf);

impl Partial {
    fn beside(out: &Path) -> Result<Self, AriaStudyError> {
        let name = out.file_name().ok_or_else(|| refuse(out, "is no name of a folder"))?;
        let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).map_err(|e| refuse(parent, e))?;
        for number in 0.. {
            let name = format!(".{}.{}.{number}", name.to_string_lossy(), std::process::id());
            let path = parent.join(name);
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(refuse(&path, e)),
            }
        }
        Err(refuse(parent, "is full"))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Gone where it was renamed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes every `step`-th frame of a folder of TUM's or ScanNet's kind into the new folder `out`.
/// `lens` is `fx fy cx cy` in pixels, for folders without.
///
/// # Errors
/// [`AriaStudyError::File`] naming the file and what is wrong with it. Nothing is left at `out`
/// then.
pub fn convert(
    folder: &Path,
    lens: Option<[f64; 4]>,
    step: usize,
    out: &Path,
) -> Result<Converted, AriaStudyError> {
    if out.exists() {
        return Err(refuse(out, "is there already; give a new folder"));
    }
    let Sources { frames, lens: own, per_mm } = sources(folder)?;
    let lens = lens.or(own).ok_or_else(|| {
        refuse(folder, "has no lens; give fx,fy,cx,cy in pixels, as its authors print them")
    })?;
    let [fx, fy, cx, cy] = lens;
    Intrinsics::new([fx, fy], [cx, cy]).map_err(|_| {
        refuse(folder, format!("lens {fx},{fy},{cx},{cy}: two focal lengths above 0 and a centre"))
    })?;
    let partial = Partial::beside(out)?;
    let frames: Vec<Source> = frames.into_iter().step_by(step.max(1)).collect();
    let converted = write(&frames, lens, per_mm, &partial.0)?;
    if converted.frames == 0 {
        return Err(refuse(folder, "no frame has a pose"));
    }
    std::fs::rename(&partial.0, out).map_err(|e| refuse(out, e))?;
    Ok(converted)
}

fn write(
    frames: &[Source],
    lens: [f64; 4],
    per_mm: u32,
    out: &Path,
) -> Result<Converted, AriaStudyError> {
    let mut converted = Converted { frames: 0, depths: 0, lost: 0 };
    let (mut rows, mut size) = (vec![POSES.map(str::to_owned).to_vec()], None);
    for frame in frames {
        let Some(pose) = frame.pose else {
            converted.lost += 1;
            continue;
        };
        let picture = pictures::colours(&frame.colours)?;
        let [across, down] = [picture.width(), picture.height()];
        let [width, height] = *size.get_or_insert([across, down]);
        if [across, down] != [width, height] {
            let wrong = format!("{across} x {down} pixels; the first has {width} x {height}");
            return Err(refuse(&frame.colours, wrong));
        }
        let end = frame.colours.extension().and_then(|end| end.to_str()).unwrap_or("png");
        let name = format!("{:06}.{end}", converted.frames);
        let to = out.join(&name);
        std::fs::copy(&frame.colours, &to).map_err(|e| refuse(&frame.colours, e))?;
        if let Some(depths) = &frame.depths {
            let mut found = pictures::depths(depths)?;
            found.pixels_mut().for_each(|depth| {
                depth.0[0] = ((u32::from(depth.0[0]) + per_mm / 2) / per_mm) as u16;
            });
            let to = to.with_extension("depth.png");
            found.save(&to).map_err(|e| refuse(&to, e))?;
            converted.depths += 1;
        }
        rows.push([vec![name], pose.map(|number| number.to_string()).to_vec()].concat());
        converted.frames += 1;
    }
    table(&out.join("poses.csv"), &rows)?;
    let [width, height] = size.unwrap_or_default().map(f64::from);
    let [fx, fy, cx, cy] = lens;
    let numbers = [width, height, fx, fy, cx, cy].map(|number| number.to_string());
    table(&out.join("intrinsics.csv"), &[LENS.map(str::to_owned).to_vec(), numbers.to_vec()])?;
    Ok(converted)
}

fn table(path: &Path, rows: &[Vec<String>]) -> Result<(), AriaStudyError> {
    let mut writer = csv::Writer::from_path(path).map_err(|e| refuse(path, e))?;
    rows.iter().try_for_each(|row| writer.write_record(row)).map_err(|e| refuse(path, e))?;
    writer.flush().map_err(|e| refuse(path, e))
}

fn sources(folder: &Path) -> Result<Sources, AriaStudyError> {
    if folder.join("groundtruth.txt").exists() {
        tum(folder)
    } else if folder.join("pose").is_dir() {
        scannet(folder)
    } else {
        Err(refuse(
            folder,
            "neither groundtruth.txt, as in a folder of TUM RGB-D, nor pose/, as in one of ScanNet",
        ))
    }
}

/// Lines of words, without comments.
fn lines(path: &Path) -> Result<Vec<Vec<String>>, AriaStudyError> {
    let text = std::fs::read_to_string(path).map_err(|e| refuse(path, e))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    Ok(lines.filter(|line| !line.starts_with('#')).map(words).collect())
}

fn number(path: &Path, text: &str) -> Result<f64, AriaStudyError> {
    text.parse().map_err(|_| refuse(path, format!("`{text}` is not a number")))
}

/// What lines say of each time, by rising time.
fn timed<T>(
    path: &Path,
    of: impl Fn(&[String]) -> Result<T, AriaStudyError>,
) -> Result<Vec<(f64, T)>, AriaStudyError> {
    let one = |line: Vec<String>| {
        let (text, rest) = line.split_first().ok_or_else(|| refuse(path, "an empty line"))?;
        let time = number(path, text)?;
        if !time.is_finite() {
            return Err(refuse(path, format!("`{text}` is not a time")));
        }
        Ok((time, of(rest)?))
    };
    let mut all = lines(path)?.into_iter().map(one).collect::<Result<Vec<_>, AriaStudyError>>()?;
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(all)
}

/// What is nearest in time, where that is near enough.
fn at<T: Clone>(all: &[(f64, T)], time: f64) -> Option<T> {
    let after = all.partition_point(|(other, _)| *other < time);
    let around = all[after.saturating_sub(1)..].iter().take(2);
    let nearest = around.min_by(|a, b| (a.0 - time).abs().total_cmp(&(b.0 - time).abs()))?;
    ((nearest.0 - time).abs() <= APART_S).then(|| nearest.1.clone())
}

fn tum(folder: &Path) -> Result<Sources, AriaStudyError> {
    let files = |name: &str| {
        let path = folder.join(name);
        timed(&path, |words| match words {
            [file] => Ok(folder.join(file)),
            other => Err(refuse(&path, format!("{} words behind a time, not 1", other.len()))),
        })
    };
    let path = folder.join("groundtruth.txt");
    let places = timed(&path, |words| {
        let numbers = words.iter().map(|word| number(&path, word));
        let numbers = numbers.collect::<Result<Vec<f64>, _>>()?;
        <[f64; 7]>::try_from(numbers)
            .map_err(|n| refuse(&path, format!("{} numbers behind a time, not 7", n.len())))
    })?;
    let depths = if folder.join("depth.txt").exists() { files("depth.txt")? } else { Vec::new() };
    let frame = |(time, colours)| {
        let pose = at(&places, time).filter(is_known);
        Source { colours, depths: at(&depths, time), pose }
    };
    let frames = files("rgb.txt")?.into_iter().map(frame).collect();
    Ok(Sources { frames, lens: None, per_mm: TUM_PER_MM })
}

/// Whether numbers are a position and a rotation.
fn is_known(pose: &[f64; 7]) -> bool {
    let [.., qx, qy, qz, qw] = *pose;
    pose.iter().all(|number| number.is_finite()) && poses::rotation([qx, qy, qz, qw]).is_some()
}

fn scannet(folder: &Path) -> Result<Sources, AriaStudyError> {
    let poses_folder = folder.join("pose");
    let entries = std::fs::read_dir(&poses_folder).map_err(|e| refuse(&poses_folder, e))?;
    let mut numbers: Vec<u64> = entries
        .filter_map(|entry| entry.ok()?.path().file_stem()?.to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let frame = |number: u64| {
        let pose = matrix(&poses_folder.join(format!("{number}.txt")))?;
        let depths = folder.join(format!("depth/{number}.png"));
        let pose = pose.iter().flatten().all(|n| n.is_finite()).then(|| {
            let [[xx, xy, xz, tx], [yx, yy, yz, ty], [zx, zy, zz, tz], _] = pose;
            let [qx, qy, qz, qw] = poses::quaternion([[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]]);
            [tx, ty, tz, qx, qy, qz, qw]
        });
        let colours = folder.join(format!("color/{number}.jpg"));
        Ok(Source { colours, depths: depths.exists().then_some(depths), pose })
    };
    let frames = numbers.into_iter().map(frame).collect::<Result<Vec<_>, AriaStudyError>>()?;
    let lens = folder.join("intrinsic/intrinsic_color.txt");
    let lens = lens.exists().then(|| matrix(&lens)).transpose()?;
    let lens = lens.map(|[[fx, _, cx, _], [_, fy, cy, _], ..]| [fx, fy, cx, cy]);
    Ok(Sources { frames, lens, per_mm: 1 })
}

/// Four lines of four numbers.
fn matrix(path: &Path) -> Result<[[f64; 4]; 4], AriaStudyError> {
    let numbers = lines(path)?.into_iter().flatten();
    let numbers = numbers.map(|text| number(path, &text)).collect::<Result<Vec<f64>, _>>()?;
    let numbers: [f64; 16] = numbers
        .try_into()
        .map_err(|n: Vec<f64>| refuse(path, format!("{} numbers, not 4 x 4", n.len())))?;
    let mut matrix = [[0.0; 4]; 4];
    matrix.iter_mut().zip(numbers.chunks(4)).for_each(|(row, of)| row.copy_from_slice(of));
    Ok(matrix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::RgbImage;
    use vitempo::aria::Grid;

    /// A folder, and what writes into it.
    fn folder() -> (tempfile::TempDir, impl Fn(&str, &str)) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().to_owned();
        let write = move |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        (folder, write)
    }

    fn pictures(folder: &Path, colours: &str, depths: &str, depth: u16) {
        let [colours, depths] = [colours, depths].map(|name| folder.join(name));
        for path in [&colours, &depths] {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        }
        RgbImage::from_pixel(8, 4, image::Rgb([200, 100, 0])).save(colours).expect("a picture");
        pictures::Depths::from_pixel(4, 2, image::Luma([depth])).save(depths).expect("depths");
    }

    fn read_back(folder: &Path) -> crate::aria::frames::Recorded {
        let grid = Grid::new(1, 2).expect("a grid");
        crate::aria::frames::read(folder, grid, 2).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn a_folder_of_tum_is_joined_by_time() {
        let (folder, write) = folder();
        let path = folder.path();
        pictures(path, "rgb/a.png", "depth/a.png", 7501);
        pictures(path, "rgb/b.png", "depth/b.png", 5000);
        write("rgb.txt", "# a comment\n1.00 rgb/a.png\n2.00 rgb/b.png\n3.00 rgb/b.png\n");
        write("depth.txt", "1.01 depth/a.png\n2.5 depth/b.png\n");
        write("groundtruth.txt", "0.99 1 2 3 0 0 0 1\n2.015 4 5 6 0 1 0 0\n");
        let out = path.join("out");
        let missing = convert(path, None, 1, &out).expect_err("no lens").to_string();
        assert!(missing.contains("fx,fy,cx,cy"), "{missing}");
        let lens = Some([4.0, 4.0, 4.0, 2.0]);
        let converted = convert(path, lens, 1, &out).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(converted, Converted { frames: 2, depths: 1, lost: 1 });
        let [first, second] = &read_back(&out).pictures[..] else { panic!("two frames") };
        assert_eq!((first.depths_m[0], second.depths_m[0]), (1.5, 0.0));
        assert!((first.colours[0][0] - 200.0 / 255.0).abs() < 1e-6);
        assert_eq!((first.pose.position, second.pose.position), ([1., 2., 3.], [4., 5., 6.]));
        assert_eq!(second.pose.rotation, [[-1., 0., 0.], [0., 1., 0.], [0., 0., -1.]]);
        let again = convert(path, lens, 1, &out).expect_err("is there").to_string();
        assert!(again.contains("is there already"), "{again}");
        // Nothing of another's is touched, nothing of ours is left.
        let theirs = path.join("new.partial/theirs");
        write("new.partial/theirs", "kept");
        let before = std::fs::read_dir(path).expect("a folder").count();
        for lens in [[f64::NAN, 4., 4., 2.], [4., 0., 4., 2.], [4., 4., f64::INFINITY, 2.]] {
            let wrong = convert(path, Some(lens), 1, &path.join("new.v2")).expect_err("no lens");
            assert!(wrong.to_string().contains("two focal lengths"), "{wrong}");
        }
        let second = std::fs::read(path.join("rgb/b.png")).expect("a picture");
        write("rgb/b.png", "cut");
        let wrong = convert(path, lens, 1, &path.join("new.v2")).expect_err("no picture");
        assert!(wrong.to_string().contains("b.png: not a picture"), "{wrong}");
        RgbImage::new(9, 4).save(path.join("rgb/b.png")).expect("a picture");
        let wrong = convert(path, lens, 1, &path.join("new.v2")).expect_err("another size");
        assert!(wrong.to_string().contains("9 x 4 pixels; the first has 8 x 4"), "{wrong}");
        std::fs::write(path.join("rgb/b.png"), second).expect("a picture");
        assert!(theirs.is_file());
        assert_eq!(std::fs::read_dir(path).expect("a folder").count(), before);
        pictures(path, "rgb/a.png", "depth/a.png", 65535);
        write("groundtruth.txt", "0.99 1 2 3 0 0 0 1\n2.015 nan 5 6 0 1 0 0\n");
        let far = convert(path, lens, 1, &path.join("far")).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(far, Converted { frames: 1, depths: 1, lost: 2 });
        assert_eq!(read_back(&path.join("far")).pictures[0].depths_m[0], 13.107);
        write("groundtruth.txt", "0.99 1 2 3\n");
        let wrong = convert(path, lens, 1, &path.join("other")).expect_err("three numbers");
        assert!(wrong.to_string().contains("groundtruth.txt: 3 numbers"), "{wrong}");
        assert!(!path.join("other").exists());
    }

    #[test]
    fn a_folder_of_scannet_has_its_lens_and_leaves_lost_frames_out() {
        let (folder, write) = folder();
        let path = folder.path();
        let turned = "0 -1 0 1\n1 0 0 2\n0 0 1 3\n0 0 0 1\n";
        for (number, pose) in [(0, turned), (1, "-inf ".repeat(16).as_str()), (10, turned)] {
            let [colours, depths] = [format!("color/{number}.jpg"), format!("depth/{number}.png")];
            pictures(path, &colours, &depths, 1500);
            write(&format!("pose/{number}.txt"), pose);
        }
        write("intrinsic/intrinsic_color.txt", "4 0 4 0\n0 5 2 0\n0 0 1 0\n0 0 0 1\n");
        let out = path.join("out");
        let converted = convert(path, None, 1, &out).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(converted, Converted { frames: 2, depths: 2, lost: 1 });
        let recorded = read_back(&out);
        assert_eq!(recorded.camera.intrinsics.focal(), [1.0, 1.25]);
        let pose = &recorded.pictures[1].pose;
        assert_eq!(pose.position, [1.0, 2.0, 3.0]);
        assert!((pose.rotation[1][0] - 1.0).abs() < 1e-12 && pose.rotation[0][0].abs() < 1e-12);
        assert_eq!(recorded.pictures[0].depths_m[3], 1.5);
        let nothing = convert(&path.join("pose"), None, 1, &path.join("x")).expect_err("no folder");
        assert!(nothing.to_string().contains("neither"), "{nothing}");
    }
}
