//! Columns of every operator: work, bytes, extents, formats, and the part that does not fit a
//! cache.

use super::WorkingSet;
use vitempo_graph::{MemoryFormat, OpSpec, TensorSpec, Work};

pub(super) const COLUMNS: &[&str] = &[
    "flops",
    "macs",
    "params",
    "bytes_in",
    "bytes_weights",
    "bytes_out",
    "bytes_total",
    "bytes_beyond_l1",
    "bytes_beyond_l2",
    "bytes_beyond_l3",
    "elements_in",
    "elements_out",
    "flops_per_byte",
    "inputs",
    "constant_inputs",
    "outputs",
    "rank_out",
    "extent_last",
    "extent_second_last",
    "extent_third_last",
    "extent_innermost",
    "element_bytes",
    "format_in",
    "format_out",
    "bytes_reordered",
    "footprint",
    "apart",
];

/// Columns of FLOPs and of bytes of input, weights and output.
pub(crate) const SIZES: [usize; 4] = [0, 3, 4, 5];

/// Column of the bytes of input, weights and output together.
pub(crate) const BYTES_TOTAL: usize = 6;

/// Column of the number of constant operands.
pub(crate) const CONSTANT_INPUTS: usize = 14;

/// Column of the bytes of operands that are copied into another order first.
pub(crate) const BYTES_REORDERED: usize = 24;

/// Sizes beyond which data no longer fits: L1 32 KiB, L2 1 MiB, L3 share 16 MiB.
const L1: f64 = 32.0 * 1024.0;
const L2: f64 = 1024.0 * 1024.0;
const L3: f64 = 16.0 * 1024.0 * 1024.0;

pub(super) fn push(op: &OpSpec, working_set: WorkingSet, out: &mut Vec<f64>) {
    let work = Work::of_operator(op);
    let bytes = |tensors: &mut dyn Iterator<Item = &TensorSpec>| {
        tensors.map(|t| t.size_bytes() as f64).sum::<f64>()
    };
    let bytes_in = bytes(&mut op.activations());
    let bytes_weights = bytes(&mut op.weights());
    let bytes_out = bytes(&mut op.outputs.iter());
    let total = bytes_in + bytes_weights + bytes_out;
    let shape = super::output_shape(op);
    let extent = |from_last: usize| {
        shape.len().checked_sub(from_last).and_then(|i| shape.get(i)).map_or(1.0, |&d| d as f64)
    };
    let [of_model, apart] = working_set.exponents();
    out.extend_from_slice(&[
        work.flops as f64,
        work.macs as f64,
        work.params as f64,
        bytes_in,
        bytes_weights,
        bytes_out,
        total,
        (total - L1).max(0.0),
        (total - L2).max(0.0),
        (total - L3).max(0.0),
        op.activations().map(|t| t.elements() as f64).sum(),
        op.outputs.iter().map(|t| t.elements() as f64).sum(),
        work.arithmetic_intensity(),
        op.inputs.len() as f64,
        op.weights().count() as f64,
        op.outputs.len() as f64,
        shape.len() as f64,
        extent(1),
        extent(2),
        extent(3),
        super::order::innermost_extent(op),
        op.precision().size_bytes() as f64,
        code(op.format()),
        code(op.outputs.first().map_or(op.format(), |t| t.format)),
        super::order::reordered_bytes(op),
        of_model,
        apart,
    ]);
}

fn code(format: MemoryFormat) -> f64 {
    match format {
        MemoryFormat::ChannelsFirst => 0.0,
        MemoryFormat::ChannelsLast => 1.0,
        MemoryFormat::Blocked => 2.0,
    }
}
