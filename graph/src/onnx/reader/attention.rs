//! ONNX's `Attention` (operator sets 23 and later) as the operators that define it: scaled queries
//! and keys, their product, soft cap, mask, softmax, and the product with the values. Engines
//! without a kernel for it run this function body, and rules of lowering match its pattern.
//!
//! | input | shape |
//! |---|---|
//! | Q | `[B, heads, L, D]`, or `[B, L, heads x D]` with `q_num_heads` |
//! | K, V | `[B, kv_heads, S, D]`, or `[B, S, kv_heads x D]` with `kv_num_heads` |
//! | past key and value | `[B, kv_heads, P, D]`, put before K and V |
//!
//! Fewer heads of K and V than of Q are expanded, and a causal mask is added: neither makes fewer
//! scores.

use super::Reader;
use crate::onnx::{OnnxError, payload};
use crate::{
    Attribute, Attributes, ConstantData, Node, OpKind, OpSpec, Precision, Shape, TensorSpec, Value,
    ValueId, ValueSource, shape,
};

impl<'a> Reader<'a> {
    /// Reads an `Attention`.
    pub(super) fn attention(
        &mut self,
        index: usize,
        ids: &[Option<ValueId>],
    ) -> Result<(), OnnxError> {
        let (given, graph) = (self.values.len(), self.graph);
        let name = self.node_name(index);
        self.provided.get_or_insert_with(|| {
            graph.node.iter().flat_map(|node| node.output.iter().copied()).collect()
        });
        let provided = Spelling { reader: self, index, name }.all(ids);
        let provided =
            provided.map_err(|reason| self.node_error(index, format!("is wrong: {reason}")))?;
        let mut named = Vec::new();
        for (output, id) in graph.node[index].output.iter().zip(provided) {
            if !output.is_empty() {
                let is_fresh = id.0 as usize >= given && !named.contains(&id);
                named.push(id);
                self.call(output, id, is_fresh, index)?;
            }
        }
        Ok(())
    }

    /// Gives a value of this node the name that the file has for it. One that is not fresh, because
    /// it was there before the node or has a name already, is copied.
    fn call(
        &mut self,
        name: &'a str,
        id: ValueId,
        is_fresh: bool,
        index: usize,
    ) -> Result<(), OnnxError> {
        let id = if is_fresh {
            id
        } else {
            let copy = Spelling { reader: self, index, name: name.to_owned() }.step(
                "copy",
                OpKind::Identity,
                Attributes::new(),
                &[id],
            );
            copy.map_err(|reason| self.node_error(index, reason))?
        };
        if self.ids.insert(name, id).is_some() {
            return Err(self.graph_error(crate::GraphError::Duplicate { value: name.to_owned() }));
        }
        name.clone_into(&mut self.values[id.0 as usize].name);
        Ok(())
    }
}

/// An `Attention` on its way to single operators.
struct Spelling<'r, 'a> {
    reader: &'r mut Reader<'a>,
    index: usize,
    /// The node's name: names of operators and values begin with it.
    name: String,
}

impl Spelling<'_, '_> {
    /// The values of the outputs Y, present key, present value, and scores in the form of
    /// `qk_matmul_output_mode`.
    fn all(&mut self, ids: &[Option<ValueId>]) -> Result<[ValueId; 4], String> {
        let input = |index: usize| ids.get(index).copied().flatten();
        let needed = |index: usize| input(index).ok_or_else(|| format!("input {index} is missing"));
        let (q, mut k, mut v) = (needed(0)?, needed(1)?, needed(2)?);
        let is_flat = self.shape(q)?.len() == 3;
        let query = self.in_heads("q", q, "q_num_heads")?;
        k = self.in_heads("k", k, "kv_num_heads")?;
        v = self.in_heads("v", v, "kv_num_heads")?;
        if let (Some(key), Some(value)) = (input(4), input(5)) {
            k = self.concat("present_key", key, k)?;
            v = self.concat("present_value", value, v)?;
        }
        let scores = self.scores(query, k)?;
        let capped = self.capped(scores)?;
        let masked = self.masked(capped, input(3), input(6))?;
        let weights = self.softmax(masked)?;
        let heads = self.shape(query)?[1];
        let values = self.expanded("v", v, heads)?;
        let mixed = self.step("mixed", OpKind::MatMul, Attributes::new(), &[weights, values])?;
        let y = if is_flat { self.flat(mixed)? } else { mixed };
        let stages = [scores, masked, capped, weights];
        let mode = self.int("qk_matmul_output_mode", 0);
        let stage = usize::try_from(mode).ok().and_then(|mode| stages.get(mode));
        let stage = stage.ok_or_else(|| format!("qk_matmul_output_mode is {mode}"))?;
        Ok([y, k, v, *stage])
    }

    fn int(&self, name: &str, default: i64) -> i64 {
        self.reader.graph.node[self.index].int(name).unwrap_or(default)
    }

    fn float(&self, name: &str) -> Option<f64> {
        self.reader.graph.node[self.index].float(name)
    }

    fn tensor(&self, id: ValueId) -> Result<&TensorSpec, String> {
        let value = &self.reader.values[id.0 as usize];
        value.tensor.as_ref().ok_or_else(|| format!("the shape of `{}` is not known", value.name))
    }

    fn shape(&self, id: ValueId) -> Result<Shape, String> {
        self.tensor(id).map(|tensor| tensor.shape.clone())
    }

    /// `[B, S, heads x D]` as `[B, heads, S, D]`; a tensor of four dimensions is not changed.
    fn in_heads(&mut self, what: &str, id: ValueId, attribute: &str) -> Result<ValueId, String> {
        let shape = self.shape(id)?;
        let [batch, rows, width] = shape[..] else {
            return if shape.len() == 4 {
                Ok(id)
            } else {
                Err(format!("its input {what} has {} dimensions, not 3 or 4", shape.len()))
            };
        };
        let heads = usize::try_from(self.int(attribute, 0)).unwrap_or(0);
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(format!("{attribute} = {heads} does not divide {width}"));
        }
        let split =
            self.reshape(&format!("{what}_heads"), id, &[batch, rows, heads, width / heads])?;
        self.transpose(&format!("{what}_first"), split, &[0, 2, 1, 3])
    }

    /// `[B, heads, L, D]` as `[B, L, heads x D]`.
    fn flat(&mut self, id: ValueId) -> Result<ValueId, String> {
        let shape = self.shape(id)?;
        let turned = self.transpose("rows_first", id, &[0, 2, 1, 3])?;
        self.reshape("flat", turned, &[shape[0], shape[2], shape[1] * shape[3]])
    }

    /// As many heads as the queries have.
    fn expanded(&mut self, what: &str, id: ValueId, heads: usize) -> Result<ValueId, String> {
        let shape = self.shape(id)?;
        let [batch, own, rows, width] = shape[..] else { return Ok(id) };
        if own == heads {
            return Ok(id);
        }
        if own == 0 || !heads.is_multiple_of(own) {
            return Err(format!("{heads} heads of queries do not share {own} heads of keys"));
        }
        let grouped = self.reshape(&format!("{what}_groups"), id, &[batch, own, 1, rows, width])?;
        let wide = [batch, own, heads / own, rows, width].map(|extent| extent as i64);
        let attributes = Attributes::new().with_ints("shape", wide);
        let expanded =
            self.step(&format!("{what}_expanded"), OpKind::Expand, attributes, &[grouped])?;
        self.reshape(&format!("{what}_all"), expanded, &[batch, heads, rows, width])
    }

    /// Scaled queries times transposed, scaled keys.
    fn scores(&mut self, query: ValueId, key: ValueId) -> Result<ValueId, String> {
        let shape = self.shape(query)?;
        let size = shape.get(3).copied().unwrap_or(1).max(1);
        let factor = self
            .float("scale")
            .filter(|scale| *scale > 0.0)
            .unwrap_or_else(|| (size as f64).sqrt().recip())
            .sqrt();
        let query = self.with_number("q_scaled", OpKind::Mul, query, factor)?;
        let key = self.expanded("k", key, shape[1])?;
        let turned = self.transpose("k_turned", key, &[0, 1, 3, 2])?;
        let key = self.with_number("k_scaled", OpKind::Mul, turned, factor)?;
        self.step("scores", OpKind::MatMul, Attributes::new(), &[query, key])
    }

    fn capped(&mut self, scores: ValueId) -> Result<ValueId, String> {
        let Some(cap) = self.float("softcap").filter(|cap| *cap > 0.0) else { return Ok(scores) };
        let small = self.with_number("cap_divided", OpKind::Div, scores, cap)?;
        let bent = self.step("cap_bent", OpKind::Tanh, Attributes::new(), &[small])?;
        self.with_number("capped", OpKind::Mul, bent, cap)
    }

    /// Scores plus everything that masks some of them.
    fn masked(
        &mut self,
        scores: ValueId,
        mask: Option<ValueId>,
        lengths: Option<ValueId>,
    ) -> Result<ValueId, String> {
        let shape = self.shape(scores)?;
        let (queries, keys) = (shape[2], shape[3]);
        let precision = self.tensor(scores)?.precision;
        let mut masked = scores;
        if let Some(mask) = mask {
            let mask = self.widened(mask, keys)?;
            let mask = self.added_mask("mask", mask, precision)?;
            masked = self.step("masked", OpKind::Add, Attributes::new(), &[masked, mask])?;
        }
        if let Some(lengths) = lengths {
            let batch = self.tensor(lengths)?.elements();
            let batch = usize::try_from(batch).map_err(|e| e.to_string())?;
            let each = self.reshape("lengths", lengths, &[batch, 1, 1, 1])?;
            let positions = self.constant(
                "positions",
                TensorSpec::new([keys], Precision::I64),
                ConstantData::Ints((0..keys as i64).collect()),
            );
            let less = Attributes::new().with("op", Attribute::Text("Less".to_owned()));
            let inside = self.step("inside", OpKind::Compare, less, &[positions, each])?;
            let padding = self.added_mask("padding", inside, precision)?;
            masked = self.step("unpadded", OpKind::Add, Attributes::new(), &[masked, padding])?;
        }
        if self.int("is_causal", 0) != 0 {
            let causal = self.weight("causal_mask", TensorSpec::new([queries, keys], precision));
            masked = self.step("causal", OpKind::Add, Attributes::new(), &[masked, causal])?;
        }
        Ok(masked)
    }

    /// A mask as wide as there are keys (operator sets 24 and later take a narrower one).
    fn widened(&mut self, mask: ValueId, keys: usize) -> Result<ValueId, String> {
        let shape = self.shape(mask)?;
        let missing = match shape.last() {
            Some(&width) if width > 1 && width < keys => (keys - width) as i64,
            _ => return Ok(mask),
        };
        let mut pads = vec![0; 2 * shape.len()];
        if let Some(last) = pads.last_mut() {
            *last = missing;
        }
        let attributes = Attributes::new()
            .with_ints("pads", pads)
            .with("mode", Attribute::Text("constant".to_owned()));
        self.step("mask_widened", OpKind::Pad, attributes, &[mask])
    }

    /// A mask that is added to scores: a boolean one becomes 0 and minus infinity.
    fn added_mask(
        &mut self,
        what: &str,
        mask: ValueId,
        precision: Precision,
    ) -> Result<ValueId, String> {
        if self.tensor(mask)?.precision != Precision::Bool {
            return Ok(mask);
        }
        let number = |value: f64| ConstantData::Floats(vec![value]);
        let scalar = || TensorSpec::new([], precision);
        let kept = self.constant(&format!("{what}_kept"), scalar(), number(0.0));
        let dropped =
            self.constant(&format!("{what}_dropped"), scalar(), number(f64::NEG_INFINITY));
        let name = format!("{what}_added");
        self.step(&name, OpKind::Where, Attributes::new(), &[mask, kept, dropped])
    }

    /// Over the keys, in `softmax_precision` if that is another one.
    fn softmax(&mut self, scores: ValueId) -> Result<ValueId, String> {
        let own = self.tensor(scores)?.precision;
        let asked = i32::try_from(self.int("softmax_precision", 0)).ok();
        let inside = asked.and_then(payload::precision).filter(|p| p.is_float()).unwrap_or(own);
        let scores = self.cast("scores_cast", scores, inside)?;
        let attributes = Attributes::new().with_int("axis", 3);
        let weights = self.step("weights", OpKind::Softmax, attributes, &[scores])?;
        self.cast("weights_cast", weights, own)
    }

    fn cast(&mut self, what: &str, id: ValueId, to: Precision) -> Result<ValueId, String> {
        if self.tensor(id)?.precision == to {
            return Ok(id);
        }
        let attributes = Attributes::new().with("to", Attribute::Text(to.name().to_owned()));
        self.step(what, OpKind::Cast, attributes, &[id])
    }

    fn concat(&mut self, what: &str, past: ValueId, now: ValueId) -> Result<ValueId, String> {
        self.step(what, OpKind::Concat, Attributes::new().with_int("axis", 2), &[past, now])
    }

    fn reshape(&mut self, what: &str, id: ValueId, shape: &[usize]) -> Result<ValueId, String> {
        let shape: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        self.step(what, OpKind::Reshape, Attributes::new().with_ints("shape", shape), &[id])
    }

    fn transpose(&mut self, what: &str, id: ValueId, perm: &[i64]) -> Result<ValueId, String> {
        self.step(what, OpKind::Transpose, Attributes::new().with_ints("perm", perm), &[id])
    }

    /// An elementwise operator with one number.
    fn with_number(
        &mut self,
        what: &str,
        kind: OpKind,
        id: ValueId,
        number: f64,
    ) -> Result<ValueId, String> {
        let tensor = TensorSpec::new([], self.tensor(id)?.precision);
        let data = ConstantData::Floats(vec![number]);
        let number = self.constant(&format!("{what}_by"), tensor, data);
        self.step(what, kind, Attributes::new(), &[id, number])
    }

    fn constant(&mut self, what: &str, tensor: TensorSpec, data: ConstantData) -> ValueId {
        self.value(what, tensor, ValueSource::Constant(Some(data)))
    }

    fn weight(&mut self, what: &str, tensor: TensorSpec) -> ValueId {
        self.value(what, tensor, ValueSource::Constant(None))
    }

    /// One operator with one output; a constant where all its inputs are.
    fn step(
        &mut self,
        what: &str,
        kind: OpKind,
        attributes: Attributes,
        inputs: &[ValueId],
    ) -> Result<ValueId, String> {
        let operands: Vec<_> = inputs.iter().filter_map(|id| self.reader.operand(*id)).collect();
        let attributes = shape::canonical(&kind, attributes, &operands)?;
        let mut outputs = shape::infer_canonical(&kind, &attributes, &operands)?;
        let tensor = outputs.pop().ok_or_else(|| format!("{kind} has no output"))?;
        if operands.iter().all(|operand| operand.constant) {
            return Ok(self.weight(what, tensor));
        }
        let source = ValueSource::Node(self.reader.nodes.len() as u32);
        let output = self.value(what, tensor.clone(), source);
        let op = OpSpec { kind, attributes, inputs: operands, outputs: vec![tensor] };
        let name = self.unused(what, |reader, name| reader.names.contains_key(name));
        let (inputs, outputs) = (inputs.to_vec(), vec![output]);
        self.reader.nodes.push(Node { name, op, written: None, inputs, outputs });
        Ok(output)
    }

    /// A name that nothing in the file has.
    fn unused(&self, what: &str, is_used: impl Fn(&Reader<'_>, &str) -> bool) -> String {
        let mut name = format!("{}/{what}", self.name);
        while is_used(self.reader, &name) {
            name.push('_');
        }
        name
    }

    fn value(&mut self, what: &str, tensor: TensorSpec, source: ValueSource) -> ValueId {
        let provides = |reader: &Reader<'_>, name: &str| {
            reader.provided.as_ref().is_some_and(|provided| provided.contains(name))
        };
        let name = self.unused(what, provides);
        let id = ValueId(self.reader.values.len() as u32);
        self.reader.values.push(Value { name, tensor: Some(tensor), source });
        id
    }
}
