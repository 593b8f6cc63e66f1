//! [`Executor`]: the calls of one model, its tensors, and one run after the other.
//!
//! Operators run one after the other, each result is a new tensor, and a tensor is freed after its
//! last reader, as with Python's references.

use super::{
    calls::{self, Call, Site},
    dispatch::AddFunction,
    library::Torch,
    tensor::{Device, Tensor},
};
use std::collections::{HashMap, HashSet};
use vitempo_graph::{
    ConstantData, Graph, MemoryFormat, OpKind, OpSpec, Precision, TensorSpec, Value, ValueId,
    ValueSource, lowering, lowering::torch::strides::Strided, onnx::Constants,
};

/// The device and precision of the model.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub torch: &'static Torch,
    pub device: Device,
    pub add: AddFunction,
    pub precision: Precision,
    pub format: MemoryFormat,
}

/// One call of the model.
pub(super) struct Step {
    /// Name of the node.
    pub name: String,
    /// The executed operators, with the tensors' actual properties after a run.
    pub op: OpSpec,
    /// The call.
    pub call: Call,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    /// Values without a reader after this step.
    dead: Vec<usize>,
}

/// A model, ready to run.
pub(super) struct Executor {
    pub steps: Vec<Step>,
    setting: Setting,
    /// Weights and inputs, which stay from run to run.
    kept: Vec<Option<Tensor>>,
    /// Values of the current run.
    computed: Vec<Option<Tensor>>,
    outputs: Vec<usize>,
}

impl Executor {
    /// Compiles every node of `program`, the calls for a model ([`lowering::torch::program`]), and
    /// puts its constants and `inputs` in place.
    ///
    /// # Errors
    /// A sentence that names the node or the value.
    pub(super) fn new(
        program: &Graph,
        constants: &Constants,
        inputs: Vec<Tensor>,
        setting: Setting,
    ) -> Result<Self, String> {
        let count = program.values().len();
        let mut last_reader: Vec<Option<usize>> = vec![None; count];
        for (index, node) in program.nodes().iter().enumerate() {
            node.inputs
                .iter()
                .chain(&node.outputs)
                .for_each(|v| last_reader[v.0 as usize] = Some(index));
        }
        let outputs: Vec<usize> = program.outputs().iter().map(|v| v.0 as usize).collect();
        let mut steps = Vec::with_capacity(program.nodes().len());
        for (index, node) in program.nodes().iter().enumerate() {
            let site = Site {
                torch: setting.torch,
                device: setting.device,
                add: setting.add,
                graph: program,
                node,
            };
            let call =
                calls::compile(site).map_err(|reason| format!("node `{}`: {reason}", node.name))?;
            let ids = |values: &[ValueId]| values.iter().map(|v| v.0 as usize).collect::<Vec<_>>();
            let is_computed = |v: usize| {
                matches!(program.values()[v].source, ValueSource::Node(_)) && !outputs.contains(&v)
            };
            let mut dead = [ids(&node.inputs), ids(&node.outputs)].concat();
            dead.retain(|&v| last_reader[v] == Some(index) && is_computed(v));
            dead.sort_unstable();
            dead.dedup();
            steps.push(Step {
                name: node.name.clone(),
                op: node.op.clone(),
                call,
                inputs: ids(&node.inputs),
                outputs: ids(&node.outputs),
                dead,
            });
        }
        let mut kept: Vec<Option<Tensor>> = std::iter::repeat_with(|| None).take(count).collect();
        for (&id, input) in program.inputs().iter().zip(inputs) {
            kept[id.0 as usize] = Some(setting.placed(&input, program.value(id))?);
        }
        let computed = std::iter::repeat_with(|| None).take(count).collect();
        let mut executor = Self { steps, setting, kept, computed, outputs };
        executor.place_constants(program, constants)?;
        Ok(executor)
    }

    fn place_constants(&mut self, program: &Graph, constants: &Constants) -> Result<(), String> {
        let mut read = vec![false; program.values().len()];
        program
            .nodes()
            .iter()
            .flat_map(|n| &n.inputs)
            .chain(program.outputs())
            .for_each(|v| read[v.0 as usize] = true);
        let wanted = |(index, value): &(usize, &Value)| {
            read[*index] && matches!(value.source, ValueSource::Constant(_))
        };
        let setting = self.setting;
        let by_where = read_by_where(program);
        let placed = |index: usize, value: &Value, tensor: &Tensor| {
            if by_where.contains(&index) {
                setting.placed_on(tensor, value, setting.device)
            } else {
                setting.placed(tensor, value)
            }
        };
        let mut absent = Vec::new();
        for (index, value) in program.values().iter().enumerate().filter(wanted) {
            match stored(self.setting.torch, value, constants)? {
                Some(tensor) => self.kept[index] = Some(placed(index, value, &tensor)?),
                None => absent.push((index, value)),
            }
        }
        if !absent.is_empty() {
            let names: Vec<String> = absent.iter().map(|(_, v)| v.name.clone()).collect();
            let computed = self.setting.compute(program.name(), constants, &names)?;
            for ((index, value), tensor) in absent.into_iter().zip(computed) {
                self.kept[index] = Some(placed(index, value, &tensor)?);
            }
        }
        self.turn_weights()
    }

    /// `linear` reads its weight as `[out, in]`, as torch's modules store it, in whatever form the
    /// file has it.
    fn turn_weights(&mut self) -> Result<(), String> {
        let mut turned: HashMap<usize, usize> = HashMap::new();
        for index in 0..self.steps.len() {
            let step = &self.steps[index];
            let Some(&weight) =
                step.inputs.get(1).filter(|_| calls::needs_transposed_weight(&step.op))
            else {
                continue;
            };
            let slot = match turned.get(&weight) {
                Some(&slot) => slot,
                None => {
                    let tensor = self.kept[weight].as_ref().ok_or_else(|| {
                        format!("node `{}`: its weight is not a constant", step.name)
                    })?;
                    let view = calls::permute(self.setting.torch, tensor, &[1, 0])?;
                    let dense = view.copied(
                        &Strided::contiguous(&view.strided()?.sizes),
                        view.precision()?,
                        self.setting.device,
                    )?;
                    self.kept.push(Some(dense));
                    self.computed.push(None);
                    *turned.entry(weight).or_insert(self.kept.len() - 1)
                }
            };
            self.steps[index].inputs[1] = slot;
        }
        let still_read = |v: usize| {
            self.steps.iter().any(|s| s.inputs.contains(&v)) || self.outputs.contains(&v)
        };
        let idle: Vec<usize> = turned.keys().copied().filter(|&v| !still_read(v)).collect();
        idle.into_iter().for_each(|v| self.kept[v] = None);
        Ok(())
    }

    /// Runs step `index`; its inputs must have been computed.
    pub(super) fn step(&mut self, index: usize) -> Result<(), String> {
        let step = &self.steps[index];
        let failed = |reason: String| format!("node `{}`: {reason}", step.name);
        let find = |&v: &usize| {
            self.kept[v]
                .as_ref()
                .or(self.computed[v].as_ref())
                .ok_or_else(|| failed("one of its inputs was not computed".to_owned()))
        };
        let inputs: Vec<&Tensor> = step.inputs.iter().map(find).collect::<Result<_, _>>()?;
        let results = (step.call.run)(&inputs).map_err(failed)?;
        if results.len() < step.outputs.len() {
            return Err(failed(format!(
                "it gives {} tensors, {} are needed",
                results.len(),
                step.outputs.len()
            )));
        }
        for (&output, tensor) in step.outputs.iter().zip(results) {
            self.computed[output] = Some(tensor);
        }
        for &value in &step.dead {
            self.computed[value] = None;
        }
        Ok(())
    }

    /// One whole run; results stay until [`Executor::clear`].
    pub(super) fn run(&mut self) -> Result<(), String> {
        (0..self.steps.len()).try_for_each(|index| self.step(index))
    }

    /// Does something that runs steps, and keeps the results that are there.
    pub(super) fn apart<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let empty = std::iter::repeat_with(|| None).take(self.computed.len()).collect();
        let kept = std::mem::replace(&mut self.computed, empty);
        let result = act(self);
        self.computed = kept;
        result
    }

    /// Frees the results.
    pub(super) fn clear(&mut self) {
        self.computed.iter_mut().for_each(|tensor| *tensor = None);
    }

    /// The outputs of the last run.
    pub(super) fn outputs(&self) -> Result<Vec<&Tensor>, String> {
        let find = |&v: &usize| {
            self.kept[v]
                .as_ref()
                .or(self.computed[v].as_ref())
                .ok_or_else(|| "an output was not computed".to_owned())
        };
        self.outputs.iter().map(find).collect()
    }

    /// One run that inspects every tensor and writes its actual properties into each step's
    /// operator.
    ///
    /// # Errors
    /// As a run; also if a tensor does not have the shape of the graph.
    pub(super) fn inspect(&mut self) -> Result<(), String> {
        for index in 0..self.steps.len() {
            let (inputs, addresses) = {
                let tensors = self.steps[index]
                    .inputs
                    .iter()
                    .filter_map(|&v| self.kept[v].as_ref().or(self.computed[v].as_ref()));
                let seen: Vec<(Strided, Precision, usize)> =
                    tensors.map(seen).collect::<Result<_, _>>()?;
                let addresses: Vec<usize> = seen.iter().map(|s| s.2).collect();
                (seen, addresses)
            };
            let dead = std::mem::take(&mut self.steps[index].dead);
            self.step(index)?;
            let outputs: Vec<(Strided, Precision, usize)> = self.steps[index]
                .outputs
                .iter()
                .filter_map(|&v| self.computed[v].as_ref())
                .map(seen)
                .collect::<Result<_, _>>()?;
            for &value in &dead {
                self.computed[value] = None;
            }
            let step = &mut self.steps[index];
            step.dead = dead;
            let copied = outputs.first().is_some_and(|o| !addresses.contains(&o.2));
            rewrite(&mut step.op, &inputs, &outputs, copied)
                .map_err(|reason| format!("node `{}`: {reason}", step.name))?;
        }
        Ok(())
    }
}

fn seen(tensor: &Tensor) -> Result<(Strided, Precision, usize), String> {
    Ok((tensor.strided()?, tensor.precision()?, tensor.data()? as usize))
}

/// Writes into `op` what its tensors turned out to be.
fn rewrite(
    op: &mut OpSpec,
    inputs: &[(Strided, Precision, usize)],
    outputs: &[(Strided, Precision, usize)],
    copied: bool,
) -> Result<(), String> {
    for (operand, (_, precision, _)) in op.inputs.iter_mut().zip(inputs) {
        operand.tensor.precision = *precision;
    }
    for (tensor, (strided, precision, _)) in op.outputs.iter_mut().zip(outputs) {
        if tensor.shape[..] != strided.sizes[..] {
            return Err(format!(
                "torch makes {:?} where the model has {:?}",
                strided.sizes, tensor.shape
            ));
        }
        tensor.precision = *precision;
    }
    op.attributes.0.retain(|name, _| name != "copy" && !name.starts_with("perm_"));
    let only =
        |seen: &[(Strided, Precision, usize)]| seen.iter().map(|s| s.0.clone()).collect::<Vec<_>>();
    lowering::torch::describe(op, &only(inputs), &only(outputs), copied && !is_select(op));
    Ok(())
}

/// Values that `where` reads: it would copy a number from the host to the device in every run,
/// where a Python program has `masked_fill`.
fn read_by_where(program: &Graph) -> HashSet<usize> {
    let chosen = program.nodes().iter().filter(|node| node.op.kind == OpKind::Where);
    chosen.flat_map(|node| &node.inputs).map(|value| value.0 as usize).collect()
}

/// `select` is a view whose first element need not be its input's.
fn is_select(op: &OpSpec) -> bool {
    op.kind == OpKind::Gather && op.attributes.int("index").is_some()
}

/// A constant that is in the file, or small enough to be in the graph; on the CPU.
fn stored(
    torch: &'static Torch,
    value: &Value,
    constants: &Constants,
) -> Result<Option<Tensor>, String> {
    let Some(tensor) = &value.tensor else { return Ok(None) };
    let wrong = |reason: String| format!("constant `{}`: {reason}", value.name);
    if let Some((spec, bytes)) =
        constants.bytes(&value.name).filter(|(spec, _)| spec.elements() == tensor.elements())
    {
        return Tensor::from_bytes(torch, &tensor.shape, spec.precision, &bytes)
            .map(Some)
            .map_err(wrong);
    }
    let (precision, bytes): (Precision, Vec<u8>) = match &value.source {
        ValueSource::Constant(Some(ConstantData::Ints(values))) => {
            (Precision::I64, values.iter().flat_map(|v| v.to_le_bytes()).collect())
        }
        ValueSource::Constant(Some(ConstantData::Floats(values))) => {
            (Precision::F64, values.iter().flat_map(|v| v.to_le_bytes()).collect())
        }
        _ => return Ok(None),
    };
    Tensor::from_bytes(torch, &tensor.shape, precision, &bytes).map(Some).map_err(wrong)
}

impl Setting {
    /// A constant or an input in the precision, format and place that the program needs.
    fn placed(&self, tensor: &Tensor, value: &Value) -> Result<Tensor, String> {
        // A number beside a tensor is read by the host.
        let is_number = tensor.strided()?.sizes.is_empty();
        self.placed_on(tensor, value, if is_number { self.torch.cpu() } else { self.device })
    }

    fn placed_on(&self, tensor: &Tensor, value: &Value, device: Device) -> Result<Tensor, String> {
        let sizes = tensor.strided()?.sizes;
        let TensorSpec { precision, format, .. } = value
            .tensor
            .as_ref()
            .ok_or_else(|| format!("value `{}` has no static shape", value.name))?;
        tensor
            .copied(&Strided::in_format(&sizes, *format), *precision, device)
            .map_err(|reason| format!("value `{}`: {reason}", value.name))
    }

    /// Constants that the file computes from others: the graph that does, run once on the CPU as
    /// the file has it.
    fn compute(
        &self,
        name: &str,
        constants: &Constants,
        names: &[String],
    ) -> Result<Vec<Tensor>, String> {
        let wrong = |e: &dyn std::fmt::Display| format!("constants `{}`: {e}", names.join("`, `"));
        let graph = constants.computed(name, names).map_err(|e| wrong(&e))?;
        let program = lowering::torch::program(&graph, Precision::F32, MemoryFormat::ChannelsFirst)
            .map_err(|e| wrong(&e))?;
        let load = |&id: &ValueId| {
            let value = program.value(id);
            stored(self.torch, value, constants)?
                .ok_or_else(|| format!("constant `{}` has no values", value.name))
        };
        let inputs = program.inputs().iter().map(load).collect::<Result<Vec<_>, _>>()?;
        let setting = Self {
            device: self.torch.cpu(),
            add: self.torch.functions.add,
            precision: Precision::F32,
            format: MemoryFormat::ChannelsFirst,
            ..*self
        };
        let valued =
            |id: &ValueId| !matches!(program.value(*id).source, ValueSource::Constant(None));
        if program.nodes().is_empty() && !program.outputs().iter().all(valued) {
            return Err(wrong(&"they have no values"));
        }
        let mut executor = Executor::new(&program, constants, inputs, setting)?;
        executor.run()?;
        let by_name: HashMap<&str, usize> = graph
            .outputs()
            .iter()
            .enumerate()
            .map(|(i, &id)| (graph.value(id).name.as_str(), i))
            .collect();
        let outputs = executor.outputs()?;
        names
            .iter()
            .map(|n| {
                by_name
                    .get(n.as_str())
                    .map_or_else(|| Err(wrong(&"they are not computed")), |&i| outputs[i].share())
            })
            .collect()
    }
}
