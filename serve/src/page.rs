//! The explorer: the page of `web/`, where the program was built with it, the served bundles as it
//! fetches them, and the model that [`Options::model`](crate::Options::model) holds for it.

use super::{Service, delivery::Delivery, problem::Problem};
use axum::{
    body::Body,
    extract::{Path, State},
    http::{HeaderName, HeaderValue, Method, Request, StatusCode, header},
    response::{IntoResponse, Response},
};
use hyper::body::Bytes;
use serde_json::{Value, json};
use std::{borrow::Cow, sync::Arc};
use vitempo::bundle::EXTENSION;

include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

const HTML: &str = "text/html; charset=utf-8";
const BYTES: &str = "application/octet-stream";
/// Media types by the ending of a file.
const TYPES: [(&str, &str); 5] = [
    ("html", HTML),
    ("js", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("json", "application/json"),
];
/// What `/` says where the program was built without the page.
const ABSENT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>vitempo</title>\
    <h1>vitempo serves forecasts</h1><p>This program was built without the explorer, the page for \
    people. <code>make web</code> builds it, and the next build of the program has it inside.</p>\
    <p><a href=\"openapi.json\">openapi.json</a> describes what programs can ask.</p></html>";

/// A model that the page opens when it starts.
#[derive(Clone)]
pub struct PageModel {
    /// Its path on the server, without a slash in front; whoever knows it can read the model.
    pub path: String,
    /// Its file.
    pub bytes: Bytes,
}

impl std::fmt::Debug for PageModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageModel").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl PageModel {
    /// A file's bytes under a path that other programs and pages cannot guess.
    ///
    /// # Errors
    /// Where the system gives no random numbers.
    pub fn new(name: &str, bytes: Vec<u8>) -> Result<Self, getrandom::Error> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)?;
        let secret = u128::from_le_bytes(secret);
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let name: String = name.chars().map(plain).collect();
        Ok(Self { path: format!("model/{secret:032x}/{name}"), bytes: bytes.into() })
    }

    /// What follows the server's address so that the page opens the model.
    #[must_use]
    pub fn fragment(&self) -> String {
        format!("#file={}", self.path)
    }
}

/// Whether this program was built with the page.
#[must_use]
pub fn is_built_in() -> bool {
    !FILES.is_empty()
}

/// The answer to a path that no other route has.
pub async fn file(State(service): State<Arc<Service>>, request: Request<Body>) -> Response {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    match found(&service, request.uri().path()) {
        Some(response) if is_read => response,
        Some(_) => {
            let detail = "this path does not have this method";
            let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail);
            problem.with(header::ALLOW, HeaderValue::from_static("GET,HEAD")).into_response()
        }
        None => absent(),
    }
}

fn found(service: &Service, path: &str) -> Option<Response> {
    if let Some(model) = &service.model
        && path.strip_prefix('/') == Some(&model.path)
    {
        return Some(typed(BYTES, model.bytes.clone()));
    }
    let stored = stored(if path == "/" { "/index.html" } else { path });
    stored.or_else(|| (path == "/").then(|| typed(HTML, ABSENT)))
}

fn absent() -> Response {
    Problem::new(StatusCode::NOT_FOUND, "there is no such path")
        .hint("GET /openapi.json lists the paths")
        .into_response()
}

fn stored(path: &str) -> Option<Response> {
    let (_, bytes) = FILES.iter().find(|(name, _)| *name == path)?;
    let ending = path.rsplit('.').next().unwrap_or_default();
    let media = TYPES.iter().find(|(of, _)| *of == ending).map_or(BYTES, |(_, media)| media);
    Some(typed(media, Bytes::from_static(bytes)))
}

/// Pages of others must not frame the page; the rest of its policy is in its document.
fn typed(media: &'static str, body: impl Into<Body>) -> Response {
    let policy = HeaderValue::from_static("frame-ancestors 'none'");
    let headers: [(HeaderName, HeaderValue); 2] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media)),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    (headers, body.into()).into_response()
}

/// The list of the served bundles, as the page has it on a static host.
pub async fn index(State(service): State<Arc<Service>>) -> Response {
    let registry = service.registry.current();
    let bundles: Vec<Value> = registry
        .values()
        .map(|registered| {
            let bundle = &registered.bundle;
            let file = format!("bundles/{}.{EXTENSION}", bundle.name());
            json!({"card": bundle.card(), "file": file, "bytes": bundle.file_size()})
        })
        .collect();
    let document = json!({"bundles": bundles, "local": service.is_local}).to_string();
    typed("application/json", document)
}

/// The file of a served bundle.
pub async fn bundle(
    State(service): State<Arc<Service>>,
    Path(file): Path<String>,
) -> Result<Response, Problem> {
    let name = file.strip_suffix(&format!(".{EXTENSION}"));
    let registry = service.registry.current();
    let found = name.and_then(|name| registry.get(name)).cloned();
    let registered = found.ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, format!("no bundle has the file `{file}`"))
            .hint("GET /bundles lists the bundles")
    })?;
    let mut share = service.memory.share();
    share.grow(usize::try_from(registered.bundle.file_size()).unwrap_or(usize::MAX))?;
    let read = tokio::task::spawn_blocking(move || registered.bundle.file());
    let bytes = match read.await {
        Ok(Ok(Cow::Borrowed(bytes))) => Bytes::from_static(bytes),
        Ok(Ok(Cow::Owned(bytes))) => Bytes::from(bytes),
        Ok(Err(error)) => return Err(Problem::busy(error.to_string())),
        Err(_) => return Err(Problem::busy("the bundle's file could not be read")),
    };
    share.grow(bytes.len())?;
    Ok(typed(BYTES, Body::new(Delivery::new(Body::from(bytes), share))))
}
