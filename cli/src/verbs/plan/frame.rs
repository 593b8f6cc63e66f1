//! `--frame-energy`: the energy of a whole frame of a plan on a device.

use super::{
    super::error::{CliError, CliResult},
    offload::{camera_rate, device, frequency},
};
use std::path::PathBuf;
use vitempo::{
    plan::{
        frame_energy::{FrameEnergyError, FrameModel, FrameSettings},
        multi_dnn::Placing,
        multitask::{Placed, Placements},
    },
    planners::{
        Plan,
        cost::Costs,
        energy::{PlanFrame, StageEnergy},
        pipeline::Tasks,
    },
};

/// The device that a plan runs on.
#[derive(clap::Args, Clone, Debug)]
pub struct FrameArgs {
    /// Add the energy of a whole frame on this device, with camera, conversion, radio and base: a
    /// file as for `plan offload --device`, or `nexus6`
    #[arg(long, value_name = "FILE.json")]
    pub frame_energy: Option<PathBuf>,

    /// Frequency of that device, GHz [default: its highest]
    #[arg(long, value_name = "GHZ", value_parser = frequency, requires = "frame_energy")]
    pub device_frequency: Option<f64>,

    /// Frames per second of its camera
    #[arg(long, value_name = "FPS", value_parser = camera_rate, default_value = "15", requires = "frame_energy")]
    pub camera_rate: f64,
}

impl From<FrameEnergyError> for CliError {
    fn from(error: FrameEnergyError) -> Self {
        match error {
            FrameEnergyError::Device(error) => error.into(),
            FrameEnergyError::NoFrequency => Self::user(error).hint("give --device-frequency"),
            FrameEnergyError::FirstIsRemote(_) => {
                Self::user(error).hint("name a processor of the device first")
            }
            other => Self::user(other),
        }
    }
}

/// Adds frames to plans, if they are asked for.
pub struct Frames(Option<FrameModel>);

impl Frames {
    /// The plan, with its frame.
    pub fn of(&self, mut plan: Plan, costs: &Costs) -> Plan {
        if let Some(model) = &self.0 {
            model.add(&mut plan, costs);
        }
        plan
    }

    /// Adds the frame to a plan for several models, with these powers of processors.
    pub fn add_to_placing(&self, placing: &mut Placing, active_w: &[(String, f64)]) {
        if let Some(model) = &self.0 {
            model.add_to_placing(placing, active_w);
        }
    }

    /// The frames of placements, if they are asked for; with the energies and powers of costs, where
    /// the parts are of these.
    pub fn of_placements(
        &self,
        placements: &Placements,
        costs: Option<&(Costs, Tasks)>,
    ) -> Option<Vec<PlanFrame>> {
        let model = self.0.as_ref()?;
        let frame = |placed: &Placed| {
            let running = placements.model.running(&placed.schedule);
            match costs {
                Some((costs, tasks)) => {
                    model.frame(&tasks.with_nodes(running, costs), StageEnergy::Costs(costs))
                }
                None => model.frame(&running, StageEnergy::Device),
            }
        };
        Some(placements.rows.iter().map(frame).collect())
    }
}

impl FrameArgs {
    /// The device, with the processors that are not on it.
    pub fn open(&self, costs: &Costs, remote: &[String]) -> CliResult<Frames> {
        let processors = costs.processors().iter().map(|processor| processor.name.as_str());
        self.open_among(processors, remote)
    }

    /// The same, by the names of all processors, of which inputs arrive at the first.
    pub fn open_among<'a>(
        &self,
        processors: impl Iterator<Item = &'a str> + Clone,
        remote: &[String],
    ) -> CliResult<Frames> {
        let Some(path) = &self.frame_energy else { return Ok(Frames(None)) };
        let settings = FrameSettings {
            device: device(path),
            ghz: self.device_frequency,
            camera_fps: self.camera_rate,
            remote: remote.to_vec(),
        };
        Ok(Frames(Some(settings.open(processors)?)))
    }

    /// The device, where the second processor is the server.
    pub fn open_split(&self, costs: &Costs) -> CliResult<Frames> {
        let server = costs.processors().get(1).map(|processor| processor.name.clone());
        self.open(costs, server.as_slice())
    }
}
