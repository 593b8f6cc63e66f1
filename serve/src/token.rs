//! [`Token`]: the secret that clients show. Only its digest is kept; digests are compared in
//! constant time. A file of it must be its owner's alone.

use axum::http::HeaderValue;
use std::{
    fmt,
    fs::File,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// Fewer characters than this can be guessed.
const SHORTEST: usize = 16;

/// Permissions of a file that nobody but its owner should have.
const OF_OTHERS: u32 = 0o077;

/// A bearer token.
#[derive(Clone)]
pub struct Token(blake3::Hash);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It has too few characters to be a secret.
    #[error("a token needs at least {SHORTEST} characters")]
    Short,
    /// It could not be sent in a header.
    #[error("a token has visible ASCII characters only")]
    Characters,
    /// Others than its owner may read or change the file; its permissions.
    #[error("others can read or change the file: its permissions are {0:04o}")]
    Exposed(u32),
    /// The file cannot be read.
    #[error("cannot read the file: {0}")]
    Unreadable(#[from] io::Error),
}

impl Token {
    /// From a text; white space around it does not count.
    ///
    /// # Errors
    /// [`TokenError`] for one that is short or could not be sent in a header.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        match text.len() {
            0..SHORTEST => Err(TokenError::Short),
            _ if !text.bytes().all(|b| b.is_ascii_graphic()) => Err(TokenError::Characters),
            _ => Ok(Self(blake3::hash(text.as_bytes()))),
        }
    }

    /// From a file that only its owner can read.
    ///
    /// # Errors
    /// [`TokenError`] for a file that cannot be read, that others can read, or that has no token.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let mut file = File::open(path)?;
        let mode = file.metadata()?.permissions().mode() & 0o7777;
        if mode & OF_OTHERS != 0 {
            return Err(TokenError::Exposed(mode));
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Self::new(&text)
    }

    /// Whether an `Authorization` header shows this token.
    pub(super) fn allows(&self, authorization: Option<&HeaderValue>) -> bool {
        let shown = authorization
            .and_then(|value| value.as_bytes().split_at_checked(7))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "));
        // Digests compare in constant time.
        shown.is_some_and(|(_, token)| blake3::hash(token.trim_ascii()) == self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_let_in() {
        let token = Token::new("0123456789abcdef\n").unwrap_or_else(|e| panic!("{e}"));
        let shown = |text: &'static str| token.allows(Some(&HeaderValue::from_static(text)));
        assert!(shown("Bearer 0123456789abcdef") && shown("bearer  0123456789abcdef"));
        for wrong in [
            "Bearer 0123456789abcdeg",
            "Bearer 0123456789abcde",
            "Bearer ",
            "Bearer",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
            "",
        ] {
            assert!(!shown(wrong), "{wrong}");
        }
        assert!(!token.allows(None));
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn what_cannot_be_a_token_is_refused() {
        assert!(matches!(Token::new("  short "), Err(TokenError::Short)));
        assert!(matches!(Token::new("with a space in the middle"), Err(TokenError::Characters)));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef\n").unwrap_or_else(|e| panic!("{e}"));
        for (mode, is_secret) in [
            (0o600, true),
            (0o400, true),
            (0o644, false),
            (0o640, false),
            (0o604, false),
            (0o620, false),
            (0o601, false),
        ] {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).unwrap_or_else(|e| panic!("{e}"));
            match Token::read(&path) {
                Ok(_) => assert!(is_secret, "{mode:o}"),
                Err(TokenError::Exposed(found)) => assert!(!is_secret && found == mode, "{mode:o}"),
                Err(error) => panic!("{mode:o}: {error}"),
            }
        }
        let absent = Token::read(&folder.path().join("absent"));
        assert!(matches!(absent, Err(TokenError::Unreadable(_))));
    }
}
