//! The graphs of the conformance suite: small graphs that together contain the usual operators of
//! vision models.

use vitempo_graph::{
    Attribute, Attributes, Graph, GraphBuilder, GraphError, OpKind, TensorSpec, ValueId,
};

/// All of them.
///
/// # Errors
/// Never, unless a layer is broken.
pub fn all() -> Result<Vec<Graph>, GraphError> {
    Ok(vec![
        convolutions()?,
        crate::reference::graph()?.with_name("vit_blocks"),
        pooling_and_resizing()?,
        normalizations()?,
    ])
}

/// Dense, strided, grouped, depthwise and pointwise convolutions with batch norm, ReLU, clip and a
/// residual; a classifier.
fn convolutions() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new("convolutions");
    let image = b.input("image", TensorSpec::f32([1, 3, 96, 96]));
    let x = b.conv("stem", image, 32, 3, 2, 1, 1, false)?;
    let x = b.batch_norm("stem.norm", x)?;
    let x = b.unary("stem.relu", OpKind::Relu, x)?;
    let wide = b.conv("expand", x, 96, 1, 1, 0, 1, true)?;
    let wide = clip(&mut b, "expand.clip", wide, 0.0, 6.0)?;
    let deep = b.conv("depthwise", wide, 96, 3, 1, 1, 96, true)?;
    let deep = clip(&mut b, "depthwise.clip", deep, 0.0, 6.0)?;
    let narrow = b.conv("project", deep, 32, 1, 1, 0, 1, true)?;
    let x = b.binary("residual", OpKind::Add, x, narrow)?;
    let x = b.conv("grouped", x, 64, 3, 2, 1, 4, true)?;
    let x = b.silu("silu", x)?;
    let x = b.conv("last", x, 128, 3, 2, 1, 1, true)?;
    let x = b.unary("last.relu", OpKind::Relu, x)?;
    let x = b.global_average_pool("pool", x)?;
    let x = b.reshape("flatten", x, &[1, 128])?;
    let x = b.linear("head", x, 100, true)?;
    b.finish(vec![x])
}

/// Max and average pooling, nearest and linear resizing, concatenation, a transposed order of
/// dimensions.
fn pooling_and_resizing() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new("pooling_and_resizing");
    let image = b.input("image", TensorSpec::f32([1, 3, 64, 64]));
    let x = b.conv("stem", image, 32, 3, 1, 1, 1, true)?;
    let x = b.unary("stem.relu", OpKind::Relu, x)?;
    let window = || {
        Attributes::new()
            .with_ints("kernel_shape", [2, 2])
            .with_ints("strides", [2, 2])
            .with_ints("pads", [0; 4])
    };
    let largest = b.op("max", OpKind::MaxPool, window().with_ints("dilations", [1, 1]), &[x])?;
    let mean = b.op("mean", OpKind::AveragePool, window(), &[x])?;
    let nearest = resize(&mut b, "nearest", largest, "nearest", "asymmetric")?;
    let linear = resize(&mut b, "linear", mean, "linear", "half_pixel")?;
    let x = b.concat("concat", &[nearest, linear, x], 1)?;
    let x = b.conv("mix", x, 48, 3, 2, 1, 1, true)?;
    let x = b.unary("sigmoid", OpKind::Sigmoid, x)?;
    let x = b.transpose("last", x, &[0, 2, 3, 1])?;
    let x = b.reduce_mean("rows", x, &[1], false)?;
    b.finish(vec![x])
}

/// Layer norm, softmax, GELU, and the elementwise operators around them, on tokens.
fn normalizations() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new("normalizations");
    let tokens = b.input("tokens", TensorSpec::f32([1, 256, 192]));
    let x = b.layer_norm("norm", tokens)?;
    let y = b.linear("wide", x, 384, true)?;
    let y = b.gelu_erf("gelu", y)?;
    let y = b.linear("narrow", y, 192, true)?;
    let gate = b.softmax("gate", y, 2)?;
    let gated = b.binary("gated", OpKind::Mul, gate, x)?;
    let shift = b.reduce_mean("shift", gated, &[1], true)?;
    let x = b.binary("centred", OpKind::Sub, x, shift)?;
    let x = b.unary("tanh", OpKind::Tanh, x)?;
    let scale = b.scalar("scale", x, 1.5)?;
    let x = b.binary("scaled", OpKind::Div, x, scale)?;
    let x = b.layer_norm("last", x)?;
    b.finish(vec![x])
}

fn clip(
    b: &mut GraphBuilder,
    name: &str,
    x: ValueId,
    low: f64,
    high: f64,
) -> Result<ValueId, GraphError> {
    b.op(
        name,
        OpKind::Clip,
        Attributes::new().with("min", Attribute::Float(low)).with("max", Attribute::Float(high)),
        &[x],
    )
}

/// Twice as high and wide.
fn resize(
    b: &mut GraphBuilder,
    name: &str,
    x: ValueId,
    mode: &str,
    coordinates: &str,
) -> Result<ValueId, GraphError> {
    let shape = b.tensor(x).map(|t| t.shape.clone()).unwrap_or_default();
    let sizes: Vec<i64> = shape
        .iter()
        .enumerate()
        .map(|(i, &extent)| if i > 1 { 2 * extent as i64 } else { extent as i64 })
        .collect();
    let text = |text: &str| Attribute::Text(text.to_owned());
    let attributes = Attributes::new()
        .with("mode", text(mode))
        .with("coordinate_transformation_mode", text(coordinates))
        .with("nearest_mode", text("floor"))
        .with_ints("sizes", sizes);
    b.op(name, OpKind::Resize, attributes, &[x])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    #[test]
    fn the_graphs_can_be_written_and_cover_the_main_operators() {
        let graphs = super::all().unwrap();
        let mut kinds: Vec<String> = graphs.iter().flat_map(|g| g.kinds().into_keys()).collect();
        kinds.sort();
        kinds.dedup();
        for graph in &graphs {
            assert_eq!(graph.unsupported().count(), 0, "{}", graph.name());
            assert!(crate::source::bytes_of_graph(graph, 0).is_ok(), "{}", graph.name());
        }
        for kind in [
            "conv",
            "linear",
            "matmul",
            "softmax",
            "layer_norm",
            "batch_norm",
            "max_pool",
            "average_pool",
            "global_average_pool",
            "resize",
            "transpose",
        ] {
            assert!(kinds.iter().any(|k| k == kind), "{kind} is not among {kinds:?}");
        }
    }
}
