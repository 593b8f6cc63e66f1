//! Names of the files of a lake, with values of columns as folders (`environment=ID/kind=conv/`), as
//! Hive has them: pandas, polars, DuckDB and Spark read them as columns.

/// Between the name of a column and its value.
const IS: char = '=';
const ENDING: &str = ".parquet";

/// A folder for a value of a column. Bytes other than letters, digits, `.`, `_` and `-` are
/// percent-encoded.
pub(crate) fn folder(column: &str, value: &str) -> String {
    let mut name = format!("{column}{IS}");
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => name.push(byte.into()),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name
}

/// The folder of the files of a table, of one environment, of one kind of operator.
pub(crate) fn folder_of(table: &str, environment: Option<&str>, kind: Option<&str>) -> String {
    let mut name = table.to_owned();
    for (column, value) in [("environment", environment), ("kind", kind)] {
        if let Some(value) = value {
            name.push('/');
            name.push_str(&folder(column, value));
        }
    }
    name
}

/// The name of a file in its folder: a digest of its bytes.
pub(crate) fn file_of(bytes: &[u8]) -> String {
    let digest = blake3::hash(bytes).to_hex();
    format!("{}{ENDING}", &digest[..32])
}

/// Whether a file has the name of these bytes.
pub(crate) fn is_named_for(path: &str, bytes: &[u8]) -> bool {
    path.rsplit('/').next() == Some(&file_of(bytes))
}

/// Whether this is the name of a file in that folder.
pub(crate) fn is_part(
    path: &str,
    table: &str,
    environment: Option<&str>,
    kind: Option<&str>,
) -> bool {
    let own = path.strip_prefix(&folder_of(table, environment, kind));
    let own = own.and_then(|own| own.strip_prefix('/')).and_then(|own| own.strip_suffix(ENDING));
    own.is_some_and(|own| !own.is_empty() && own.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_and_files_of_other_folders_are_not_parts() {
        let folder = folder_of("operator_measurements", Some("a b/é"), Some("unsupported:X"));
        assert_eq!(folder, "operator_measurements/environment=a%20b%2F%C3%A9/kind=unsupported%3AX");
        let path = format!("{folder}/{}", file_of(b"bytes"));
        assert!(is_named_for(&path, b"bytes") && !is_named_for(&path, b"other"));
        let (environment, kind) = (Some("a b/é"), Some("unsupported:X"));
        assert!(is_part(&path, "operator_measurements", environment, kind));
        for (path, table) in [
            (path.as_str(), "model_measurements"),
            ("models/../../secret.parquet", "models"),
            ("models/a/b.parquet", "models"),
            ("/models/a.parquet", "models"),
            ("models/.parquet", "models"),
            ("models/a.csv", "models"),
        ] {
            assert!(!is_part(path, table, None, None), "{path}");
        }
    }
}
