//! The devices and precisions that OpenVINO can run on this machine, with reasons for absent ones.

use super::engine::Engine;
use crate::backends::{AbsentDevice, discovery::Missing};
use vitempo_graph::{Attributes, GraphBuilder, OpKind, Precision, Processor, TensorSpec, onnx};

/// Every processor, with the engine's name for it. AUTO, MULTI and HETERO choose for themselves and
/// are never used.
const DEVICES: [(Processor, &str); 3] =
    [(Processor::Cpu, "CPU"), (Processor::Gpu, "GPU"), (Processor::Npu, "NPU")];

/// The engine's name.
#[must_use]
pub fn name(processor: Processor) -> &'static str {
    DEVICES.iter().find(|(p, _)| *p == processor).map_or("CPU", |(_, name)| name)
}

/// Those that can run here; `GPU.1` counts as a GPU.
#[must_use]
pub fn available(engine: &Engine) -> Vec<Processor> {
    let devices = engine.devices().unwrap_or_default();
    let there = |name: &str| devices.iter().any(|d| d.split('.').next() == Some(name));
    DEVICES.iter().filter(|(_, name)| there(name)).map(|(processor, _)| *processor).collect()
}

/// Those that cannot, each with the engine's reason.
#[must_use]
pub fn absent(engine: &Engine) -> Vec<AbsentDevice> {
    let there = available(engine);
    let absent = DEVICES.iter().filter(|(processor, _)| !there.contains(processor));
    absent
        .map(|&(processor, name)| AbsentDevice {
            processor,
            reason: reason(engine, name),
            hint: hint(processor).to_owned(),
        })
        .collect()
}

/// Precisions that a device reports; if another is requested, the engine silently uses one of
/// these.
///
/// # Errors
/// [`Missing`], with the engine's reason, when the device is not there.
pub fn precisions(engine: &Engine, processor: Processor) -> Result<Vec<Precision>, Missing> {
    let device = name(processor);
    if !available(engine).contains(&processor) {
        let others: Vec<String> = available(engine).iter().map(ToString::to_string).collect();
        let reason = format!(
            "no {processor} was found, only {}: {}",
            others.join(", "),
            reason(engine, device)
        );
        return Err(Missing { reason, hint: hint(processor).to_owned() });
    }
    let said = engine.property(device, "OPTIMIZATION_CAPABILITIES").unwrap_or_default();
    Ok(offered(&said))
}

fn offered(capabilities: &str) -> Vec<Precision> {
    let known = [
        ("FP32", Precision::F32),
        ("BF16", Precision::Bf16),
        ("FP16", Precision::F16),
        ("INT8", Precision::I8),
    ];
    known
        .iter()
        .filter(|(name, _)| capabilities.split([' ', ',']).any(|c| c == *name))
        .map(|(_, precision)| *precision)
        .collect()
}

/// Why a device cannot run: the engine's message for a model of one operator.
fn reason(engine: &Engine, device: &str) -> String {
    let attempt = || {
        let mut b = GraphBuilder::new("probe");
        let x = b.input("x", TensorSpec::f32([1, 4]));
        let y = b.op("relu", OpKind::Relu, Attributes::new(), &[x]).map_err(|e| e.to_string())?;
        let graph = b.finish(vec![y]).map_err(|e| e.to_string())?;
        let bytes =
            onnx::to_bytes(&graph, &onnx::WriteOptions::seeded(0)).map_err(|e| e.to_string())?;
        engine.compile(&engine.read_bytes(&bytes)?, device, &[]).map(|_| ())
    };
    attempt().err().unwrap_or_else(|| "the engine does not list it".to_owned())
}

fn hint(processor: Processor) -> &'static str {
    match processor {
        Processor::Gpu => {
            "an Intel GPU needs its OpenCL driver (intel-opencl-icd) and access to /dev/dri; or \
            use the cpu"
        }
        Processor::Npu => {
            "an Intel NPU needs its driver (intel-driver-compiler-npu, intel-level-zero-npu) and \
            access to /dev/accel; or use the cpu"
        }
        Processor::Cpu => "this build of OpenVINO has no CPU plugin; install another",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_says_it_can_is_offered() {
        assert_eq!(
            offered("BF16 WINOGRAD FP32 INT8 BIN EXPORT_IMPORT"),
            [Precision::F32, Precision::Bf16, Precision::I8]
        );
        assert_eq!(offered("FP32,FP16,INT8"), [Precision::F32, Precision::F16, Precision::I8]);
        assert!(offered("").is_empty());
    }
}
