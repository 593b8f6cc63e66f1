//! Writes the graph that a compiled model executes to a file, in OpenVINO's XML.
//!
//! The C interface returns that graph but has no function to traverse or write it. The C++ library,
//! which the C library is linked to, has one:
//!
//! ```cpp
//! void ov::serialize(const std::shared_ptr<const ov::Model>&, const std::filesystem::path& xml,
//! const std::filesystem::path& weights, Serialize::Version);
//! ```
//!
//! It is called here under the name and with the layouts that the Itanium C++ ABI and GNU's
//! libstdc++ give it: an `ov_model_t` starts with the `shared_ptr`; a path is a string (pointer,
//! length, 16 bytes) and a list of its parts, which the standard library's own function fills in.
//! All three symbols carry those types in their names, so a library built otherwise does not have
//! them, and the result is an error instead of a graph.

use super::engine::Compiled;
use std::{ffi::c_void, os::raw::c_uchar, path::Path};

const SERIALIZE: &[u8] = b"_ZN2ov9serializeERKSt10shared_ptrIKNS_5ModelEERKNSt10filesystem7__cxx114pathESA_NS_4pass9Serialize7VersionE\0";
/// `std::filesystem::path::_M_split_cmpts()`.
const SPLIT: &[u8] = b"_ZNSt10filesystem7__cxx114path14_M_split_cmptsEv\0";
/// `std::filesystem::path::_List::_Impl_deleter::operator()(_Impl*) const`.
const DELETE: &[u8] = b"_ZNKSt10filesystem7__cxx114path5_List13_Impl_deleterclEPNS2_5_ImplE\0";

type Serialize =
    unsafe extern "C" fn(*const c_void, *const CxxPath<'_>, *const CxxPath<'_>, c_uchar);
type Split = unsafe extern "C" fn(*mut CxxPath<'_>);
type Delete = unsafe extern "C" fn(*const c_void, *mut c_void);

/// `Serialize::Version::UNSPECIFIED`: the newest.
const NEWEST: c_uchar = 0;

/// `std::filesystem::path` of libstdc++, over text that lives elsewhere.
#[repr(C)]
struct CxxPath<'a> {
    data: *const u8,
    length: usize,
    /// Where a short string would be; this one never is.
    short: [u8; 16],
    /// The parts, with the path's own kind in the lowest two bits.
    parts: *mut c_void,
    text: std::marker::PhantomData<&'a [u8]>,
}

/// A path without parts is of the kind "file name", as in libstdc++'s own default constructor.
const FILE_NAME: usize = 3;

impl<'a> CxxPath<'a> {
    /// `text` ends with a zero byte, which C++ strings have too.
    fn new(text: &'a [u8]) -> Self {
        let parts = std::ptr::without_provenance_mut(FILE_NAME);
        Self {
            data: text.as_ptr(),
            length: text.len() - 1,
            short: [0; 16],
            parts,
            text: std::marker::PhantomData,
        }
    }
}

/// Writes the graph to `xml`; `weights` is a file it needs and leaves nearly empty.
///
/// # Errors
/// A sentence: the engine's reason, or that this build of the library has no such function.
pub fn write(compiled: &Compiled, xml: &Path, weights: &Path) -> Result<(), String> {
    let (model, api) = compiled.runtime_model()?;
    let absent = |_| "this build of the library has no function with the expected types".to_owned();
    // SAFETY: the symbols' names say their types; those above repeat them.
    let serialize = *unsafe { api.library.get::<Serialize>(SERIALIZE) }.map_err(absent)?;
    // SAFETY: as above.
    let (split, delete) = unsafe {
        (
            *api.library.get::<Split>(SPLIT).map_err(absent)?,
            *api.library.get::<Delete>(DELETE).map_err(absent)?,
        )
    };
    let texts =
        [xml, weights].map(|path| path.to_str().map(|text| [text.as_bytes(), &[0]].concat()));
    let [Some(xml), Some(weights)] = &texts else {
        return Err("the temporary folder's name is no UTF-8".to_owned());
    };
    let (mut xml, mut weights) = (CxxPath::new(xml), CxxPath::new(weights));
    // SAFETY: both paths are as the default constructor and an assignment of the text leave them,
    // which is when the standard library's own constructors call `split`. `serialize` only reads
    // them, and the model, a live `ov_model_t`, starts with the `shared_ptr`. Then the parts are
    // given back as the destructor does; the text stays ours.
    unsafe {
        split(&raw mut xml);
        split(&raw mut weights);
        serialize(model.get().cast_const(), &raw const xml, &raw const weights, NEWEST);
        for path in [&xml, &weights] {
            delete((&raw const path.parts).cast(), path.parts);
        }
    }
    Ok(())
}
