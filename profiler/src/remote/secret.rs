//! [`Secret`]: what both ends of a line have and never send, and the keys that one line's frames
//! are tagged with.
//!
//! Source: BLAKE3 (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, 2020), its modes for deriving keys
//! and for keyed hashing. The keys of a line depend on a random number of each end, so that nothing
//! recorded from one line is taken for good on another.

use std::{env, fmt, io, path::Path};

/// Where a secret is looked for, when no file is named.
pub const SECRET_VARIABLE: &str = "VITEMPO_AGENT_SECRET";
/// Fewer characters than this can be guessed.
const SHORTEST: usize = 16;

/// A random number that one end brings to a line.
pub(super) type Nonce = [u8; 32];
/// Key of the tags of one direction.
pub(super) type Key = [u8; 32];

/// A shared secret; only a digest of it is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(Key);

/// Why there is no secret where one was looked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It can be guessed.
    #[error("a secret needs at least {SHORTEST} characters ({0})")]
    Short(String),
    /// It has characters that are mistyped easily.
    #[error("a secret has visible ASCII characters only ({0})")]
    Characters(String),
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file or folder.
        path: String,
        /// The cause.
        source: io::Error,
    },
}

impl Secret {
    /// From a text, which white space around does not change; `place` says where it was found.
    ///
    /// # Errors
    /// [`SecretError`] for one that can be guessed or mistyped.
    pub fn new(text: &str, place: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        match text.len() {
            0..SHORTEST => Err(SecretError::Short(place.to_owned())),
            _ if !text.bytes().all(|b| b.is_ascii_graphic()) => {
                Err(SecretError::Characters(place.to_owned()))
            }
            _ => Ok(Self(blake3::derive_key("vitempo agent: shared secret", text.as_bytes()))),
        }
    }

    /// From a file, or without one from the variable [`SECRET_VARIABLE`], where that is set.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn find(file: Option<&Path>) -> Result<Option<Self>, SecretError> {
        let (text, place) = match file {
            Some(file) => {
                let path = file.display().to_string();
                (
                    std::fs::read_to_string(file)
                        .map_err(|source| SecretError::File { path: path.clone(), source })?,
                    path,
                )
            }
            None => match env::var_os(SECRET_VARIABLE) {
                Some(text) => (text.to_string_lossy().into_owned(), SECRET_VARIABLE.to_owned()),
                None => return Ok(None),
            },
        };
        Self::new(&text, &place).map(Some)
    }

    /// For lines whose ends somebody else has let in (ssh, adb): everybody knows it.
    #[must_use]
    pub fn none() -> Self {
        Self(blake3::derive_key("vitempo agent: no secret", &[]))
    }

    /// The keys of a line between ends that brought these numbers: towards the agent, and towards
    /// its client.
    pub(super) fn keys(&self, agent: &Nonce, client: &Nonce) -> (Key, Key) {
        let material = [self.0, *agent, *client].concat();
        (
            blake3::derive_key("vitempo agent: frames to the agent", &material),
            blake3::derive_key("vitempo agent: frames to the client", &material),
        )
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keys_depend_on_everything_and_on_the_direction() {
        let secret = |text| Secret::new(text, "here").unwrap();
        let (one, two) = (secret("0123456789abcdef"), secret("0123456789abcdeg"));
        assert_eq!(one, secret(" 0123456789abcdef\n"));
        let keys = one.keys(&[1; 32], &[2; 32]);
        assert_ne!(keys.0, keys.1);
        for other in [
            two.keys(&[1; 32], &[2; 32]),
            one.keys(&[3; 32], &[2; 32]),
            one.keys(&[1; 32], &[3; 32]),
            Secret::none().keys(&[1; 32], &[2; 32]),
        ] {
            assert!(other.0 != keys.0 && other.1 != keys.1);
        }
        assert_eq!(format!("{one:?}"), "Secret(..)");
    }

    #[test]
    fn what_cannot_be_a_secret_is_refused_with_its_place() {
        assert!(
            matches!(Secret::new("  short ", "x"), Err(SecretError::Short(place)) if place == "x")
        );
        assert!(matches!(
            Secret::new("with a space in the middle", "x"),
            Err(SecretError::Characters(_))
        ));
        let error = Secret::find(Some(Path::new("/nonexistent/secret"))).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/secret"), "{error}");
    }
}
