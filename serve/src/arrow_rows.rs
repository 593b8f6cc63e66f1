//! [`ArrowRows`]: forecasts as rows of an Arrow table, for requests with many architectures. A row
//! has about 60 bytes, where a JSON object has hundreds.

use super::{
    arrow::{Column, Field, Stream, Type},
    forecast::{Forecast, Forecaster},
    pieces::Pieces,
    problem::Problem,
};
use std::io;

/// Its media type.
pub const MEDIA: &str = "application/vnd.apache.arrow.stream";
/// Rows of a record batch.
const ROWS: usize = 8192;

/// `subject` is the place of the model in the request, from 0: encodings come first, then models.
/// A refused model has a `problem`, and no number; a model with operators that vitempo does not
/// know has no upper end.
const FIELDS: [Field; 11] = [
    ("subject", Type::U32),
    ("bundle", Type::TextOf(0)),
    ("latency_ns", Type::F64),
    ("lower_ns", Type::F64),
    ("upper_ns", Type::F64),
    ("level", Type::F64),
    ("operators", Type::U32),
    ("fallback", Type::U32),
    ("extrapolating", Type::U32),
    ("unsupported", Type::U32),
    ("problem", Type::Text),
];

/// A table that is being written.
#[derive(Debug)]
pub struct ArrowRows {
    stream: Stream<Pieces>,
    columns: Vec<Column>,
    rows: usize,
}

fn empty() -> Vec<Column> {
    FIELDS.into_iter().map(|(_, kind)| Column::new(kind)).collect()
}

impl ArrowRows {
    /// Begins a table of forecasts by these bundles.
    ///
    /// # Errors
    /// As [`ArrowRows::row`].
    pub fn begin(pieces: Pieces, forecasters: &[Forecaster]) -> Result<Self, Problem> {
        let bundles = forecasters.iter().map(|f| f.registered.bundle.name()).collect();
        let metadata = [("vitempo", env!("CARGO_PKG_VERSION")), ("latencies", "nanoseconds")];
        let stream = Stream::begin(pieces, &FIELDS, &metadata, &[bundles]);
        // The head of a table is smaller than the first piece, for which there always is memory.
        let stream = stream.map_err(|error| {
            Problem::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
        })?;
        Ok(Self { stream, columns: empty(), rows: 0 })
    }

    /// Adds the outcome of one subject with one bundle, by their places.
    ///
    /// # Errors
    /// 413 for an answer that would be too large, 503 where there is no memory.
    pub fn row(
        &mut self,
        subject: usize,
        bundle: usize,
        outcome: &Result<Forecast, Problem>,
    ) -> Result<(), Problem> {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes();
        let name = u16::try_from(bundle).unwrap_or(u16::MAX).to_le_bytes();
        let forecast = outcome.as_ref().ok();
        let known = |number: f64| number.is_finite().then(|| number.to_le_bytes());
        let latencies = forecast.map(|f| {
            let p = f.latency_ns;
            [p.point().ns(), p.lower().ns(), p.upper().ns(), p.level].map(known)
        });
        let counts = forecast.map(|Forecast { coverage: c, .. }| {
            [c.operators, c.fallback, c.extrapolating, c.unsupported.len()].map(count)
        });
        let problem = outcome.as_ref().err().map(|problem| problem.detail().as_bytes());
        let subject = count(subject);
        let known = [Some(&subject[..]), Some(&name[..])];
        let numbers =
            (0..4).map(|i| latencies.as_ref().and_then(|l| l[i].as_ref()).map(|bytes| &bytes[..]));
        let numbers = numbers.chain((0..4).map(|i| counts.as_ref().map(|c| &c[i][..])));
        let cells = known.into_iter().chain(numbers).chain([problem]);
        self.columns.iter_mut().zip(cells).for_each(|(column, cell)| column.push(cell));
        self.rows += 1;
        if self.rows == ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Problem> {
        let columns = std::mem::replace(&mut self.columns, empty());
        self.rows = 0;
        let written = self.stream.batch(&columns);
        self.checked(written)
    }

    fn checked(&mut self, written: io::Result<()>) -> Result<(), Problem> {
        written.map_err(|_| self.stream.writer().refusal())
    }

    /// The whole table.
    ///
    /// # Errors
    /// As [`ArrowRows::row`].
    pub fn finish(mut self) -> Result<Pieces, Problem> {
        if self.rows > 0 {
            self.flush()?;
        }
        let ended = self.stream.end();
        self.checked(ended)?;
        Ok(self.stream.into_writer())
    }
}
