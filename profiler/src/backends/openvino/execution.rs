//! The graph that OpenVINO executes, read from its XML: layers in execution order with their
//! tensors.

use std::collections::{HashMap, HashSet};
use vitempo_graph::{MemoryFormat, Precision, TensorSpec};

/// An executed graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Execution {
    /// Its layers, in execution order.
    pub layers: Vec<Layer>,
}

/// One layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Its name, which the profile uses too.
    pub name: String,
    /// What it is, e.g. `Convolution`.
    pub layer_type: String,
    /// Names of the operators it was made of, separated by commas.
    pub originals: String,
    /// Its inputs: tensor, and whether it is constant.
    pub inputs: Vec<(TensorSpec, bool)>,
    /// Its outputs.
    pub outputs: Vec<TensorSpec>,
}

/// Place of a tensor: layer, port.
type Port = (String, String);

/// Reads the XML. Inputs called as in `images` are given as N,H,W,C: they are written channels
/// first like all others, until a Transpose makes them so, which is a change of memory format then.
///
/// # Errors
/// A sentence, when it is no such graph.
pub fn parse(xml: &str, images: &[&str]) -> Result<Execution, String> {
    let document = roxmltree::Document::parse(xml)
        .map_err(|e| format!("the executed graph is no XML: {e}"))?;
    let section = |name: &str| {
        document
            .root_element()
            .children()
            .find(|n| n.has_tag_name(name))
            .ok_or_else(|| format!("the executed graph has no {name}"))
    };
    let mut made: HashMap<Port, Option<TensorSpec>> = HashMap::new();
    let mut layers = Vec::new();
    for element in section("layers")?.children().filter(|n| n.has_tag_name("layer")) {
        let layer = Element::read(element)?;
        made.extend(
            layer
                .outputs
                .iter()
                .map(|(port, tensor)| ((layer.id.clone(), port.clone()), tensor.clone())),
        );
        layers.push(layer);
    }
    let mut sources: HashMap<Port, Port> = HashMap::new();
    for edge in section("edges")?.children().filter(|n| n.has_tag_name("edge")) {
        let end = |layer: &str, port: &str| {
            Ok::<_, String>((attribute(edge, layer)?, attribute(edge, port)?))
        };
        sources.insert(end("to-layer", "to-port")?, end("from-layer", "from-port")?);
    }
    layers.sort_by_key(|layer| layer.order);
    let (mut constant, mut last): (HashSet<String>, HashSet<String>) =
        (HashSet::new(), HashSet::new());
    let mut execution = Execution::default();
    for mut layer in layers {
        let source = |port: &String| {
            sources.get(&(layer.id.clone(), port.clone())).filter(|from| made.contains_key(*from))
        };
        let from: Option<Vec<&Port>> = layer.inputs.iter().map(source).collect();
        let from = from.ok_or_else(|| {
            format!(
                "layer `{}` of the executed graph reads a tensor that no layer computes",
                layer.name
            )
        })?;
        let reads_image = from.first().is_some_and(|(id, _)| last.contains(id));
        // A Reorder may have taken in the Transpose: it gives the image's own order of dimensions.
        let turned = || {
            let read = from.first().and_then(|port| made.get(*port)?.as_ref()).map(|t| &t.shape);
            read.is_some()
                && read == layer.outputs.first().and_then(|(_, t)| t.as_ref()).map(|t| &t.shape)
        };
        if (layer.layer_type == "Input" && images.contains(&layer.name.as_str()))
            || (layer.layer_type == "Reorder" && reads_image && !turned())
        {
            last.insert(layer.id.clone());
        } else if layer.layer_type == "Transpose" && reads_image {
            layer.layer_type = "Reorder".to_owned();
        }
        let all_constant = !from.is_empty() && from.iter().all(|(id, _)| constant.contains(id));
        // An input without a type is absent, such as a bias.
        let inputs = from
            .iter()
            .filter_map(|port| Some((made.get(*port)?.clone()?, constant.contains(&port.0))))
            .collect();
        if layer.layer_type == "Const" || all_constant {
            constant.insert(layer.id.clone());
        }
        if last.contains(&layer.id) {
            for (port, tensor) in &mut layer.outputs {
                *tensor = tensor.take().map(image);
                made.insert((layer.id.clone(), port.clone()), tensor.clone());
            }
        }
        let outputs = layer.outputs.into_iter().filter_map(|(_, tensor)| tensor).collect();
        execution.layers.push(Layer {
            name: layer.name,
            layer_type: layer.layer_type,
            originals: layer.originals,
            inputs,
            outputs,
        });
    }
    Ok(execution)
}

/// A tensor with the dimensions N,H,W,C as a tensor N,C,H,W in channels last.
fn image(tensor: TensorSpec) -> TensorSpec {
    match tensor.shape[..] {
        [n, h, w, c] => {
            TensorSpec::new([n, c, h, w], tensor.precision).with_format(MemoryFormat::ChannelsLast)
        }
        _ => tensor,
    }
}

/// A layer as its element says it.
struct Element {
    id: String,
    name: String,
    layer_type: String,
    originals: String,
    order: u64,
    inputs: Vec<String>,
    /// `None` if the element type is unknown: the tensor is absent.
    outputs: Vec<(String, Option<TensorSpec>)>,
}

impl Element {
    fn read(element: roxmltree::Node<'_, '_>) -> Result<Self, String> {
        let name = attribute(element, "name")?;
        let data = element
            .children()
            .find(|n| n.has_tag_name("data"))
            .ok_or_else(|| format!("layer `{name}` of the executed graph has no description"))?;
        let said = |key: &str| data.attribute(key).unwrap_or_default();
        let (layouts, precisions): (Vec<&str>, Vec<&str>) = (
            said("outputLayouts").split(',').collect(),
            said("outputPrecisions").split(',').collect(),
        );
        let ports = |section: &str| {
            let section = element.children().find(|n| n.has_tag_name(section));
            section
                .into_iter()
                .flat_map(|s| s.children().collect::<Vec<_>>())
                .filter(|n| n.has_tag_name("port"))
                .collect::<Vec<_>>()
        };
        let tensor = |(index, port): (usize, &roxmltree::Node<'_, '_>)| {
            let dims: Option<Vec<usize>> = port
                .children()
                .filter(|n| n.has_tag_name("dim"))
                .map(|n| n.text()?.trim().parse().ok())
                .collect();
            let shape = dims.ok_or_else(|| {
                format!("layer `{name}` of the executed graph has no static shape")
            })?;
            let precision = pick(&precisions, index)
                .and_then(precision)
                .or_else(|| precision(&port.attribute("precision")?.to_lowercase()));
            let format = pick(&layouts, index).map(format).unwrap_or_default();
            Ok::<_, String>((
                attribute(*port, "id")?,
                precision.map(|precision| TensorSpec::new(shape, precision).with_format(format)),
            ))
        };
        Ok(Self {
            id: attribute(element, "id")?,
            layer_type: attribute(element, "type")?,
            originals: said("originalLayersNames").to_owned(),
            order: said("execOrder").parse().map_err(|_| {
                format!("layer `{name}` of the executed graph has no place in the order")
            })?,
            inputs: ports("input")
                .iter()
                .map(|port| attribute(*port, "id"))
                .collect::<Result<_, _>>()?,
            outputs: ports("output").iter().enumerate().map(tensor).collect::<Result<_, _>>()?,
            name,
        })
    }
}

fn attribute(element: roxmltree::Node<'_, '_>, name: &str) -> Result<String, String> {
    let missing = || format!("a {} of the executed graph has no {name}", element.tag_name().name());
    element.attribute(name).map(str::to_owned).ok_or_else(missing)
}

/// One entry for each output, or one for all.
fn pick<'a>(list: &[&'a str], index: usize) -> Option<&'a str> {
    list.get(index).or(if list.len() == 1 { list.first() } else { None }).copied()
}

fn precision(name: &str) -> Option<Precision> {
    Some(match name {
        "f64" | "fp64" => Precision::F64,
        "f32" | "fp32" => Precision::F32,
        "f16" | "fp16" => Precision::F16,
        "bf16" => Precision::Bf16,
        "i64" | "u64" => Precision::I64,
        "i32" | "u32" => Precision::I32,
        "i16" | "u16" => Precision::I16,
        "i8" => Precision::I8,
        "u8" => Precision::U8,
        "boolean" | "bool" => Precision::Bool,
        _ => return None,
    })
}

/// Dimensions are letters in the order in which they lie in memory; a capital one is split into
/// blocks. Channels, the second, come last of all in `acdb`.
fn format(layout: &str) -> MemoryFormat {
    let dimensions = layout.chars().filter(char::is_ascii_alphabetic).count();
    if layout.contains(|c: char| c.is_ascii_uppercase()) {
        MemoryFormat::Blocked
    } else if dimensions > 2 && layout.starts_with('a') && layout.ends_with('b') {
        MemoryFormat::ChannelsLast
    } else {
        MemoryFormat::ChannelsFirst
    }
}
