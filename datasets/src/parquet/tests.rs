//! Changed bytes, foreign files, columns of another type.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Dataset, schema::ColumnType, simulated::stored, tables::TABLES};

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
        let whole = fs::read(folder.path().join(schema.file_name())).unwrap();
        decode(schema, folder.path(), whole.clone(), &|_| true, None).unwrap();
        for _ in 0..400 {
            let mutated = mutate(&whole, &mut state);
            if mutated != whole {
                let error = decode(schema, folder.path(), mutated, &|_| true, None).unwrap_err();
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
    let some = read_columns(schema, folder.path(), &["model", "round"]).unwrap();
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
    let folder = Path::new("data");
    let schema = &crate::tables::model_measurements::SCHEMA;
    let column = |values: pl::Series| values.into_column();
    use pl::{IntoColumn as _, NamedFrom as _};
    for (series, kind, says) in [
        (pl::Series::new("x".into(), [1.0, f64::NAN]), ColumnType::Integer, "Float64"),
        (pl::Series::new("x".into(), [Some(1u64), None]), ColumnType::Integer, "no value"),
        (pl::Series::new("x".into(), [Some("a"), None]), ColumnType::Text, "no value"),
        (pl::Series::new("x".into(), [1u64]), ColumnType::IntegerList, "UInt64"),
    ] {
        let error = columns::from_polars(
            &folder.join(schema.file_name()),
            &column(series),
            "x",
            kind,
            None,
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains(says) && error.contains("column `x`"), "{error}");
    }
}
