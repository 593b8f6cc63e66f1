//! [`Phone`]: frames of the study's phone under its conditions, by the model.

use crate::papers::PaperError;
use vitempo::planners::energy::{
    CameraUse, Governor,
    nexus6::{self, Measured},
    offload::{Clock, Frame, OffloadModel, Place, Sized},
};

/// The model of the phone, and the study's tables.
pub struct Phone {
    pub device: OffloadModel,
    pub measured: Measured,
}

impl Phone {
    pub fn new() -> Result<Self, PaperError> {
        Ok(Self { device: nexus6::device()?, measured: Measured::shipped()? })
    }

    /// A governor of the tables: userspace is a fixed frequency.
    pub fn clock(&self, governor: &str) -> Result<Clock, PaperError> {
        match governor.parse::<Governor>() {
            Ok(
                governor @ (Governor::Conservative | Governor::Ondemand | Governor::Interactive),
            ) => Ok(Clock::Governed(governor)),
            _ => Ok(Clock::Fixed(self.measured.fixed(governor)?.1)),
        }
    }

    /// The network of tables I to VI.
    pub fn network(&self, place: Place) -> Sized {
        if place == Place::Local { self.device.local[0] } else { self.device.remote[0] }
    }

    /// A frame of tables I to VI.
    pub fn frame(&self, place: Place, clock: Clock) -> Frame {
        let with = nexus6::as_measured(&self.measured, place, self.network(place), clock);
        self.device.frame(&with)
    }

    /// The same with another input size.
    pub fn sized(&self, place: Place, size_px: u32, clock: Clock) -> Result<Frame, PaperError> {
        let law = self.device.by_size.and_then(|law| law.network(place, size_px));
        let network = law.ok_or_else(|| PaperError::Row("networks by size".to_owned()))?;
        Ok(self.device.frame(&nexus6::as_measured(&self.measured, place, network, clock)))
    }

    /// A remote frame with another camera rate, post-processing on or off.
    pub fn filmed(&self, clock: Clock, fps: f64, post_processing: bool) -> Frame {
        let place = Place::Remote;
        let with = nexus6::as_measured(&self.measured, place, self.network(place), clock);
        let camera = CameraUse { fps, post_processing, ..with.camera };
        self.device.frame(&vitempo::planners::energy::offload::Use { camera, ..with })
    }
}
