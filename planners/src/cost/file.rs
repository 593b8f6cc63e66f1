//! [`CostsFile`]: costs as a JSON file, in which nodes, tensors and processors are referred to by
//! name.
//!
//! ```json
//! {"model": "m", "processors": [{"name": "phone", "active_w": 3.0}, {"name": "server"}],
//!  "links": [{"from": "phone", "to": "server", "link": {"bandwidth_bytes_per_s": 2500000, "transmit_w": 1.2}}],
//!  "nodes": [{"name": "conv", "latency_ns": {"phone": {"point": 9000, "lower": 8000, "upper": 11000}, "server": 700}, "memory_bytes": 864}],
//!  "tensors": [{"name": "image", "size_bytes": 602112, "consumers": ["conv"]}, {"name": "out", "size_bytes": 4000, "producer": "conv", "output": true}]}
//! ```

use super::{
    CostError, Costs, EngineMemory, Interval, Link, NodeCosts, ProcessorCosts, TensorCosts,
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor},
};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    marker::PhantomData,
    path::Path,
};

/// Costs by name; [`CostsFile::check`] makes [`Costs`] of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostsFile {
    /// Name of the model.
    pub model: String,
    /// The processors that can run nodes.
    pub processors: Vec<ProcessorCosts>,
    /// Connections between processors.
    #[serde(default)]
    pub links: Vec<LinkEntry>,
    /// The nodes, in topological order.
    pub nodes: Vec<NodeEntry>,
    /// The tensors that nodes read and provide.
    pub tensors: Vec<TensorEntry>,
    /// Groups of nodes that must run on the same processor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<Vec<String>>,
    /// Memory that engines take, by processor name, where it is known; elsewhere memory is that of
    /// weights.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "by_unique_name"
    )]
    pub engine_memory: BTreeMap<String, EngineMemory>,
}

/// A [`Link`] between two named processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkEntry {
    /// Name of the processor that sends.
    pub from: String,
    /// Name of the processor that receives.
    pub to: String,
    /// The cost of sending.
    pub link: Link,
}

/// A [`NodeCosts`] by processor name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeEntry {
    /// Name of the node.
    pub name: String,
    /// Latency by processor, ns; a processor that is not listed cannot run the node.
    #[serde(deserialize_with = "by_unique_name")]
    pub latency_ns: BTreeMap<String, Interval>,
    /// Energy by processor, nJ; if a processor is not listed, its power times the latency.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "by_unique_name"
    )]
    pub energy_nj: BTreeMap<String, Interval>,
    /// Memory of the weights, bytes.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Time of reading and loading it by processor, ns: from its file to a session that can run,
    /// without compiling where that is given apart. A processor that is not listed: not known.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "by_unique_name"
    )]
    pub load_ns: BTreeMap<String, u64>,
    /// Time of compiling it by processor, ns, which is added.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "by_unique_name"
    )]
    pub compile_ns: BTreeMap<String, u64>,
}

/// A [`TensorCosts`] by node name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorEntry {
    /// Name of the tensor.
    pub name: String,
    /// Size, bytes.
    pub size_bytes: u64,
    /// Name of the node that provides it; none for an input of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<String>,
    /// Names of the nodes that read it.
    #[serde(default)]
    pub consumers: Vec<String>,
    /// Whether it is an output of the model.
    #[serde(default)]
    pub output: bool,
    /// Whether it must not leave the device.
    #[serde(default)]
    pub confined: bool,
}

impl CostsFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`CostError::File`] with the path, the field (`nodes[3].latency_ns.phone`), and the line and
    /// column of the invalid JSON.
    pub fn read(path: &Path) -> Result<Self, CostError> {
        let refuse = |reason: String| CostError::File { path: path.to_owned(), reason };
        let text = vitempo_graph::files::read_text(path)
            .map_err(|e| refuse(format!("cannot be read: {e}")))?;
        Self::parse(&text).map_err(refuse)
    }

    /// Reads a text; the error names the field.
    fn parse(text: &str) -> Result<Self, String> {
        let mut json = serde_json::Deserializer::from_str(text);
        let named =
            |error: serde_path_to_error::Error<serde_json::Error>| match error.path().to_string() {
                path if path == "." => format!("not a costs file: {}", error.inner()),
                path => format!("`{path}`: {}", error.inner()),
            };
        let file = serde_path_to_error::deserialize(&mut json).map_err(named)?;
        json.end().map_err(|e| format!("not a costs file: {e}"))?;
        Ok(file)
    }

    /// Resolves names.
    ///
    /// # Errors
    /// [`CostError`] for a name that is not listed, for times of loading, which only
    /// [`Self::check_with_loads`] takes, and as [`Costs::new`].
    pub fn check(self) -> Result<Costs, CostError> {
        self.refuse_loads()?;
        self.resolve()
    }

    pub(super) fn resolve(self) -> Result<Costs, CostError> {
        super::unique("processor", self.processors.iter().map(|p| &p.name))?;
        super::unique("node", self.nodes.iter().map(|n| &n.name))?;
        let processors = Names::new("processor", self.processors.iter().map(|p| &p.name));
        let nodes = Names::new("node", self.nodes.iter().map(|n| &n.name));
        let mut links = BTreeMap::new();
        for entry in &self.links {
            let owner = || format!("the link from {} to {}", entry.from, entry.to);
            let ends = (processors.find(&entry.from, owner)?, processors.find(&entry.to, owner)?);
            if links.insert(ends, entry.link).is_some() {
                let name = format!("from {} to {}", entry.from, entry.to);
                return Err(CostError::Twice { what: "link", name });
            }
        }
        let by_processor = |node: &str,
                            named: &BTreeMap<String, Interval>|
         -> Result<Vec<Option<Interval>>, CostError> {
            let mut values = vec![None; self.processors.len()];
            for (name, &interval) in named {
                values[processors.find(name, || format!("node `{node}`"))?] = Some(interval);
            }
            Ok(values)
        };
        let node_costs = |n: &NodeEntry| -> Result<NodeCosts, CostError> {
            let (latency_ns, energy_nj) =
                (by_processor(&n.name, &n.latency_ns)?, by_processor(&n.name, &n.energy_nj)?);
            Ok(NodeCosts {
                name: n.name.clone(),
                latency_ns,
                energy_nj,
                memory_bytes: n.memory_bytes,
            })
        };
        let tensor_costs = |t: &TensorEntry| -> Result<TensorCosts, CostError> {
            let find = |name: &String| nodes.find(name, || format!("tensor `{}`", t.name));
            let (producer, consumers) = (
                t.producer.as_ref().map(find).transpose()?,
                t.consumers.iter().map(find).collect::<Result<_, _>>()?,
            );
            Ok(TensorCosts {
                name: t.name.clone(),
                size_bytes: t.size_bytes,
                producer,
                consumers,
                output: t.output,
                confined: t.confined,
            })
        };
        let node_list = self.nodes.iter().map(node_costs).collect::<Result<_, _>>()?;
        let tensor_list = self.tensors.iter().map(tensor_costs).collect::<Result<_, _>>()?;
        let group = |names: &Vec<String>| {
            names.iter().map(|name| nodes.find(name, || "a group of nodes".to_owned())).collect()
        };
        let together = self.together.iter().map(group).collect::<Result<_, _>>()?;
        let memories = self.engine_memory.iter().map(|(name, memory)| {
            Ok((processors.find(name, || "`engine_memory`".to_owned())?, memory.clone()))
        });
        let memories = memories.collect::<Result<Vec<_>, CostError>>()?;
        let costs =
            Costs::new(self.model, self.processors, links, node_list, tensor_list, together)?;
        memories.into_iter().try_fold(costs, |costs, (processor, memory)| {
            costs.with_engine_memory(processor, memory)
        })
    }
}

impl From<&Costs> for CostsFile {
    fn from(costs: &Costs) -> Self {
        let processor = |index: usize| costs.processors[index].name.clone();
        let node = |index: usize| costs.nodes[index].name.clone();
        let named = |values: &[Option<Interval>]| {
            values.iter().enumerate().filter_map(|(p, v)| v.map(|v| (processor(p), v))).collect()
        };
        let nodes = costs.nodes.iter().map(|n| NodeEntry {
            name: n.name.clone(),
            latency_ns: named(&n.latency_ns),
            energy_nj: named(&n.energy_nj),
            memory_bytes: n.memory_bytes,
            load_ns: BTreeMap::new(),
            compile_ns: BTreeMap::new(),
        });
        let tensors = costs.tensors.iter().map(|t| TensorEntry {
            name: t.name.clone(),
            size_bytes: t.size_bytes,
            producer: t.producer.map(node),
            consumers: t.consumers.iter().map(|&c| node(c)).collect(),
            output: t.output,
            confined: t.confined,
        });
        Self {
            model: costs.model.clone(),
            processors: costs.processors.clone(),
            links: costs
                .links
                .iter()
                .map(|(&(from, to), &link)| LinkEntry {
                    from: processor(from),
                    to: processor(to),
                    link,
                })
                .collect(),
            nodes: nodes.collect(),
            tensors: tensors.collect(),
            together: costs
                .together
                .iter()
                .map(|group| group.iter().map(|&n| node(n)).collect())
                .collect(),
            engine_memory: costs
                .engine_memory
                .iter()
                .map(|(&p, memory)| (processor(p), memory.clone()))
                .collect(),
        }
    }
}

/// Reads a map without duplicate names.
fn by_unique_name<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    struct Unique<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Unique<T> {
        type Value = BTreeMap<String, T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object with a cost by name of a processor")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut named = BTreeMap::new();
            while let Some((name, cost)) = map.next_entry::<String, T>()? {
                if named.contains_key(&name) {
                    return Err(A::Error::custom(format!("processor `{name}` is listed twice")));
                }
                named.insert(name, cost);
            }
            Ok(named)
        }
    }
    deserializer.deserialize_map(Unique(PhantomData))
}

struct Names<'a> {
    what: &'static str,
    index: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    fn new(what: &'static str, names: impl Iterator<Item = &'a String>) -> Self {
        Self { what, index: names.enumerate().map(|(i, name)| (name.as_str(), i)).collect() }
    }

    fn find(&self, name: &str, owner: impl Fn() -> String) -> Result<usize, CostError> {
        self.index.get(name).copied().ok_or_else(|| CostError::Unknown {
            owner: owner(),
            what: self.what,
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"model": "m", "processors": [{"name": "phone", "active_w": 3.0}, {"name": "server"}],
        "links": [{"from": "phone", "to": "server", "link": {"bandwidth_bytes_per_s": 2500000, "transmit_w": 1.2}}],
        "nodes": [{"name": "conv", "latency_ns": {"phone": {"point": 9000, "lower": 8000, "upper": 11000}, "server": 700}, "memory_bytes": 864}],
        "tensors": [{"name": "image", "size_bytes": 602112, "consumers": ["conv"]}, {"name": "out", "size_bytes": 4000, "producer": "conv", "output": true}]}"#;

    #[test]
    fn files_round_trip() {
        let file: CostsFile = serde_json::from_str(FILE).expect("a costs file");
        let costs = file.check().expect("costs that fit");
        assert_eq!(costs.link(0, 1).map(|l| l.transmit_w), Some(1.2));
        assert_eq!(costs.tensors()[1].producer, Some(0));
        let again = serde_json::to_string(&CostsFile::from(&costs)).expect("JSON");
        let back: CostsFile = serde_json::from_str(&again).expect("a costs file");
        assert_eq!(back.check().expect("costs that fit"), costs);
    }

    #[test]
    fn nothing_may_follow() {
        let refused = CostsFile::parse(&format!("{FILE} more")).err().unwrap_or_default();
        assert!(refused.starts_with("not a costs file: trailing characters"), "{refused}");
    }

    #[test]
    fn unknown_names_and_fields_are_refused() {
        let refused = |from: &str, to: &str| {
            let changed = FILE.replacen(from, to, 1);
            CostsFile::parse(&changed)
                .and_then(|f| f.check().map_err(|e| e.to_string()))
                .err()
                .unwrap_or_default()
        };
        assert!(
            refused(r#""consumers": ["conv"]"#, r#""consumers": ["con"]"#)
                .contains("tensor `image` names node `con`, which is not listed")
        );
        assert!(
            refused(r#""to": "server""#, r#""to": "cloud""#)
                .contains("the link from phone to cloud names processor `cloud`")
        );
        assert!(refused(r#""active_w""#, r#""watts""#).contains("watts"));
        assert!(refused("3.0", "-3.0").contains("processor `phone`: active_w is -3"));
        assert!(
            refused(r#""server": 700"#, r#""server": "fast""#)
                .starts_with("`nodes[0].latency_ns.server`: invalid type: string \"fast\"")
        );
        assert!(
            refused(r#""server": 700"#, r#""server": 700, "server": 3"#)
                .contains("processor `server` is listed twice")
        );
        assert!(refused(r#""lower": 8000"#, r#""low": 8000"#).contains("unknown field `low`"));
        let link = r#"{"from": "phone", "to": "server", "link": {"bandwidth_bytes_per_s": 1}},"#;
        assert_eq!(
            refused(r#""links": ["#, &format!(r#""links": [{link}"#)),
            "link `from phone to server` is listed twice"
        );
        assert!(
            refused(r#"{"name": "server"}"#, r#"{"name": "phone"}"#)
                .contains("processor `phone` is listed twice")
        );
        assert!(
            refused(r#""to": "server""#, r#""to": "phone""#)
                .contains("from phone to phone leads nowhere")
        );
        assert!(
            refused(r#""transmit_w": 1.2"#, r#""conversion_bytes_per_s": 0"#)
                .contains("conversion_bytes_per_s is 0")
        );
    }
}
