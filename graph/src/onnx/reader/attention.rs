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
use super::spelling::Spelling;
use crate::onnx::{OnnxError, payload};
use crate::{Attribute, Attributes, ConstantData, OpKind, Precision, TensorSpec, ValueId};

impl Reader<'_> {
    /// Reads an `Attention`.
    pub(super) fn attention(
        &mut self,
        index: usize,
        ids: &[Option<ValueId>],
    ) -> Result<(), OnnxError> {
        self.spell_out(index, |spelling| spelling.attention(ids).map(Vec::from))
    }
}

impl Spelling<'_, '_> {
    /// The values of the outputs Y, present key, present value, and scores as
    /// `qk_matmul_output_mode` wants them.
    fn attention(&mut self, ids: &[Option<ValueId>]) -> Result<[ValueId; 4], String> {
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

    /// `[B, S, heads x D]` as `[B, heads, S, D]`; what has four dimensions stays.
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
}
