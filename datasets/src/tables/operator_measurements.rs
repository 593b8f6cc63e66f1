//! `operator_measurements.parquet`: one row per operator that ran in a model run, in execution
//! order. Times in ns.
//!
//! Rows of one model run stand together; `position` counts them from 0. Operators are referred to
//! by `op_id`.

use super::{has_key, key_of, origin_name, samples_of, status_cells, status_of};
use crate::{
    DatasetError, RunKey,
    column::{Cell, Table},
    schema::{
        ColumnType::{Integer, IntegerList, OptionalInteger, OptionalText, Text},
        TableSchema,
    },
};
use std::{ops::Range, sync::Arc};
use vitempo_graph::{Measurement, ModelProfile, OpSpec, Origin, Samples, Status};

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "operator_measurements",
    columns: &[
        ("op_id", Text),
        ("environment_id", Text),
        ("architecture", Text),
        ("model", Text),
        ("sitting", Text),
        ("round", Integer),
        ("position", Integer),
        ("node", Text),
        ("kernel", Text),
        ("origin", Text),
        ("status", Text),
        ("reason", OptionalText),
        ("wall_ns", IntegerList),
        ("cpu_ns", IntegerList),
        ("memory_bytes", OptionalInteger),
    ],
    added: &[("memory_bytes", 2)],
};

/// Rows that follow each other and belong to one model run.
#[derive(Debug)]
pub(crate) struct RunOperators {
    pub(crate) key: RunKey,
    /// The position of the first in the file.
    pub(crate) first: usize,
    rows: Range<usize>,
}

impl RunOperators {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// The table, and which of its rows belong to which model run. Rows are read where they stand:
/// there may be millions.
#[derive(Debug)]
pub(crate) struct OperatorRuns {
    table: Table,
    pub(crate) runs: Vec<RunOperators>,
}

impl OperatorRuns {
    /// Finds the model runs; every row can be read.
    pub(crate) fn new(table: Table) -> Result<Self, DatasetError> {
        let mut runs: Vec<RunOperators> = Vec::new();
        for row in 0..table.rows() {
            let here = Row { table: &table, row };
            here.origin()?;
            here.status()?;
            match runs.last_mut().filter(|run| has_key(&table, row, &run.key)) {
                Some(run) => run.rows.end = row + 1,
                None => runs.push(RunOperators {
                    key: key_of(&table, row),
                    first: table.number(row),
                    rows: row..row + 1,
                }),
            }
        }
        Ok(Self { table, runs })
    }

    /// The rows of one model run.
    pub(crate) fn rows(&self, run: &RunOperators) -> impl Iterator<Item = Row<'_>> {
        run.rows.clone().map(|row| Row { table: &self.table, row })
    }
}

/// One row.
#[derive(Clone, Copy)]
pub(crate) struct Row<'t> {
    table: &'t Table,
    row: usize,
}

impl<'t> Row<'t> {
    /// Its position in the file.
    pub(crate) fn number(self) -> usize {
        self.table.number(self.row)
    }

    pub(crate) fn op_id(self) -> &'t str {
        self.table.text("op_id", self.row)
    }

    pub(crate) fn position(self) -> u64 {
        self.table.integer("position", self.row)
    }

    pub(crate) fn origin(self) -> Result<Origin, DatasetError> {
        self.table.name("origin", self.row)
    }

    pub(crate) fn status(self) -> Result<Status, DatasetError> {
        status_of(self.table, self.row)
    }

    pub(crate) fn samples(self) -> Samples {
        samples_of(self.table, self.row, "wall_ns", "cpu_ns")
    }

    /// The measurement, given its operator.
    pub(crate) fn measurement(self, op: Arc<OpSpec>) -> Result<Measurement, DatasetError> {
        Ok(Measurement {
            op,
            node: self.table.text("node", self.row).to_owned(),
            kernel: self.table.text("kernel", self.row).to_owned(),
            samples: self.samples(),
            memory_bytes: self.table.optional_integer("memory_bytes", self.row),
            status: self.status()?,
        })
    }
}

/// Adds the rows of one model run. `op_ids`: the identifier of each operator, in order.
pub(crate) fn push<'a>(
    table: &mut Table,
    profile: &ModelProfile,
    key: &RunKey,
    op_ids: impl Iterator<Item = &'a str>,
) {
    for (position, (measurement, op_id)) in profile.operators.iter().zip(op_ids).enumerate() {
        let (status, reason) = status_cells(&measurement.status);
        table.push([
            Cell::Text(op_id),
            Cell::Text(&key.environment_id),
            Cell::Text(&key.architecture),
            Cell::Text(&key.model),
            Cell::Text(&key.session),
            Cell::Integer(key.round),
            Cell::Integer(position as u64),
            Cell::Text(&measurement.node),
            Cell::Text(&measurement.kernel),
            Cell::Text(origin_name(profile.origin)),
            Cell::Text(status),
            Cell::OptionalText(reason),
            Cell::IntegerList(&measurement.samples.wall_ns),
            Cell::IntegerList(&measurement.samples.cpu_ns),
            Cell::OptionalInteger(measurement.memory_bytes),
        ]);
    }
}
