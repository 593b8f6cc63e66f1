//! Parses rten's log of a run. One operator is
//!
//! ```text
//! #5 FusedMatMul (Add_8)
//!   input 0: x (f32 [1, 197, 192])
//!   output 0: y ([1, 197, 576])
//!   time: 0.361ms
//! ```
//!
//! and a summary follows, which is not needed. Lines of any other form are ignored, because other
//! code may print at the same time.

use vitempo_graph::{Precision, TensorSpec};

/// One operator as printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// rten's name of the operator.
    pub kernel: String,
    /// Name of the node; empty when it has none.
    pub node: String,
    /// Inputs, steering ones and weights included.
    pub inputs: Vec<Printed>,
    /// Outputs.
    pub outputs: Vec<Printed>,
    /// Its time in ns, a multiple of 1000.
    pub wall_ns: u64,
}

/// One tensor as printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Printed {
    pub name: String,
    /// Its type; `None` for outputs, of which rten does not print it.
    pub precision: Option<Precision>,
    pub shape: Vec<usize>,
}

impl Printed {
    /// The tensor; where no type was printed it is taken to be f32.
    pub fn tensor(&self) -> TensorSpec {
        TensorSpec::new(self.shape.clone(), self.precision.unwrap_or(Precision::F32))
    }
}

/// The operators of one run, in execution order.
///
/// # Errors
/// A sentence when there are none, when one has no time, or when their numbers have gaps.
pub(super) fn parse(text: &str) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if let Some((number, kernel, node)) = heading(line) {
            if open || number != steps.len() {
                return Err(format!("rten's account has a gap before `{line}`"));
            }
            steps.push(Step {
                kernel: kernel.to_owned(),
                node: node.to_owned(),
                ..Step::default()
            });
            open = true;
        } else if let (true, Some(step)) = (open, steps.last_mut()) {
            if let Some(input) = tensor(line, "  input ") {
                step.inputs.push(input);
            } else if let Some(output) = tensor(line, "  output ") {
                step.outputs.push(output);
            } else if let Some(wall_ns) = time(line) {
                step.wall_ns = wall_ns;
                open = false;
            }
        }
    }
    match steps.last() {
        None => Err("rten printed no operator; is stdout somewhere else?".to_owned()),
        Some(last) if open => {
            Err(format!("rten printed no time for operator {} `{}`", last.kernel, last.node))
        }
        Some(_) => Ok(steps),
    }
}

/// `#5 FusedMatMul (Add_8)`
fn heading(line: &str) -> Option<(usize, &str, &str)> {
    let (number, rest) = line.strip_prefix('#')?.split_once(' ')?;
    let (kernel, node) = rest.split_once(" (")?;
    Some((number.parse().ok()?, kernel, node.strip_suffix(')')?))
}

/// `  input 0: x (f32 [1, 197, 192])` and `  output 0: y ([1, 197, 576])`
fn tensor(line: &str, prefix: &str) -> Option<Printed> {
    let (index, rest) = line.strip_prefix(prefix)?.split_once(": ")?;
    index.parse::<usize>().ok()?;
    let (name, shape) = rest.strip_suffix("])")?.rsplit_once('[')?;
    let (name, precision) = name.rsplit_once('(')?;
    let dimensions = shape.split(", ").filter(|size| !size.is_empty());
    Some(Printed {
        name: name.trim_end().to_owned(),
        precision: match precision.trim() {
            "f32" => Some(Precision::F32),
            "i32" => Some(Precision::I32),
            "i8" => Some(Precision::I8),
            "u8" => Some(Precision::U8),
            _ => None,
        },
        shape: dimensions.map(str::parse).collect::<Result<_, _>>().ok()?,
    })
}

/// `  time: 0.361ms` in ns.
fn time(line: &str) -> Option<u64> {
    let (whole, fraction) = line.strip_prefix("  time: ")?.strip_suffix("ms")?.split_once('.')?;
    let microseconds = whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1000)?
        .checked_add(fraction.parse().ok().filter(|_| fraction.len() == 3)?)?;
    microseconds.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "#0 Conv (/patch/Conv)
  input 0: image (f32 [1, 3, 224, 224])
  input 1: patch.weight (f32 [192, 3, 16, 16])
  output 0: tokens (odd) ([1, 192, 14, 14])
  time: 1.305ms
something else prints
#1 TransformInputs(MatMul) (/attn/MatMul)
  input 0: q (f32 [1, 3, 197, 64])
  input 1: k (f32 [1, 3, 197, 64])
  output 0: qk ([1, 3, 197, 197])
  time: 12.040ms
#2 Identity ()
  input 0: s (i32 [])
  output 0: t ([])
  time: 0.000ms
3 ops evaluated in 13.345ms
Pool allocs 2 hits 0
Max activation bytes 5 MB

Op    Mean ms  Total ms
";

    #[test]
    fn reads_operators_shapes_and_times() {
        let steps = parse(RUN).unwrap_or_else(|e| panic!("{e}"));
        let reported: Vec<_> =
            steps.iter().map(|s| (s.kernel.as_str(), s.node.as_str(), s.wall_ns)).collect();
        assert_eq!(
            reported,
            [
                ("Conv", "/patch/Conv", 1_305_000),
                ("TransformInputs(MatMul)", "/attn/MatMul", 12_040_000),
                ("Identity", "", 0)
            ]
        );
        assert_eq!(
            steps[0].inputs[1],
            Printed {
                name: "patch.weight".into(),
                precision: Some(Precision::F32),
                shape: vec![192, 3, 16, 16]
            }
        );
        assert_eq!(
            steps[0].outputs[0],
            Printed { name: "tokens (odd)".into(), precision: None, shape: vec![1, 192, 14, 14] }
        );
        assert_eq!(
            steps[2].inputs[0],
            Printed { name: "s".into(), precision: Some(Precision::I32), shape: vec![] }
        );
    }

    #[test]
    fn says_what_is_missing() {
        let cases = [
            ("", "no operator"),
            ("3 ops evaluated in 13.345ms", "no operator"),
            ("#0 Conv (a)\n  input 0: x (f32 [1])\n", "no time for operator Conv"),
            ("#1 Conv (a)\n  time: 0.001ms\n", "gap"),
            ("#0 Conv (a)\n#1 Relu (b)\n  time: 0.001ms\n", "gap"),
            ("#0 Conv (a)\n  time: 0.0001ms\n", "no time"),
            ("#0 Conv (a)\n  time: 99999999999999999999.000ms\n", "no time"),
        ];
        for (text, words) in cases {
            assert!(parse(text).is_err_and(|e| e.contains(words)), "{text}");
        }
    }
}
