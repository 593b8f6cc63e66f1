//! `vitempo agent` and `vitempo profile --remote`: the real programs, connected by a command, with
//! connections that break at every point. No test measures time.

mod program;

use program::{Folder, PROGRAM, command, json, ok, refused, shipped, text, vitempo};
use std::{
    fs,
    io::Write,
    process::{Output, Stdio},
    thread::sleep,
    time::Duration,
};

/// Starts an agent. The n-th start follows line n of `breaks`: `to-agent N` and `to-client N` pass
/// so many bytes, `run N` kills the agent when so many model runs have begun, `away` starts none.
/// `dd` passes bytes on as they arrive; a shell's background process needs its stdin by number.
const BOARD: &str = r#"
cd "$(dirname "$0")" && touch starts breaks log && echo >> starts
set -- $(sed -n "$(wc -l < starts)p" breaks)
case "$1" in
to-agent) dd bs=1 count="$2" 2> dd | @AGENT@ 2>> log ;;
to-client) @AGENT@ 2>> log | dd bs=1 count="$2" 2> dd ;;
run)
    exec 3<&0
    last=$(($(grep -c measuring log) + $2))
    @AGENT@ <&3 2>> log &
    while kill -0 $! && [ "$(grep -c measuring log)" -lt $last ]; do sleep 0.01; done
    kill -9 $! ;;
away) ;;
*) exec @AGENT@ 2>> log ;;
esac
"#;

/// A machine whose agent a command starts.
struct Board {
    folder: Folder,
}

impl Board {
    fn new(args: &str, breaks: &[&str]) -> Self {
        let folder = Folder::new();
        let agent = format!("{PROGRAM} agent --verbose --folder agent {args}");
        folder.file("board.sh", BOARD.replace("@AGENT@", &agent));
        folder.file("breaks", breaks.iter().map(|line| format!("{line}\n")).collect::<String>());
        Self { folder }
    }

    fn command(&self) -> String {
        format!("sh {}", self.folder.path("board.sh"))
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
}

/// Arguments that measure through a command.
fn measure<'a>(through: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&["profile", "--remote", through], rest].concat()
}

/// What a dataset holds, once it has been found valid: model, round, status and number of operators
/// of each model run, sorted.
fn runs(data: &str) -> Vec<(String, u64, String, u64)> {
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
    let run = |row: &serde_json::Value| {
        (field(row, "model"), number(row, "round"), field(row, "status"), number(row, "operators"))
    };
    let mut runs: Vec<_> = table.as_array().expect("rows").iter().map(run).collect();
    runs.sort();
    runs
}

/// Short model runs.
const SHORT: [&str; 6] = ["--min-repeats", "2", "--max-repeats", "2", "--profiled-repeats", "2"];

#[test]
fn rows_from_an_agent_are_those_of_its_machine() {
    let (board, folder) = (Board::new("", &[]), Folder::new());
    let (command, there, here) = (board.command(), folder.path("there"), folder.path("here"));
    let models = [shipped("edgenext_xx_small"), shipped("mobilevit_xxs")];
    let rest =
        [&[models[0].as_str(), &models[1], "--backend", "rten", "--rounds", "2"], SHORT.as_slice()]
            .concat();
    let remote = json(&[measure(&command, &rest), vec!["--out", &there]].concat());
    let local = json(&[&["profile"], rest.as_slice(), &["--out", &here]].concat());
    assert_eq!((&remote["measured"], &remote["environment"]), (&4.into(), &local["environment"]));
    assert_eq!(runs(&there), runs(&here));
    assert_eq!(board.said("measuring "), 4);
    // What is there is not measured again; what is not, is, and the agent has the model already.
    let again = json(&[measure(&command, &rest), vec!["--out", &there]].concat());
    assert_eq!((&again["measured"], &again["skipped"]), (&0.into(), &4.into()));
    let kept = fs::read_dir(board.folder.path("agent/models")).expect("a folder").count();
    assert_eq!(kept, 2, "each model once");
    // Operators on their own need no file.
    let ops = ["--ops", "softmax", "--backend", "rten", "--out", &folder.path("ops")];
    let ops = [&[models[1].as_str()], SHORT.as_slice(), &ops].concat();
    let ops = json(&measure(&command, &ops));
    assert!(ops["measured"].as_u64() > Some(0) && ops["failed"] == serde_json::json!([]), "{ops}");
}

#[test]
fn a_connection_that_breaks_costs_no_row_and_makes_none_twice() {
    // While a model or a question is sent, in the middle of a model run, in the middle of an
    // answer. No model run is broken more than twice.
    let breaks = ["to-agent 2000", "run 2", "to-client 6000", "run 3", "to-agent 30000"];
    let (board, folder) = (Board::new("", &breaks), Folder::new());
    let (command, data, models) = (board.command(), folder.path("data"), folder.path("models"));
    ok(&["sample", "--count", "2", "--seed", "5", "--no-weights", "--out", &models]);
    let real = shipped("vit_tiny_patch16_224");
    let rest = [&models, real.as_str(), "--backend", "rten", "--rounds", "2", "--out", &data];
    let args = [measure(&command, &rest), vec!["--format", "json"]].concat();
    let output = vitempo(&args);
    let (notices, summary) = (text(&output.stderr), text(&output.stdout));
    assert!(output.status.success(), "{notices}");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(
        (&summary["measured"], &summary["failed"], &summary["left"]),
        (&6.into(), &serde_json::json!([]), &0.into()),
        "{notices}"
    );
    assert_eq!(notices.matches(" broke: ").count(), 5, "{notices}");
    let runs = runs(&data);
    let distinct: std::collections::BTreeSet<_> = runs.iter().map(|v| (&v.0, v.1)).collect();
    assert_eq!((runs.len(), distinct.len()), (6, 6), "{runs:?}");
    assert!(runs.iter().all(|v| v.2 == "ok" && v.3 > 10), "{runs:?}");
    // Those that were broken in the middle, and the one whose answer was, were repeated.
    assert!(board.said("measuring ") >= 8, "{}", board.log());
}

#[test]
fn an_agent_that_stays_away_ends_the_sweep_and_the_same_command_goes_on() {
    let (board, folder) = (Board::new("", &["run 2", "away", "away", "away"]), Folder::new());
    let (command, data) = (board.command(), folder.path("data"));
    let model = shipped("vit_tiny_patch16_224");
    let rest = ["--backend", "rten", "--rounds", "2", "--remote-tries", "3", "--out", &data];
    let args = measure(&command, &[&[model.as_str()], rest.as_slice()].concat());
    let output = vitempo(&args);
    let notices = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{notices}");
    assert!(
        notices.contains("(2 of 3 tries)")
            && notices.contains("error: gave up after 3 tries")
            && notices.contains("continues with the missing ones"),
        "{notices}"
    );
    let summary = json(&args);
    assert_eq!((&summary["measured"], &summary["skipped"]), (&1.into(), &1.into()));
    assert_eq!(
        runs(&data).iter().map(|v| (v.1, v.2.as_str())).collect::<Vec<_>>(),
        [(0, "ok"), (1, "ok")]
    );
}

#[test]
fn a_model_run_that_breaks_the_connection_every_time_has_failed_and_the_sweep_goes_on() {
    let (board, folder) = (Board::new("", &["to-client 6000"; 3]), Folder::new());
    let (command, data) = (board.command(), folder.path("data"));
    let models = [shipped("edgenext_xx_small"), shipped("mobilevit_xxs")];
    let rest = [models[0].as_str(), &models[1], "--backend", "null", "--out", &data];
    let summary = json(&measure(&command, &rest));
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
    let mut statuses: Vec<_> = runs(&data).into_iter().map(|v| v.2).collect();
    statuses.sort();
    assert_eq!(statuses, ["failed", "ok"]);
}

#[test]
fn commands_that_lead_to_no_agent_are_recognised() {
    let folder = Folder::new();
    let (model, data) = (shipped("edgenext_xx_small"), folder.path("none"));
    let newer = folder.file("newer.sh", "echo vitempo-agent 3 9.9.9");
    for (command, parts) in [
        ("/bin/true", ["sent nothing", "run the command by itself"]),
        ("echo Welcome to this board", ["is not a vitempo agent", "Welcome to this board"]),
        (&format!("sh {newer}"), ["is vitempo 9.9.9 (protocol 3)", "the same vitempo on both"]),
        ("/nonexistent/ssh board", ["cannot start `/nonexistent/ssh board`", "must not prompt"]),
        ("board:7411", ["agents do not listen", "`ssh board vitempo-agent`"]),
    ] {
        let rest = [model.as_str(), "--backend", "null", "--out", &data];
        let output = vitempo(&measure(command, &rest));
        let error = text(&output.stderr);
        assert!(!output.status.success() && !error.contains("panicked"), "{error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    assert!(!std::path::Path::new(&data).exists(), "a dataset was made for nothing");
}

#[test]
fn what_an_agent_cannot_measure_is_refused_with_the_reason() {
    let (board, folder) = (Board::new("", &[]), Folder::new());
    let (command, model, data) =
        (board.command(), shipped("edgenext_xx_small"), folder.path("data"));
    let refusal = |rest: &[&str]| {
        refused(&measure(&command, &[&[model.as_str(), "--out", &data], rest].concat()))
    };
    let error = refusal(&["--backend", "nope"]);
    assert!(error.contains("no backend is called `nope`") && error.contains("rten"), "{error}");
    let error = refusal(&["--backend", "null", "--cores", "99999"]);
    assert!(error.contains("core 99999 is not in"), "{error}");
    let error = refusal(&["--backend", "null", "--threads", "99999"]);
    assert!(error.contains("are allowed"), "{error}");
    let error = refusal(&["--backend", "null", "--secret-file", "secret"]);
    assert!(error.contains("agents have no secret") && error.contains("ssh"), "{error}");
    let library = [model.as_str(), "--out", &data, "--library", "/etc/passwd"];
    assert!(!vitempo(&measure(&command, &library)).status.success());
}

#[test]
fn one_client_measures_at_a_time_and_the_next_one_follows() {
    let (board, folder) = (Board::new("", &[]), Folder::new());
    let (through, model) = (board.command(), shipped("vit_tiny_patch16_224"));
    let (first, second) = (folder.path("first"), folder.path("second"));
    let long = ["--backend", "rten", "--rounds", "1000", "--out", &first];
    let mut sweep = command()
        .args(measure(&through, &[&[model.as_str()], long.as_slice()].concat()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("vitempo starts");
    board.wait_until("a model run", || board.said("measuring ") > 0);
    let rest = [model.as_str(), "--backend", "null", "--out", &second];
    let error = refused(&measure(&through, &rest));
    let _ = sweep.kill();
    let _ = sweep.wait();
    assert!(error.contains("is measuring for another client"), "{error}");
    assert_eq!(json(&measure(&through, &rest))["measured"], 1);
}

/// An agent to which a stranger writes these bytes before it closes its end.
fn agent_hears(bytes: &[u8]) -> Output {
    let folder = Folder::new();
    let mut agent = command()
        .args(["agent", "--verbose", "--folder", &folder.path("agent")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("vitempo starts");
    let _ = agent.stdin.take().expect("its stdin").write_all(bytes);
    agent.wait_with_output().expect("its end")
}

#[test]
fn noise_and_too_much_end_an_agent_with_the_reason() {
    let greeting = format!("vitempo-client 5 {}\n", env!("CARGO_PKG_VERSION"));
    let after = |bytes: &[u8]| [greeting.as_bytes(), bytes].concat();
    let announced = after(&[u32::MAX.to_le_bytes().as_slice(), &[0; 4096]].concat());
    for (bytes, part) in [
        (Vec::new(), "the connection was closed"),
        (vec![0xff; 100_000], "the client is not vitempo"),
        (b"GET / HTTP/1.1\r\nHost: agent\r\n\r\n".to_vec(), "the client is not vitempo"),
        (after(&[]), "the connection was closed"),
        (after(&[1, 0, 0, 0, 0, b'7', 0]), "the connection was closed"),
        (after(&[0; 64]), "its checksum differs"),
        (announced, "at most 67108864 are taken"),
    ] {
        let log = text(&agent_hears(&bytes).stderr);
        assert!(log.contains(part) && !log.contains("panicked"), "{part}: {log}");
    }
}

#[test]
fn an_agent_that_nobody_greets_says_what_it_expected() {
    for bytes in [b"".as_slice(), b"garbage\n", b"no line", b"vitempo-client 0 0.0.0\n"] {
        let output = agent_hears(bytes);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("error: expected the greeting of a vitempo client"), "{said}");
        assert!(said.contains("vitempo profile models/ --remote"), "{said}");
    }
}

#[test]
fn a_client_that_falls_silent_is_not_waited_for() {
    let board = Board::new("--silence-limit 1s", &[]);
    let mut agent = command()
        .args(["agent", "--verbose", "--silence-limit", "1s"])
        .args(["--folder", &board.folder.path("agent")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("vitempo starts");
    let stdin = agent.stdin.take();
    let log = text(&agent.wait_with_output().expect("its end").stderr);
    assert!(log.contains("sent nothing for too long"), "{log}");
    drop(stdin);
}

#[test]
fn messages_and_models_have_limits() {
    let (narrow, small) =
        (Board::new("--max-message 1kB", &[]), Board::new("--cache-size 1kB", &[]));
    let folder = Folder::new();
    // Models come in pieces; what is too large is the question about one with so many operators.
    let model = shipped("vit_tiny_patch16_224");
    let error = refused_after_rows(&measure(
        &narrow.command(),
        &[&model, "--backend", "null", "--out", &folder.path("narrow")],
    ));
    assert!(
        error.contains("refused: a message of") && error.contains("at most 65536 are taken"),
        "{error}"
    );
    let error = refused_after_rows(&measure(
        &small.command(),
        &[&model, "--backend", "null", "--out", &folder.path("small")],
    ));
    assert!(error.contains("does not fit into the agent's cache of 1000 bytes"), "{error}");
    assert_eq!(runs(&folder.path("small")).len(), 1);
}

/// Standard error of a sweep that measured nothing; it prints its summary all the same.
fn refused_after_rows(args: &[&str]) -> String {
    let output = vitempo(args);
    assert_eq!(output.status.code(), Some(1));
    text(&output.stderr)
}

#[test]
fn an_agent_that_cannot_start_says_why() {
    let folder = Folder::new();
    let file = folder.file("file", "");
    let error = refused(&["agent", "--folder", &file]);
    assert!(error.contains("cannot use the folder") && error.contains("--folder"), "{error}");
    for port in [["--listen", "192.0.2.1:7411"], ["--secret-file", &file]] {
        let error = refused(&[&["agent"], port.as_slice()].concat());
        assert!(error.contains("do not listen") && error.contains("ssh board"), "{error}");
    }
    let checked = json(&["agent", "--check", "--folder", &folder.path("a")]);
    assert_eq!(checked["engines"][0]["backend"], "rten");
}
