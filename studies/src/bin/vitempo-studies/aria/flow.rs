//! The patch flow of section 4.3.1: training it, and the trained one as one of the systems' flows.

use super::{super::print::Table, AriaArgs, grids};
use vitempo::{
    aria::{FlowSource, Intrinsics, scene::Scene},
    plan::aria::FlowError,
};
use vitempo_studies::aria::{
    AriaStudyError, FlowStudy, LEVELS, Precision, Teacher, Trained, frames, learn, top,
};

/// What a flow learns from.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default)]
pub enum Taught {
    /// The features of the later frame: the paper's loss
    #[default]
    Features,
    /// The decoder's depth of the earlier frame
    Depth,
}

impl From<Taught> for Teacher {
    fn from(taught: Taught) -> Self {
        match taught {
            Taught::Features => Self::Features,
            Taught::Depth => Self::Depth,
        }
    }
}

/// Most pairs of frames that a flow is trained on, and held-out ones for each scene of a kind.
const PAIRS: u64 = 384;
const TESTED: u64 = 4;

/// Trains a flow, writes it where that is asked for, and prints its error beside flows in closed form.
pub fn table(args: &AriaArgs, trained: &Trained, steps: usize) -> Result<Table, AriaStudyError> {
    let mut network = trained.on(&args.backend, Precision::F32, &grids(&LEVELS)?, &[top()?])?;
    let study = FlowStudy {
        pairs: PAIRS.min(steps.max(1) as u64),
        tested: TESTED * args.scenes,
        steps,
        teacher: args.teacher.into(),
        first: args.first,
    };
    let mut table = Table::new(&["Flow", "Patches off", "1 - cosine", "Patches"], 1);
    let (errors, file) = learn(&mut network, trained, study)?;
    if let Some(path) = &args.flow_out {
        file.write(path)?;
    }
    for error in errors {
        table.row([
            error.name.clone(),
            format!("{:.3}", error.distance_patches()),
            format!("{:.4}", error.difference()),
            error.patches.to_string(),
        ]);
    }
    Ok(table)
}

/// The flow that was trained on the network's features, where there is one for the camera: rendered
/// scenes have lenses that it was trained behind, recorded frames may have another.
pub fn learned(args: &AriaArgs, trained: &Trained) -> Result<Option<FlowSource>, AriaStudyError> {
    let top = top()?;
    let camera = match &args.recorded {
        Some(folder) => frames::read(folder, top, trained.models.patch())?.camera.intrinsics,
        None => Intrinsics::with_field_of_view(top, Scene::VIEWS_RAD[0])?,
    };
    match trained.flow_behind(top, camera) {
        Err(AriaStudyError::Flow(error @ FlowError::Lens { .. })) => {
            eprintln!("without the learned flow: {error}");
            Ok(None)
        }
        found => found,
    }
}
