//! The `vitempo` program for tests: runs that must succeed, runs that must be refused, and a folder
//! for their files. No other file has the path of the program.
// Each test program uses a part of it.
#![allow(dead_code)]

use std::{
    path::Path,
    process::{Command, Output},
};

/// The program's file.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_vitempo");

/// The program without the secrets and colours of whoever runs the tests.
pub fn command() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env("NO_COLOR", "1").env("COLUMNS", "120");
    command.env_remove("VITEMPO_TOKEN");
    command
}

pub fn vitempo(args: &[&str]) -> Output {
    command().args(args).output().expect("vitempo starts")
}

/// The same in another folder.
pub fn vitempo_in(folder: &Path, args: &[&str]) -> Output {
    command().args(args).current_dir(folder).output().expect("vitempo starts")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a run that must succeed.
pub fn ok(args: &[&str]) -> String {
    let output = vitempo(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

pub fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&ok(&[args, &["--format", "json"]].concat()))
        .expect("JSON on standard output")
}

/// Standard error of a run that must be refused as the user's mistake, in one `error:` line.
pub fn refused(args: &[&str]) -> String {
    let output = vitempo(args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
    assert!(stderr.contains("error: ") && !stderr.contains("panicked"), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{args:?} printed a result");
    stderr
}

/// A model that lies beside the tests.
pub fn shipped(name: &str) -> String {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .join("tests/models")
        .join(format!("{name}.onnx"))
        .display()
        .to_string()
}

/// A folder that is gone after the test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.path().join(name), content).expect("a file");
        self.path(name)
    }
}
