//! [`Index`]: which keys a lake has, so that a writer adds what is new. A writer reads the key
//! columns of each file once.

use super::Lake;
use crate::{
    DatasetError, RunKey,
    column::Table,
    parquet::Asked,
    tables::{environments, key_of, model_measurements, models, operators},
};
use std::collections::{BTreeSet, HashMap, HashSet};
use vitempo_graph::ModelIdentity;

/// The keys of the files that were read so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    read: HashSet<String>,
    /// Model runs, and the file that has each.
    pub(super) runs: HashMap<RunKey, String>,
    /// Environments by identifier and variant.
    pub(super) environments: HashSet<(String, String)>,
    pub(super) operators: HashSet<String>,
    /// Models by architecture and name.
    pub(super) models: HashMap<(String, String), ModelIdentity>,
    /// Architectures whose graph is there.
    pub(super) graphs: HashSet<String>,
}

impl Index {
    fn add(&mut self, file: &str, table: &Table) {
        for row in 0..table.rows() {
            let text = |column| table.text(column, row).to_owned();
            match table.schema.name {
                name if name == environments::SCHEMA.name => {
                    self.environments.insert((text("environment_id"), text("variant")));
                }
                name if name == operators::SCHEMA.name => {
                    self.operators.insert(text("op_id"));
                }
                name if name == models::SCHEMA.name => {
                    let identity = models::identity(table, row);
                    if table.integer("operators", row) > 0 {
                        self.graphs.insert(identity.architecture.clone());
                    }
                    let key = (identity.architecture.clone(), identity.name.clone());
                    self.models.insert(key, identity);
                }
                _ => {
                    self.runs.insert(key_of(table, row), file.to_owned());
                }
            }
        }
    }
}

impl Lake {
    /// Reads the keys of the lake's files that were not read yet; of model runs, those in some
    /// environments.
    pub(super) fn learn(&mut self, environments: &BTreeSet<String>) -> Result<(), DatasetError> {
        let keys = [
            (&environments::SCHEMA, &["environment_id", "variant"][..]),
            (&operators::SCHEMA, &["op_id"]),
            (&models::SCHEMA, &["architecture", "model", "space", "encoding", "operators"]),
            (&model_measurements::SCHEMA, &RunKey::COLUMNS),
        ];
        let mut index = std::mem::take(&mut self.index);
        for (schema, columns) in keys {
            for file in self.state.contents.of_table(schema.name) {
                let name = &file.part.path;
                let wanted = file.environment.is_none_or(|id| environments.contains(id));
                if wanted && !index.read.contains(name) {
                    let table = self.table(schema, &file, Asked::columns(columns))?;
                    index.add(name, &table);
                    index.read.insert(name.clone());
                }
            }
        }
        self.index = index;
        Ok(())
    }
}
