//! Times of compiling and loading in a costs file: [`CostsFile::check_with_loads`].

use super::{CostError, Costs, CostsFile, file::NodeEntry};

/// By node, then processor: time of compiling and loading, ns; `None` where it is not known.
pub type Loads = Vec<Vec<Option<u64>>>;

impl CostsFile {
    /// Resolves names, those of times of loading too.
    ///
    /// # Errors
    /// [`CostError`] for a name that is not listed, for a time of compiling without one of loading,
    /// and as [`Costs::new`].
    pub fn check_with_loads(self) -> Result<(Costs, Loads), CostError> {
        let named: Vec<&str> = self.processors.iter().map(|p| p.name.as_str()).collect();
        let loads = self.nodes.iter().map(|node| loads(node, &named)).collect::<Result<_, _>>()?;
        Ok((self.resolve()?, loads))
    }

    pub(super) fn refuse_loads(&self) -> Result<(), CostError> {
        let states = |node: &&NodeEntry| !node.load_ns.is_empty() || !node.compile_ns.is_empty();
        match self.nodes.iter().find(states) {
            None => Ok(()),
            Some(node) => Err(CostError::Node {
                node: node.name.clone(),
                reason: "load_ns and compile_ns count for subgraphs of variants only; leave them \
                    out here, where nothing is loaded"
                    .to_owned(),
            }),
        }
    }
}

fn loads(node: &NodeEntry, processors: &[&str]) -> Result<Vec<Option<u64>>, CostError> {
    let mut found = vec![None; processors.len()];
    for (name, ns) in &node.load_ns {
        let place = processors.iter().position(|own| own == name);
        let place = place.ok_or_else(|| CostError::Unknown {
            owner: format!("node `{}`", node.name),
            what: "processor",
            name: name.clone(),
        })?;
        let compile_ns = node.compile_ns.get(name).copied().unwrap_or(0);
        found[place] = Some(ns.saturating_add(compile_ns));
    }
    match node.compile_ns.keys().find(|name| !node.load_ns.contains_key(*name)) {
        None => Ok(found),
        Some(name) => Err(CostError::Node {
            node: node.name.clone(),
            reason: format!("compile_ns has processor `{name}`, load_ns does not"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(node: &str) -> CostsFile {
        let text = format!(
            r#"{{"model": "m", "processors": [{{"name": "a"}}, {{"name": "b"}}],
            "nodes": [{{"name": "n", "latency_ns": {{"a": 1, "b": 2}}{node}}}], "tensors": []}}"#
        );
        serde_json::from_str(&text).expect("a costs file")
    }

    #[test]
    fn compiling_is_added_to_loading() {
        let node = r#", "load_ns": {"b": 40, "a": 7}, "compile_ns": {"b": 2}"#;
        let (_, loads) = file(node).check_with_loads().expect("costs");
        assert_eq!(loads, [[Some(7), Some(42)]]);
        let (_, loads) = file(r#", "load_ns": {"b": 1}"#).check_with_loads().expect("costs");
        assert_eq!(loads, [[None, Some(1)]]);
        assert_eq!(file("").check_with_loads().expect("costs").1, [[None, None]]);
        let written = serde_json::to_string(&file(node)).expect("JSON");
        assert_eq!(serde_json::from_str::<CostsFile>(&written).expect("a file"), file(node));
    }

    #[test]
    fn times_that_do_not_fit_are_refused() {
        let refused = |node: &str| {
            file(node).check_with_loads().map_or_else(|e| e.to_string(), |_| "costs".to_owned())
        };
        let lacking = refused(r#", "compile_ns": {"b": 2}"#);
        assert!(lacking.contains("node `n`: compile_ns has processor `b`"), "{lacking}");
        let unknown = refused(r#", "load_ns": {"c": 2}"#);
        assert!(unknown.contains("node `n` names processor `c`"), "{unknown}");
        let alone = file(r#", "load_ns": {"a": 2}"#).check();
        let alone = alone.map_or_else(|e| e.to_string(), |_| "costs".to_owned());
        assert!(alone.contains("node `n`: load_ns and compile_ns count for subgraphs"), "{alone}");
    }
}
