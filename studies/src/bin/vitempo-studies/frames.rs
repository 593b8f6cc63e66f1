//! `vitempo-studies frames`: frames of published datasets in the format that `aria --recorded`
//! reads.

use super::print::{self, Failure};
use std::path::PathBuf;
use vitempo_studies::aria::frames::convert;

/// Converts a folder of TUM RGB-D or ScanNet into frames for `aria --recorded`
///
/// Example: vitempo-studies frames rgbd_dataset_freiburg1_desk --lens 517.3,516.5,318.6,255.3 --out desk
#[derive(clap::Args, Debug)]
pub struct FramesArgs {
    /// Folder of a sequence: of TUM RGB-D, or of ScanNet as its SensReader writes it
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Focal lengths and centre of the camera in pixels, where the folder does not have them
    #[arg(long, value_name = "FX,FY,CX,CY", value_parser = lens)]
    lens: Option<Lens>,
    /// Take every N-th frame
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// New folder
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug)]
struct Lens([f64; 4]);

fn lens(text: &str) -> Result<Lens, String> {
    let numbers = text.split(',').map(|number| number.trim().parse::<f64>());
    let numbers = numbers.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    match numbers[..] {
        [fx, fy, cx, cy] if fx > 0.0 && fy > 0.0 && numbers.iter().all(|n| n.is_finite()) => {
            Ok(Lens([fx, fy, cx, cy]))
        }
        _ => {
            Err("four numbers with commas between, as 525,525,319.5,239.5: focal lengths above 0 \
                  and a centre"
                .to_owned())
        }
    }
}

pub fn run(args: &FramesArgs) -> Result<(), Failure> {
    let lens = args.lens.map(|Lens(numbers)| numbers);
    let of = convert(&args.folder, lens, args.every as usize, &args.out).map_err(Failure::new)?;
    let out = args.out.display();
    print::write(&format!(
        "{} frames in {out}, {} with depth; {} without a pose left out\n",
        of.frames, of.depths, of.lost
    ))
}
