//! Names the format of a file that is not ONNX, for the error message.

/// Beginnings of other formats: offset, bytes, name.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (4, b"TFL3", "a TFLite file"),
    (4, b"ORTM", "a model in ONNX Runtime's own ORT format; convert it back or use its .onnx file"),
    (0, b"version https://git-lfs", "a Git LFS pointer: the model itself was not fetched"),
    (0, b"PK\x03\x04", "a zip archive (a PyTorch checkpoint?); export it to ONNX first"),
    (0, b"\x80\x02", "a Python pickle (a PyTorch checkpoint?); export it to ONNX first"),
    (0, b"\x89HDF", "an HDF5 file (Keras?)"),
    (0, b"\x1f\x8b", "a gzip archive; unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd archive; unpack it first"),
    (0, b"\x93NUMPY", "a numpy array"),
    (0, b"\x7fELF", "a program or library"),
    (8, b"{\"", "a safetensors file: weights without a graph"),
    (0, b"PAR1", "a Parquet file"),
];

/// The format of `bytes` that are not ONNX, if it is recognised.
pub(super) fn looks_like(bytes: &[u8]) -> Option<&'static str> {
    if bytes.is_empty() {
        return Some("an empty file");
    }
    let signature = SIGNATURES
        .iter()
        .find(|(offset, magic, _)| bytes.get(*offset..).is_some_and(|b| b.starts_with(magic)));
    if let Some((_, _, name)) = signature {
        return Some(name);
    }
    let text: Vec<u8> = bytes.iter().copied().skip_while(u8::is_ascii_whitespace).take(1).collect();
    match text.first() {
        Some(b'<') => Some("an HTML or XML file (a download that went wrong, or OpenVINO's .xml?)"),
        Some(b'{' | b'[') => Some("a JSON file"),
        _ if bytes.iter().take(256).all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) => {
            Some("a text file")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_are_named() {
        let cases: [(&[u8], Option<&str>); 6] = [
            (b"", Some("empty")),
            (b"\x1c\0\0\0TFL3\0\0", Some("TFLite")),
            (b"\n <!DOCTYPE html>", Some("HTML")),
            (b"{\"a\": 1}", Some("JSON")),
            (b"hello", Some("text")),
            (b"\x08\x08\x12\x07pytorch", None),
        ];
        for (bytes, expected) in cases {
            let found = looks_like(bytes);
            assert!(match expected {
                Some(word) => found.is_some_and(|f| f.contains(word)),
                None => found.is_none(),
            });
        }
    }
}
