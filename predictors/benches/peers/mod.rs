//! Python libraries that evaluate the same trees, where they are installed: lleaves, treelite and
//! its compiler tl2cgen.
//!
//! `VITEMPO_BENCH_PYTHON` names the Python that has them. Each is asked through a pipe to run for a
//! while and to report the CPU time of its process.

use std::{
    cell::RefCell,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
};
use tempfile::TempDir;

const VARIABLE: &str = "VITEMPO_BENCH_PYTHON";
const SCRIPT: &str = include_str!("peers.py");

/// The libraries that are there.
pub struct Peers {
    pub names: Vec<String>,
    process: RefCell<(Child, BufReader<ChildStdout>)>,
    _folder: TempDir,
}

impl Peers {
    /// Sets them up for LightGBM's model text and rows of so many features; says which are missing.
    pub fn start(model: &str, rows: &[f64], features: usize) -> Option<Self> {
        let Some(python) = std::env::var_os(VARIABLE) else {
            println!("lleaves, treelite: not installed ({VARIABLE} names a Python that has them)");
            return None;
        };
        let folder = TempDir::new().unwrap();
        let (text, binary) = (folder.path().join("model.txt"), folder.path().join("rows"));
        std::fs::write(&text, model).unwrap();
        std::fs::write(
            &binary,
            rows.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(),
        )
        .unwrap();
        let mut command = Command::new(python);
        command
            .args(["-c", SCRIPT])
            .args([&text, &binary])
            .arg(features.to_string())
            .arg(folder.path());
        let mut child = command
            .env("OMP_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let names = loop {
            let line = read(&mut answers);
            match line.strip_prefix('#') {
                Some(missing) => println!("not installed:{missing}"),
                None => break line.split_whitespace().map(str::to_owned).collect(),
            }
        };
        Some(Self { names, process: RefCell::new((child, answers)), _folder: folder })
    }

    /// CPU time per row, ns, of one that forecasts the first `rows` rows again and again for so
    /// long.
    pub fn ns_per_row(&self, name: &str, rows: usize, seconds: f64) -> f64 {
        self.ask(name, rows, seconds).parse().unwrap()
    }

    /// Its forecasts of the first `rows` rows.
    pub fn forecasts(&self, name: &str, rows: usize) -> Vec<f64> {
        self.ask(name, rows, 0.0).split_whitespace().map(|value| value.parse().unwrap()).collect()
    }

    fn ask(&self, name: &str, rows: usize, seconds: f64) -> String {
        let (child, answers) = &mut *self.process.borrow_mut();
        writeln!(child.stdin.as_mut().unwrap(), "{name} {rows} {seconds}").unwrap();
        read(answers)
    }
}

impl Drop for Peers {
    /// Without more questions the process ends.
    fn drop(&mut self) {
        let (child, _) = self.process.get_mut();
        drop(child.stdin.take());
        let _ = child.wait();
    }
}

fn read(answers: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    assert!(answers.read_line(&mut line).unwrap() > 0, "the Python of {VARIABLE} ended");
    line.trim().to_owned()
}
