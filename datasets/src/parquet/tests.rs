//! Changed bytes, foreign files, columns of another type.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Dataset, allocation::peak_of, simulated::stored, tables::TABLES};

/// Small and reproducible: xorshift.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

fn mutate(bytes: &[u8], state: &mut u64) -> Vec<u8> {
    let mut mutated = bytes.to_vec();
    let at = next(state) % bytes.len();
    match next(state) % 4 {
        0 => mutated[at] ^= 1 << (next(state) % 8),
        1 => mutated.truncate(at),
        2 => drop(mutated.splice(at..bytes.len().min(at + 8), [0xff; 8])),
        _ => drop(mutated.splice(at..at, [next(state) as u8; 3])),
    }
    mutated
}

#[test]
fn no_changed_byte_goes_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), 3);
    let mut state = 1;
    for schema in TABLES {
        let path = folder.path().join(schema.file_name());
        let whole = fs::read(&path).unwrap();
        decode(schema, path.clone(), whole.clone(), Asked::ALL).unwrap();
        for _ in 0..400 {
            let mutated = mutate(&whole, &mut state);
            if mutated != whole {
                let error = decode(schema, path.clone(), mutated, Asked::ALL).unwrap_err();
                assert!(error.to_string().contains(&schema.file_name()), "{error}");
            }
        }
    }
}

#[test]
fn malformed_tables_with_a_right_digest_do_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), 3);
    let mut state = 2;
    let (mut refused, mut read) = (0, 0);
    for schema in TABLES {
        let path = folder.path().join(schema.file_name());
        let whole = fs::read(&path).unwrap();
        for _ in 0..120 {
            let mut mutated = mutate(&whole, &mut state);
            stamp(&mut mutated);
            fs::write(&path, mutated).unwrap();
            match Dataset::load(folder.path()) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(refused + read, 600);
    assert!(refused > 300, "{refused} refused, {read} read");
}

#[test]
fn columns_that_nobody_asks_for_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), 3);
    let schema = &crate::tables::model_measurements::SCHEMA;
    let whole = read(schema, folder.path()).unwrap();
    let some = read_some(schema, folder.path(), Asked::columns(&["model", "round"])).unwrap();
    assert!(whole.rows() > 0 && some.rows() == whole.rows());
    for row in 0..whole.rows() {
        assert_eq!(some.text("model", row), whole.text("model", row));
        assert_eq!(some.integer("round", row), whole.integer("round", row));
        assert_eq!((some.text("status", row), some.list("e2e_wall_ns", row).len()), ("", 0));
    }
}

#[test]
fn columns_that_an_older_version_lacks_are_null() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("measured/epyc-onnxruntime-f32-1t");
    for (schema, values) in TABLES.map(|schema| (schema, read(schema, &folder).unwrap())) {
        assert!(values.rows() > 0, "{}", schema.name);
        for (column, _) in schema.added {
            let absent = |row| {
                values.optional_text(column, row).is_none()
                    && values.optional_integer(column, row).is_none()
            };
            assert!((0..values.rows()).all(absent), "{}: {column}", schema.name);
        }
    }
    let dataset = Dataset::load(&folder).unwrap();
    assert!(dataset.profiles.iter().all(|p| p.executed.is_none()
        && p.peak_memory_bytes.is_none()
        && p.environment.memory_format.is_none()));
}

#[test]
fn says_what_is_wrong_with_a_file() {
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), 2);
    let path = folder.path().join("operators.parquet");
    let whole = fs::read(&path).unwrap();
    let mut plain = Vec::new();
    let mut frame = pl::df!("op_id" => ["a"], "flops" => [f64::NAN]).unwrap();
    pl::ParquetWriter::new(&mut plain).finish(&mut frame).unwrap();
    let models = fs::read(folder.path().join("models.parquet")).unwrap();
    for (bytes, says) in [
        (Vec::new(), "it is empty"),
        (b"date,price\n2020-01-01,3\n".to_vec(), "not a Parquet file"),
        (whole[..whole.len() / 2].to_vec(), "truncated"),
        (plain, "vitempo did not write"),
        (models, "it holds the table `models`"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = Dataset::load(folder.path()).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("operators.parquet"), "{error}");
    }
    fs::remove_file(&path).unwrap();
    assert!(matches!(Dataset::load(folder.path()), Err(DatasetError::MissingTable { .. })));
}

#[test]
fn columns_of_another_type_or_without_values_are_named() {
    use pl::NamedFrom as _;
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), 3);
    let schema = &crate::tables::model_measurements::SCHEMA;
    let whole = read(schema, folder.path()).unwrap();
    let rows = whole.rows();
    assert_eq!(rows, 6);
    for (series, says) in [
        (pl::Series::new("round".into(), vec![f64::NAN; rows]), "DOUBLE"),
        (pl::Series::new("round".into(), vec![1i64; rows]), "signed INT64"),
        (pl::Series::new("model".into(), vec![1u64; rows]), "INT64"),
        (pl::Series::new("e2e_wall_ns".into(), vec![1u64; rows]), "INT64"),
        (pl::Series::new("round".into(), [vec![Some(1u64); 5], vec![None]].concat()), "no value"),
        (pl::Series::new("model".into(), [vec![Some("a"); 5], vec![None]].concat()), "no value"),
    ] {
        let name = series.name().to_string();
        let mut frame = frame(&whole).unwrap();
        frame.with_column(series.into()).unwrap();
        let mut bytes = Vec::new();
        encoder(schema, &mut bytes).finish(&mut frame).unwrap();
        stamp(&mut bytes);
        fs::write(folder.path().join(schema.file_name()), bytes).unwrap();
        let error = read(schema, folder.path()).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains(&format!("column `{name}`")), "{error}");
    }
}

/// What polars itself reads of a file, as text.
fn by_polars(path: &Path) -> pl::DataFrame {
    use pl::SerReader as _;
    pl::ParquetReader::new(io::Cursor::new(fs::read(path).unwrap())).finish().unwrap()
}

#[test]
fn every_cell_of_shipped_tables_is_what_polars_reads() {
    let mut cells = 0;
    for name in ["epyc-engines-20-models", "epyc-onnxruntime-f32-1t", "epyc-zen4"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("measured").join(name);
        for schema in TABLES {
            let (ours, theirs) =
                (read(schema, &folder).unwrap(), by_polars(&ours_path(schema, &folder)));
            assert_eq!(ours.rows(), theirs.height());
            for ((name, _), column) in schema.columns.iter().zip(&ours.columns) {
                let Ok(theirs) = theirs.column(name) else { continue };
                let series = theirs.as_materialized_series();
                cells += ours.rows();
                match column {
                    Column::Text(texts) | Column::OptionalText(texts) => {
                        assert!(texts.iter().eq(series.str().unwrap().iter()), "{name}");
                    }
                    Column::Integer(values) => {
                        let theirs = series.u64().unwrap().iter();
                        assert!(values.iter().map(|&v| Some(v)).eq(theirs), "{name}");
                    }
                    Column::OptionalInteger(values) => {
                        assert!(values.iter().copied().eq(series.u64().unwrap().iter()), "{name}");
                    }
                    Column::IntegerList(lists) => {
                        let theirs = series.list().unwrap();
                        for row in 0..ours.rows() {
                            let list = theirs.get_as_series(row).unwrap();
                            let list = list.u64().unwrap().iter();
                            assert!(lists.get(row).iter().map(|&v| Some(v)).eq(list), "{name}");
                        }
                    }
                }
            }
        }
    }
    assert!(cells > 5_000_000, "{cells}");
}

fn ours_path(schema: &TableSchema, folder: &Path) -> PathBuf {
    folder.join(schema.file_name())
}

/// Rows of which all but the position are equal.
fn monotonous(folder: &Path, rows: usize) -> Table {
    let mut table = Table::new(&crate::tables::operator_measurements::SCHEMA, folder);
    for position in 0..rows {
        use crate::column::Cell::{Integer, IntegerList, OptionalInteger, OptionalText, Text};
        let long = "a name of a kernel that is quite long, as those of fused kernels are";
        table.push([
            Text("op"),
            Text("environment"),
            Text("architecture"),
            Text("model"),
            Text("monday"),
            Integer(0),
            Integer(position as u64 / 100),
            Text(long),
            Text(long),
            Text("simulated"),
            Text("ok"),
            OptionalText(None),
            IntegerList(&[5]),
            IntegerList(&[]),
            OptionalInteger(None),
        ]);
    }
    table
}

#[test]
fn what_is_written_is_within_the_allowance_and_what_is_not_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = monotonous(folder.path(), 150_000);
    let mut tight = encode(&table).unwrap();
    assert!(table.bytes() > EXPANSION * tight.len() as u64 + ALWAYS);
    stamp(&mut tight);
    let error = decode(table.schema, table.path.clone(), tight.clone(), Asked::ALL).unwrap_err();
    assert!(error.to_string().contains("more than vitempo writes"), "{error}");
    write(&table).unwrap();
    let written = fs::metadata(&table.path).unwrap().len();
    assert!(written > tight.len() as u64, "{written}");
    let read = read(table.schema, folder.path()).unwrap();
    assert_eq!((read.rows(), read.integer("position", 149_999)), (150_000, 1499));
    assert_eq!(by_polars(&table.path).height(), 150_000);
    let some = read_some(table.schema, folder.path(), Asked::rows("op_id", &|_| true)).unwrap();
    assert_eq!(some.rows(), 150_000);
}

/// Memory that decoding takes for each byte that is spent of an allowance, and beyond.
const TIMES: u64 = 4;
const BEYOND: u64 = 1 << 20;

#[test]
fn decoding_takes_at_most_four_times_the_bytes_of_the_rows() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("measured/epyc-zen4");
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), 12);
    let mut state = 3;
    let (mut read, mut refused) = (0, 0);
    for (folder, changed) in [(shipped.as_path(), 0), (folder.path(), 300)] {
        for schema in TABLES {
            let whole = fs::read(folder.join(schema.file_name())).unwrap();
            for index in 0..=changed {
                let mut bytes = whole.clone();
                if index > 0 {
                    bytes = mutate(&bytes, &mut state);
                    stamp(&mut bytes);
                }
                let length = bytes.len();
                let path = folder.join(schema.file_name());
                let (decoded, peak) = peak_of(|| decode(schema, path, bytes, Asked::ALL));
                let limit = Allowance::of_file(length).left();
                let spent = match decoded {
                    Ok(table) => limit - table.spare_bytes,
                    Err(_) => limit,
                };
                *if spent < limit { &mut read } else { &mut refused } += 1;
                let most = TIMES * spent + length as u64 + BEYOND;
                assert!(peak as u64 <= most, "{}: {peak} of {most} bytes", schema.name);
            }
        }
    }
    assert!(read > 10 && refused > 500, "{read} read, {refused} refused");
}
