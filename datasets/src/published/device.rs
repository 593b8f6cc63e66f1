//! [`device_of`]: importers write a quantised precision or a set of cores behind a device's name;
//! this is the name without them.

/// The device that an imported environment belongs to: its name without the quantised precision
/// (`w8a16`, `w8a8_mixed_int16`) or the set of cores (`1large1med`) that an importer wrote behind
/// it.
///
/// ```
/// use vitempo_datasets::published::device_of;
/// assert_eq!(device_of("Samsung Galaxy S24 w8a16"), "Samsung Galaxy S24");
/// assert_eq!(device_of("pixel4 1large1med"), "pixel4");
/// assert_eq!(device_of("Samsung Galaxy S24 Ultra"), "Samsung Galaxy S24 Ultra");
/// ```
#[must_use]
pub fn device_of(name: &str) -> &str {
    let mut rest = name.trim_end();
    while let Some((device, last)) = rest.rsplit_once(' ') {
        if !(is_quantised_precision(last) || is_core_set(last)) {
            break;
        }
        rest = device.trim_end();
    }
    rest
}

/// `w`, bits of weights, `a`, bits of activations, and perhaps what some layers have instead.
fn is_quantised_precision(text: &str) -> bool {
    let bits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (widths, mixed) = text.split_once('_').unwrap_or((text, "mixed"));
    let parts = widths.strip_prefix('w').and_then(|widths| widths.split_once('a'));
    mixed.starts_with("mixed") && parts.is_some_and(|(w, a)| bits(w) && bits(a))
}

/// Counts of `large`, `med` and `small` cores.
fn is_core_set(text: &str) -> bool {
    const SIZES: [&str; 3] = ["large", "med", "small"];
    let mut rest = text;
    while !rest.is_empty() {
        let size = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let Some(next) = SIZES.iter().find_map(|of| size.strip_prefix(of)) else { return false };
        if size.len() == rest.len() {
            return false;
        }
        rest = next;
    }
    !text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_of_importers_go_and_names_stay() {
        for (name, device) in [
            ("SA8295P ADP w8a8_mixed_fp16", "SA8295P ADP"),
            ("iphonexs 2large4small", "iphonexs"),
            ("Galaxy w8a16 1large", "Galaxy"),
            ("Snapdragon 8 Elite Gen 5 QRD", "Snapdragon 8 Elite Gen 5 QRD"),
            ("a large", "a large"),
            ("w8a16", "w8a16"),
            ("board waa", "board waa"),
            ("", ""),
        ] {
            assert_eq!(device_of(name), device, "{name}");
        }
    }
}
