//! Reads files of `torch.save` that contain only numbers, texts, lists and tables: a zip archive
//! with a pickle in it, or in older files pickles one behind the other.
//!
//! A pickle is a program for a stack machine. Only the instructions that build plain values are
//! executed; one that would create an object is an error, so no code of a file ever runs.

use crate::DatasetError;
use std::{collections::BTreeMap, io::Cursor, io::Read, path::Path, sync::Arc};

/// No file unpacks to more.
const LARGEST: u64 = 1 << 29;
/// No value is nested deeper.
const DEEPEST: usize = 32;
/// What older files begin with: a pickle of this number, of the version and of the system.
const OLD_MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
/// Pickles before the value in older files.
const OLD_PREAMBLE: usize = 3;

/// A plain value; tuples are lists.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    List(Vec<Value>),
    Table(Vec<(Value, Value)>),
}

impl Value {
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    pub fn index(&self) -> Option<usize> {
        match self {
            Self::Int(value) => usize::try_from(*value).ok(),
            _ => None,
        }
    }

    pub fn list(&self) -> Option<&[Value]> {
        match self {
            Self::List(values) => Some(values),
            _ => None,
        }
    }

    pub fn table(&self) -> Option<&[(Value, Value)]> {
        match self {
            Self::Table(entries) => Some(entries),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value behind a text in a table.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.table()?.iter().find(|(k, _)| k.text() == Some(key)).map(|(_, value)| value)
    }
}

/// The value in a file.
pub(super) fn read(path: &Path) -> Result<Value, DatasetError> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(DatasetError::io("read", path))?;
    file.take(LARGEST).read_to_end(&mut bytes).map_err(DatasetError::io("read", path))?;
    parse(&bytes).map_err(|reason| DatasetError::NotImportable { path: path.to_owned(), reason })
}

fn parse(bytes: &[u8]) -> Result<Value, String> {
    if bytes.starts_with(b"PK") {
        let pickle = in_archive(bytes)?;
        return Machine::new(&pickle).run();
    }
    let mut machine = Machine::new(bytes);
    let first = machine.run()?;
    if first != Value::Text(MAGIC.into()) {
        return Ok(first);
    }
    (1..OLD_PREAMBLE).try_for_each(|_| machine.run().map(drop))?;
    machine.run()
}

/// The pickle of an archive.
fn in_archive(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|e| e.to_string())?;
    let count = archive.len();
    let mut is_pickle = |number: &usize| {
        let named = |name: &str| name.rsplit('/').next() == Some("data.pkl");
        archive.by_index(*number).is_ok_and(|entry| entry.name().is_ok_and(|n| named(&n)))
    };
    let number = (0..count)
        .find(|number| is_pickle(number))
        .ok_or("the archive has no data.pkl: torch.save did not write it")?;
    let entry = archive.by_index(number).map_err(|e| e.to_string())?;
    let mut pickle = Vec::new();
    entry.take(LARGEST).read_to_end(&mut pickle).map_err(|e| e.to_string())?;
    Ok(pickle)
}

/// Represents the number at the beginning of older files, which is wider than any other.
const MAGIC: &str = "torch";

/// A value, and how deep it is nested.
#[derive(Clone, Debug)]
struct Slot {
    value: Value,
    depth: usize,
}

/// The stack machine.
struct Machine<'a> {
    bytes: &'a [u8],
    stack: Vec<Slot>,
    marks: Vec<usize>,
    memo: BTreeMap<usize, Value>,
}

impl<'a> Machine<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, stack: Vec::new(), marks: Vec::new(), memo: BTreeMap::new() }
    }

    /// Runs one pickle, to its end; what follows it stays.
    fn run(&mut self) -> Result<Value, String> {
        (self.stack, self.marks, self.memo) = Default::default();
        loop {
            let [code] = self.fixed()?;
            if code == b'.' {
                return self.pop().map(|slot| slot.value);
            }
            self.step(code)?;
        }
    }

    fn step(&mut self, code: u8) -> Result<(), String> {
        match code {
            0x80 => self.fixed::<1>().map(drop),
            0x95 => self.fixed::<8>().map(drop),
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b']' | b')' => self.push(Value::List(Vec::new())),
            b'}' => self.push(Value::Table(Vec::new())),
            b'N' => self.push(Value::None),
            0x88 | 0x89 => self.push(Value::Int(i64::from(code == 0x88))),
            b'K' => {
                let value = Value::Int(self.unsigned::<1>()? as i64);
                self.push(value)
            }
            b'M' => {
                let value = Value::Int(self.unsigned::<2>()? as i64);
                self.push(value)
            }
            b'J' => {
                let value = Value::Int(i32::from_le_bytes(self.fixed()?).into());
                self.push(value)
            }
            b'G' => {
                let value = Value::Float(f64::from_be_bytes(self.fixed()?));
                self.push(value)
            }
            0x8a => {
                let length = self.unsigned::<1>()?;
                let value = long(self.take(length)?)?;
                self.push(value)
            }
            b'X' | b'T' => {
                let length = self.unsigned::<4>()?;
                self.text(length)
            }
            0x8c | b'U' => {
                let length = self.unsigned::<1>()?;
                self.text(length)
            }
            b'q' => {
                let at = self.unsigned::<1>()?;
                self.memorise(at)
            }
            b'r' => {
                let at = self.unsigned::<4>()?;
                self.memorise(at)
            }
            0x94 => self.memorise(self.memo.len()),
            b'h' => {
                let at = self.unsigned::<1>()?;
                self.recall(at)
            }
            b'j' => {
                let at = self.unsigned::<4>()?;
                self.recall(at)
            }
            b'a' => {
                let item = self.pop()?;
                self.append(vec![item])
            }
            b'e' => {
                let items = self.since_mark()?;
                self.append(items)
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.insert(vec![key, value])
            }
            b'u' => {
                let items = self.since_mark()?;
                self.insert(items)
            }
            b't' | b'l' => {
                let items = self.since_mark()?;
                self.gather(items)
            }
            0x85..=0x87 => {
                let from = self.stack.len().checked_sub(usize::from(code) - 0x84);
                let items = self.stack.split_off(from.ok_or(EARLY)?);
                self.gather(items)
            }
            b'c' | b'R' | 0x81 | 0x93 | b'b' | b'Q' => Err("it holds objects such as tensors, \
                only numbers, texts, lists and tables are read"
                .to_owned()),
            other => Err(format!("pickle instruction {other:#04x} is not read")),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or("it ends early")?;
        self.bytes = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| EARLY.to_owned())
    }

    fn unsigned<const N: usize>(&mut self) -> Result<usize, String> {
        let bytes: [u8; N] = self.fixed()?;
        Ok(bytes.iter().rev().fold(0, |value, byte| (value << 8) | usize::from(*byte)))
    }

    fn text(&mut self, length: usize) -> Result<(), String> {
        let text = String::from_utf8_lossy(self.take(length)?);
        self.push(Value::Text(text.as_ref().into()))
    }

    fn push(&mut self, value: Value) -> Result<(), String> {
        self.stack.push(Slot { value, depth: 0 });
        Ok(())
    }

    fn pop(&mut self) -> Result<Slot, String> {
        self.stack.pop().ok_or_else(|| EARLY.to_owned())
    }

    fn since_mark(&mut self) -> Result<Vec<Slot>, String> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len()).ok_or(EARLY)?;
        Ok(self.stack.split_off(mark))
    }

    fn gather(&mut self, items: Vec<Slot>) -> Result<(), String> {
        self.push(Value::List(Vec::new()))?;
        self.append(items)
    }

    fn append(&mut self, items: Vec<Slot>) -> Result<(), String> {
        let Some(Slot { value: Value::List(list), depth }) = self.stack.last_mut() else {
            return Err("it appends to what is not a list".to_owned());
        };
        *depth = nested(*depth, &items)?;
        list.extend(items.into_iter().map(|slot| slot.value));
        Ok(())
    }

    fn insert(&mut self, items: Vec<Slot>) -> Result<(), String> {
        let Some(Slot { value: Value::Table(table), depth }) = self.stack.last_mut() else {
            return Err("it inserts into what is not a table".to_owned());
        };
        *depth = nested(*depth, &items)?;
        let mut items = items.into_iter().map(|slot| slot.value);
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            table.push((key, value));
        }
        Ok(())
    }

    /// Containers are remembered as nothing: they are not complete yet.
    fn memorise(&mut self, at: usize) -> Result<(), String> {
        let slot = self.stack.last().ok_or(EARLY)?;
        let value = match &slot.value {
            Value::List(_) | Value::Table(_) => Value::None,
            value => value.clone(),
        };
        self.memo.insert(at, value);
        Ok(())
    }

    fn recall(&mut self, at: usize) -> Result<(), String> {
        match self.memo.get(&at) {
            Some(Value::None) | None => Err("it has one list in two places".to_owned()),
            Some(value) => {
                let value = value.clone();
                self.push(value)
            }
        }
    }
}

const EARLY: &str = "it is not a pickle, or it ends early";

/// How deep a container is nested once it holds these.
fn nested(depth: usize, items: &[Slot]) -> Result<usize, String> {
    let depth = items.iter().map(|item| item.depth + 1).max().unwrap_or(0).max(depth);
    if depth > DEEPEST { Err("its lists are nested too deep".to_owned()) } else { Ok(depth) }
}

/// A number of any length, little endian.
fn long(bytes: &[u8]) -> Result<Value, String> {
    if bytes == OLD_MAGIC {
        return Ok(Value::Text(MAGIC.into()));
    }
    if bytes.len() > 8 {
        return Err("a number in it is too large".to_owned());
    }
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    Ok(Value::Int(i64::from_le_bytes(wide)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python's `pickle.dumps(..., protocol=2)` writes.
    #[test]
    fn pickles_by_hand() {
        let numbers = b"\x80\x02]q\x00(K\x07J\xff\xff\xff\xffG@\x00\x00\x00\x00\x00\x00\x00e.";
        let expected = vec![Value::Int(7), Value::Int(-1), Value::Float(2.0)];
        assert_eq!(parse(numbers), Ok(Value::List(expected)));
        let table = b"\x80\x02}q\x00X\x01\x00\x00\x00aq\x01]q\x02h\x01as.";
        let text = || Value::Text("a".into());
        assert_eq!(parse(table), Ok(Value::Table(vec![(text(), Value::List(vec![text()]))])));
        assert_eq!(
            parse(b"\x80\x02K\x01K\x02\x86\x8a\x02\x00\x01\x86.").map(|v| v.list().map(<[_]>::len)),
            Ok(Some(2))
        );
    }

    #[test]
    fn older_files_have_the_value_behind_their_preamble() {
        let mut bytes = b"\x80\x02\x8a\x0a".to_vec();
        bytes.extend_from_slice(&OLD_MAGIC);
        bytes.extend_from_slice(b".\x80\x02M\xe9\x03.\x80\x02}.\x80\x02]K\x05a.");
        assert_eq!(parse(&bytes), Ok(Value::List(vec![Value::Int(5)])));
    }

    #[test]
    fn nothing_is_run_and_nothing_panics() {
        assert!(parse(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.").is_err());
        let whole = b"\x80\x02]q\x00(K\x07G@\x00\x00\x00\x00\x00\x00\x00X\x01\x00\x00\x00ae.";
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).is_err(), "{end}");
        }
        for code in 0..=255u8 {
            let _ = parse(&[0x80, 2, code, b'.']);
            let _ = parse(&[b']', code, code, b'(', code, b'.']);
        }
        let deep = [vec![b']'; 100_000], vec![b'a'; 99_999], vec![b'.']].concat();
        assert!(parse(&deep).is_err());
        assert!(parse(b"PK\x03\x04").is_err());
    }
}
