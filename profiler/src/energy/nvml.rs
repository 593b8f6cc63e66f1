//! NVIDIA's management library, which comes with the driver: the energy of a GPU's board since the
//! driver was loaded.
//!
//! Functions and constants are those of `nvml.h`.

use super::NoCounter;
use libloading::Library;
use std::{
    ffi::{c_int, c_uint, c_void},
    ptr,
};

const LIBRARY: &str = "libnvidia-ml.so.1";
const SUCCESS: c_int = 0;

type Device = *mut c_void;
type TotalEnergy = unsafe extern "C" fn(Device, *mut u64) -> c_int;

/// The first GPU.
#[derive(Debug)]
pub(super) struct Board {
    device: Device,
    total_energy: TotalEnergy,
    /// The functions are its.
    _library: Library,
}

impl Board {
    pub(super) fn find() -> Result<Self, NoCounter> {
        let refuse = |reason: String| {
            NoCounter(format!("this machine shows no energy counter of an NVIDIA GPU: {reason}"))
        };
        // SAFETY: opening the driver's library runs its initialisers only.
        let library =
            unsafe { Library::new(LIBRARY) }.map_err(|e| refuse(format!("{LIBRARY}: {e}")))?;
        let missing = |e: libloading::Error| refuse(format!("{LIBRARY}: {e}"));
        // SAFETY: these are the types of the functions of those names in `nvml.h`.
        let (init, handle, total_energy) = unsafe {
            (
                *library.get::<unsafe extern "C" fn() -> c_int>("nvmlInit_v2").map_err(missing)?,
                *library
                    .get::<unsafe extern "C" fn(c_uint, *mut Device) -> c_int>(
                        "nvmlDeviceGetHandleByIndex_v2",
                    )
                    .map_err(missing)?,
                *library
                    .get::<TotalEnergy>("nvmlDeviceGetTotalEnergyConsumption")
                    .map_err(missing)?,
            )
        };
        let mut device: Device = ptr::null_mut();
        // SAFETY: the library is loaded; it is initialised before it is asked, and writes one
        // handle to the place given.
        let status = unsafe {
            match init() {
                SUCCESS => handle(0, &raw mut device),
                status => status,
            }
        };
        if status != SUCCESS {
            return Err(refuse(format!("NVML answers with status {status}")));
        }
        let board = Self { device, total_energy, _library: library };
        board.read_uj().ok_or_else(|| refuse("the GPU does not report its energy".to_owned()))?;
        Ok(board)
    }

    pub(super) fn read_uj(&self) -> Option<u64> {
        let mut millijoules = 0u64;
        // SAFETY: the handle is the library's, which is loaded and initialised; one number is
        // written to the place given.
        let status = unsafe { (self.total_energy)(self.device, &raw mut millijoules) };
        (status == SUCCESS).then(|| millijoules.saturating_mul(1000))
    }
}
