//! The routes, and the layers that every request passes: counting, logging, the token.

use super::{
    Service, answer,
    body::{self, Upload},
    openapi,
    problem::Problem,
    request::{Asked, Media, Settings},
};
use axum::{
    Router,
    body::{Body, HttpBody},
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::Instant;
use vitempo::bundle::{Bundle, Contents};
use vitempo::graph::LatencyModel;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROMETHEUS: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// Identifies requests in logs.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// All routes.
pub fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/predict", post(predict))
        .route("/bundles", get(bundles))
        .route("/metrics", get(metrics))
        .route_layer(from_fn_with_state(service.clone(), authorize))
        .route("/healthz", get(health))
        .route("/openapi.json", get(document))
        .fallback(|| async {
            Problem::new(StatusCode::NOT_FOUND, "there is no such path")
                .hint("GET /openapi.json lists the paths")
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not have this method")
        })
        .layer(from_fn(harden))
        .layer(from_fn_with_state(service.clone(), observe))
        .with_state(service)
}

/// Names of routes and methods for counters, so that clients cannot add new ones.
fn label(method: &Method, path: &str) -> (&'static str, &'static str) {
    let known = |names: &[&'static str], name: &str| {
        names.iter().copied().find(|known| *known == name).unwrap_or("other")
    };
    let route = known(&["/predict", "/bundles", "/metrics", "/healthz", "/openapi.json"], path);
    (route, known(&["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"], method.as_str()))
}

/// A request in progress; if it is dropped without an answer, its client is gone.
struct Flight<'a> {
    service: &'a Service,
    label: (&'static str, &'static str),
    id: String,
    begun: Instant,
    landed: bool,
}

impl Flight<'_> {
    fn land(&mut self, response: &Response) {
        self.landed = true;
        let (route, method) = self.label;
        let (status, took) = (response.status().as_u16(), self.begun.elapsed());
        self.service.metrics.answered((route, method, status), took);
        let bytes = response.body().size_hint().exact();
        self.service.log.request(json!({"id": self.id, "route": route, "method": method, "status": status, "duration_ms": ms(took), "bytes": bytes}));
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if !self.landed {
            self.service.metrics.aborted();
            let (route, method) = self.label;
            self.service.log.request(json!({"id": self.id, "route": route, "method": method, "aborted": true, "duration_ms": ms(self.begun.elapsed())}));
        }
    }
}

fn ms(took: Duration) -> f64 {
    took.as_micros() as f64 / 1e3
}

async fn observe(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let _held = service.metrics.in_flight.hold();
    let id = format!("{:x}-{}", service.started, service.requests.fetch_add(1, Ordering::Relaxed));
    let label = label(request.method(), request.uri().path());
    let mut flight =
        Flight { service: &service, label, id: id.clone(), begun: Instant::now(), landed: false };
    let mut response = next.run(request).await;
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    flight.land(&response);
    response
}

/// Answers are data: browsers must not guess their type, frame them or cache them.
async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response
        .headers_mut()
        .insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn authorize(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    if service
        .token
        .as_ref()
        .is_none_or(|token| token.allows(request.headers().get(header::AUTHORIZATION)))
    {
        return next.run(request).await;
    }
    let problem = Problem::new(StatusCode::UNAUTHORIZED, "this needs the server's token")
        .hint("send the header `Authorization: Bearer TOKEN`");
    let (head, body) = request.into_parts();
    body::refuse(
        &head.headers,
        body,
        problem.with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
    )
    .await
    .into_response()
}

async fn predict(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let understood = Media::of(&head.headers)
        .and_then(|media| Ok((media, Settings::read(head.uri.query().unwrap_or_default())?)));
    let (media, settings) = match understood {
        Ok(understood) => understood,
        Err(problem) => return Err(body::refuse(&head.headers, body, problem).await),
    };
    let limits = &service.limits;
    let upload =
        body::read(&head.headers, body, limits.body_bytes, limits.timeout, &service.room).await?;
    let (registry, spaces, limits) = (service.registry.current(), service.spaces.clone(), *limits);
    let job = move |abandoned: &super::pool::Abandoned| {
        let Upload { bytes, held } = upload;
        let asked = Asked::read(media, bytes, settings)?;
        let answer = answer::answer(&asked, &registry, &spaces, &limits, abandoned);
        drop(held);
        answer
    };
    let answer = service.pool.run(job).await?;
    for (registered, tally) in &answer.tallies {
        service.metrics.forecast(registered.bundle.name(), *tally);
    }
    Ok(typed(JSON, answer.json))
}

async fn bundles(State(service): State<Arc<Service>>) -> Response {
    let registry = service.registry.current();
    let bundles: Vec<Value> =
        registry.values().map(|registered| describe(&registered.bundle)).collect();
    typed(JSON, json!({"bundles": bundles}).to_string())
}

fn describe(bundle: &Bundle) -> Value {
    let environment = bundle.environment();
    let (models, created_by) = match bundle.contents() {
        Contents::Trained(b) => (b.provenance.models, &b.provenance.created_by),
        Contents::Adapted(b) => (b.measured.len(), &b.created_by),
    };
    let trained = bundle.trained();
    let provenance = trained.map(|b| &b.provenance);
    json!({
        "name": bundle.name(),
        "digest": bundle.digest(),
        "environment": environment.id(),
        "description": environment.describe(),
        "method": bundle.method(),
        "origin": bundle.origin(),
        "level": bundle.level(),
        "models": models,
        "rows": provenance.map(|p| p.rows),
        "data_digest": provenance.map(|p| &p.data_digest),
        "created_by": created_by,
        "held_out": trained.and_then(|b| b.held_out.e2e.as_ref()),
        "on_real": trained.and_then(|b| b.on_real.as_ref()?.e2e.as_ref()),
    })
}

async fn metrics(State(service): State<Arc<Service>>) -> Response {
    typed(PROMETHEUS, service.metrics.page(service.registry.current().len(), service.pool.free()))
}

async fn health(State(service): State<Arc<Service>>) -> Result<Response, Problem> {
    if service.draining.load(Ordering::Relaxed) {
        return Err(Problem::busy("the server is shutting down"));
    }
    Ok(typed(
        JSON,
        json!({"status": "ok", "bundles": service.registry.current().len()}).to_string(),
    ))
}

async fn document(State(service): State<Arc<Service>>) -> Response {
    typed(
        JSON,
        openapi::document(&service.spaces, &service.limits, service.token.is_some()).to_string(),
    )
}

fn typed(media: HeaderValue, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, media)], body.into()).into_response()
}
