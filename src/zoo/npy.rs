//! Arrays in NumPy's `.npy` files: a magic string, a header with type and shape, then the elements,
//! little endian, in C order.

use super::ZooError;
use std::path::Path;

/// The contents of a file.
pub struct Array {
    /// NumPy's name of the type: `<f4`.
    kind: String,
    /// Extent of each dimension.
    pub shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Array {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ZooError> {
        let bytes = std::fs::read(path).map_err(ZooError::io("read", path))?;
        parse(&bytes).map_err(|reason| ZooError::Array { path: path.to_owned(), reason })
    }

    /// Its elements, where they are 32-bit floats.
    pub fn floats(&self) -> Result<Vec<f32>, String> {
        if self.kind != "<f4" {
            return Err(format!("its type is `{}`; expected 32-bit floats, `<f4`", self.kind));
        }
        Ok(self.bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }

    /// Its elements, where they are 64-bit or 32-bit integers.
    pub fn integers(&self) -> Result<Vec<i64>, String> {
        match self.kind.as_str() {
            "<i8" => {
                Ok(self.bytes.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b)).collect())
            }
            "<i4" => Ok(self
                .bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|b| i64::from(i32::from_le_bytes(*b)))
                .collect()),
            kind => Err(format!("its type is `{kind}`; expected integers, `<i8` or `<i4`")),
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Array, String> {
    let not = || "this is no .npy file".to_owned();
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or_else(not)?;
    let (length, start) = match rest {
        [1, _, a, b, ..] => (u32::from(u16::from_le_bytes([*a, *b])), 4),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]), 6),
        _ => return Err(not()),
    };
    let header = rest
        .get(start..start + length as usize)
        .and_then(|header| std::str::from_utf8(header).ok())
        .ok_or_else(not)?;
    let kind = field(header, "descr")
        .and_then(|text| text.split('\'').nth(1))
        .ok_or("its header does not say the type of its elements")?;
    if field(header, "fortran_order").is_none_or(|text| !text.starts_with("False")) {
        return Err("its elements are not in C order".to_owned());
    }
    let extents = field(header, "shape")
        .and_then(|text| text.strip_prefix('(')?.split_once(')'))
        .ok_or("its header does not say its shape")?
        .0;
    let extents = extents.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let shape: Vec<usize> = extents
        .map(|extent| extent.parse().map_err(|_| format!("`{extent}` is not an extent")))
        .collect::<Result<_, String>>()?;
    let size = kind
        .get(2..)
        .and_then(|size| size.parse().ok())
        .ok_or_else(|| format!("`{kind}` is a type it cannot read"))?;
    let expected =
        shape.iter().try_fold(size, |product: usize, &extent| product.checked_mul(extent));
    let elements = rest.get(start + length as usize..).unwrap_or_default();
    if expected != Some(elements.len()) {
        return Err(format!(
            "{} bytes of elements do not make up {shape:?} of type `{kind}`",
            elements.len()
        ));
    }
    Ok(Array { kind: kind.to_owned(), shape, bytes: elements.to_vec() })
}

/// The text after `'name':` in a header.
fn field<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    Some(header.split_once(&format!("'{name}':"))?.1.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, elements: &[u8]) -> Vec<u8> {
        let length = (header.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), elements].concat()
    }

    #[test]
    fn arrays_are_read_as_numpy_writes_them() {
        let floats: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let array = parse(&file(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }   \n",
            &floats,
        ))
        .expect("an array");
        assert_eq!((&array.shape[..], array.floats()), (&[2, 1][..], Ok(vec![1.5, -2.0])));
        assert!(array.integers().is_err_and(|reason| reason.contains("`<f4`; expected integers")));
        let labels = parse(&file(
            "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }\n",
            &7i64.to_le_bytes(),
        ))
        .expect("an array");
        assert_eq!((&labels.shape[..], labels.integers()), (&[1][..], Ok(vec![7])));
    }

    #[test]
    fn what_is_no_array_is_refused() {
        let header = |order: &str, shape: &str| {
            format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': {shape}, }}")
        };
        let cases = [
            (b"PK\x03\x04".to_vec(), "no .npy file"),
            (b"\x93NUMPY\x01\x00\xff\xff{".to_vec(), "no .npy file"),
            (file(&header("True", "(1,)"), &[0; 4]), "C order"),
            (file(&header("False", "(2,)"), &[0; 4]), "4 bytes of elements do not make up [2]"),
            (file(&header("False", "(99999999999, 99999999999)"), &[0; 4]), "do not make up"),
            (file(&header("False", "(x,)"), &[0; 4]), "`x` is not an extent"),
            (file("{}", &[]), "type of its elements"),
        ];
        for (bytes, expected) in cases {
            assert!(parse(&bytes).is_err_and(|reason| reason.contains(expected)), "{expected}");
        }
    }
}
