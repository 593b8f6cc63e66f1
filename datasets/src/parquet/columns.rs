//! One column of a table to polars and back.

use super::choice::Choice;
use crate::{
    DatasetError,
    column::{Column, Lists},
    schema::ColumnType,
    text::Texts,
};
use polars::prelude as pl;
use polars::prelude::{IntoSeries as _, ListBuilderTrait as _};
use std::path::Path;

pub(super) fn to_polars(name: &str, column: &Column) -> pl::Column {
    use pl::NamedFrom as _;
    let series = match column {
        Column::Text(values) | Column::OptionalText(values) => {
            pl::Series::new(name.into(), values.iter().collect::<Vec<Option<&str>>>())
        }
        Column::Integer(values) => pl::Series::new(name.into(), values),
        Column::OptionalInteger(values) => pl::Series::new(name.into(), values),
        Column::IntegerList(lists) => {
            let rows = lists.ends.len();
            let mut builder = pl::ListPrimitiveChunkedBuilder::<pl::UInt64Type>::new(
                name.into(),
                rows,
                lists.values.len(),
                pl::DataType::UInt64,
            );
            for row in 0..rows {
                builder.append_slice(lists.get(row));
            }
            builder.finish().into_series()
        }
    };
    series.into()
}

/// `choice`: which of the rows are kept; all by default.
pub(super) fn from_polars(
    path: &Path,
    column: &pl::Column,
    name: &str,
    kind: ColumnType,
    choice: Option<&Choice>,
) -> Result<Column, DatasetError> {
    let wrong_type = || {
        let reason =
            format!("the column has the type {:?}, which the schema does not have", column.dtype());
        DatasetError::Row { path: path.to_owned(), row: 0, column: name.to_owned(), reason }
    };
    let first = choice.map_or(0, |choice| choice.span().0);
    let null = |row| DatasetError::Row {
        path: path.to_owned(),
        row: first + row,
        column: name.to_owned(),
        reason: "there is no value".to_owned(),
    };
    let series = column.as_materialized_series();
    let kept = |row: &usize| choice.is_none_or(|choice| choice.keeps(*row));
    let texts = || {
        Ok(series.str().map_err(|_| wrong_type())?.iter().enumerate().filter(|(row, _)| kept(row)))
    };
    let integers = || {
        Ok(series.u64().map_err(|_| wrong_type())?.iter().enumerate().filter(|(row, _)| kept(row)))
    };
    match kind {
        ColumnType::Text => {
            let mut column = Texts::default();
            for (row, text) in texts()? {
                column.push(Some(text.ok_or_else(|| null(row))?));
            }
            Ok(Column::Text(column))
        }
        ColumnType::OptionalText => {
            let mut column = Texts::default();
            texts()?.for_each(|(_, text)| column.push(text));
            Ok(Column::OptionalText(column))
        }
        ColumnType::Integer => Ok(Column::Integer(
            integers()?.map(|(row, v)| v.ok_or_else(|| null(row))).collect::<Result<_, _>>()?,
        )),
        ColumnType::OptionalInteger => {
            Ok(Column::OptionalInteger(integers()?.map(|(_, v)| v).collect()))
        }
        ColumnType::IntegerList => {
            Ok(Column::IntegerList(lists(series, kept).ok_or_else(wrong_type)?))
        }
    }
}

/// The kept lists of a column; `None` if it has another type or nulls.
fn lists(series: &pl::Series, kept: impl Fn(&usize) -> bool) -> Option<Lists> {
    let list = series.list().ok().filter(|list| list.null_count() == 0)?;
    let mut lists = Lists::default();
    let mut row = 0;
    for chunk in list.downcast_iter() {
        let inner = pl::Series::try_from((pl::PlSmallStr::EMPTY, chunk.values().clone())).ok()?;
        if inner.null_count() > 0 {
            return None;
        }
        let inner = inner.u64().ok()?.rechunk();
        let values = inner.cont_slice().ok()?;
        for window in chunk.offsets().as_slice().windows(2) {
            let list = values.get(window[0] as usize..window[1] as usize)?;
            if kept(&row) {
                lists.push(list);
            }
            row += 1;
        }
    }
    Some(lists)
}
