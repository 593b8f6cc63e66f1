//! [`Flow`]: an estimator that is chosen when the program runs, by rotation, by a decoder's depth or
//! learned; [`FlowSource`]: the choice.

use super::{
    CameraFlow, CameraMotion, FlowEstimator, Intrinsics, LearnedFlow, PatchFlow, Structure,
};
use crate::{AriaError, FeatureMap, Grid};

/// What the flow of full frames follows from.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowSource {
    /// The camera's rotation alone.
    Rotation,
    /// The depth that the decoder gives for full frames ([`Flow::set_depths`]), and the rotation alone
    /// until there is one.
    Depth,
    /// Features, by what was learned.
    Learned(LearnedFlow),
}

impl FlowSource {
    /// The name for tables.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Rotation => "rotation",
            Self::Depth => "decoder's depth",
            Self::Learned(_) => "learned",
        }
    }
}

/// A flow in closed form or learned, before one camera.
#[derive(Clone, Debug, PartialEq)]
pub enum Flow {
    /// In closed form by what is known of the scene, which stays as it is.
    Camera(CameraFlow),
    /// In closed form by depths that the application sets.
    Depth(CameraFlow),
    /// Learned.
    Learned(LearnedFlow),
}

impl Flow {
    /// For frames of `grid` patches that a lens in these patches sees.
    #[must_use]
    pub fn new(source: &FlowSource, grid: Grid, intrinsics: Intrinsics) -> Self {
        let distant = || CameraFlow::new(intrinsics, Structure::Distant);
        match source {
            FlowSource::Rotation => Self::Camera(distant()),
            FlowSource::Depth => Self::Depth(distant()),
            FlowSource::Learned(learned) => Self::Learned(learned.behind(grid, intrinsics)),
        }
    }

    /// The depth of each patch of the latest full frame, m; only [`Flow::Depth`] needs it.
    pub fn set_depths(&mut self, depths_m: &[f32]) {
        if let Self::Depth(flow) = self {
            flow.set_structure(Structure::Depth(depths_m.to_vec()));
        }
    }
}

impl FlowEstimator for Flow {
    fn flow(&self, source: &FeatureMap, motion: &CameraMotion) -> Result<PatchFlow, AriaError> {
        match self {
            Self::Camera(flow) | Self::Depth(flow) => flow.flow(source, motion),
            Self::Learned(flow) => flow.flow(source, motion),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Pose,
        flow::{Shape, learned::MOTION},
    };

    #[test]
    fn depths_matter_to_the_flow_by_depth_alone() {
        let grid = Grid::new(4, 6).expect("a grid");
        let lens = Intrinsics::with_field_of_view(grid, 1.1).expect("a lens");
        let map = FeatureMap::new(grid, 5).expect("a map");
        let motion =
            CameraMotion::between(&Pose::default(), &Pose::looking([0.3, 0.0, 0.0], 0.1, 0.0, 0.0));
        let shape = Shape { width: 5, latent: MOTION, hidden: 4 };
        // The last parameter is the output's bias: all is 1 / 0.2 m away.
        let mut parameters = vec![0.0; shape.parameters()];
        *parameters.last_mut().expect("a parameter") = 0.2;
        let learned = LearnedFlow::new(shape, grid, lens, parameters).expect("a flow");
        let flows =
            [FlowSource::Rotation, FlowSource::Depth, FlowSource::Learned(learned)].map(|of| {
                let mut flow = Flow::new(&of, grid, lens);
                let before = flow.flow(&map, &motion).expect("a flow");
                flow.set_depths(&vec![5.0; grid.patches()]);
                (of.name(), before, flow.flow(&map, &motion).expect("a flow"))
            });
        let [(_, rotation, still), (_, without, depth), (name, learned, also)] = &flows;
        assert_eq!((rotation, rotation, learned), (still, without, also));
        assert_eq!(*name, "learned");
        let off = |a: &PatchFlow, b: &PatchFlow| {
            let apart = a.sources().iter().zip(b.sources()).map(|(a, b)| (a[0] - b[0]).abs());
            apart.fold(0.0, f32::max)
        };
        assert!(off(depth, rotation) > 0.1);
        assert!(
            off(learned, depth) < 0.1 * off(depth, rotation),
            "a plane 5 m away, seen straight"
        );
    }
}
