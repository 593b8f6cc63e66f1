//! [`row`]: what a survey keeps of an operator that was timed.

use super::{Row, Window};
use std::borrow::Cow;
use vitempo::graph::{OpKind, OpSpec, Work};
use vitempo::predictors::{FeatureSchema, FeatureVector, PredictorKey, TrainingRow};

pub fn row(row: &TrainingRow) -> Row {
    let op: &OpSpec = &row.op;
    let work = Work::of_operator(op);
    let class = match PredictorKey::of(op).class {
        Cow::Owned(class) => {
            Cow::Owned(class.strip_suffix("-to-blocked").unwrap_or(&class).to_owned())
        }
        borrowed => borrowed,
    };
    Row {
        kind: op.kind.clone(),
        class,
        model: row.model,
        count: row.count,
        latency_ns: row.latency_ns,
        flops: work.flops as f64,
        bytes: work.bytes_read.saturating_add(work.bytes_written) as f64,
        elements: op.outputs.first().map_or(0.0, |t| t.elements() as f64),
        window: (op.kind == OpKind::Conv).then(|| window(&FeatureSchema::extract(op))),
    }
}

fn window(features: &FeatureVector) -> Window {
    let get = |column: &str| features.get(column).unwrap_or(0.0) as u32;
    Window {
        channels: get("channels_in"),
        height: get("height_out"),
        width: get("width_out"),
        kernel: get("kernel_area"),
        stride: get("stride_width"),
    }
}
