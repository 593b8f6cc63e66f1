//! Calls of ATen's operators through torch's dispatcher: arguments in, tensors out.
//!
//! The dispatcher takes one 64-bit word per argument of the operator's schema, in order and
//! complete. Torch takes ownership of tensors, lists, texts and optional values in it, and frees
//! them. No word represents a `Scalar`; operators that need one are called by their C++ name
//! ([`Scalars`]).

use super::{
    library::{TensorHandle, Torch},
    tensor::Tensor,
};
use std::{
    ffi::{CStr, c_void},
    mem::MaybeUninit,
};

/// One argument.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg<'a> {
    /// `Tensor`.
    Tensor(&'a Tensor),
    /// `int`, `SymInt`.
    Int(i64),
    /// `float`.
    Float(f64),
    /// `bool`.
    Bool(bool),
    /// `ScalarType`.
    Type(i32),
    /// `int[]`, `SymInt[]`.
    Ints(&'a [i64]),
    /// `Tensor[]`.
    Tensors(&'a [&'a Tensor]),
    /// `Tensor?[]`.
    OptionalTensors(&'a [Option<&'a Tensor>]),
    /// `str`.
    Text(&'a str),
    /// An optional argument with a value.
    Some(&'a Arg<'a>),
    /// An optional argument that is not.
    None,
}

impl Torch {
    /// Calls `operator`, whose only result is a tensor.
    pub(super) fn one(
        &'static self,
        operator: &CStr,
        overload: &CStr,
        arguments: &[Arg<'_>],
    ) -> Result<Tensor, String> {
        let results = self.several(operator, overload, arguments, 1)?;
        results.into_iter().next().ok_or_else(|| "torch gave no tensor".to_owned())
    }

    /// Calls `operator`, whose results are `count` tensors.
    pub(super) fn several(
        &'static self,
        operator: &CStr,
        overload: &CStr,
        arguments: &[Arg<'_>],
        count: usize,
    ) -> Result<Vec<Tensor>, String> {
        let stack = self.raw_call(operator, overload, arguments, count)?;
        // SAFETY: the schema's results are tensors, whose handles are ours.
        stack[..count]
            .iter()
            .map(|&word| unsafe { Tensor::owned(self, word as TensorHandle) })
            .collect()
    }

    /// Calls `operator`, whose result is a list of tensors.
    pub(super) fn list(
        &'static self,
        operator: &CStr,
        overload: &CStr,
        arguments: &[Arg<'_>],
    ) -> Result<Vec<Tensor>, String> {
        let stack = self.raw_call(operator, overload, arguments, 1)?;
        let (list, mut count) = (stack[0] as *mut c_void, 0);
        let f = &self.functions;
        // SAFETY: the schema's result is a list of tensors; list and tensors are ours, and the list
        // is freed once.
        unsafe {
            (f.list_size)(list, &raw mut count);
            let item = |index| {
                let mut word = 0;
                (f.list_item)(list, index, &raw mut word);
                Tensor::owned(self, word as TensorHandle)
            };
            let tensors = (0..count).map(item).collect();
            (f.delete_list)(list);
            tensors
        }
    }

    fn raw_call(
        &'static self,
        operator: &CStr,
        overload: &CStr,
        arguments: &[Arg<'_>],
        results: usize,
    ) -> Result<Vec<u64>, String> {
        let mut stack = arguments
            .iter()
            .map(|argument| self.word(argument))
            .collect::<Result<Vec<u64>, String>>()?;
        stack.resize(arguments.len().max(results), 0);
        match self.dispatch(operator, overload, &mut stack) {
            0 => Ok(stack),
            _ => Err(format!("{} fails", operator.to_string_lossy())),
        }
    }

    fn word(&'static self, argument: &Arg<'_>) -> Result<u64, String> {
        Ok(match argument {
            Arg::Tensor(tensor) => tensor.share()?.into_handle() as u64,
            Arg::Int(value) => *value as u64,
            Arg::Float(value) => value.to_bits(),
            Arg::Bool(value) => u64::from(*value),
            Arg::Type(value) => u64::from(*value as u32),
            Arg::Ints(values) => self.new_list(values.iter().map(|&v| Ok(v as u64)))?,
            Arg::Tensors(tensors) => {
                self.new_list(tensors.iter().map(|&t| self.word(&Arg::Tensor(t))))?
            }
            Arg::OptionalTensors(tensors) => self.new_list(
                tensors.iter().map(|t| t.map_or(Ok(0), |t| self.word(&Arg::Some(&Arg::Tensor(t))))),
            )?,
            Arg::Text(text) => {
                let mut handle = std::ptr::null_mut();
                // SAFETY: the text has as many bytes as its length says, and the handle has a
                // place.
                let code = unsafe {
                    (self.functions.new_text)(text.as_ptr().cast(), text.len(), &raw mut handle)
                };
                if code == 0 { handle as u64 } else { return Err("torch makes no text".to_owned()) }
            }
            Arg::Some(inner) => {
                let word = self.word(inner)?;
                // SAFETY: operator new gives room for one word or ends the process; torch deletes
                // it.
                unsafe {
                    let place = (self.functions.allocate)(size_of::<u64>()).cast::<u64>();
                    place.write(word);
                    place as u64
                }
            }
            Arg::None => 0,
        })
    }

    fn new_list(
        &self,
        words: impl ExactSizeIterator<Item = Result<u64, String>>,
    ) -> Result<u64, String> {
        let mut list = std::ptr::null_mut();
        // SAFETY: the list has a place; it is given away with the call.
        if unsafe { (self.functions.new_list)(words.len(), &raw mut list) } != 0 {
            return Err("torch makes no list".to_owned());
        }
        for word in words {
            // SAFETY: the list was just made.
            unsafe { (self.functions.push)(list, word?) };
        }
        Ok(list as u64)
    }

    /// `x + y` or `x - y`: their schemas have a `Scalar`, so that they have C functions of their
    /// own.
    pub(super) fn sum(
        &'static self,
        add: AddFunction,
        x: &Tensor,
        y: &Tensor,
    ) -> Result<Tensor, String> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: both handles are alive, and the new one has a place.
        let code = unsafe { add(x.handle(), y.handle(), 1.0, &raw mut handle) };
        if code != 0 {
            return Err("aten::add or aten::sub fails".to_owned());
        }
        // SAFETY: a new handle.
        unsafe { Tensor::owned(self, handle) }
    }
}

/// `aoti_torch_*_add_Tensor`.
pub(super) type AddFunction =
    unsafe extern "C" fn(TensorHandle, TensorHandle, f64, *mut TensorHandle) -> i32;

/// `c10::Scalar` that holds a double.
#[repr(C, align(16))]
struct Scalar {
    /// 0: a double.
    tag: i32,
    value: Aligned,
}

#[repr(C, align(16))]
struct Aligned(f64);

/// An `at::Tensor` as C++ returns it: through a hidden address, which larger structures have in
/// every ABI too. Only the first word is written.
#[repr(C)]
pub(super) struct Returned([MaybeUninit<*mut c_void>; 4]);

/// `at::_ops::<name>::call(const Tensor &, const Scalar &, ...)`, found by its mangled name. An
/// exception in it ends the process, which is a worker's.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scalars {
    One(unsafe extern "C" fn(TensorHandle, *const c_void) -> Returned),
    Two(unsafe extern "C" fn(TensorHandle, *const c_void, *const c_void) -> Returned),
    Three(
        unsafe extern "C" fn(TensorHandle, *const c_void, *const c_void, *const c_void) -> Returned,
    ),
}

impl Scalars {
    /// Finds the operator with `count` scalars.
    pub(super) fn find(torch: &Torch, name: &str, count: usize) -> Result<Self, String> {
        let symbol = format!(
            "_ZN2at4_ops{}{name}4callERKNS_6TensorERKN3c106ScalarE{}",
            name.len(),
            "S8_".repeat(count.saturating_sub(1))
        );
        let missing = |_| {
            format!(
                "this version of torch has no at::{name} with the signature that vitempo expects"
            )
        };
        // SAFETY: the mangled name says the types of the arguments; the result of at::_ops
        // functions is a Tensor.
        unsafe {
            match count {
                1 => torch.raw.symbol(&symbol).map(Self::One),
                2 => torch.raw.symbol(&symbol).map(Self::Two),
                _ => torch.raw.symbol(&symbol).map(Self::Three),
            }
        }
        .map_err(missing)
    }

    /// Calls it; `values` has as many numbers as the operator has scalars.
    pub(super) fn call(
        self,
        torch: &'static Torch,
        x: &Tensor,
        values: &[f64],
    ) -> Result<Tensor, String> {
        let scalar = |index: usize| Scalar {
            tag: 0,
            value: Aligned(values.get(index).copied().unwrap_or(0.0)),
        };
        let (a, b, c) = (scalar(0), scalar(1), scalar(2));
        let at = |s: &Scalar| std::ptr::from_ref(s).cast::<c_void>();
        // SAFETY: a handle is the address of an `at::Tensor`; the scalars are laid out as
        // `c10::Scalar` and live during the call. The first word of what is returned is the new
        // tensor, which operator new gives a place as torch's handles have it, freed with the
        // handle.
        unsafe {
            let returned = match self {
                Self::One(f) => f(x.handle(), at(&a)),
                Self::Two(f) => f(x.handle(), at(&a), at(&b)),
                Self::Three(f) => f(x.handle(), at(&a), at(&b), at(&c)),
            };
            let place = (torch.functions.allocate)(size_of::<*mut c_void>()).cast::<*mut c_void>();
            place.write(returned.0[0].assume_init());
            Tensor::owned(torch, place.cast())
        }
    }
}
