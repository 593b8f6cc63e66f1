//! The one feature extractor, used for fitting and for querying: [`FeatureSchema::extract`].
//!
//! In: an [`OpSpec`] as the framework runs it. Out: a [`FeatureVector`] with one finite number per
//! column; counts are plain numbers, sizes are bytes, switches are 0 or 1. Every operator has the
//! columns of [`totals`](self), followed by those of its [`Family`] and by that of calls. A
//! [`PredictorKey`] names the regressor an operator belongs to: kind, kernel class (what makes the
//! same kind run another algorithm) and memory format.

mod convolution;
mod elementwise;
mod matrix_product;
mod movement;
mod normalization;
mod order;
mod pooling;
mod sampling;
mod totals;
mod working_set;

pub(crate) use working_set::Surroundings;
pub use working_set::{WorkingSet, WorkingSetBytes};

use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeMap, fmt};
use vitempo_graph::{MemoryFormat, OpKind, OpSpec};

/// Raised whenever columns change. Where they were only appended to those of a family, bundles of the
/// version before are read, too ([`FeatureSchema::extends`]).
pub const SCHEMA_VERSION: u32 = 6;

#[cfg(feature = "train")]
pub(crate) use totals::BYTES_REORDERED;
pub(crate) use totals::{BYTES_TOTAL, CONSTANT_INPUTS, SIZES};

/// Number of leading columns that every family has.
pub(crate) const TOTALS_WIDTH: usize = totals::COLUMNS.len();

/// Kinds of operators that share columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Convolutions, transposed ones too.
    Convolution,
    /// Matrix products: linear, matmul, einsum, attention.
    MatrixProduct,
    /// One output element per input element, with broadcasting; activations too.
    Elementwise,
    /// Copies, permutations, joins and cuts; also what moves nothing at all.
    Movement,
    /// Softmax and the normalizations.
    Normalization,
    /// Pooling and reductions.
    Pooling,
    /// Resize and grid sampling.
    Sampling,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 7] = [
        Self::Convolution,
        Self::MatrixProduct,
        Self::Elementwise,
        Self::Movement,
        Self::Normalization,
        Self::Pooling,
        Self::Sampling,
    ];

    /// The family of an operator kind.
    #[must_use]
    pub fn of(kind: &OpKind) -> Self {
        use OpKind as K;
        match kind {
            K::Conv | K::ConvTranspose => Self::Convolution,
            K::Linear | K::MatMul | K::Einsum | K::Attention => Self::MatrixProduct,
            K::Softmax
            | K::LayerNorm
            | K::RmsNorm
            | K::BatchNorm
            | K::InstanceNorm
            | K::GroupNorm
            | K::LpNorm
            | K::CumSum
            | K::TopK
            | K::ArgMax => Self::Normalization,
            K::MaxPool | K::AveragePool | K::GlobalAveragePool | K::GlobalMaxPool => Self::Pooling,
            K::ReduceMean
            | K::ReduceSum
            | K::ReduceMax
            | K::ReduceMin
            | K::ReduceL2
            | K::ReduceProd => Self::Pooling,
            K::Resize | K::GridSample => Self::Sampling,
            K::Transpose
            | K::Reshape
            | K::Concat
            | K::Split
            | K::Slice
            | K::Gather
            | K::GatherNd
            | K::GatherElements
            | K::ScatterNd => Self::Movement,
            K::Expand
            | K::Tile
            | K::Pad
            | K::DepthToSpace
            | K::SpaceToDepth
            | K::Col2Im
            | K::Cast
            | K::Quantize
            | K::Dequantize
            | K::DynamicQuantize
            | K::Identity
            | K::Reorder
            | K::Shape => Self::Movement,
            K::ConstantOfShape | K::Range | K::NonZero | K::Trilu | K::Unsupported(_) => {
                Self::Movement
            }
            _ => Self::Elementwise,
        }
    }

    /// Whether its operators spend their time on moving bytes, so that time per byte has a limit.
    #[cfg(feature = "train")]
    pub(crate) fn moves_bytes(self) -> bool {
        matches!(self, Self::Elementwise | Self::Movement | Self::Pooling | Self::Sampling)
    }

    fn own_columns(self) -> &'static [&'static str] {
        match self {
            Self::Convolution => convolution::COLUMNS,
            Self::MatrixProduct => matrix_product::COLUMNS,
            Self::Elementwise => elementwise::COLUMNS,
            Self::Movement => movement::COLUMNS,
            Self::Normalization => normalization::COLUMNS,
            Self::Pooling => pooling::COLUMNS,
            Self::Sampling => sampling::COLUMNS,
        }
    }

    /// Names of the columns, in order.
    pub fn columns(self) -> impl Iterator<Item = &'static str> {
        totals::COLUMNS.iter().chain(self.own_columns()).chain(working_set::COLUMNS).copied()
    }

    /// The column of what a call costs, beside one whose code has left the caches.
    #[cfg(feature = "train")]
    pub(crate) fn calls_column(self) -> usize {
        self.width() - 1
    }

    /// The columns that count calls which copy an operand first.
    #[cfg(feature = "train")]
    pub(crate) fn copies_columns(self) -> Vec<usize> {
        self.positions(&["operands_reordered", "operands_gathered"])
    }

    /// Where the columns of these names are, for those that the family has.
    pub(crate) fn positions(self, names: &[&str]) -> Vec<usize> {
        names.iter().filter_map(|name| self.columns().position(|c| c == *name)).collect()
    }

    /// Number of columns.
    #[must_use]
    pub fn width(self) -> usize {
        totals::COLUMNS.len() + self.own_columns().len() + working_set::COLUMNS.len()
    }

    /// The columns whose non-negative combination, with a constant, is the work-and-bytes baseline.
    #[must_use]
    pub fn baseline_columns(self) -> Vec<usize> {
        let wanted = match self {
            Self::Convolution => convolution::BASELINE,
            Self::MatrixProduct => matrix_product::BASELINE,
            Self::Elementwise => elementwise::BASELINE,
            Self::Movement => movement::BASELINE,
            Self::Normalization => normalization::BASELINE,
            Self::Pooling => pooling::BASELINE,
            Self::Sampling => sampling::BASELINE,
        };
        self.positions(wanted)
    }
}

/// Kinds whose times depend on work and bytes similarly enough that one can replace another:
/// memory-bound and transcendental elementwise operators apart, otherwise the family.
#[must_use]
pub fn kin(kind: &OpKind) -> &'static str {
    use OpKind as K;
    match (Family::of(kind), kind) {
        (
            Family::Elementwise,
            K::Gelu | K::GeluTanh | K::Silu | K::Sigmoid | K::Mish | K::Softplus | K::Tanh | K::Erf,
        ) => "transcendental",
        (Family::Elementwise, K::Exp | K::Log | K::Sin | K::Cos | K::Pow | K::Elu) => {
            "transcendental"
        }
        (Family::Elementwise, _) => "elementwise",
        (Family::Convolution, _) => "convolution",
        (Family::MatrixProduct, _) => "matrix_product",
        (_, K::Unsupported(_)) => "unknown",
        (Family::Movement, K::Reshape | K::Identity | K::Shape | K::ConstantOfShape | K::Range) => {
            "free"
        }
        (Family::Movement, _) => "movement",
        (Family::Normalization, _) => "normalization",
        (Family::Pooling, _) => "pooling",
        (Family::Sampling, _) => "sampling",
    }
}

/// The features of one operator.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureVector {
    /// Whose columns these are.
    pub family: Family,
    /// One finite value per column of the family.
    pub values: Vec<f64>,
}

impl FeatureVector {
    /// The value of a column by name.
    #[must_use]
    pub fn get(&self, column: &str) -> Option<f64> {
        self.family.columns().position(|c| c == column).and_then(|i| self.values.get(i).copied())
    }
}

/// The named columns of every family, and the extractor that fills them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureSchema {
    /// [`SCHEMA_VERSION`] of the program that made it.
    pub version: u32,
    /// Column names by family.
    pub columns: BTreeMap<Family, Vec<String>>,
}

impl FeatureSchema {
    /// The schema of this program.
    #[must_use]
    pub fn current() -> Self {
        let named = |f: Family| (f, f.columns().map(str::to_owned).collect());
        Self { version: SCHEMA_VERSION, columns: Family::ALL.into_iter().map(named).collect() }
    }

    /// Whether each family has the columns that `older` says, in the same order, and perhaps more
    /// after them.
    #[must_use]
    pub fn extends(&self, older: &Self) -> bool {
        let begins = |(family, columns): (&Family, &Vec<String>)| {
            older.columns.get(family).is_some_and(|older| columns.starts_with(older))
        };
        older.version <= self.version
            && older.columns.len() == self.columns.len()
            && self.columns.iter().all(begins)
    }

    /// The features of an operator in a model that fits no cache.
    #[must_use]
    pub fn extract(op: &OpSpec) -> FeatureVector {
        Self::extract_within(op, WorkingSet::LARGE)
    }

    /// The features of an operator in a model of that working set; the only allocation is the
    /// vector itself.
    #[must_use]
    pub fn extract_within(op: &OpSpec, working_set: WorkingSet) -> FeatureVector {
        let family = Family::of(&op.kind);
        let mut values = Vec::with_capacity(family.width());
        Self::append(op, working_set, &mut values);
        FeatureVector { family, values }
    }

    /// The same, as one more row of a table.
    pub(crate) fn append(op: &OpSpec, working_set: WorkingSet, table: &mut Vec<f64>) {
        let start = table.len();
        totals::push(op, working_set, table);
        match Family::of(&op.kind) {
            Family::Convolution => convolution::push(op, table),
            Family::MatrixProduct => matrix_product::push(op, table),
            Family::Elementwise => elementwise::push(op, table),
            Family::Movement => movement::push(op, table),
            Family::Normalization => normalization::push(op, table),
            Family::Pooling => pooling::push(op, table),
            Family::Sampling => sampling::push(op, table),
        }
        table.push(working_set.calls());
        for value in table.iter_mut().skip(start) {
            *value = if value.is_nan() { 0.0 } else { value.clamp(-LARGEST, LARGEST) };
        }
    }
}

/// Which regressor an operator belongs to, within one environment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PredictorKey {
    /// Name of the operator kind.
    pub kind: Cow<'static, str>,
    /// Kernel class within the kind; empty where a kind has only one.
    pub class: Cow<'static, str>,
    /// Memory format it works in.
    pub format: MemoryFormat,
}

impl PredictorKey {
    /// The key of an operator.
    #[must_use]
    pub fn of(op: &OpSpec) -> Self {
        let class = match Family::of(&op.kind) {
            Family::Convolution => convolution::class(op),
            Family::MatrixProduct => matrix_product::class(op),
            Family::Elementwise => elementwise::class(op),
            Family::Movement => movement::class(op),
            Family::Normalization => normalization::class(op),
            Family::Pooling => pooling::class(op),
            Family::Sampling => sampling::class(op),
        };
        Self { kind: (&op.kind).into(), class, format: op.format() }
    }

    /// `conv/depthwise`: the key without its format.
    pub(crate) fn class_name(&self) -> String {
        format!("{}/{}", self.kind, self.class)
    }
}

impl fmt::Display for PredictorKey {
    /// `conv/depthwise/blocked`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class.is_empty() {
            true => write!(f, "{}/{}", self.kind, self.format),
            false => write!(f, "{}/{}/{}", self.kind, self.class, self.format),
        }
    }
}

/// No feature is larger, so that squares and sums of features stay finite.
const LARGEST: f64 = 1e30;

/// Elements a vector register of 512 bits holds in f32; channels and columns are padded to it.
const LANES: f64 = 16.0;

/// Extents that are multiples of this are as good as any.
const ALIGNED: u32 = 6;

/// Binary logarithm of the largest power of two that divides an extent, at most [`ALIGNED`]: tensor
/// cores and vector loads take rows of 16 bytes alone (cuBLAS and cuDNN, "tensor core requirements"),
/// and copy or pad others first.
fn alignment(extent: f64) -> f64 {
    f64::from((extent as u64).trailing_zeros().min(ALIGNED))
}

fn round_up(value: f64, to: f64) -> f64 {
    (value / to).ceil() * to
}

fn product(extents: &[usize]) -> f64 {
    extents.iter().map(|&d| d as f64).product()
}

fn flag(on: bool) -> f64 {
    f64::from(u8::from(on))
}

/// Cost of a fused activation: 0 none, 1 a few instructions, 2 transcendental.
fn activation_cost(op: &OpSpec) -> f64 {
    match op.attributes.text("activation") {
        None | Some("" | "none" | "None") => 0.0,
        Some(name) => match name.to_ascii_lowercase().as_str() {
            "relu" | "clip" | "leaky_relu" | "leakyrelu" | "hard_sigmoid" | "hardsigmoid"
            | "hard_swish" | "hardswish" | "relu6" => 1.0,
            _ => 2.0,
        },
    }
}

/// An axis counted from the front; the last one where it is out of range.
fn axis(op: &OpSpec, name: &str, default: i64, rank: usize) -> usize {
    let axis = op.attributes.int(name).unwrap_or(default);
    let rank = rank as i64;
    let front = if axis < 0 { axis.saturating_add(rank) } else { axis };
    front.clamp(0, (rank - 1).max(0)) as usize
}

fn first_shape(op: &OpSpec) -> &[usize] {
    op.inputs.first().map_or(&[], |i| i.tensor.shape.as_slice())
}

fn output_shape(op: &OpSpec) -> &[usize] {
    op.outputs.first().map_or(first_shape(op), |t| t.shape.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, Operand, TensorSpec};

    fn any(kind: &OpKind, shapes: &[&[usize]], out: &[usize]) -> OpSpec {
        let operand = |s: &&[usize]| Operand { tensor: TensorSpec::f32(s), constant: false };
        OpSpec {
            kind: kind.clone(),
            attributes: Attributes::new(),
            inputs: shapes.iter().map(operand).collect(),
            outputs: vec![TensorSpec::f32(out)],
        }
    }

    #[test]
    fn every_kind_fills_every_column_with_finite_numbers_whatever_its_shapes() {
        let huge = usize::MAX;
        let shapes: [&[&[usize]]; 6] = [
            &[],
            &[&[]],
            &[&[1, 3, 8, 8], &[4, 3, 3, 3]],
            &[&[0, 2]],
            &[&[huge, huge, huge, huge], &[huge]],
            &[&[2], &[5, 7, 2, 3, 2, 2]],
        ];
        for kind in OpKind::ALL.iter().chain([&OpKind::Unsupported("Foo".into())]) {
            for inputs in shapes {
                let op = any(kind, inputs, inputs.first().unwrap_or(&[].as_slice()));
                let features = FeatureSchema::extract(&op);
                assert_eq!(features.values.len(), features.family.width(), "{kind}");
                assert!(features.values.iter().all(|v| v.is_finite()), "{kind} {inputs:?}");
                assert!(!PredictorKey::of(&op).to_string().is_empty());
            }
        }
    }

    #[test]
    fn a_schema_extends_those_with_fewer_columns_at_the_end() {
        let ours = FeatureSchema::current();
        let altered = |change: &dyn Fn(&mut FeatureSchema)| {
            let mut other = ours.clone();
            change(&mut other);
            ours.extends(&other)
        };
        let convolution =
            |of: &mut FeatureSchema| of.columns.remove(&Family::Convolution).unwrap_or_default();
        let with = |change: &dyn Fn(&mut Vec<String>)| {
            altered(&|other| {
                let mut columns = convolution(other);
                change(&mut columns);
                other.columns.insert(Family::Convolution, columns);
            })
        };
        assert!(altered(&|_| {}) && altered(&|other| other.version -= 1));
        assert!(with(&|columns| columns.truncate(40)));
        assert!(!altered(&|other| other.version += 1));
        assert!(!altered(&|other| drop(convolution(other))));
        assert!(!with(&|columns| columns.swap(30, 31)));
        assert!(!with(&|columns| columns.push("more".to_owned())));
    }

    #[test]
    fn columns_have_unique_names_and_every_baseline_column_exists() {
        for family in Family::ALL {
            let mut names: Vec<_> = family.columns().collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), family.width(), "{family:?}");
            assert!(family.baseline_columns().len() >= 3, "{family:?}");
        }
    }
}
