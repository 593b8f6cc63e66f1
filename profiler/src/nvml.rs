//! NVIDIA's management library, which comes with the driver: what the first GPU is, and the energy
//! of its board since the driver was loaded.
//!
//! The first by bus number: where there are several, CUDA runs on the same one if
//! `CUDA_DEVICE_ORDER` is `PCI_BUS_ID`. Functions and constants are those of `nvml.h`.

use libloading::Library;
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr,
};

const LIBRARY: &str = "libnvidia-ml.so.1";
const SUCCESS: c_int = 0;
/// `NVML_DEVICE_NAME_V2_BUFFER_SIZE`.
const NAME_BYTES: usize = 96;

type Device = *mut c_void;

/// The first GPU.
#[derive(Debug)]
pub(crate) struct Board {
    device: Device,
    library: Library,
}

/// What kernels are chosen by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gpu {
    /// Its name, e.g. `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// CUDA cores.
    pub cores: usize,
    /// Compute capability, e.g. `sm_90`.
    pub capability: String,
}

impl Board {
    /// The first one.
    ///
    /// # Errors
    /// A sentence, where there is none.
    pub(crate) fn find() -> Result<Self, String> {
        // SAFETY: opening the driver's library runs its initialisers only.
        let library =
            unsafe { Library::new(LIBRARY) }.map_err(|error| format!("{LIBRARY}: {error}"))?;
        let mut board = Self { device: ptr::null_mut(), library };
        // SAFETY: these are the types of the functions of those names in `nvml.h`; the library is
        // initialised before it is asked, and writes one handle to the place given.
        let status = unsafe {
            let init = board.function::<unsafe extern "C" fn() -> c_int>("nvmlInit_v2")?;
            let handle = board.function::<unsafe extern "C" fn(c_uint, *mut Device) -> c_int>(
                "nvmlDeviceGetHandleByIndex_v2",
            )?;
            match init() {
                SUCCESS => handle(0, &raw mut board.device),
                status => status,
            }
        };
        if status == SUCCESS {
            Ok(board)
        } else {
            Err(format!("NVML answers with status {status}"))
        }
    }

    /// # Safety
    /// `F` must be the type of the function pointer.
    unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, String> {
        // SAFETY: the caller's promise.
        let found = unsafe { self.library.get::<F>(name.as_bytes()) };
        found.map(|f| *f).map_err(|error| format!("{LIBRARY}: {error}"))
    }

    /// Energy since the driver was loaded, uJ; `None` where the GPU does not report it.
    pub(crate) fn read_uj(&self) -> Option<u64> {
        let mut millijoules = 0u64;
        // SAFETY: the handle is the library's, which is loaded and initialised; one number is
        // written to the place given.
        let status = unsafe {
            self.function::<unsafe extern "C" fn(Device, *mut u64) -> c_int>(
                "nvmlDeviceGetTotalEnergyConsumption",
            )
            .ok()?(self.device, &raw mut millijoules)
        };
        (status == SUCCESS).then(|| millijoules.saturating_mul(1000))
    }

    /// What it is; `None` where the driver does not report it.
    pub(crate) fn describe(&self) -> Option<Gpu> {
        let (mut name, mut major, mut minor) = ([0 as c_char; NAME_BYTES], 0, 0);
        let mut cores: c_uint = 0;
        // SAFETY: as above; the name has as many bytes as the call says, and ends with a zero.
        let name = unsafe {
            let named = self
                .function::<unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_int>(
                    "nvmlDeviceGetName",
                );
            let capable = self
                .function::<unsafe extern "C" fn(Device, *mut c_int, *mut c_int) -> c_int>(
                    "nvmlDeviceGetCudaComputeCapability",
                );
            let counted = self.function::<unsafe extern "C" fn(Device, *mut c_uint) -> c_int>(
                "nvmlDeviceGetNumGpuCores",
            );
            let statuses = [
                named.ok()?(self.device, name.as_mut_ptr(), NAME_BYTES as c_uint),
                capable.ok()?(self.device, &raw mut major, &raw mut minor),
                counted.ok()?(self.device, &raw mut cores),
            ];
            if statuses != [SUCCESS; 3] {
                return None;
            }
            CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
        };
        Some(Gpu { name, cores: cores as usize, capability: format!("sm_{major}{minor}") })
    }
}
