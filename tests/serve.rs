//! `vitempo serve` as clients see it: the real program on a free port, with valid and invalid
//! requests. No test measures time.

mod program;
#[path = "program/server.rs"]
mod server;

use program::{ok, vitempo};
use server::{Running, read_reply};
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use vitempo::search_space::{Architecture, Space};

fn json(text: impl AsRef<[u8]>) -> serde_json::Value {
    serde_json::from_slice(text.as_ref())
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(text.as_ref())))
}

fn shipped(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .join("tests/models")
        .join(format!("{name}.onnx"))
}

/// A bundle trained on times of the harness alone, made once; and encodings of its search space.
struct Trained {
    folder: tempfile::TempDir,
    encodings: Vec<String>,
}

impl Trained {
    fn get() -> &'static Self {
        static TRAINED: OnceLock<Trained> = OnceLock::new();
        TRAINED.get_or_init(|| {
            let folder = tempfile::tempdir().expect("a folder");
            let path = |name: &str| folder.path().join(name).display().to_string();
            let sampled = json(ok(&[
                "sample",
                "--count",
                "12",
                "--seed",
                "3",
                "--no-weights",
                "--out",
                &path("models"),
                "--format",
                "json",
            ]));
            ok(&["profile", &path("models"), "--backend", "null", "--out", &path("data")]);
            ok(&["train", &path("data"), "--method", "lasso", "--out", &path("null.vtb")]);
            let encoding = |row: &serde_json::Value| row["encoding"].as_str().map(str::to_owned);
            let encodings = sampled.as_array().expect("rows").iter().filter_map(encoding).collect();
            Self { folder, encodings }
        })
    }

    fn bundle(&self) -> PathBuf {
        self.folder.path().join("null.vtb")
    }
}

/// A server of the trained bundle.
fn start(args: &[&str]) -> Running {
    let bundle = Trained::get().bundle().display().to_string();
    Running::start_with(&[&["--bundle", &bundle], args].concat())
}

/// Whether it still answers as it should.
fn is_well(server: &Running) -> bool {
    let asked = server.predict(&serde_json::json!({"encodings": [Trained::get().encodings[0]]}));
    server.get("/healthz").status == 200
        && asked.status == 200
        && asked.json()["results"][0]["latency_ns"]["point"].is_number()
}

/// Base64, by hand: the server's own decoder is not to be checked by itself.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0u32, |bits, &b| bits << 8 | u32::from(b)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            text.push(if digit <= chunk.len() {
                char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize])
            } else {
                '='
            });
        }
    }
    text
}

#[test]
fn every_endpoint_answers() {
    let server = start(&[]);
    assert_eq!(server.get("/healthz").json(), serde_json::json!({"status": "ok", "bundles": 1}));
    assert_eq!(server.get("/readyz").json(), serde_json::json!({"status": "ready", "bundles": 1}));
    let bundle = &server.get("/bundles").json()["bundles"][0];
    assert_eq!((&bundle["name"], &bundle["method"]), (&"null".into(), &"lasso".into()));
    assert_eq!(server.get("/openapi.json").json()["openapi"], "3.1.0");
    let encodings = &Trained::get().encodings;
    let reply = server.predict(&serde_json::json!({"bundles": ["null"], "encodings": encodings}));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    let results = reply.json()["results"].clone();
    assert_eq!(results.as_array().map(Vec::len), Some(encodings.len()));
    for (result, encoding) in results.as_array().expect("results").iter().zip(encodings) {
        let latency = |name: &str| result["latency_ns"][name].as_f64().expect("a number");
        assert_eq!(result["model"], encoding.as_str());
        assert!(
            latency("lower") <= latency("point")
                && latency("point") <= latency("upper")
                && latency("level") == 0.9
        );
        assert!(result["extrapolating"].is_boolean() && result.get("operators").is_none());
    }
    let page = String::from_utf8(server.get("/metrics").body).expect("text");
    let counted = |line: &str| page.lines().any(|l| l == line);
    assert!(
        counted(&format!("vitempo_forecasts_total{{bundle=\"null\"}} {}", encodings.len())),
        "{page}"
    );
    assert!(
        counted("vitempo_http_requests_total{route=\"/predict\",method=\"POST\",status=\"200\"} 1"),
        "{page}"
    );
    assert!(server.metric("process_resident_memory_bytes") > 1e6);
    assert!(server.metric("process_cpu_seconds_total") > 0.0);
    let open = server.metric("process_open_fds");
    assert!(open > 3.0 && open < server.metric("process_max_fds"));
    let log = server.log();
    let lines: Vec<_> = log.lines().map(json).collect();
    let line = lines.iter().find(|line| line["route"] == "/predict").expect("a line about it");
    assert_eq!((&line["event"], &line["status"]), (&"request".into(), &200.into()));
    assert_eq!(line["bundles"], serde_json::json!(["null"]));
    let client = line["client"].as_str().expect("a client");
    assert!(client.len() == 12 && client.bytes().all(|b| b.is_ascii_hexdigit()), "{client}");
    assert!(lines.iter().all(|line| line["client"] == client), "one client");
    assert!(!log.contains("127.0.0.1"), "{log}");
}

#[test]
fn adapted_bundles_answer_as_predict_does() {
    let name = "samsung-galaxy-s24-tflite-npu-f16";
    let server = Running::start_with(&["--bundle", name]);
    let listed = &server.get("/bundles").json()["bundles"][0];
    assert_eq!(
        (&listed["name"], &listed["method"], &listed["held_out"]),
        (&name.into(), &"adapted".into(), &serde_json::Value::Null)
    );
    let trained = Trained::get();
    let answered = server.predict(&serde_json::json!({"encodings": trained.encodings})).json();
    let models = trained.folder.path().join("models").display().to_string();
    let expected = json(ok(&["predict", &models, "--bundle", name, "--format", "json"]));
    let latencies = |rows: &serde_json::Value| -> Vec<serde_json::Value> {
        let rows = rows.as_array().expect("rows");
        rows.iter().map(|row| row["latency_ns"].clone()).collect()
    };
    assert_eq!(latencies(&answered["results"]), latencies(&expected), "bit for bit");
}

#[test]
fn uploads_are_forecast_as_files_are() {
    let server = start(&[]);
    let model = shipped("mobilevit_xxs");
    let bytes = fs::read(&model).expect("a model");
    let bundle = Trained::get().bundle();
    let args = [
        "predict",
        &model.display().to_string(),
        "--bundle",
        &bundle.display().to_string(),
        "--breakdown",
        "--format",
        "json",
    ];
    let expected = &json(ok(&args))[0];
    let upload = server.ask(
        "POST",
        "/predict?bundle=null&breakdown=true",
        &["Content-Type: application/x-onnx"],
        &bytes,
    );
    assert_eq!(upload.status, 200);
    let listed = server.predict(&serde_json::json!({"models": [{"name": "mobilevit_xxs", "onnx": base64(&bytes)}], "breakdown": true}));
    for (reply, name) in [(upload, "model"), (listed, "mobilevit_xxs")] {
        let result = &reply.json()["results"][0];
        assert_eq!(result["model"], name);
        for member in ["environment", "latency_ns", "overhead_ns", "operators"] {
            assert_eq!(result[member], expected[member], "{member}");
        }
        for member in ["operators", "trained", "fallback", "extrapolating", "unsupported"] {
            assert_eq!(result["coverage"][member], expected["coverage"][member], "{member}");
        }
    }
    let weightless = fs::read(Trained::get().folder.path().join("models/hybrid-vit-s3-000.onnx"))
        .expect("a sampled model");
    let named = &server
        .predict(&serde_json::json!({"encodings": [Trained::get().encodings[0]]}))
        .json()["results"][0];
    let read = &server
        .ask("POST", "/predict", &["Content-Type: application/octet-stream"], &weightless)
        .json()["results"][0];
    let point =
        |result: &serde_json::Value| result["latency_ns"]["point"].as_f64().expect("a number");
    assert!(
        (point(named) / point(read) - 1.0).abs() < 1e-9,
        "weights that are elsewhere are not needed"
    );
}

#[test]
fn models_are_forecast_at_the_sizes_that_are_asked_for() {
    let server = start(&[]);
    let model = shipped("mobilevit_xxs");
    let bytes = fs::read(&model).expect("a model");
    let bundle = Trained::get().bundle();
    let (file, bundle) = (model.display().to_string(), bundle.display().to_string());
    let args = ["predict", &file, "--bundle", &bundle, "--size", "192x320", "--size", "128"];
    let expected = json(ok(&[&args[..], &["--format", "json"]].concat()));
    let upload = server.ask(
        "POST",
        "/predict?size=192x320&size=128",
        &["Content-Type: application/x-onnx"],
        &bytes,
    );
    let encoding = &Trained::get().encodings[0];
    let listed = server.predict(&serde_json::json!({
        "encodings": [encoding],
        "models": [{"name": "m", "onnx": base64(&bytes)}],
        "sizes": ["192x320", "128"],
    }));
    let (upload, listed) = (upload.json()["results"].clone(), listed.json()["results"].clone());
    for (index, size) in ["192x320", "128x128"].into_iter().enumerate() {
        for (result, name) in [(&upload[index], "model"), (&listed[2 + index], "m")] {
            assert_eq!((&result["model"], &result["size"]), (&name.into(), &size.into()));
            assert_eq!(result["latency_ns"], expected[index]["latency_ns"], "{name} {size}");
        }
        let result = &listed[index];
        assert_eq!((&result["model"], &result["size"]), (&encoding.as_str().into(), &size.into()));
        assert!(result["latency_ns"]["point"].is_number(), "{result}");
    }
    assert_ne!(upload[0]["latency_ns"], upload[1]["latency_ns"]);
}

#[test]
fn sizes_that_do_not_work_are_refused_with_their_field() {
    let server = start(&["--max-forecasts", "20"]);
    let bytes = fs::read(shipped("mobilevit_xxs")).expect("a model");
    let upload = |query: &str, bytes: &[u8]| {
        let media = ["Content-Type: application/x-onnx"];
        let reply = server.ask("POST", &format!("/predict?{query}"), &media, bytes);
        (reply.status, reply.json())
    };
    for (query, status, field) in [
        ("size=70000", 400, "size"),
        ("size=0x8", 400, "size"),
        ("size=7x7", 422, "size"),
        (&*"size=64&".repeat(21), 413, ""),
        (&*"size=64&".repeat(300), 400, "size"),
    ] {
        let (answered, problem) = upload(query, &bytes);
        assert_eq!(answered, status, "{query}: {problem}");
        assert!(field.is_empty() || problem["field"] == field, "{query}: {problem}");
    }
    let (_, problem) = upload("size=7x7", &bytes);
    assert!(problem["node"].is_string() && problem["hint"].is_string(), "{problem}");
    let (status, mixed) = upload("size=128&size=7x7", &bytes);
    assert!(status == 200 && mixed["results"][0]["latency_ns"]["point"].is_number(), "{mixed}");
    assert_eq!(mixed["results"][1]["problem"]["field"], "size", "{mixed}");
    assert_eq!(upload("size=128&size=64", b"PK").0, 422, "a file that cannot be read");
    let poor = start(&["--max-model-steps", "2500"]);
    let encoding = &Trained::get().encodings[0];
    let sized = serde_json::json!({"encodings": [encoding], "sizes": ["512"]});
    let problem = poor.predict(&sized).json()["results"][0]["problem"].clone();
    assert!(
        problem["field"] == "sizes[0]"
            && problem["detail"].as_str().is_some_and(|d| d.contains("2500 steps"))
            && problem["hint"].as_str().is_some_and(|h| h.contains("limit")),
        "{problem}"
    );
    assert!(is_well(&server) && !server.log().contains("panic"), "{}", server.log());
}

/// Method, path, media type, body; status and field of the problem.
type Bad<'a> = (&'a str, &'a str, &'a str, &'a [u8], u16, &'a str);

#[test]
fn what_is_wrong_is_said_and_the_server_goes_on() {
    let server = start(&["--max-body", "1MiB", "--max-forecasts", "20"]);
    let encoding = &Trained::get().encodings[0];
    let many = serde_json::json!({"encodings": vec![encoding.as_str(); 21]}).to_string();
    let cases: &[Bad] = &[
        ("POST", "/predict", "application/json", b"{\"encodings\": [", 400, ""),
        ("POST", "/predict", "application/json", b"\xff\xfe", 400, ""),
        ("POST", "/predict", "application/json", b"{\"encodings\": [1]}", 422, "encodings[0]"),
        (
            "POST",
            "/predict",
            "application/json",
            b"{\"encodings\": [\"x\"], \"bundles\": [\"nobody\"]}",
            404,
            "bundles[0]",
        ),
        (
            "POST",
            "/predict",
            "application/json",
            b"{\"encodings\": [\"x\"], \"space\": \"/etc/passwd\"}",
            422,
            "space",
        ),
        (
            "POST",
            "/predict",
            "application/json",
            b"{\"encodings\": [\"x\"], \"bundles\": [\"../../etc/passwd\"]}",
            404,
            "bundles[0]",
        ),
        ("POST", "/predict", "application/json", many.as_bytes(), 413, ""),
        ("POST", "/predict?breakdown=perhaps", "application/json", b"{}", 400, "breakdown"),
        ("POST", "/predict", "text/plain", b"hello", 415, "Content-Type"),
        ("POST", "/predict", "application/x-onnx", b"PK\x03\x04 zip", 422, ""),
        ("POST", "/predict", "application/x-onnx", b"", 422, ""),
        ("DELETE", "/predict", "application/json", b"", 405, ""),
        ("POST", "/", "application/json", b"", 405, ""),
        ("POST", "/nowhere", "application/json", b"", 404, ""),
        (
            "POST",
            "/predict?bundle=nobody",
            "application/json",
            b"{\"encodings\": [\"x\"]}",
            404,
            "bundle",
        ),
        ("GET", "/../../etc/passwd", "", b"", 404, ""),
    ];
    for (method, path, media, body, status, field) in cases {
        let reply = server.ask(method, path, &[&format!("Content-Type: {media}")], body);
        let problem = reply.json();
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (*status, Some("application/problem+json")),
            "{method} {path}: {problem}"
        );
        assert!(problem["status"] == *status && problem["detail"].is_string(), "{problem}");
        assert!(field.is_empty() || problem["field"] == *field, "{problem}");
    }
    assert_eq!(
        server
            .ask("PUT", "/bundles", &[], b"")
            .header("allow")
            .map(|methods| methods.contains("GET")),
        Some(true)
    );
    let mixed = server.predict(&serde_json::json!({"encodings": ["hv1-nonsense", encoding], "models": [{"name": "m", "onnx": "?"}]}));
    let results = mixed.json()["results"].clone();
    assert_eq!(mixed.status, 200);
    assert!(
        results[0]["problem"]["detail"].as_str().is_some_and(|d| d.contains("nonsense"))
            && results[2]["problem"]["detail"].is_string(),
        "{results}"
    );
    assert!(results[1]["latency_ns"]["point"].is_number());
    assert!(is_well(&server) && !server.log().contains("panic"), "{}", server.log());
}

#[test]
fn many_encodings_are_answered_as_each_alone_is() {
    let isotropic = Space::named("isotropic-vit").expect("a space");
    let sampled = isotropic.sample_many(3, 5).expect("architectures");
    answered_as_each_alone(&[], &Trained::get().encodings);
    answered_as_each_alone(
        &["--space", "isotropic-vit"],
        &sampled.iter().map(Architecture::encode).collect::<Vec<_>>(),
    );
}

/// Of a server started with these arguments.
fn answered_as_each_alone(args: &[&str], encodings: &[String]) {
    let server = start(args);
    let ask = |encodings: &[&String]| {
        server.predict(&serde_json::json!({"encodings": encodings})).json()["results"].clone()
    };
    let alone: Vec<_> = encodings.iter().map(|encoding| ask(&[encoding])[0].clone()).collect();
    // More than are asked by their graphs.
    let many = ask(&encodings.iter().cycle().take(2000).collect::<Vec<_>>());
    assert_eq!(many.as_array().map(Vec::len), Some(2000));
    for (one, alone) in many.as_array().into_iter().flatten().zip(alone.iter().cycle()) {
        assert_eq!((&one["model"], &one["coverage"]), (&alone["model"], &alone["coverage"]));
        for end in ["point", "lower", "upper"] {
            let [one, alone] =
                [one, alone].map(|result| result["latency_ns"][end].as_f64().expect("a number"));
            assert!((one - alone).abs() <= 1e-9 * alone, "{one} in a list, {alone} alone");
        }
    }
}

#[test]
fn bodies_that_are_too_large_slow_or_broken_off_cost_nothing_else() {
    let server = start(&["--max-body", "64KiB", "--timeout", "1s"]);
    let big = vec![b' '; 1 << 20];
    assert_eq!(
        server.ask("POST", "/predict", &["Content-Type: application/json"], &big).status,
        413
    );
    let mut chunked = server.connect();
    let head = b"POST /predict HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Type: \
        application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    chunked.write_all(head).expect("sent");
    for _ in 0..5 {
        let _ = chunked
            .write_all(b"8000\r\n")
            .and_then(|()| chunked.write_all(&[b' '; 0x8000]))
            .and_then(|()| chunked.write_all(b"\r\n"));
    }
    let _ = chunked.write_all(b"0\r\n\r\n");
    assert_eq!(read_reply(&mut chunked).map(|reply| reply.status), Some(413));
    let mut head = server.connect();
    head.write_all(b"GET /healthz HTTP/1.1\r\nHost: slow").expect("sent");
    assert!(
        read_reply(&mut head).is_none_or(|reply| reply.status >= 400),
        "a head that never ends is given up"
    );
    let mut body = server.connect();
    body.write_all(
        b"POST /predict HTTP/1.1\r\nHost: slow\r\nContent-Type: \
        application/json\r\nContent-Length: 50\r\n\r\n{\"enc",
    )
    .expect("sent");
    assert_eq!(read_reply(&mut body).map(|reply| reply.status), Some(408));
    for _ in 0..20 {
        let mut aborted = server.connect();
        aborted
            .write_all(
                b"POST /predict HTTP/1.1\r\nHost: t\r\nContent-Type: \
            application/x-onnx\r\nContent-Length: 5000\r\n\r\n\x08\x07",
            )
            .expect("sent");
        drop(aborted);
    }
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ] {
        let mut stream = server.connect();
        let _ = stream.write_all(garbage).and_then(|()| stream.shutdown(Shutdown::Write));
        assert!(read_reply(&mut stream).is_none_or(|reply| reply.status == 400));
    }
    server.wait_until("the end of all requests", || server.in_flight() == 0);
    assert!(is_well(&server) && !server.log().contains("panic"), "{}", server.log());
}

fn permit(file: &Path, mode: u32) {
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("permissions");
}

#[test]
fn a_token_is_asked_for_where_one_is_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    fs::write(&file, "a-token-of-32-characters-or-so\n").expect("a file");
    permit(&file, 0o600);
    let server = start(&["--token-file", &file.display().to_string()]);
    let ask = |headers: &[&str]| server.ask("GET", "/bundles", headers, b"");
    let refused = ask(&[]);
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(ask(&["Authorization: Bearer a-token-of-32-characters-or-sO"]).status, 401);
    assert_eq!(ask(&["Authorization: Bearer a-token-of-32-characters-or-so"]).status, 200);
    assert_eq!(server.predict(&serde_json::json!({"encodings": ["x"]})).status, 401);
    assert_eq!((server.get("/metrics").status, server.get("/healthz").status), (401, 200));
    assert!(server.get("/openapi.json").json()["security"].is_array());
    assert!(!server.log().contains("a-token-of"));
}

#[test]
fn what_cannot_be_served_is_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("a file");
        folder.path().join(name).display().to_string()
    };
    let bundle = Trained::get().bundle().display().to_string();
    let (broken, short) = (path("broken.vtb", "no bundle"), path("short", "abc"));
    let exposed = path("exposed", "a-token-of-32-characters-or-so");
    permit(short.as_ref(), 0o600);
    permit(exposed.as_ref(), 0o640);
    let same_name = folder.path().join("same_name");
    fs::create_dir(&same_name).expect("a folder");
    fs::copy(&bundle, same_name.join("null.vtb")).expect("a copy");
    let same_name = same_name.display().to_string();
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("a folder");
    let cases: &[(&[&str], &str)] = &[
        (&["--bundle", &bundle, "--listen", "0.0.0.0:0"], "token"),
        (&["--bundle", &broken], "broken.vtb"),
        (&["--bundle", "nobody"], "nobody"),
        (&["--bundle", &empty.display().to_string()], "no bundle"),
        (&["--bundle", &bundle, "--listen", "0.0.0.0:0", "--check"], "token"),
        (&["--bundle", &bundle, "--bundle", &bundle], "two bundles"),
        (&["--bundle", &bundle, "--bundle", &same_name], "two bundles"),
        (&["--bundle", &bundle, "--token-file", &short], "16 characters"),
        (&["--bundle", &bundle, "--token-file", &exposed], "chmod 600"),
        (&["--bundle", &bundle, "--memory", "1MiB"], "--memory"),
        (&["--bundle", &bundle, "--head-timeout", "0"], "--head-timeout"),
        (&["--bundle", &bundle, "--space", "nowhere"], "nowhere"),
        (&["--bundle", &bundle, "--timeout", "0"], "--timeout"),
        (&["--bundle", &bundle, "--max-body", "0"], "--max-body"),
        (&["--bundle", &bundle, "--max-response", "0B"], "--max-response"),
        (&["--bundle", &bundle, "--max-model-nodes", "0"], "--max-model-nodes"),
        (&["--bundle", &bundle, "--max-model-steps", "0"], "--max-model-steps"),
        (&["--bundle", &bundle, "--space", "mbconv", "--space", "mbconv"], "`mbconv`"),
        (&["--bundle", &bundle, "--format", "json"], "--check"),
        (&["--bundle", &bundle, "--openapi", "--format", "json"], "--openapi"),
    ];
    for (args, says) in cases {
        let output = vitempo(&[&["serve"], *args].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains("error: ") && stderr.contains(says), "{args:?}: {stderr}");
    }
    let checked = json(ok(&["serve", "--bundle", &bundle, "--check", "--format", "json"]));
    assert_eq!(
        (&checked["bundles"][0]["name"], &checked["token"]),
        (&"null".into(), &false.into())
    );
    assert_eq!(json(ok(&["serve", "--bundle", &bundle, "--openapi"]))["openapi"], "3.1.0");
}

#[test]
fn bundles_come_and_go_while_the_server_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &str, bytes: &[u8]| {
        fs::write(folder.path().join("unfinished"), bytes).expect("a file");
        fs::rename(folder.path().join("unfinished"), folder.path().join(name)).expect("a move");
    };
    let bundle = fs::read(Trained::get().bundle()).expect("the bundle");
    put("null.vtb", &bundle);
    let server = Running::start_with(&[
        "--bundle",
        &folder.path().display().to_string(),
        "--reload",
        "50ms",
    ]);
    let names = || -> Vec<String> {
        let listed = server.get("/bundles").json()["bundles"].clone();
        listed
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|b| b["name"].as_str().map(str::to_owned))
            .collect()
    };
    put("null.vtb", &bundle[..bundle.len() / 2]);
    server.wait_until("word of the broken bundle", || server.log().contains("bundle_refused"));
    assert!(names() == ["null"] && is_well(&server), "the bundle from before answers");
    put("other.vtb", &bundle);
    server.wait_until("the new bundle", || names() == ["null", "other"]);
    let both =
        server.predict(&serde_json::json!({"encodings": [Trained::get().encodings[0]]})).json();
    assert_eq!(
        (&both["results"][0]["bundle"], &both["results"][1]["bundle"]),
        (&"null".into(), &"other".into())
    );
    fs::remove_file(folder.path().join("null.vtb")).expect("removed");
    server.wait_until("the end of the old one", || names() == ["other"]);
    assert!(is_well(&server));
}

#[test]
fn a_hangup_reads_bundles_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(Trained::get().bundle(), folder.path().join("one.vtb")).expect("a copy");
    let server =
        Running::start_with(&["--bundle", &folder.path().display().to_string(), "--reload", "0"]);
    fs::copy(Trained::get().bundle(), folder.path().join("two.vtb")).expect("a copy");
    assert_eq!(server.get("/healthz").json()["bundles"], 1);
    server.signal("-HUP");
    server.wait_until("the second bundle", || server.get("/healthz").json()["bundles"] == 2);
}

#[test]
fn a_request_under_way_is_answered_before_the_end() {
    let mut server = start(&[]);
    let body = serde_json::json!({"encodings": Trained::get().encodings}).to_string();
    let (first, rest) = body.split_at(body.len() / 2);
    let mut stream = server.connect();
    let head = format!(
        "POST /predict HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: \
        {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(first.as_bytes()))
        .expect("sent");
    server.wait_until("the request", || server.in_flight() == 1);
    server.signal("-TERM");
    server.wait_until("the end", || server.log().contains("\"stopping\""));
    stream.write_all(rest.as_bytes()).expect("sent");
    let reply = read_reply(&mut stream).expect("a reply");
    assert_eq!(
        (reply.status, reply.json()["results"].as_array().map(Vec::len)),
        (200, Some(Trained::get().encodings.len()))
    );
    assert!(server.child.wait().expect("its end").success());
    assert!(
        server.log().contains("\"all_answered\":true")
            && TcpStream::connect(&server.address).is_err()
    );
}

#[test]
fn a_client_that_never_finishes_does_not_keep_the_server_from_ending() {
    let mut server = start(&["--grace", "100ms"]);
    let mut stream = server.connect();
    stream
        .write_all(
            b"POST /predict HTTP/1.1\r\nHost: t\r\nContent-Type: \
        application/json\r\nContent-Length: 9\r\n\r\n{",
        )
        .expect("sent");
    server.wait_until("the request", || server.in_flight() == 1);
    server.signal("-INT");
    assert!(server.child.wait().expect("its end").success());
    assert!(server.log().contains("\"all_answered\":false"), "{}", server.log());
}

/// Says so at the end, also when a test fails.
struct Enough<'a>(&'a AtomicBool);

impl Drop for Enough<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn more_than_the_workers_and_the_queue_hold_is_refused_until_there_is_room() {
    let server = start(&["--workers", "1", "--queue", "0", "--timeout", "10m"]);
    let encodings = &Trained::get().encodings;
    let long = serde_json::json!({"encodings": encodings.iter().cycle().take(100_000).collect::<Vec<_>>()}).to_string();
    let head = format!(
        "POST /predict HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: \
        {}\r\n\r\n",
        long.len()
    );
    // More than what counts as short.
    let some = serde_json::json!({"encodings": vec![&encodings[0]; 40]});
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = Enough(&enough);
        // One long request after the other, until the server closes the connection in the middle of
        // one.
        scope.spawn(|| {
            while !enough.load(Ordering::Relaxed) {
                let mut stream = server.connect();
                stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
                let _ = stream
                    .write_all(head.as_bytes())
                    .and_then(|()| stream.write_all(long.as_bytes()));
                while !enough.load(Ordering::Relaxed)
                    && stream
                        .read(&mut [0; 1 << 16])
                        .is_err_and(|e| e.kind() == ErrorKind::WouldBlock)
                {
                    std::thread::yield_now();
                }
            }
        });
        server.wait_until("a refusal", || {
            let reply = server.predict(&some);
            assert!(is_well(&server), "short requests do not wait for long ones");
            reply.status == 503 && reply.header("retry-after") == Some("1")
        });
    });
    server.wait_until("room", || server.predict(&some).status == 200);
}

/// Part of a head, or nothing at all: neither takes a place from others.
#[test]
fn idle_connections_keep_nobody_out() {
    let limits = ["--max-connections", "60", "--max-connections-per-address", "40"];
    let server = start(&[&limits[..], &["--head-timeout", "10m"]].concat());
    let mut known = server.connect();
    let mut ask = || {
        // Whoever may see the bundles is known; anybody may ask for the health.
        known.write_all(b"GET /bundles HTTP/1.1\r\nHost: t\r\n\r\n").expect("sent");
        let mut reply = [0; 12];
        known.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"HTTP/1.1 200");
        while !known.read(&mut [0; 4096]).is_ok_and(|read| read < 4096) {}
    };
    ask();
    let strangers: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stranger = server.connect();
            if number % 2 == 0 {
                let _ = stranger.write_all(b"GET /healthz HTTP/1.1\r\nHost: slow");
            }
            stranger
        })
        .collect();
    for _ in 0..5 {
        assert!(is_well(&server));
    }
    ask();
    assert!(server.metric("vitempo_http_connections_displaced_total") >= 160.0);
    assert!(server.metric("vitempo_http_connections") <= 41.0, "one may be about to end");
    drop(strangers);
    assert!(is_well(&server) && !server.log().contains("panic"), "{}", server.log());
}

/// Where requests under way take all places of an address, one more connection is refused at once.
#[test]
fn a_connection_over_the_limit_is_refused() {
    let server = start(&["--max-connections-per-address", "6", "--timeout", "10m"]);
    let slow = || {
        let mut stream = server.connect();
        let head = b"POST /predict HTTP/1.1\r\nHost: slow\r\nContent-Type: \
            application/json\r\nContent-Length: 50\r\n\r\n{";
        stream.write_all(head).expect("sent");
        stream
    };
    let under_way: Vec<TcpStream> = (0..5).map(|_| slow()).collect();
    server.wait_until("five requests", || server.in_flight() == 5);
    let more = std::cell::RefCell::new(Vec::new());
    server.wait_until("a refusal", || {
        // One whose head has not been read yet is displaced by the question.
        more.borrow_mut().push(slow());
        let reply = server.get("/healthz");
        let is_refused = reply.status == 503;
        assert!(!is_refused || reply.header("connection") == Some("close"), "{}", reply.head);
        assert!(!is_refused || reply.json()["detail"].is_string());
        is_refused
    });
    drop((under_way, more));
    server.wait_until("a place", || server.get("/healthz").status == 200);
    assert!(server.metric("vitempo_http_connections_refused_total") >= 1.0);
}

/// Requests that are refused for want of a token do not take the places of those that have one.
#[test]
fn bodies_of_strangers_take_no_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    fs::write(&file, "a-token-of-32-characters-or-so").expect("a file");
    permit(&file, 0o600);
    let file = file.display().to_string();
    let server = start(&["--token-file", &file, "--max-connections-per-address", "4"]);
    let _strangers: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = server.connect();
            let head = b"POST /predict HTTP/1.1\r\nHost: t\r\nContent-Length: 50\r\n\r\n{";
            let _ = stream.write_all(head);
            stream
        })
        .collect();
    let known = ["Authorization: Bearer a-token-of-32-characters-or-so"];
    server.wait_until("an answer", || {
        // A stranger whose head is being read at this very moment counts as under way.
        let reply = server.ask("GET", "/bundles", &known, b"");
        assert!(reply.status == 200 || reply.status == 503, "{}", reply.head);
        reply.status == 200
    });
}

/// An answer takes memory until it is read; what does not fit is refused, and small ones always
/// fit.
#[test]
fn unread_answers_take_the_memory_of_bodies() {
    let limits = ["--max-body", "8MiB", "--max-response", "24MiB", "--memory", "24MiB"];
    let server = start(&[&limits[..], &["--timeout", "10m"]].concat());
    let encodings = &Trained::get().encodings;
    let many = encodings.iter().cycle().take(40_000).collect::<Vec<_>>();
    let large = serde_json::json!({"encodings": many});
    let body = large.to_string();
    let mut unread = server.connect();
    let head = format!(
        "POST /predict HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Type: \
        application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    unread
        .write_all(head.as_bytes())
        .and_then(|()| unread.write_all(body.as_bytes()))
        .expect("sent");
    let used = || server.metric("vitempo_memory_used_bytes");
    // The system's buffers take some of it.
    server.wait_until("an answer that is not read", || used() > 4e6 && server.in_flight() == 0);
    let refused = server.predict(&large);
    assert_eq!(refused.status, 503, "{}", refused.head);
    assert!(refused.json()["detail"].as_str().is_some_and(|detail| detail.contains("memory")));
    assert!(used() <= f64::from(24 << 20) && is_well(&server));
    let reply = read_reply(&mut unread).expect("the answer");
    assert_eq!(reply.json()["results"].as_array().map(Vec::len), Some(many.len()));
    server.wait_until("all memory", || used() == 0.0);
    assert_eq!(server.predict(&large).status, 200);
    drop(unread);
    server.wait_until("all memory", || used() == 0.0);
}

/// Small files that ask for terabytes or hours: each is answered, and the server works on.
#[test]
fn hostile_models_are_answered() {
    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                files(&path, found);
            } else if path.extension().is_some_and(|e| e == "onnx") {
                found.push(path);
            }
        }
    }
    let bundle = |name: &str| {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("bundles");
        folder.join(format!("{name}.vtb")).display().to_string()
    };
    let (litert, int8) = (bundle("epyc-litert-f32-1t"), bundle("epyc-onnxruntime-int8-1t"));
    let running = Running::start_with(&["--bundle", &litert, "--bundle", &int8]);
    let mut found = Vec::new();
    let hostile = concat!(env!("CARGO_MANIFEST_DIR"), "/../graph/tests/hostile");
    files(Path::new(hostile), &mut found);
    assert!(found.len() >= 70, "{} files", found.len());
    for file in &found {
        let model = fs::read(file).expect("a file");
        for path in ["/predict", "/predict?size=65536&size=224x320&size=1"] {
            let media = ["Content-Type: application/octet-stream"];
            let status = running.ask("POST", path, &media, &model).status;
            assert!(status == 200 || (400..500).contains(&status), "{}: {status}", file.display());
        }
    }
    assert_eq!(running.ask("GET", "/healthz", &[], &[]).status, 200);
    assert!(!running.log().contains("panicked"), "{}", running.log());
}
