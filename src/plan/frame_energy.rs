//! The energy of a whole frame when a plan runs on a device: [`FrameSettings::open`] reads the
//! device, [`FrameModel::add`] adds its frame to a plan.

use super::{
    multi_dnn::Placing,
    offload::{Device, WeighError},
};
use vitempo_planners::{
    Plan,
    cost::Costs,
    energy::{
        CameraUse, PlanFrame, PlanUse, Running, StageEnergy,
        offload::{Clock, OffloadModel},
    },
};

/// How the device is used.
#[derive(Clone, Debug)]
pub struct FrameSettings {
    /// The constants of the device.
    pub device: Device,
    /// Its frequency, GHz; `None`: its highest.
    pub ghz: Option<f64>,
    /// Frames per second of its camera.
    pub camera_fps: f64,
    /// Processors that are not on the device: what is sent to them goes by radio.
    pub remote: Vec<String>,
}

/// Why there is no energy of a frame.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameEnergyError {
    /// The constants are invalid.
    #[error(transparent)]
    Device(#[from] WeighError),
    /// The device lists no frequencies, and none is given.
    #[error("the frequency of the device is not known: its `processor` is missing")]
    NoFrequency,
    /// A processor that the plan does not have.
    #[error("there is no processor `{name}`: there are {known}")]
    NoProcessor {
        /// The given name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The first processor is not on the device.
    #[error("inputs arrive at `{0}`, from the device's camera: it cannot be off the device")]
    FirstIsRemote(String),
}

/// A device, and how it is used.
#[derive(Clone, Debug)]
pub struct FrameModel {
    device: OffloadModel,
    with: PlanUse,
}

impl FrameSettings {
    /// Reads the device. `processors` are the names that plans use; inputs arrive at the first.
    ///
    /// # Errors
    /// [`FrameEnergyError`] naming the constant, or the processor.
    pub fn open<'a>(
        &self,
        processors: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<FrameModel, FrameEnergyError> {
        let unknown = |name: &&String| processors.clone().all(|known| known != **name);
        if let Some(name) = self.remote.iter().find(unknown) {
            let known = processors.collect::<Vec<_>>().join(", ");
            return Err(FrameEnergyError::NoProcessor { name: name.clone(), known });
        }
        if let Some(first) = processors.clone().next().filter(|first| self.is_remote(first)) {
            return Err(FrameEnergyError::FirstIsRemote(first.to_owned()));
        }
        let device = self.device.model(None)?;
        self.device.check_camera(&[self.camera_fps])?;
        let highest = device.processor.as_ref().and_then(|p| p.range_ghz()).map(|(_, high)| high);
        let preview = device.camera.preview;
        let clock = self.ghz.map(Clock::Fixed);
        device.check_clocks(clock.as_slice()).map_err(WeighError::from)?;
        let with = PlanUse {
            ghz: self.ghz.or(highest).ok_or(FrameEnergyError::NoFrequency)?,
            camera: CameraUse { fps: self.camera_fps, preview, post_processing: true },
            conversion: device.conversion[0].cycles(preview),
            remote: self.remote.clone(),
        };
        Ok(FrameModel { device, with })
    }

    fn is_remote(&self, processor: &str) -> bool {
        self.remote.iter().any(|remote| remote == processor)
    }
}

impl FrameModel {
    /// The frame of what runs.
    #[must_use]
    pub fn frame(&self, running: &Running, given: StageEnergy<'_>) -> PlanFrame {
        self.device.frame_of_plan(running, given, &self.with)
    }

    /// Adds the frame to a plan; energies and powers of its stages come from the costs.
    pub fn add(&self, plan: &mut Plan, costs: &Costs) {
        plan.predicted.frame = Some(self.frame(&Running::from(&*plan), StageEnergy::Costs(costs)));
    }

    /// Adds the frame to a plan for several models ([`Placing::frame`]). `active_w`: powers of
    /// processors while they compute, above idle, instead of the device's power of inference.
    pub fn add_to_placing(&self, placing: &mut Placing, active_w: &[(String, f64)]) {
        placing.frame = Some(self.frame(&placing.running(), StageEnergy::Powers(active_w)));
    }
}
