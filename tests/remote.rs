//! `vitempo agent` and `vitempo profile --remote`: the real programs on loopback, the line cut
//! between them, and others who try the agent's patience. Nothing here measures time.

mod program;

use program::{Folder, PROGRAM, command, json, ok, refused, shipped, text, vitempo};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Child, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, sleep},
    time::Duration,
};

const SECRET: &str = "for-tests-only-and-for-nothing-else";

/// An agent that is killed when the test ends.
struct Running {
    child: Child,
    address: String,
    folder: Folder,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let folder = Folder::new();
        folder.file("secret", SECRET);
        let (child, address) = Self::spawn(&folder, "127.0.0.1:0", args);
        Self { child, address, folder }
    }

    fn spawn(folder: &Folder, listen: &str, args: &[&str]) -> (Child, String) {
        let log =
            File::options().create(true).append(true).open(folder.path("log")).expect("a file");
        let mut command = command();
        command
            .args([
                "agent",
                "--listen",
                listen,
                "--secret-file",
                &folder.path("secret"),
                "--folder",
                &folder.path("agent"),
            ])
            .args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("vitempo starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output"))
            .read_line(&mut line)
            .expect("a line");
        let address = line.trim().strip_prefix("listening on ").map(str::to_owned);
        (
            child,
            address.unwrap_or_else(|| {
                panic!(
                    "it does not listen: {}",
                    fs::read_to_string(folder.path("log")).unwrap_or_default()
                )
            }),
        )
    }

    /// The agent dies at once, and another comes to life in its place.
    fn restart(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        (self.child, self.address) = Self::spawn(&self.folder, &self.address, &[]);
    }

    fn secret(&self) -> String {
        self.folder.path("secret")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path("log")).unwrap_or_default()
    }

    fn said(&self, what: &str) -> usize {
        self.log().matches(what).count()
    }

    /// Looks again and again until it is so; gives up after minutes.
    fn wait_until(&self, what: &str, so: impl Fn() -> bool) {
        for _ in 0..12_000 {
            if so() {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        panic!("{what} never came; the log:\n{}", self.log());
    }

    /// Arguments that measure through it, or through what leads to it.
    fn measure<'a>(&self, through: &'a str, secret: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
        [&["profile", "--remote", through, "--secret-file", secret], rest].concat()
    }

    /// Whether it still measures.
    fn is_well(&self) -> bool {
        let (secret, out, model) = (self.secret(), Folder::new(), shipped("edgenext_xx_small"));
        let args = [model.as_str(), "--backend", "null", "--out", &out.path("data")];
        json(&self.measure(&self.address, &secret, &args))["measured"] == 1
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        // A test that waits for ever would not fail.
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a socket");
        stream
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a connection through a [`Proxy`] is cut.
#[derive(Clone, Copy)]
enum Cut {
    /// After so many bytes to the agent.
    ToAgent(usize),
    /// After so many bytes to the client.
    ToClient(usize),
    /// When so many visits have begun over it.
    DuringVisit(usize),
}

/// Stands between client and agent, and cuts the first connections as it was told.
struct Proxy {
    address: String,
    cut: Arc<AtomicUsize>,
}

impl Proxy {
    fn start(agent: &Running, cuts: &[Cut]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let cut = Arc::new(AtomicUsize::new(0));
        let (behind, counted, log) =
            (agent.address.clone(), Arc::clone(&cut), agent.folder.path("log"));
        let own = cuts.to_vec();
        thread::spawn(move || {
            let mut cuts = own.into_iter();
            for client in listener.incoming().flatten() {
                let Ok(agent) = TcpStream::connect(&behind) else { continue };
                let cut = cuts.next();
                let ends = Arc::new(Mutex::new((
                    client.try_clone().expect("a socket"),
                    agent.try_clone().expect("a socket"),
                )));
                let both = |limit: Option<usize>, mut from: TcpStream, mut to: TcpStream| {
                    let (ends, counted) = (Arc::clone(&ends), Arc::clone(&counted));
                    thread::spawn(move || {
                        pump(&mut from, &mut to, limit, || sever(&ends, &counted));
                    });
                };
                let (to_agent, to_client) = match cut {
                    Some(Cut::ToAgent(bytes)) => (Some(bytes), None),
                    Some(Cut::ToClient(bytes)) => (None, Some(bytes)),
                    Some(Cut::DuringVisit(_)) | None => (None, None),
                };
                both(
                    to_agent,
                    client.try_clone().expect("a socket"),
                    agent.try_clone().expect("a socket"),
                );
                both(to_client, agent, client);
                if let Some(Cut::DuringVisit(visits)) = cut {
                    let begun = || {
                        fs::read_to_string(&log).unwrap_or_default().matches(": measuring ").count()
                    };
                    let before = begun();
                    while begun() < before + visits {
                        sleep(Duration::from_millis(5));
                    }
                    sever(&ends, &counted);
                }
            }
        });
        Self { address, cut }
    }

    fn cuts(&self) -> usize {
        self.cut.load(Ordering::SeqCst)
    }
}

fn sever(ends: &Mutex<(TcpStream, TcpStream)>, counted: &AtomicUsize) {
    counted.fetch_add(1, Ordering::SeqCst);
    let ends = ends.lock().expect("a lock");
    let _ = ends.0.shutdown(Shutdown::Both);
    let _ = ends.1.shutdown(Shutdown::Both);
}

/// Hands bytes on, so many and no more.
fn pump(from: &mut TcpStream, to: &mut TcpStream, limit: Option<usize>, cut: impl FnOnce()) {
    let (mut buffer, mut left) = ([0; 4096], limit.unwrap_or(usize::MAX));
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let passed = count.min(left);
        if to.write_all(&buffer[..passed]).is_err() {
            break;
        }
        left -= passed;
        if left == 0 {
            return cut();
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// What a dataset holds, once it has been found valid: model, round, status and number of operators
/// of each visit, sorted.
fn visits(data: &str) -> Vec<(String, u64, String, u64)> {
    let validated = json(&["dataset", "validate", data]);
    assert_eq!(validated["valid"], true, "{validated}");
    let table: serde_json::Value = serde_json::from_str(&ok(&[
        "dataset",
        "export",
        data,
        "--table",
        "model_measurements",
        "--format",
        "json",
    ]))
    .expect("JSON on standard output");
    let field = |row: &serde_json::Value, name: &str| {
        row[name].as_str().map(str::to_owned).unwrap_or_else(|| panic!("{name} in {row}"))
    };
    let number = |row: &serde_json::Value, name: &str| {
        row[name].as_u64().unwrap_or_else(|| panic!("{name} in {row}"))
    };
    let visit = |row: &serde_json::Value| {
        (field(row, "model"), number(row, "round"), field(row, "status"), number(row, "operators"))
    };
    let mut visits: Vec<_> = table.as_array().expect("rows").iter().map(visit).collect();
    visits.sort();
    visits
}

/// Short visits.
const SHORT: [&str; 6] = ["--min-repeats", "2", "--max-repeats", "2", "--profiled-repeats", "2"];

#[test]
fn rows_from_an_agent_are_those_of_its_machine() {
    let (agent, folder) = (Running::start(&[]), Folder::new());
    let (secret, there, here) = (agent.secret(), folder.path("there"), folder.path("here"));
    let models = [shipped("edgenext_xx_small"), shipped("mobilevit_xxs")];
    let rest =
        [&[models[0].as_str(), &models[1], "--backend", "rten", "--rounds", "2"], SHORT.as_slice()]
            .concat();
    let remote =
        json(&[agent.measure(&agent.address, &secret, &rest), vec!["--out", &there]].concat());
    let local = json(&[&["profile"], rest.as_slice(), &["--out", &here]].concat());
    assert_eq!((&remote["measured"], &remote["environment"]), (&4.into(), &local["environment"]));
    assert_eq!(visits(&there), visits(&here));
    assert_eq!(agent.said(": measuring "), 4);
    // What is there is not measured again; what is not, is, and the model is at the agent's
    // already.
    let again =
        json(&[agent.measure(&agent.address, &secret, &rest), vec!["--out", &there]].concat());
    assert_eq!((&again["measured"], &again["skipped"]), (&0.into(), &4.into()));
    let kept = fs::read_dir(agent.folder.path("agent/models")).expect("a folder").count();
    assert_eq!(kept, 2, "each model once");
    // Operators on their own need no file.
    let ops = ["--ops", "softmax", "--backend", "rten", "--out", &folder.path("ops")];
    let ops = json(&agent.measure(
        &agent.address,
        &secret,
        &[&[models[1].as_str()], SHORT.as_slice(), &ops].concat(),
    ));
    assert!(ops["measured"].as_u64() > Some(0) && ops["failed"] == serde_json::json!([]), "{ops}");
}

#[test]
fn a_line_that_is_cut_costs_no_row_and_makes_none_twice() {
    let (agent, folder) = (Running::start(&[]), Folder::new());
    // While a model or a question is sent, in the middle of a visit, in the middle of an answer. No
    // visit is cut more than twice.
    let cuts = [
        Cut::ToAgent(2_000),
        Cut::DuringVisit(2),
        Cut::ToClient(6_000),
        Cut::DuringVisit(3),
        Cut::ToAgent(30_000),
    ];
    let proxy = Proxy::start(&agent, &cuts);
    let (secret, data) = (agent.secret(), folder.path("data"));
    ok(&["sample", "--count", "2", "--seed", "5", "--no-weights", "--out", &folder.path("models")]);
    let (models, real) = (folder.path("models"), shipped("vit_tiny_patch16_224"));
    let rest = [
        models.as_str(),
        &real,
        "--backend",
        "rten",
        "--rounds",
        "2",
        "--out",
        &data,
        "--format",
        "json",
    ];
    let output = vitempo(&agent.measure(&proxy.address, &secret, &rest));
    let (told, summary) = (text(&output.stderr), text(&output.stdout));
    assert!(output.status.success(), "{told}");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(
        (&summary["measured"], &summary["failed"], &summary["left"]),
        (&6.into(), &serde_json::json!([]), &0.into()),
        "{told}"
    );
    assert_eq!(
        (proxy.cuts(), told.matches("this model run is made again").count()),
        (5, 5),
        "{told}"
    );
    let visits = visits(&data);
    let distinct: std::collections::BTreeSet<_> = visits.iter().map(|v| (&v.0, v.1)).collect();
    assert_eq!((visits.len(), distinct.len()), (6, 6), "{visits:?}");
    assert!(visits.iter().all(|v| v.2 == "ok" && v.3 > 10), "{visits:?}");
    // Those that were cut in the middle, and the one whose answer was, were made again.
    assert!(agent.said(": measuring ") >= 9, "{}", agent.log());
}

#[test]
fn an_agent_that_dies_in_a_visit_is_found_again_when_it_is_back() {
    let (mut agent, folder) = (Running::start(&[]), Folder::new());
    let (secret, data, model) =
        (agent.secret(), folder.path("data"), shipped("vit_tiny_patch16_224"));
    let address = agent.address.clone();
    let sweep = agent.measure(
        &address,
        &secret,
        &[&model, "--backend", "rten", "--rounds", "3", "--out", &data, "--format", "json"],
    );
    let sweep = command()
        .args(sweep)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("vitempo starts");
    for visits in [1, 3] {
        agent.wait_until("a visit", || agent.said(": measuring ") >= visits);
        agent.restart();
    }
    let output = sweep.wait_with_output().expect("its end");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("was cut"), "{}", text(&output.stderr));
    assert_eq!(
        visits(&data).iter().map(|v| (v.1, v.2.as_str())).collect::<Vec<_>>(),
        [(0, "ok"), (1, "ok"), (2, "ok")]
    );
}

#[test]
fn an_agent_that_stays_away_ends_the_sweep_and_the_same_command_goes_on() {
    let (mut agent, folder) = (Running::start(&[]), Folder::new());
    let (secret, data, model) =
        (agent.secret(), folder.path("data"), shipped("vit_tiny_patch16_224"));
    let address = agent.address.clone();
    let rest = [
        model.as_str(),
        "--backend",
        "rten",
        "--rounds",
        "2",
        "--remote-tries",
        "3",
        "--out",
        &data,
        "--format",
        "json",
    ];
    let args = agent.measure(&address, &secret, &rest);
    let sweep = command()
        .args(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("vitempo starts");
    agent.wait_until("a second visit", || agent.said(": measuring ") == 2);
    let _ = agent.child.kill();
    let output = sweep.wait_with_output().expect("its end");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("(2 of 3 tries)")
            && told.contains("error: gave up after 3 tries")
            && told.contains("goes on with what is missing"),
        "{told}"
    );
    agent.restart();
    let summary = json(&args[..args.len() - 2]);
    assert_eq!((&summary["measured"], &summary["skipped"]), (&1.into(), &1.into()));
    assert_eq!(
        visits(&data).iter().map(|v| (v.1, v.2.as_str())).collect::<Vec<_>>(),
        [(0, "ok"), (1, "ok")]
    );
}

#[test]
fn a_visit_that_cuts_the_line_every_time_has_failed_and_the_sweep_goes_on() {
    let (agent, folder) = (Running::start(&[]), Folder::new());
    let proxy = Proxy::start(&agent, &[Cut::ToClient(6_000); 3]);
    let (secret, data) = (agent.secret(), folder.path("data"));
    let models = [shipped("edgenext_xx_small"), shipped("mobilevit_xxs")];
    let rest = [models[0].as_str(), &models[1], "--backend", "null", "--out", &data];
    let summary = json(&agent.measure(&proxy.address, &secret, &rest));
    assert_eq!(
        (&summary["measured"], summary["failed"].as_array().map(Vec::len)),
        (&1.into(), Some(1)),
        "{summary}"
    );
    assert!(
        summary["failed"][0]["reason"]
            .as_str()
            .is_some_and(|r| r.contains("in each of 3 model runs")),
        "{summary}"
    );
    let mut statuses: Vec<_> = visits(&data).into_iter().map(|v| v.2).collect();
    statuses.sort();
    assert_eq!(statuses, ["failed", "ok"]);
}

#[test]
fn the_line_can_be_a_programs_stdin_and_stdout() {
    let folder = Folder::new();
    let command = format!("{} agent --stdio --folder {}", PROGRAM, folder.path("agent"));
    let args = [
        "profile",
        &shipped("edgenext_xx_small"),
        "--remote",
        &command,
        "--backend",
        "null",
        "--out",
        &folder.path("data"),
    ];
    assert_eq!(json(&args)["measured"], 1);
    assert_eq!(visits(&folder.path("data")).len(), 1);
    let nothing = [
        "profile",
        &shipped("edgenext_xx_small"),
        "--backend",
        "null",
        "--out",
        &folder.path("none"),
        "--remote",
    ];
    let silent = refused(&[nothing.as_slice(), &["/bin/true"]].concat());
    assert!(
        silent.contains("said nothing") && silent.contains("try the command by itself"),
        "{silent}"
    );
    let talker = refused(&[nothing.as_slice(), &["echo Welcome to this board"]].concat());
    assert!(
        talker.contains("is no vitempo agent") && talker.contains("Welcome to this board"),
        "{talker}"
    );
    let absent = refused(&[nothing.as_slice(), &["/nonexistent/ssh board"]].concat());
    assert!(absent.contains("no agent at `/nonexistent/ssh board`"), "{absent}");
    assert!(!std::path::Path::new(&folder.path("none")).exists(), "a dataset was made for nothing");
}

#[test]
fn who_may_not_measure_is_told_why() {
    let (agent, folder) = (Running::start(&[]), Folder::new());
    let (model, data, secret) = (shipped("edgenext_xx_small"), folder.path("data"), agent.secret());
    let rest = [model.as_str(), "--backend", "null", "--out", &data];
    let wrong = folder.file("wrong", "another-secret-altogether");
    let error = refused(&agent.measure(&agent.address, &wrong, &rest));
    assert!(
        error.contains("has another secret") && error.contains("VITEMPO_AGENT_SECRET"),
        "{error}"
    );
    agent.wait_until("the refusal", || {
        agent.said("refused: a message was damaged, or comes from somebody with another secret")
            == 1
    });
    let short = folder.file("short", "guess");
    assert!(
        refused(&agent.measure(&agent.address, &short, &rest)).contains("at least 16 characters")
    );
    let error = refused(&[&["profile", "--remote", &agent.address], rest.as_slice()].concat());
    assert!(error.contains("none is known here") && error.contains("--secret-file"), "{error}");
    let engine = [model.as_str(), "--backend", "nope", "--out", &data];
    let error = refused(&agent.measure(&agent.address, &secret, &engine));
    assert!(error.contains("no backend is called `nope`") && error.contains("rten"), "{error}");
    let cores = [model.as_str(), "--backend", "null", "--cores", "99999", "--out", &data];
    assert!(
        refused(&agent.measure(&agent.address, &secret, &cores))
            .contains("core 99999 is not there")
    );
    let threads = [model.as_str(), "--backend", "null", "--threads", "99999", "--out", &data];
    assert!(
        refused(&agent.measure(&agent.address, &secret, &threads))
            .contains("make sense (--threads)")
    );
    assert!(
        !vitempo(&agent.measure(
            &agent.address,
            &secret,
            &[rest.as_slice(), &["--library", "/etc/passwd"]].concat()
        ))
        .status
        .success()
    );
    let free =
        TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").to_string();
    let error = refused(&agent.measure(&free, &secret, &rest));
    assert!(
        error.contains(&format!("no agent at {free}")) && error.contains("vitempo agent"),
        "{error}"
    );
    assert!(agent.is_well() && !agent.log().contains("panicked"), "{}", agent.log());
}

#[test]
fn others_than_agents_are_recognised() {
    let folder = Folder::new();
    let secret = folder.file("secret", "a-secret-that-nobody-asks-for");
    let newer = format!("vitempo-agent 2 9.9.9 {}\n", "0".repeat(64));
    for (greeting, parts) in [
        ("SSH-2.0-OpenSSH_9.2\r\n", ["is no vitempo agent", "SSH-2.0"]),
        (newer.as_str(), ["is vitempo 9.9.9 (protocol 2)", "the same vitempo on both machines"]),
        ("", ["said nothing", "forwarded port"]),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let greeting = greeting.to_owned();
        thread::spawn(move || {
            listener.accept().and_then(|(mut stream, _)| stream.write_all(greeting.as_bytes()))
        });
        let args = [
            "profile",
            &shipped("edgenext_xx_small"),
            "--remote",
            &address,
            "--secret-file",
            &secret,
            "--out",
            &folder.path("data"),
        ];
        let error = refused(&args);
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn one_measures_at_a_time_and_the_next_one_is_let_in_when_the_first_leaves() {
    let (agent, folder) = (Running::start(&[]), Folder::new());
    let (secret, model) = (agent.secret(), shipped("vit_tiny_patch16_224"));
    let (first, second) = (folder.path("first"), folder.path("second"));
    let long = agent.measure(
        &agent.address,
        &secret,
        &[&model, "--backend", "rten", "--rounds", "1000", "--out", &first],
    );
    let mut sweep = command()
        .args(long)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("vitempo starts");
    agent.wait_until("a visit", || agent.said(": measuring ") > 0);
    let error = refused(&agent.measure(
        &agent.address,
        &secret,
        &[&model, "--backend", "null", "--out", &second],
    ));
    let stdio = format!("{} agent --stdio --folder {}", PROGRAM, agent.folder.path("agent"));
    let beside =
        refused(&["profile", &model, "--remote", &stdio, "--backend", "null", "--out", &second]);
    let _ = sweep.kill();
    let _ = sweep.wait();
    for error in [error, beside] {
        assert!(error.contains("is measuring for another client"), "{error}");
    }
    agent.wait_until("its end", || {
        agent.said("the line was closed") + agent.said("the line broke") > 0
    });
    assert!(agent.is_well());
}

#[test]
fn noise_silence_and_too_much_do_not_harm_the_agent() {
    let agent = Running::start(&["--silence-limit", "1s"]);
    let greeted = || {
        let mut stream = agent.connect();
        let mut greeting = String::new();
        BufReader::new(stream.try_clone().expect("a socket"))
            .read_line(&mut greeting)
            .expect("a greeting");
        assert!(
            greeting.starts_with("vitempo-agent 1 ") && !greeting.contains("secret"),
            "{greeting}"
        );
        let reply = greeting.replacen("vitempo-agent", "vitempo-client", 1);
        stream.write_all(reply.as_bytes()).expect("sent");
        stream
    };
    let ends = |mut stream: TcpStream| {
        let _ = stream.read_to_end(&mut Vec::new());
    };
    // Who says nothing, before and after the greeting, holds nobody up.
    let silent = [agent.connect(), greeted()];
    let mut noise = agent.connect();
    let _ = noise.write_all(&[0xff; 100_000]);
    ends(noise);
    let mut garbage = greeted();
    let _ = garbage.write_all(&[0x07; 4096]);
    ends(garbage);
    let mut huge = greeted();
    let _ = huge.write_all(&u32::MAX.to_le_bytes());
    let _ = huge.write_all(&[0; 4096]);
    ends(huge);
    let mut http = agent.connect();
    let _ = http.write_all(b"GET / HTTP/1.1\r\nHost: agent\r\n\r\n");
    ends(http);
    assert!(agent.is_well(), "{}", agent.log());
    silent.into_iter().for_each(ends);
    for part in ["is no vitempo", "said nothing for too long", "at most 1024 are taken"] {
        assert!(agent.log().contains(part), "{part}: {}", agent.log());
    }
    assert!(!agent.log().contains("panicked"), "{}", agent.log());
}

#[test]
fn who_knows_the_secret_has_limits_too() {
    let (agent, folder) = (Running::start(&["--max-message", "1kB"]), Folder::new());
    let (secret, model) = (agent.secret(), shipped("vit_tiny_patch16_224"));
    // Models come in pieces; what is too large is the question about one with so many operators.
    let error = refused_after_rows(&agent.measure(
        &agent.address,
        &secret,
        &[&model, "--backend", "null", "--out", &folder.path("data")],
    ));
    assert!(
        error.contains("refused: a message of") && error.contains("at most 65536 are taken"),
        "{error}"
    );
}

#[test]
fn a_model_that_does_not_fit_is_a_row_with_its_reason() {
    let (agent, folder) = (Running::start(&["--cache-size", "1kB"]), Folder::new());
    let (secret, data, model) = (agent.secret(), folder.path("data"), shipped("edgenext_xx_small"));
    let error = refused_after_rows(&agent.measure(
        &agent.address,
        &secret,
        &[&model, "--backend", "null", "--out", &data],
    ));
    assert!(
        error.contains("does not fit into the agent's 1000 bytes")
            && error.contains("--cache-size"),
        "{error}"
    );
    assert_eq!(visits(&data).len(), 1);
}

/// Standard error of a sweep that measured nothing; it prints its summary all the same.
fn refused_after_rows(args: &[&str]) -> String {
    let output = vitempo(args);
    assert_eq!(output.status.code(), Some(1));
    text(&output.stderr)
}

#[test]
fn an_agent_says_what_it_lacks_before_it_begins() {
    let folder = Folder::new();
    let error = command().args(["agent", "--folder", &folder.path("a")]).output();
    let error = text(&error.expect("vitempo starts").stderr);
    assert!(error.contains("needs a secret") && error.contains("openssl rand -hex 32"), "{error}");
    let secret = folder.file("secret", "a-secret-that-nobody-asks-for");
    let file = folder.file("file", "");
    let error = refused(&["agent", "--secret-file", &secret, "--folder", &file]);
    assert!(error.contains("cannot use the folder") && error.contains("--folder"), "{error}");
    let error = refused(&[
        "agent",
        "--secret-file",
        &secret,
        "--folder",
        &folder.path("a"),
        "--listen",
        "192.0.2.1:7411",
    ]);
    assert!(error.contains("cannot listen on 192.0.2.1:7411"), "{error}");
    let checked = json(&["agent", "--check", "--folder", &folder.path("a")]);
    assert_eq!(
        (&checked["address"], &checked["engines"][0]["backend"]),
        (&"127.0.0.1:7411".into(), &"rten".into())
    );
}
