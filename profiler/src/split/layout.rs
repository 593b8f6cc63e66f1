//! [`Layout`]: the tensors of one part as bytes, and what precedes them in a frame.
//!
//! | frame | bytes |
//! |---|---|
//! | to the server | number of the frame (8), part (4), its inputs |
//! | to the server, to measure the link | number (8), [`ECHO`] (4), bytes wanted back (8), padding |
//! | back | number (8), 0 or 1 for failed (1), time of the engine in ns (8), outputs or the reason |
//!
//! Numbers are little-endian. Shapes and precisions are those of the part's graph, which both ends
//! have.

use super::features::Encoding;
use crate::{backends::OutputValues, remote::frame::OVERHEAD};
use std::{borrow::Borrow, sync::Arc};
use vitempo_graph::{Graph, TensorSpec, ValueId};

/// In place of a part: the frame measures the link.
pub(crate) const ECHO: u32 = u32::MAX;

/// Bytes before the tensors on the way to the server.
pub(crate) const ASK_HEAD: usize = 12;
/// The same on the way back.
pub(crate) const REPLY_HEAD: usize = 17;

/// Bytes of a message to the server, and of one back, beside their tensors.
pub const MESSAGE_BYTES: [u64; 2] = [(ASK_HEAD + OVERHEAD) as u64, (REPLY_HEAD + OVERHEAD) as u64];

struct Entry {
    name: String,
    tensor: TensorSpec,
    encoding: Encoding,
}

/// Tensors one after the other.
pub(crate) struct Layout(Vec<Entry>);

impl Layout {
    /// The inputs of a part; `encodings` has one per input.
    pub(crate) fn of_inputs(part: &Graph, encodings: &[Encoding]) -> Result<Self, String> {
        if encodings.len() != part.inputs().len() {
            let (given, inputs) = (encodings.len(), part.inputs().len());
            return Err(format!("{given} encodings for the {inputs} inputs of `{}`", part.name()));
        }
        let entries = part.inputs().iter().zip(encodings);
        entries
            .map(|(&id, &encoding)| entry(part, id, encoding))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The outputs of a part, in their own precision.
    pub(crate) fn of_outputs(part: &Graph) -> Result<Self, String> {
        let own = |&id: &ValueId| {
            let precision = tensor(part, id)?.precision;
            entry(part, id, Encoding::Plain(precision))
        };
        part.outputs().iter().map(own).collect::<Result<_, _>>().map(Self)
    }

    /// Bytes of all tensors.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.0.iter().map(Entry::size_bytes).sum()
    }

    /// Appends the values with these names.
    pub(crate) fn write<V: Borrow<OutputValues>>(
        &self,
        values: &[V],
        bytes: &mut Vec<u8>,
    ) -> Result<(), String> {
        for Entry { name, tensor, encoding } in &self.0 {
            let found = values.iter().map(Borrow::borrow).find(|value| value.name == *name);
            let found = found.ok_or_else(|| format!("there is no value `{name}`"))?;
            if found.values.len() as u64 != tensor.elements() {
                let (found, elements) = (found.values.len(), tensor.elements());
                return Err(format!("`{name}` has {found} values instead of {elements}"));
            }
            encoding.write(&found.values, bytes);
        }
        Ok(())
    }

    /// The values in these bytes.
    pub(crate) fn read(&self, bytes: &[u8]) -> Result<Vec<Arc<OutputValues>>, String> {
        if bytes.len() as u64 != self.size_bytes() {
            return Err(format!(
                "{} bytes of tensors instead of {}",
                bytes.len(),
                self.size_bytes()
            ));
        }
        let mut rest = bytes;
        let mut one = |entry: &Entry| {
            let (own, others) = rest.split_at_checked(entry.size_bytes() as usize)?;
            rest = others;
            let values = entry.encoding.read(own)?;
            let shape = entry.tensor.shape.to_vec();
            Some(Arc::new(OutputValues { name: entry.name.clone(), shape, values }))
        };
        let values: Option<Vec<_>> = self.0.iter().map(&mut one).collect();
        values.ok_or_else(|| "tensors that cannot be read".to_owned())
    }
}

impl Entry {
    fn size_bytes(&self) -> u64 {
        self.encoding.size_bytes(self.tensor.elements())
    }
}

fn tensor(part: &Graph, id: ValueId) -> Result<&TensorSpec, String> {
    let value = part.value(id);
    value.tensor.as_ref().ok_or_else(|| format!("`{}` has no static shape", value.name))
}

fn entry(part: &Graph, id: ValueId, encoding: Encoding) -> Result<Entry, String> {
    let name = part.value(id).name.clone();
    Ok(Entry { name, tensor: tensor(part, id)?.clone(), encoding })
}

/// A frame to the server.
pub(crate) enum Asked<'a> {
    /// Run a part on these tensors.
    Run { number: u64, part: usize, tensors: &'a [u8] },
    /// Send so many bytes back.
    Echo { number: u64, back: u64 },
}

/// The beginning of a frame that runs a part.
pub(crate) fn ask(number: u64, part: usize, capacity: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ASK_HEAD + capacity as usize);
    bytes.extend(number.to_le_bytes());
    bytes.extend(u32::try_from(part).unwrap_or(ECHO - 1).to_le_bytes());
    bytes
}

/// A frame of so many bytes more than its head that wants `back` bytes.
pub(crate) fn echo(number: u64, padding: u64, back: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ASK_HEAD + 8 + padding as usize);
    bytes.extend(number.to_le_bytes());
    bytes.extend(ECHO.to_le_bytes());
    bytes.extend(back.to_le_bytes());
    bytes.resize(bytes.len() + padding as usize, 0);
    bytes
}

/// Reads a frame to the server; `None` where it is too short.
pub(crate) fn read_ask(payload: &[u8]) -> Option<Asked<'_>> {
    let (number, rest) = payload.split_first_chunk()?;
    let (part, tensors) = rest.split_first_chunk()?;
    let (number, part) = (u64::from_le_bytes(*number), u32::from_le_bytes(*part));
    if part == ECHO {
        let (back, _) = tensors.split_first_chunk()?;
        return Some(Asked::Echo { number, back: u64::from_le_bytes(*back) });
    }
    Some(Asked::Run { number, part: part as usize, tensors })
}

/// The beginning of an answer.
pub(crate) fn reply(number: u64, is_failed: bool, busy_ns: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.push(u8::from(is_failed));
    bytes.extend(busy_ns.to_le_bytes());
    bytes
}

/// An answer of the server.
pub(crate) struct Replied<'a> {
    pub number: u64,
    pub is_failed: bool,
    pub busy_ns: u64,
    /// Outputs, or the reason.
    pub rest: &'a [u8],
}

/// Reads an answer; `None` where it is too short.
pub(crate) fn read_reply(payload: &[u8]) -> Option<Replied<'_>> {
    let (number, rest) = payload.split_first_chunk()?;
    let (&failed, rest) = rest.split_first()?;
    let (busy_ns, rest) = rest.split_first_chunk()?;
    Some(Replied {
        number: u64::from_le_bytes(*number),
        is_failed: failed != 0,
        busy_ns: u64::from_le_bytes(*busy_ns),
        rest,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::split::Features;
    use vitempo_graph::{Attributes, GraphBuilder, OpKind, Precision};

    fn part() -> Graph {
        let mut builder = GraphBuilder::new("m.server");
        let x = builder.input("x", TensorSpec::f32([2, 3]));
        let y = builder.input("y", TensorSpec::f32([2, 3]));
        let z = builder.op("sum", OpKind::Add, Attributes::new(), &[x, y]).unwrap();
        builder.finish(vec![z]).unwrap()
    }

    fn values(name: &str, first: f32) -> OutputValues {
        let values = (0..6).map(|i| first + i as f32).collect();
        OutputValues { name: name.to_owned(), shape: vec![2, 3], values }
    }

    #[test]
    fn tensors_come_back_by_name_whatever_the_order() {
        for (features, bytes) in [(Features::F32, 48), (Features::F16, 24), (Features::Int8, 28)] {
            let layout =
                Layout::of_inputs(&part(), &[features.encoding(Precision::F32); 2]).unwrap();
            assert_eq!(layout.size_bytes(), bytes);
            let mut sent = ask(7, 1, bytes);
            layout.write(&[values("y", 8.0), values("x", 1.0)], &mut sent).unwrap();
            assert_eq!(sent.len() as u64, ASK_HEAD as u64 + bytes);
            let Some(Asked::Run { number: 7, part: 1, tensors }) = read_ask(&sent) else {
                panic!("another frame")
            };
            let found = layout.read(tensors).unwrap();
            for (found, expected) in found.iter().zip([values("x", 1.0), values("y", 8.0)]) {
                assert_eq!((&found.name, &found.shape), (&expected.name, &expected.shape));
                let apart = found.values.iter().zip(&expected.values).map(|(a, b)| (a - b).abs());
                assert!(apart.fold(0.0, f32::max) < 1e-5, "{features}");
            }
            assert!(layout.read(&tensors[1..]).is_err_and(|e| e.contains("instead of")));
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let error = |result: Result<(), String>| result.unwrap_err();
        let layout = Layout::of_outputs(&part()).unwrap();
        assert_eq!(
            error(layout.write(&[values("x", 0.0)], &mut Vec::new())),
            "there is no value `sum_out`"
        );
        let mut short = values("sum_out", 0.0);
        short.values.pop();
        let reason = error(layout.write(&[short], &mut Vec::new()));
        assert_eq!(reason, "`sum_out` has 5 values instead of 6");
        assert!(Layout::of_inputs(&part(), &[]).is_err());
    }

    #[test]
    fn short_frames_are_none() {
        let (asked, replied) = (ask(1, 2, 0), reply(1, true, 5));
        for length in 0..asked.len() {
            assert!(read_ask(&asked[..length]).is_none());
        }
        for length in 0..replied.len() {
            assert!(read_reply(&replied[..length]).is_none());
        }
        let wanted = echo(3, 100, 40);
        assert_eq!(wanted.len(), ASK_HEAD + 8 + 100);
        assert!(matches!(read_ask(&wanted), Some(Asked::Echo { number: 3, back: 40 })));
        assert!(read_ask(&wanted[..ASK_HEAD + 7]).is_none());
        assert_eq!(
            read_reply(&replied).map(|r| (r.number, r.is_failed, r.busy_ns)),
            Some((1, true, 5))
        );
    }
}
