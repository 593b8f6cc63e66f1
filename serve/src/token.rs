//! [`Token`]: the secret that clients show. Only its digest is kept; digests are compared in
//! constant time.

use axum::http::HeaderValue;
use std::fmt;

/// Fewer characters than this can be guessed.
const SHORTEST: usize = 16;

/// A bearer token.
#[derive(Clone)]
pub struct Token(blake3::Hash);

/// Why a text cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It has too few characters to be a secret.
    #[error("a token needs at least {SHORTEST} characters")]
    Short,
    /// It could not be sent in a header.
    #[error("a token has visible ASCII characters only")]
    Characters,
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
}
