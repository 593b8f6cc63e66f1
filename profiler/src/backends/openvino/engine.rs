//! OpenVINO's objects with safe methods: the engine, a model, a compiled model, a request that runs
//! it, its tensors. Errors have the engine's message.

use super::api::{
    Api, Devices, Handle, Pointer, ProfilingInfo, ProfilingInfos, Property, Shape, text,
};
use std::{
    ffi::{CString, c_char, c_void},
    path::Path,
    ptr,
};

/// The engine (`ov_core_t`).
pub struct Engine {
    api: &'static Api,
    core: Handle,
}

// SAFETY: the core may be used by any thread (documented for `ov::Core`); the rest is function
// pointers.
unsafe impl Send for Engine {}
// SAFETY: as above.
unsafe impl Sync for Engine {}

/// A model as it was read (`ov_model_t`).
pub struct Network {
    api: &'static Api,
    model: Handle,
}

/// A model compiled for a device (`ov_compiled_model_t`).
pub struct Compiled {
    api: &'static Api,
    model: Handle,
}

/// Runs a compiled model (`ov_infer_request_t`).
pub struct Request {
    api: &'static Api,
    request: Handle,
}

/// Memory of an input or output (`ov_tensor_t`); it is the request's.
pub struct Tensor<'a> {
    api: &'static Api,
    tensor: Handle,
    request: std::marker::PhantomData<&'a Request>,
}

/// One node of the engine's profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTime {
    /// Name of the node.
    pub node: String,
    /// What it is, e.g. `Convolution`.
    pub node_type: String,
    /// The implementation, e.g. `brgconv_avx512_f32`.
    pub exec_type: String,
    /// Whether it ran.
    pub executed: bool,
    /// Time, us.
    pub time_us: u64,
}

/// `ov_profiling_info_t::EXECUTED`.
const EXECUTED: u32 = 2;

fn c_text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("`{text}` has a zero byte"))
}

impl Engine {
    /// Starts the engine.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn start(api: &'static Api) -> Result<Self, String> {
        // SAFETY: writes a new core to the place given.
        let core =
            api.object("ov_core_free", |place| unsafe { (api.functions.core_create)(place) })?;
        Ok(Self { api, core })
    }

    /// Names of the devices that can run, e.g. `CPU`, `GPU.0`.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn devices(&self) -> Result<Vec<String>, String> {
        let mut devices = Devices { names: ptr::null_mut(), count: 0 };
        // SAFETY: the call fills the list, which lives until it is freed below.
        self.api.check(unsafe {
            (self.api.functions.core_get_available_devices)(self.core.get(), &raw mut devices)
        })?;
        let names = if devices.names.is_null() {
            Vec::new()
        } else {
            // SAFETY: the call left `count` C strings there.
            unsafe {
                let names = std::slice::from_raw_parts(devices.names, devices.count);
                names.iter().map(|&name| text(name)).collect()
            }
        };
        // SAFETY: filled above, freed once.
        unsafe { (self.api.functions.free_devices)(&raw mut devices) };
        Ok(names)
    }

    /// A device's property, as text.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn property(&self, device: &str, key: &str) -> Result<String, String> {
        let (device, key) = (c_text(device)?, c_text(key)?);
        // SAFETY: the strings outlive the call, which writes a new one to the place given.
        self.api.text(|place| unsafe {
            (self.api.functions.core_get_property)(
                self.core.get(),
                device.as_ptr(),
                key.as_ptr(),
                place,
            )
        })
    }

    /// Reads an ONNX file.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn read_file(&self, path: &Path) -> Result<Network, String> {
        let path = c_text(path.to_str().ok_or_else(|| format!("{} is no UTF-8", path.display()))?)?;
        let read = self.api.functions.core_read_model;
        // SAFETY: the string outlives the call; a null weights path is allowed.
        let model = self.api.object("ov_model_free", |place| unsafe {
            read(self.core.get(), path.as_ptr(), ptr::null(), place)
        })?;
        Ok(Network { api: self.api, model })
    }

    /// Reads ONNX bytes.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn read_bytes(&self, bytes: &[u8]) -> Result<Network, String> {
        let read = self.api.functions.core_read_model_from_memory_buffer;
        let data = bytes.as_ptr().cast::<c_char>();
        // SAFETY: the library copies the bytes; null weights are allowed.
        let model = self.api.object("ov_model_free", |place| unsafe {
            read(self.core.get(), data, bytes.len(), ptr::null_mut(), place)
        })?;
        Ok(Network { api: self.api, model })
    }

    /// Compiles a model for a device.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn compile(
        &self,
        network: &Network,
        device: &str,
        properties: &[(&str, String)],
    ) -> Result<Compiled, String> {
        let device = c_text(device)?;
        let texts = properties
            .iter()
            .map(|(key, value)| Ok((c_text(key)?, c_text(value)?)))
            .collect::<Result<Vec<_>, String>>()?;
        let list: Vec<Property> = texts
            .iter()
            .map(|(key, value)| Property { key: key.as_ptr(), value: value.as_ptr() })
            .collect();
        let compile = self.api.functions.core_compile_model_props;
        // SAFETY: the list and its strings outlive the call.
        let make = |place: *mut Pointer| unsafe {
            compile(
                self.core.get(),
                network.model.get(),
                device.as_ptr(),
                list.len(),
                list.as_ptr(),
                place,
            )
        };
        Ok(Compiled { api: self.api, model: self.api.object("ov_compiled_model_free", make)? })
    }
}

impl Network {
    /// Names of the inputs, in the engine's order.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn inputs(&self) -> Result<Vec<String>, String> {
        let functions = &self.api.functions;
        let mut count = 0;
        self.api
            // SAFETY: writes the number to the place given.
            .check(unsafe { (functions.model_inputs_size)(self.model.get(), &raw mut count) })?;
        let name = |index| {
            // SAFETY: writes a new port, and a new string, to the places given.
            let make = |place: *mut Pointer| unsafe {
                (functions.model_const_input_by_index)(self.model.get(), index, place)
            };
            let port = self.api.object("ov_output_const_port_free", make)?;
            // SAFETY: as above.
            self.api.text(|place| unsafe { (functions.port_get_any_name)(port.get(), place) })
        };
        (0..count).map(name).collect()
    }

    /// The same model, whose inputs at these places are given as N,H,W,C.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn with_channels_last_inputs(&self, inputs: &[usize]) -> Result<Self, String> {
        let (api, functions) = (self.api, &self.api.functions);
        let layout = |text: &str| {
            let text = c_text(text)?;
            // SAFETY: the string outlives the call; `object` gives a place for the new object.
            api.object("ov_layout_free", |place| unsafe {
                (functions.layout_create)(text.as_ptr(), place)
            })
        };
        let (first, last) = (layout("NCHW")?, layout("NHWC")?);
        // SAFETY: `self.model` is a live model; `object` gives a place for the new object.
        let make = |place: *mut Pointer| unsafe {
            (functions.preprocess_prepostprocessor_create)(self.model.get(), place)
        };
        let processor = api.object("ov_preprocess_prepostprocessor_free", make)?;
        for &index in inputs {
            // SAFETY: `processor` is live, and the engine checks `index`; `place` is as above.
            let make = |place: *mut Pointer| unsafe {
                (functions.preprocess_prepostprocessor_get_input_info_by_index)(
                    processor.get(),
                    index,
                    place,
                )
            };
            let input = api.object("ov_preprocess_input_info_free", make)?;
            // SAFETY: `input` is live; `place` is as above.
            let make = |place: *mut Pointer| unsafe {
                (functions.preprocess_input_info_get_tensor_info)(input.get(), place)
            };
            let given = api.object("ov_preprocess_input_tensor_info_free", make)?;
            // SAFETY: `input` is live; `place` is as above.
            let make = |place: *mut Pointer| unsafe {
                (functions.preprocess_input_info_get_model_info)(input.get(), place)
            };
            let wanted = api.object("ov_preprocess_input_model_info_free", make)?;
            // SAFETY: both objects are live; the engine copies the layout.
            api.check(unsafe {
                (functions.preprocess_input_tensor_info_set_layout)(given.get(), last.get())
            })?;
            // SAFETY: both objects are live; the engine copies the layout.
            api.check(unsafe {
                (functions.preprocess_input_model_info_set_layout)(wanted.get(), first.get())
            })?;
        }
        // SAFETY: `processor` is live; `place` is as above.
        let make = |place: *mut Pointer| unsafe {
            (functions.preprocess_prepostprocessor_build)(processor.get(), place)
        };
        Ok(Self { api, model: api.object("ov_model_free", make)? })
    }
}

impl Compiled {
    /// A property of the compiled model, as text.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn property(&self, key: &str) -> Result<String, String> {
        let key = c_text(key)?;
        // SAFETY: the string outlives the call, which writes a new one to the place given.
        self.api.text(|place| unsafe {
            (self.api.functions.compiled_model_get_property)(self.model.get(), key.as_ptr(), place)
        })
    }

    /// Something to run it with.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn request(&self) -> Result<Request, String> {
        let make = self.api.functions.compiled_model_create_infer_request;
        // SAFETY: writes a new request, which keeps the compiled model alive, to the place given.
        let request = self
            .api
            .object("ov_infer_request_free", |place| unsafe { make(self.model.get(), place) })?;
        Ok(Request { api: self.api, request })
    }

    /// The executed graph, and its library.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn runtime_model(&self) -> Result<(Handle, &'static Api), String> {
        let make = self.api.functions.compiled_model_get_runtime_model;
        // SAFETY: writes a new model to the place given.
        let model =
            self.api.object("ov_model_free", |place| unsafe { make(self.model.get(), place) })?;
        Ok((model, self.api))
    }
}

impl Request {
    /// Runs once, on the thread that calls and those of the engine.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn run(&mut self) -> Result<(), String> {
        // SAFETY: `&mut self`: nobody else uses the request meanwhile.
        self.api.check(unsafe { (self.api.functions.infer_request_infer)(self.request.get()) })
    }

    /// Input number `index`.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn input(&mut self, index: usize) -> Result<Tensor<'_>, String> {
        self.tensor(self.api.functions.infer_request_get_input_tensor_by_index, index)
    }

    /// Output number `index`.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn output(&mut self, index: usize) -> Result<Tensor<'_>, String> {
        self.tensor(self.api.functions.infer_request_get_output_tensor_by_index, index)
    }

    fn tensor(
        &self,
        get: unsafe extern "C" fn(Pointer, usize, *mut Pointer) -> i32,
        index: usize,
    ) -> Result<Tensor<'_>, String> {
        // SAFETY: writes a new reference to the tensor to the place given.
        let tensor = self
            .api
            .object("ov_tensor_free", |place| unsafe { get(self.request.get(), index, place) })?;
        Ok(Tensor { api: self.api, tensor, request: std::marker::PhantomData })
    }

    /// The engine's profile, node by node in execution order.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn profile(&self) -> Result<Vec<NodeTime>, String> {
        let mut list = ProfilingInfos { infos: ptr::null_mut(), count: 0 };
        // SAFETY: the call fills the list, which lives until it is freed below.
        self.api.check(unsafe {
            (self.api.functions.infer_request_get_profiling_info)(self.request.get(), &raw mut list)
        })?;
        let times = if list.infos.is_null() {
            Vec::new()
        } else {
            // SAFETY: the call left `count` entries there, whose texts are C strings.
            unsafe {
                let infos = std::slice::from_raw_parts(list.infos, list.count);
                let one = |info: &ProfilingInfo| NodeTime {
                    node: text(info.node),
                    node_type: text(info.node_type),
                    exec_type: text(info.exec_type),
                    executed: info.status == EXECUTED,
                    time_us: u64::try_from(info.real_time_us).unwrap_or(0),
                };
                infos.iter().map(one).collect()
            }
        };
        // SAFETY: filled above, freed once.
        unsafe { (self.api.functions.free_profiling)(&raw mut list) };
        Ok(times)
    }
}

impl Tensor<'_> {
    /// Its bytes.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn bytes(&mut self) -> Result<&mut [u8], String> {
        let (mut data, mut size) = (ptr::null_mut::<c_void>(), 0);
        self.api
            // SAFETY: both calls write to the places given.
            .check(unsafe { (self.api.functions.tensor_data)(self.tensor.get(), &raw mut data) })?;
        // SAFETY: as above.
        self.api.check(unsafe {
            (self.api.functions.tensor_get_byte_size)(self.tensor.get(), &raw mut size)
        })?;
        Ok(if data.is_null() || size == 0 {
            &mut []
        } else {
            // SAFETY: the tensor has `size` bytes at `data` as long as it lives, and nobody else
            // has it: the request is borrowed.
            unsafe { std::slice::from_raw_parts_mut(data.cast(), size) }
        })
    }

    /// Extent of each dimension.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn shape(&self) -> Result<Vec<usize>, String> {
        let mut shape = Shape { rank: 0, dims: ptr::null_mut() };
        // SAFETY: the call fills the shape, which lives until it is freed below.
        self.api.check(unsafe {
            (self.api.functions.tensor_get_shape)(self.tensor.get(), &raw mut shape)
        })?;
        let rank = usize::try_from(shape.rank).unwrap_or(0);
        let dims = if shape.dims.is_null() {
            &[]
        } else {
            // SAFETY: `rank` numbers are there.
            unsafe { std::slice::from_raw_parts(shape.dims, rank) }
        };
        let dims = dims.iter().map(|&d| usize::try_from(d).unwrap_or(0)).collect();
        // SAFETY: filled above, freed once.
        unsafe { (self.api.functions.free_shape)(&raw mut shape) };
        Ok(dims)
    }

    /// Number of its element type (`ov_element_type_e`).
    ///
    /// # Errors
    /// The engine's reason.
    pub fn element_type(&self) -> Result<u32, String> {
        let mut number = 0;
        // SAFETY: writes the number to the place given.
        self.api.check(unsafe {
            (self.api.functions.tensor_get_element_type)(self.tensor.get(), &raw mut number)
        })?;
        Ok(number)
    }
}
