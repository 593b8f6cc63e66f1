//! Captures torch's messages on stderr: torch prints why a call failed, and returns only a code.

use crate::backends::capture;

/// Runs `work`; where it fails, adds torch's own words to the reason.
pub(super) fn explained<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let (result, printed) =
        capture::stderr(work).map_err(|e| format!("torch's messages cannot be read: {e}"))?;
    result.map_err(|reason| with_words(&reason, &printed))
}

/// The reason with the last exception torch printed, without the stack it adds.
fn with_words(reason: &str, printed: &str) -> String {
    let words = printed
        .lines()
        .filter_map(|line| line.split_once("Exception in aoti_torch: "))
        .map(|(_, words)| words.trim())
        .next_back();
    words.map_or_else(|| reason.to_owned(), |words| format!("{reason}: {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torchs_own_words_are_told() {
        let printed = "E1121 12:00 shim_common.cpp:1] Exception in aoti_torch: Expected \
            4-dimensional input\nException raised from f at g.cpp:1";
        assert_eq!(
            with_words("node `n`: aten::x fails", printed),
            "node `n`: aten::x fails: Expected 4-dimensional input"
        );
        assert_eq!(with_words("why", "nothing of note"), "why");
        assert_eq!(explained(|| Err::<(), _>("why".to_owned())), Err("why".to_owned()));
        assert_eq!(explained(|| Ok(1)), Ok(1));
    }
}
