//! [`Tensor`]: one of torch's tensors, owned.

use super::library::{TensorHandle, Torch};
use std::ffi::c_void;
use vitempo_graph::{Precision, lowering::torch::strides::Strided};

/// Where a tensor is: torch's device type and the device's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub kind: i32,
    pub index: i32,
}

/// A tensor; freed when dropped.
#[derive(Debug)]
pub(super) struct Tensor {
    torch: &'static Torch,
    handle: TensorHandle,
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: the handle is owned by this value alone. An error cannot be reported here.
        unsafe { (self.torch.functions.delete)(self.handle) };
    }
}

impl Tensor {
    /// Takes over a handle that torch gave away.
    ///
    /// # Safety
    /// `handle` must be an owned `AtenTensorHandle`.
    pub(super) unsafe fn owned(
        torch: &'static Torch,
        handle: TensorHandle,
    ) -> Result<Self, String> {
        if handle.is_null() {
            Err("torch gave no tensor".to_owned())
        } else {
            Ok(Self { torch, handle })
        }
    }

    /// A tensor whose values are not set.
    pub(super) fn empty(
        torch: &'static Torch,
        strided: &Strided,
        precision: Precision,
        device: Device,
    ) -> Result<Self, String> {
        let (sizes, strides) = (signed(&strided.sizes), signed(&strided.strides));
        let mut handle = std::ptr::null_mut();
        let dtype = torch.dtype(precision);
        // SAFETY: both lists have as many numbers as their length says, and the handle has a place.
        let code = unsafe {
            (torch.functions.empty_strided)(
                sizes.len() as i64,
                sizes.as_ptr(),
                strides.as_ptr(),
                dtype,
                device.kind,
                device.index,
                &raw mut handle,
            )
        };
        if code != 0 {
            return Err(format!(
                "torch has no memory for a tensor of {:?} {precision}",
                strided.sizes
            ));
        }
        // SAFETY: a new handle.
        unsafe { Self::owned(torch, handle) }
    }

    /// A tensor on the CPU with these bytes, row by row.
    pub(super) fn from_bytes(
        torch: &'static Torch,
        sizes: &[usize],
        precision: Precision,
        bytes: &[u8],
    ) -> Result<Self, String> {
        let tensor = Self::empty(torch, &Strided::contiguous(sizes), precision, torch.cpu())?;
        let wanted = sizes.iter().product::<usize>() * precision.size_bytes();
        if bytes.len() != wanted {
            return Err(format!(
                "{} bytes do not fill a tensor of {sizes:?} {precision}",
                bytes.len()
            ));
        }
        if wanted > 0 {
            // SAFETY: the tensor was just made, dense, on the CPU, with room for exactly that many
            // bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), tensor.data()?.cast::<u8>(), wanted);
            };
        }
        Ok(tensor)
    }

    /// The same values in other strides, precision or place.
    pub(super) fn copied(
        &self,
        strided: &Strided,
        precision: Precision,
        device: Device,
    ) -> Result<Self, String> {
        let copy = Self::empty(self.torch, strided, precision, device)?;
        // SAFETY: both handles are alive.
        let code = unsafe { (self.torch.functions.copy)(copy.handle, self.handle, 0) };
        if code == 0 {
            Ok(copy)
        } else {
            Err(format!("torch does not copy a tensor to {:?} {precision}", strided.sizes))
        }
    }

    /// Another owner of the same tensor.
    pub(super) fn share(&self) -> Result<Self, String> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle is alive, the new one has a place and is owned by the new value.
        unsafe {
            (self.torch.functions.share)(self.handle, &raw mut handle);
            Self::owned(self.torch, handle)
        }
    }

    /// The handle, given away.
    pub(super) fn into_handle(self) -> TensorHandle {
        std::mem::ManuallyDrop::new(self).handle
    }

    /// The handle, lent.
    pub(super) fn handle(&self) -> TensorHandle {
        self.handle
    }

    /// Address of the first element.
    pub(super) fn data(&self) -> Result<*mut c_void, String> {
        let mut data = std::ptr::null_mut();
        // SAFETY: the handle is alive and the address has a place.
        let code = unsafe { (self.torch.functions.data)(self.handle, &raw mut data) };
        if code == 0 {
            Ok(data)
        } else {
            Err("torch does not report the address of a tensor".to_owned())
        }
    }

    /// Extents and strides.
    pub(super) fn strided(&self) -> Result<Strided, String> {
        let f = &self.torch.functions;
        let (mut rank, mut sizes, mut strides) = (0i64, std::ptr::null(), std::ptr::null());
        // SAFETY: the handle is alive; the lists belong to the tensor, have `rank` numbers, and are
        // copied at once.
        let lists = unsafe {
            let failed = (f.rank)(self.handle, &raw mut rank)
                | (f.sizes)(self.handle, &raw mut sizes)
                | (f.strides)(self.handle, &raw mut strides);
            let rank = usize::try_from(rank).ok().filter(|_| failed == 0);
            rank.map(|rank| {
                if rank == 0 {
                    (Vec::new(), Vec::new())
                } else {
                    (unsigned(sizes, rank), unsigned(strides, rank))
                }
            })
        };
        lists
            .map(|(sizes, strides)| Strided { sizes, strides })
            .ok_or_else(|| "torch does not report the shape of a tensor".to_owned())
    }

    /// Element type.
    pub(super) fn precision(&self) -> Result<Precision, String> {
        let mut dtype = -1;
        // SAFETY: the handle is alive and the number has a place.
        unsafe { (self.torch.functions.dtype)(self.handle, &raw mut dtype) };
        let named = Precision::ALL.into_iter().find(|&p| self.torch.dtype(p) == dtype);
        named.ok_or_else(|| {
            format!("a tensor has torch's element type {dtype}, which vitempo does not support")
        })
    }

    /// The values as floats, row by row.
    pub(super) fn values(&self) -> Result<Vec<f32>, String> {
        let sizes = self.strided()?.sizes;
        let floats = self.copied(&Strided::contiguous(&sizes), Precision::F32, self.torch.cpu())?;
        let count = sizes.iter().product::<usize>();
        if count == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: the copy is dense, on the CPU, of `count` 32-bit floats, and lives until the
        // values are copied.
        Ok(unsafe { std::slice::from_raw_parts(floats.data()?.cast::<f32>(), count) }.to_vec())
    }
}

/// # Safety
/// `list` must point at `count` numbers, `count` > 0.
unsafe fn unsigned(list: *const i64, count: usize) -> Vec<usize> {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(list, count) }
        .iter()
        .map(|&n| usize::try_from(n).unwrap_or(0))
        .collect()
}

fn signed(numbers: &[usize]) -> Vec<i64> {
    numbers.iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect()
}

impl Torch {
    /// Torch's number for an element type.
    pub(super) fn dtype(&self, precision: Precision) -> i32 {
        let f = &self.functions;
        let number = match precision {
            Precision::F64 => f.dtype_f64,
            Precision::F32 => f.dtype_f32,
            Precision::F16 => f.dtype_f16,
            Precision::Bf16 => f.dtype_bf16,
            Precision::I64 => f.dtype_i64,
            Precision::I32 => f.dtype_i32,
            Precision::I16 => f.dtype_i16,
            Precision::I8 => f.dtype_i8,
            Precision::U8 => f.dtype_u8,
            Precision::Bool => f.dtype_bool,
        };
        // SAFETY: these functions take nothing and return a number.
        unsafe { number() }
    }

    /// The CPU.
    pub(super) fn cpu(&self) -> Device {
        // SAFETY: the function takes nothing and returns a number.
        Device { kind: unsafe { (self.functions.device_cpu)() }, index: 0 }
    }

    /// The first CUDA device.
    pub(super) fn cuda(&self) -> Device {
        // SAFETY: as above.
        Device { kind: unsafe { (self.functions.device_cuda)() }, index: 0 }
    }
}
