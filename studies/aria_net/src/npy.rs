//! Arrays as NumPy's `.npy` files, version 1.0: a magic string, a header that says type and shape,
//! then the elements, little endian.

use std::{io::Write, path::Path};

/// Floats of any shape.
pub fn write_f32(path: &Path, shape: &[usize], values: &[f32]) -> std::io::Result<()> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    write(path, "<f4", shape, &bytes)
}

fn write(path: &Path, kind: &str, shape: &[usize], bytes: &[u8]) -> std::io::Result<()> {
    let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let mut header = format!(
        "{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}), }}",
        extents.trim_end()
    );
    // With the magic string and its length the header ends on a multiple of 64.
    let padding = (10 + header.len() + 1).next_multiple_of(64) - (10 + header.len() + 1);
    header.extend(std::iter::repeat_n(' ', padding).chain(['\n']));
    let mut file = std::fs::File::create(path)?;
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&(header.len() as u16).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    file.write_all(bytes)
}
