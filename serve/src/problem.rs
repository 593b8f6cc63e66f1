//! [`Problem`]: why a request, or one model of it, has no answer. A problem document (RFC 9457)
//! that names the field and the node.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use form_urlencoded::byte_serialize;
use serde::Serialize;
use vitempo::graph::{PredictionError, ResizeError, onnx::OnnxError};
use vitempo::search_space::SpaceError;

/// Media type of a problem document.
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// What to do about a model that takes more than its budget.
const RAISE: &str = "the server's operator can raise the limit";

/// A problem document.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    status: u16,
    title: &'static str,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<Box<str>>,
    #[serde(skip)]
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// `detail` is a sentence about this very request.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Refused");
        Self {
            status: status.as_u16(),
            title,
            detail: detail.into(),
            field: None,
            node: None,
            hint: None,
            headers: Vec::new(),
        }
    }

    /// The request can be read, but not answered.
    pub fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// The server is overloaded; clients may try again after a second.
    pub fn busy(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
            .with(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// The member of the request that is at fault, e.g. `encodings[3]`.
    #[must_use]
    pub fn field(mut self, field: impl Into<Box<str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// What to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a header of the answer.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The rest of the request was not read, so the connection has to be closed.
    #[must_use]
    pub fn closing(self) -> Self {
        self.with(header::CONNECTION, HeaderValue::from_static("close"))
    }

    /// The subject of the problem.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl From<OnnxError> for Problem {
    fn from(error: OnnxError) -> Self {
        let problem = match &error {
            OnnxError::Dynamic { input, index, symbol, .. } => {
                let detail = format!("dimension {index} of input `{input}` is dynamic");
                let encoded: String = byte_serialize(symbol.as_bytes()).collect();
                return Self::unprocessable(detail).hint(format!(
                    "give it a size: `dim={encoded}=1` \
                    in the query, or \"dimensions\": {{\"{symbol}\": 1}}"
                ));
            }
            OnnxError::Budget { .. } => Self::unprocessable(error.to_string()).hint(RAISE),
            OnnxError::Io { .. } | OnnxError::Write { .. } => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "an uploaded model was looked for on the disk",
            ),
            _ => Self::unprocessable(error.to_string()),
        };
        Self { node: error.node().map(Box::from), ..problem }
    }
}

impl From<ResizeError> for Problem {
    fn from(error: ResizeError) -> Self {
        let problem = Self::unprocessable(error.to_string());
        let hint = match &error {
            ResizeError::Exceeded { .. } => RAISE,
            ResizeError::NoImage { .. } => "ask for the model without a size",
            _ => "choose a size that the model's windows and reshapes fit",
        };
        Self { node: error.node().map(Box::from), ..problem }.hint(hint)
    }
}

impl From<PredictionError> for Problem {
    fn from(error: PredictionError) -> Self {
        let node = error.node().map(Box::from);
        Self { node, ..Self::unprocessable(error.to_string()) }
    }
}

impl From<SpaceError> for Problem {
    fn from(error: SpaceError) -> Self {
        Self::unprocessable(error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let text = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = Response::new(Body::from(text));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(header::CONTENT_TYPE, MEDIA_TYPE);
        response.headers_mut().extend(self.headers);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_names_what_it_speaks_of() {
        let problem = Problem::from(OnnxError::AbsentValues {
            path: "m".into(),
            node: "/reshape".to_owned(),
            initializer: "shape".to_owned(),
        })
        .field("models[2]");
        let document = serde_json::to_value(&problem).unwrap_or_default();
        assert_eq!(
            (&document["status"], &document["title"]),
            (&422.into(), &"Unprocessable Entity".into())
        );
        assert_eq!(
            (&document["node"], &document["field"]),
            (&"/reshape".into(), &"models[2]".into())
        );
        assert!(document.get("hint").is_none() && document.get("headers").is_none());
    }

    #[test]
    fn a_busy_server_says_when_to_come_back() {
        let response = Problem::busy("full").closing().into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(
            response.headers()["retry-after"] == "1" && response.headers()["connection"] == "close"
        );
    }
}
