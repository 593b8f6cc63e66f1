//! The energy of each phase of a frame, from files: a power monitor's trace and an application's
//! log ([`DissectionFiles::dissect`]).
//!
//! ```
//! use vitempo::plan::dissection::{DissectionFiles, Power};
//! use vitempo::planners::energy::{Averaging, Recording, nexus6::local_frame};
//!
//! let frame = local_frame("performance")?;
//! let (base_w, preview_w) = (frame.base_w, frame.base_w + frame.camera_w);
//! let (trace, log) = Recording::of(frame, 30).record().ok_or("too long")?;
//! let folder = tempfile::tempdir()?;
//! let files = DissectionFiles {
//!     trace: folder.path().join("trace.csv"),
//!     log: folder.path().join("log.csv"),
//!     base: Power::Watts(base_w),
//!     preview: Power::Watts(preview_w),
//!     monitor_flag_s: None,
//!     quiet_s: 0.1,
//!     cooling_off_s: 10.0,
//!     averaging: Averaging::Moment,
//!     removes_drift: false,
//! };
//! std::fs::write(&files.trace, trace.to_csv("simulated"))?;
//! std::fs::write(&files.log, log.to_csv("simulated"))?;
//! let found = files.dissect()?;
//! assert!(found.base_j > 0.0 && found.energy_j > found.base_j + found.camera_j);
//!
//! // A trace may stand for its mean power.
//! assert!(Power::MeanOf(files.trace.clone()).watts()? > base_w);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::PathBuf;
use vitempo_planners::energy::{
    Averaging, EventLog, PowerTrace, TraceError,
    dissect::{Dissection, Settings, dissect},
};

/// The power that the device draws in some state.
#[derive(Clone, Debug, PartialEq)]
pub enum Power {
    /// W.
    Watts(f64),
    /// The mean of this trace.
    MeanOf(PathBuf),
}

impl Power {
    /// W.
    ///
    /// # Errors
    /// [`TraceError`] where the trace cannot be read.
    pub fn watts(&self) -> Result<f64, TraceError> {
        match self {
            Self::Watts(watts) => Ok(*watts),
            Self::MeanOf(trace) => Ok(PowerTrace::read(trace)?.mean_w()),
        }
    }
}

/// A trace and a log, and the power of the device without the application.
#[derive(Clone, Debug, PartialEq)]
pub struct DissectionFiles {
    /// The monitor's trace, CSV.
    pub trace: PathBuf,
    /// The application's log, CSV.
    pub log: PathBuf,
    /// Of the idle device.
    pub base: Power,
    /// Of the device with camera and preview alone, base included.
    pub preview: Power,
    /// Time of the flag event in the trace, s; `None`: the first rise of the power.
    pub monitor_flag_s: Option<f64>,
    /// Length of the trace's quiet beginning, in which the flag is not looked for, s.
    pub quiet_s: f64,
    /// Frames that start within this time after the flag do not count, s.
    pub cooling_off_s: f64,
    /// The time that each sample of the trace covers.
    pub averaging: Averaging,
    /// Whether a linear drift of the sensor is removed.
    pub removes_drift: bool,
}

impl DissectionFiles {
    /// Reads the files, and divides the energy of a frame among its phases, camera and base.
    ///
    /// # Errors
    /// [`TraceError`] where a file cannot be read, or trace, log and powers do not fit together.
    pub fn dissect(&self) -> Result<Dissection, TraceError> {
        let (trace, log) = (PowerTrace::read(&self.trace)?, EventLog::read(&self.log)?);
        let settings = Settings {
            monitor_flag_s: self.monitor_flag_s,
            quiet_s: self.quiet_s,
            cooling_off_s: self.cooling_off_s,
            base_w: self.base.watts()?,
            preview_w: self.preview.watts()?,
            averaging: self.averaging,
            removes_drift: self.removes_drift,
        };
        dissect(&trace, &log, &settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_contradict_themselves_are_refused_with_the_line() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("file.csv");
        let trace = |text: &str| -> std::io::Result<String> {
            std::fs::write(&path, text)?;
            Ok(PowerTrace::read(&path).map_or_else(|e| e.to_string(), |_| "read".to_owned()))
        };
        let rising = trace("time_s,power_w\n0,1\n# pause\n2,1\n1,1\n")?;
        assert!(rising.ends_with("line 5: time is 1 s after 2 s; times of a trace rise"));
        let twice = trace("time_s,power_w,power_mw\n0,1,1000\n1,1,1000\n")?;
        assert!(twice.contains("columns power_w and power_mw both have the power"), "{twice}");
        assert!(trace("time_s,power_w\n0,1\n")?.contains("1 samples; a trace needs two or more"));
        assert_eq!(trace("time_s,power_w\n0,1\n1,1\n")?, "read");
        assert_eq!(trace("Time (s),Main Avg Power (mW)\n0,1\n1,1\n")?, "read");
        let reason = "column time has no unit; a column of times in seconds is time_s or time (s)";
        assert!(trace("time,power_w\n0,1\n1,1\n")?.ends_with(reason));
        std::fs::write(&path, "frame,phase,start,end\n,flag,1,1\n1,a,2,3\n")?;
        let log = EventLog::read(&path).map_or_else(|e| e.to_string(), |_| "read".to_owned());
        assert!(log.ends_with("column start has no unit; a column of times in seconds is start_s"));
        std::fs::write(&path, "frame,phase,start_s,end_s\n,flag,1,1\n1,a,2,3\n,flag,4,4\n")?;
        let log = EventLog::read(&path).map_or_else(|e| e.to_string(), |_| "read".to_owned());
        assert!(log.ends_with("line 4: a second row `flag`: the first is at 1 s"), "{log}");
        Ok(())
    }
}
