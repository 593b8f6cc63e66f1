//! Names similar to one that does not exist: `galaxy-s24` for `samsung-galaxy-s24-...`.
//!
//! The similarity of two names is the mean, over the words of the first, of the Jaro-Winkler
//! similarity to the most similar word of the second. A name that contains the first is at least
//! as similar as one that has the same words.

use strsim::jaro_winkler;

/// Most names suggested.
const MOST: usize = 5;
/// Least similarity of a name that is suggested.
const LEAST: f64 = 0.8;
/// Fewer letters and digits than these are similar to nothing.
const SHORTEST: usize = 2;
/// Names that are less similar than the best one by more than this are not suggested.
const WITHIN: f64 = 0.1;

/// Those of the known names that are similar to `name`, the most similar first.
pub(crate) fn near<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Vec<String> {
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|other| (similarity(name, other), other))
        .filter(|(score, _)| *score >= LEAST)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let best = scored.first().map_or(0.0, |(score, _)| *score);
    scored
        .into_iter()
        .take_while(|(score, _)| *score >= best - WITHIN)
        .take(MOST)
        .map(|(_, other)| other.to_owned())
        .collect()
}

/// The end of a message about an unknown name: the similar ones, or nothing.
pub(crate) fn similar(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) }
}

fn similarity(name: &str, other: &str) -> f64 {
    let (name, other) = (words(name), words(other));
    if name.concat().chars().count() < SHORTEST {
        return 0.0;
    }
    if other.concat().contains(&name.concat()) {
        return 1.0;
    }
    let best = |word: &String| other.iter().map(|o| jaro_winkler(word, o)).fold(0.0, f64::max);
    name.iter().map(best).sum::<f64>() / name.len() as f64
}

/// Runs of letters and digits, in lower case.
fn words(name: &str) -> Vec<String> {
    name.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = [
        "epyc-onnxruntime-f32-1t",
        "epyc-onnxruntime-f32-2t",
        "epyc-openvino-f32-1t",
        "pixel4-tflite-cpu-f32",
        "samsung-galaxy-s24-qnn-dlc-npu-f16",
        "samsung-galaxy-s24-tflite-npu-f16",
    ];

    #[test]
    fn similar_names_are_found_and_others_are_not() {
        let of = |name: &str| near(name, KNOWN);
        let samsung = [KNOWN[4], KNOWN[5]];
        for name in ["galaxy-s24", "Galaxy S24", "galaxys24", "galxy-s24", "samsung-galaxy-s25"] {
            assert_eq!(of(name), samsung, "{name}");
        }
        assert_eq!(of("epyc-onnxruntime-f32-4t")[..2], KNOWN[..2]);
        assert_eq!(of("pixel-4"), [KNOWN[3]]);
        assert_eq!(of("samsung-galaxy-s24-tflite-npu-f32")[0], KNOWN[5]);
        for name in ["", "-", "nobody", "x"] {
            assert!(of(name).is_empty(), "{name}: {:?}", of(name));
        }
        assert_eq!(of("f32").len(), 4);
    }
}
