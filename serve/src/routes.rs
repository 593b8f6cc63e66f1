//! The routes, and the layers that every request passes: counting, logging, the token.

use super::{
    Service, answer,
    body::{self, Upload},
    clients::{Busy, Client},
    delivery::Delivery,
    form::Form,
    memory::Share,
    metrics::Gauges,
    page,
    pool::{Abandoned, Length},
    problem::Problem,
    process::Process,
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
/// Rate at which a large answer must be read, in bytes per second, beyond the time limit.
const SLOWEST: u64 = 1 << 20;
/// Largest body that is read to see how long its forecasts take, bytes.
const SMALL_BODY: usize = 16 << 10;
/// Most forecasts of architectures that count as a short job.
const SHORT: usize = 32;
/// Identifies requests in logs.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const ROUTES: [&str; 6] =
    ["/predict", "/bundles", "/metrics", "/healthz", "/readyz", "/openapi.json"];

/// Names of the bundles that an answer rests on, for the log.
#[derive(Clone, Debug)]
struct Bundles(Vec<String>);

/// Everything that answers.
pub fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/predict", post(predict))
        .route("/bundles", get(bundles))
        .route("/bundles/index.json", get(page::index))
        .route("/bundles/{file}", get(page::bundle))
        .route("/metrics", get(metrics))
        .route_layer(from_fn_with_state(service.clone(), authorize))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/openapi.json", get(document))
        .fallback(page::file)
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
    let route = known(&ROUTES, path);
    (route, known(&["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"], method.as_str()))
}

/// A request in progress; if it is dropped without an answer, its client is gone.
struct Flight<'a> {
    service: &'a Service,
    label: (&'static str, &'static str),
    id: String,
    client: Option<Arc<str>>,
    begun: Instant,
    landed: bool,
}

impl Flight<'_> {
    fn land(&mut self, response: &Response) {
        self.landed = true;
        let (route, method) = self.label;
        let (status, took) = (response.status().as_u16(), self.begun.elapsed());
        self.service.metrics.answered((route, method, status), took);
        let mut line = self.line();
        line["status"] = status.into();
        line["bytes"] = response.body().size_hint().exact().into();
        if let Some(Bundles(names)) = response.extensions().get() {
            line["bundles"] = names.as_slice().into();
        }
        self.service.log.request(line);
    }

    /// What every line about a request has.
    fn line(&self) -> Value {
        let (route, method) = self.label;
        json!({
            "id": self.id,
            "client": self.client.as_deref(),
            "route": route,
            "method": method,
            "duration_ms": self.begun.elapsed().as_micros() as f64 / 1e3,
        })
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if !self.landed {
            self.service.metrics.aborted();
            let mut line = self.line();
            line["aborted"] = true.into();
            self.service.log.request(line);
        }
    }
}

async fn observe(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let _held = service.metrics.in_flight.hold();
    let client = request.extensions().get::<Client>().cloned();
    let busy = client.as_ref().map(Client::busy);
    let id = format!("{:x}-{}", service.started, service.requests.fetch_add(1, Ordering::Relaxed));
    let mut flight = Flight {
        service: &service,
        label: label(request.method(), request.uri().path()),
        id: id.clone(),
        client: client.as_ref().map(|client| client.anonymous.clone()),
        begun: Instant::now(),
        landed: false,
    };
    let mut response = next.run(request).await;
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    flight.land(&response);
    deliver(response, service.limits.timeout, client.as_ref(), busy)
}

/// The answer has a time to be read, and its request is under way until then.
fn deliver(
    response: Response,
    time_limit: Duration,
    client: Option<&Client>,
    busy: Option<Busy>,
) -> Response {
    let bytes = response.body().size_hint().lower();
    let deadline = Instant::now() + time_limit + Duration::from_secs(bytes / SLOWEST);
    let sending = client.map(|client| client.clock.begin(deadline));
    response.map(|body| Body::new(Delivery::new(body, (sending, busy))))
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
    let client = request.extensions().get::<Client>();
    let shown = request.headers().get(header::AUTHORIZATION);
    if service.token.as_ref().is_none_or(|token| token.allows(shown)) {
        client.inspect(|client| client.is_known());
        return next.run(request).await;
    }
    client.inspect(|client| client.is_refused());
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
        Ok((media, settings)) => (media, Settings { form: Form::of(&head.headers), ..settings }),
        Err(problem) => return Err(body::refuse(&head.headers, body, problem).await),
    };
    let limits = &service.limits;
    let upload =
        body::read(&head.headers, body, limits.body_bytes, limits.timeout, &service.memory).await?;
    let (registry, spaces, limits) = (service.registry.current(), service.spaces.clone(), *limits);
    let memory = service.memory.clone();
    let body = Received::look(media, upload, settings)?;
    let length = body.length(registry.len());
    let job = move |abandoned: &Abandoned| {
        let (asked, _held) = body.read()?;
        answer::answer(&asked, &registry, &spaces, &limits, &memory, abandoned)
    };
    let answer = service.pool.run(length, job).await?;
    let mut names = Vec::new();
    for (registered, tally) in &answer.tallies {
        service.metrics.forecast(registered.bundle.name(), *tally);
        names.push(registered.bundle.name().to_owned());
    }
    let mut response = typed(answer.form.media(), Body::new(answer.document));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    response.extensions_mut().insert(Bundles(names));
    Ok(response)
}

/// A body that has arrived, with the memory it takes.
enum Received {
    /// A small document, which is read at once to see what it asks for.
    Read(Asked, Share),
    /// Anything else is read by a worker.
    Unread(Media, Upload, Settings),
}

impl Received {
    fn look(media: Media, upload: Upload, settings: Settings) -> Result<Self, Problem> {
        if media != Media::Json || upload.length() > SMALL_BODY {
            return Ok(Self::Unread(media, upload, settings));
        }
        let (bytes, share) = upload.join();
        Ok(Self::Read(Asked::read(media, bytes, settings)?, share))
    }

    fn length(&self, served: usize) -> Length {
        match self {
            Self::Read(asked, _) if asked.architectures(served).is_some_and(|n| n <= SHORT) => {
                Length::Short
            }
            _ => Length::Long,
        }
    }

    fn read(self) -> Result<(Asked, Share), Problem> {
        match self {
            Self::Read(asked, share) => Ok((asked, share)),
            Self::Unread(media, upload, settings) => {
                let (bytes, share) = upload.join();
                Ok((Asked::read(media, bytes, settings)?, share))
            }
        }
    }
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
    let gauges = Gauges {
        bundles: service.registry.current().len(),
        free_places: [Length::Short, Length::Long].map(|length| service.pool.free(length)),
        memory_bytes: service.memory.used(),
        process: Process::now(),
    };
    typed(PROMETHEUS, service.metrics.page(&gauges))
}

/// Whether the process works: restart it where it does not.
async fn health(State(service): State<Arc<Service>>) -> Result<Response, Problem> {
    if service.pool.is_stuck() {
        let long = service.limits.timeout.as_secs_f64();
        return Err(Problem::busy(format!("no worker has come free for {long} s")));
    }
    Ok(status("ok", &service))
}

/// Whether requests should be sent here.
async fn ready(State(service): State<Arc<Service>>) -> Result<Response, Problem> {
    if service.draining.load(Ordering::Relaxed) {
        return Err(Problem::busy("the server is shutting down"));
    }
    if service.registry.current().is_empty() {
        return Err(Problem::busy("no bundle is loaded"));
    }
    Ok(status("ready", &service))
}

fn status(word: &str, service: &Service) -> Response {
    let bundles = service.registry.current().len();
    typed(JSON, json!({"status": word, "bundles": bundles}).to_string())
}

async fn document(State(service): State<Arc<Service>>) -> Response {
    typed(JSON, service.document.clone())
}

fn typed(media: HeaderValue, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, media)], body.into()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Log, Options, Server};
    use std::{net::SocketAddr, sync::mpsc};
    use vitempo::search_space::Space;

    async fn service(limits: Limits) -> Arc<Service> {
        let bundle = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/epyc-rten-f32-1t.vtb");
        let options = Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            bundles: vec![std::path::PathBuf::from(bundle).into()],
            spaces: vec![Space::named("hybrid-vit").unwrap_or_else(|e| panic!("{e}"))],
            token: None,
            limits,
            log: Log::Nothing,
            model: None,
        };
        Server::bind(options).await.unwrap_or_else(|e| panic!("{e}")).service
    }

    fn in_runtime(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.unwrap_or_else(|e| panic!("{e}")).block_on(test);
    }

    #[test]
    fn a_server_whose_workers_never_come_free_is_not_well() {
        in_runtime(async {
            let timeout = Duration::from_millis(1);
            let service = service(Limits { workers: 1, timeout, ..Limits::default() }).await;
            assert!(health(State(service.clone())).await.is_ok());
            let (go, wait) = mpsc::channel::<()>();
            let deaf = move |_: &Abandoned| {
                let _ = wait.recv();
                Ok(())
            };
            assert!(service.pool.run(Length::Long, deaf).await.is_err(), "time is up");
            let problem = loop {
                match health(State(service.clone())).await {
                    Err(problem) => break problem,
                    Ok(_) => tokio::time::sleep(timeout).await,
                }
            };
            assert!(problem.detail().contains("no worker has come free"));
            assert!(ready(State(service.clone())).await.is_ok(), "requests may still come");
            drop(go);
            while health(State(service.clone())).await.is_err() {
                tokio::time::sleep(timeout).await;
            }
        });
    }

    #[test]
    fn a_server_that_is_stopping_is_well_and_takes_nothing_more() {
        in_runtime(async {
            let service = service(Limits::default()).await;
            assert!(ready(State(service.clone())).await.is_ok());
            service.draining.store(true, Ordering::Relaxed);
            assert!(ready(State(service.clone())).await.is_err());
            assert!(health(State(service)).await.is_ok());
        });
    }

    async fn answered(service: Arc<Service>, accept: &str, document: &str) -> (Response, Vec<u8>) {
        let request = Request::post("/predict")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept)
            .body(Body::from(document.to_owned()))
            .unwrap_or_else(|e| panic!("{e}"));
        let (head, body) = predict(State(service), request).await.into_response().into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_else(|e| panic!("{e}"));
        (Response::from_parts(head, Body::empty()), bytes.to_vec())
    }

    #[test]
    fn a_table_has_the_numbers_of_the_document_in_a_fraction_of_its_bytes() {
        use crate::arrow_rows::MEDIA;
        let space = Space::named("hybrid-vit").unwrap_or_else(|e| panic!("{e}"));
        // Too few for tables, whose sums may differ in the last bits.
        let known = space.sample_many(400, 1).unwrap_or_else(|e| panic!("{e}"));
        let encodings: Vec<String> =
            known.iter().map(|a| a.encode()).chain(["hv1-x".to_owned()]).collect();
        let document = json!({"encodings": encodings}).to_string();
        in_runtime(async {
            let service = service(Limits::default()).await;
            let (_, json) = answered(service.clone(), "*/*", &document).await;
            let (head, table) = answered(service.clone(), MEDIA, &document).await;
            assert_eq!(head.headers()[header::CONTENT_TYPE], MEDIA);
            assert!(5 * table.len() < json.len(), "{} bytes beside {}", table.len(), json.len());
            let json: Value = serde_json::from_slice(&json).unwrap_or_else(|e| panic!("{e}"));
            let results = json["results"].as_array().map_or(&[][..], Vec::as_slice);
            assert_eq!(results.len(), encodings.len());
            for end in ["point", "lower", "upper"] {
                let number = |row: &Value| row["latency_ns"][end].as_f64().unwrap_or(0.0);
                let column: Vec<u8> =
                    results.iter().flat_map(|row| number(row).to_le_bytes()).collect();
                let found = table.windows(column.len()).step_by(8).any(|part| part == column);
                assert!(found, "no column has each `{end}`");
            }
            let problem = results.last().and_then(|row| row["problem"]["detail"].as_str());
            let problem = problem.unwrap_or_else(|| panic!("the last encoding is refused"));
            let found = table.windows(problem.len()).any(|part| part == problem.as_bytes());
            assert!(found, "{problem}");
            for detail in ["breakdown", "memory"] {
                let asked = json!({"encodings": encodings[..1], detail: true}).to_string();
                let (head, body) = answered(service.clone(), MEDIA, &asked).await;
                assert_eq!(head.status(), StatusCode::NOT_ACCEPTABLE);
                assert!(String::from_utf8_lossy(&body).contains(detail));
            }
        });
    }

    #[test]
    fn a_model_that_an_engine_refuses_takes_no_forecast_from_others() {
        use base64::{Engine, prelude::BASE64_STANDARD};
        let model = |(name, bytes): (&str, &[u8])| json!({"name": name, "onnx": BASE64_STANDARD.encode(bytes)});
        let good: (_, &[u8]) = ("good", include_bytes!("../../tests/read/weights_as_inputs.onnx"));
        // rten has no kernels for bfloat16.
        let bad: (_, &[u8]) = ("bad", include_bytes!("../../tests/read/bf16.onnx"));
        in_runtime(async {
            let service = service(Limits::default()).await;
            for memory in [false, true] {
                let models = [good, bad, good].map(model);
                let document = json!({"models": models, "memory": memory}).to_string();
                let (_, answer) = answered(service.clone(), "*/*", &document).await;
                let answer: Value =
                    serde_json::from_slice(&answer).unwrap_or_else(|e| panic!("{e}"));
                let results = &answer["results"];
                let detail = results[1]["problem"]["detail"].as_str().unwrap_or_default();
                assert!(detail.contains("bf16"), "{results}");
                assert!(results[0]["latency_ns"]["point"].is_number(), "{results}");
                assert_eq!(results[0], results[2]);
            }
        });
    }

    /// Checks that the document describes every member of an answer, and that none is missing.
    fn described(schema: &str, value: &Value) {
        let document = crate::openapi(&[], &Limits::default(), false);
        let schemas = &document["components"]["schemas"];
        check_members(schemas, &schemas[schema], value);
    }

    fn check_members(schemas: &Value, schema: &Value, value: &Value) {
        let choices = schema["oneOf"].as_array().map_or(&[][..], Vec::as_slice);
        let reference = schema["$ref"].as_str().or(choices.iter().find_map(|c| c["$ref"].as_str()));
        if let Some(name) = reference.and_then(|reference| reference.rsplit('/').next()) {
            return check_members(schemas, &schemas[name], value);
        }
        let items = value.as_array().map_or(&[][..], Vec::as_slice);
        items.iter().for_each(|item| check_members(schemas, &schema["items"], item));
        let (Some(value), Some(known)) = (value.as_object(), schema["properties"].as_object())
        else {
            return;
        };
        for (name, member) in value {
            let of = known.get(name).unwrap_or_else(|| panic!("`{name}` is not in {known:?}"));
            check_members(schemas, of, member);
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().unwrap_or_default();
            assert!(value.contains_key(name), "`{name}` is required, and not in {value:?}");
        }
    }

    #[test]
    fn memory_is_that_of_the_library() {
        let space = Space::named("hybrid-vit").unwrap_or_else(|e| panic!("{e}"));
        let architecture = space.sample_many(1, 2).unwrap_or_else(|e| panic!("{e}")).remove(0);
        let encoding = architecture.encode();
        in_runtime(async {
            let service = service(Limits::default()).await;
            for asks in [true, false] {
                let document = json!({"encodings": [encoding], "memory": asks}).to_string();
                let (_, answer) = answered(service.clone(), "*/*", &document).await;
                let answer: Value =
                    serde_json::from_slice(&answer).unwrap_or_else(|e| panic!("{e}"));
                let registry = service.registry.current();
                let results = answer["results"].as_array().map_or(&[][..], Vec::as_slice);
                assert_eq!(results.len(), registry.len());
                for (result, registered) in results.iter().zip(registry.values()) {
                    let graph = architecture.to_graph().unwrap_or_else(|e| panic!("{e}"));
                    let (forecast, memory) = registered
                        .bundle
                        .predict_with_memory(
                            &graph,
                            &vitempo::graph::Budget::new(vitempo::graph::Limits::NONE),
                        )
                        .unwrap_or_else(|e| panic!("{e}"));
                    assert_eq!(result["latency_ns"]["point"], json!(forecast.latency.point()));
                    let expected = asks.then(|| json!(memory));
                    assert_eq!(result.get("memory"), expected.as_ref(), "{result}");
                    described("Forecast", result);
                }
            }
        });
    }

    #[test]
    fn short_requests_are_told_from_long_ones() {
        let received = |text: String| {
            let asked = Asked::read(Media::Json, text.into_bytes(), Settings::default());
            Received::Read(asked.unwrap_or_else(|p| panic!("{}", p.detail())), share())
        };
        let share_of = |encodings: usize, served: usize| {
            let list = vec!["\"hv1\""; encodings].join(",");
            received(format!("{{\"encodings\": [{list}]}}")).length(served)
        };
        assert_eq!(share_of(1, 32), Length::Short);
        assert_eq!(share_of(32, 1), Length::Short);
        assert_eq!(share_of(33, 1), Length::Long);
        assert_eq!(share_of(2, 17), Length::Long);
        let named = received(r#"{"encodings": ["hv1"], "bundles": ["a"]}"#.to_owned());
        assert_eq!(named.length(100), Length::Short);
        let model = received(r#"{"models": [{"name": "m", "onnx": "AAAA"}]}"#.to_owned());
        assert_eq!(model.length(1), Length::Long, "a small file may ask for anything");
    }

    fn share() -> Share {
        crate::memory::Memory::new(1024).share()
    }
}
