//! [`Program`]: scores from a program of the user's.

use super::{Objective, ObjectiveError, number};
use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};
use vitempo_search_space::Architecture;

/// A longer line is no score.
const LONGEST_LINE: u64 = 4096;
/// Time between two looks at the flag that stops the search, while the program computes.
const LOOK: Duration = Duration::from_millis(50);
/// A search that is stopped waits so long for the next score, so that a generation may be finished.
const GRACE: Duration = Duration::from_secs(3);
/// Time between two looks whether a program has ended that has printed its scores.
const LOOK_AT_END: Duration = Duration::from_millis(2);

/// Scores from a program of the user's, run through the shell once for each generation: it reads
/// one encoding per line to the end of its input, and prints one number per line, in the same
/// order. No architecture is scored twice.
///
/// A program that prints more lines than it read, or a line that is no number, is ended at that
/// line.
#[derive(Debug)]
pub struct Program {
    command: String,
    stop: Arc<AtomicBool>,
}

impl Program {
    /// A command line.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), stop: Arc::default() }
    }

    /// Ends the program when this is set, and it prints no score for three seconds.
    #[must_use]
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..self }
    }

    fn fault(&self, reason: impl Into<String>) -> ObjectiveError {
        ObjectiveError::Program { command: self.command.clone(), reason: reason.into() }
    }

    /// Whether the search is over for a program that has printed nothing since then.
    fn check_stop(&self, since: Instant) -> Result<(), ObjectiveError> {
        match self.stop.load(Ordering::SeqCst) && since.elapsed() >= GRACE {
            true => Err(ObjectiveError::Stopped),
            false => Ok(()),
        }
    }

    /// What the program prints for these encodings.
    fn printed(&self, lines: String, count: usize) -> Result<Vec<f64>, ObjectiveError> {
        let child = Command::new("sh")
            .args(["-c", &self.command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| self.fault(format!("cannot be started: {e}")))?;
        let mut running = Running(child);
        // A thread of its own, so that a program that prints while it reads does not wait for us.
        let stdin = running.0.stdin.take();
        thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(lines.as_bytes())));
        let printed = running.0.stdout.take().map(lines_of);
        let mut scores = Vec::with_capacity(count);
        while let Some(line) = printed.as_ref().and_then(|lines| self.next(lines).transpose()) {
            if scores.len() == count {
                return Err(
                    self.fault(format!("printed more than {count} scores for {count} encodings"))
                );
            }
            let score = line.and_then(|line| self.score(scores.len() + 1, line))?;
            scores.push(score);
        }
        let status = self.ended(&mut running)?;
        if !status.success() {
            return Err(self.fault(format!("ended with {status}")));
        }
        Ok(scores)
    }

    /// The next line, `None` at the end.
    fn next(&self, lines: &Receiver<Line>) -> Result<Option<Line>, ObjectiveError> {
        let since = Instant::now();
        loop {
            match lines.recv_timeout(LOOK) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => self.check_stop(since)?,
            }
        }
    }

    fn score(&self, line: usize, printed: Line) -> Result<f64, ObjectiveError> {
        let bytes = printed.map_err(|e| self.fault(format!("cannot be read: {e}")))?;
        let text =
            String::from_utf8(bytes).map_err(|_| self.fault("printed bytes that are not text"))?;
        if text.len() as u64 > LONGEST_LINE {
            let says =
                format!("printed more than {LONGEST_LINE} bytes in line {line}; expected a number");
            return Err(self.fault(says));
        }
        number(&text).map_err(|reason| self.fault(format!("printed in line {line}: {reason}")))
    }

    /// Waits for the end of a program that prints nothing more.
    fn ended(&self, running: &mut Running) -> Result<ExitStatus, ObjectiveError> {
        let since = Instant::now();
        loop {
            let ended = running
                .0
                .try_wait()
                .map_err(|e| self.fault(format!("cannot be waited for: {e}")))?;
            match ended {
                Some(status) => return Ok(status),
                None => self.check_stop(since)?,
            }
            thread::sleep(LOOK_AT_END);
        }
    }
}

/// A process that does not outlive its use.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// A line with its end, cut off behind [`LONGEST_LINE`] bytes.
type Line = std::io::Result<Vec<u8>>;

/// What a program prints, read by a thread of its own until nobody takes more of it.
fn lines_of(output: ChildStdout) -> Receiver<Line> {
    let (send, lines) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            let read = output.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut line);
            let is_end = matches!(read, Ok(0));
            if is_end || send.send(read.map(|_| line)).is_err() {
                return;
            }
        }
    });
    lines
}

impl Objective for Program {
    fn name(&self) -> &str {
        "score"
    }

    fn scores(&mut self, architectures: &[Architecture]) -> Result<Vec<f64>, ObjectiveError> {
        if architectures.is_empty() {
            return Ok(Vec::new());
        }
        let lines: String = architectures.iter().map(|a| a.encode() + "\n").collect();
        let scores = self.printed(lines, architectures.len())?;
        match scores.len() {
            n if n == architectures.len() => Ok(scores),
            n => {
                Err(self.fault(format!("printed {n} scores for {} encodings", architectures.len())))
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use vitempo_search_space::Space;

    fn architectures(count: usize) -> Vec<Architecture> {
        let space = Space::named("hybrid-vit").expect("a space");
        space.sample_many(count, 9).expect("architectures")
    }

    #[test]
    fn programs_score_and_their_faults_are_named() {
        let architectures = architectures(2000);
        let lengths =
            Program::new("awk '{ print length($0) }'").scores(&architectures).expect("scores");
        assert!(
            lengths.iter().zip(&architectures).all(|(score, a)| *score == a.encode().len() as f64)
        );
        for (command, says) in [
            ("exit 3", "ended with"),
            ("head -n 1", "is not a score"),
            ("echo 1", "1 scores for 2000"),
            ("no-such-program", "ended with"),
            ("printf '1\\n\\377\\n'", "not text"),
        ] {
            let error = Program::new(command).scores(&architectures).expect_err(says).to_string();
            assert!(error.contains(says) && error.contains(command), "{error}");
        }
    }

    #[test]
    fn an_endless_output_is_ended() {
        let architectures = architectures(20);
        for (command, says) in [
            ("yes 1", "more than 20 scores for 20 encodings"),
            ("yes", "in line 1: `y` is not a score"),
            ("cat /dev/zero", "more than 4096 bytes in line 1"),
            ("yes 1 | cat", "more than 20 scores"),
        ] {
            let error = Program::new(command).scores(&architectures).expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_program_that_prints_nothing_can_be_stopped() {
        let stop = Arc::new(AtomicBool::new(true));
        let mut program = Program::new("exec sleep 100").stopped_by(Arc::clone(&stop));
        let error = program.scores(&architectures(2)).expect_err("stopped");
        assert!(matches!(error, ObjectiveError::Stopped), "{error}");
        stop.store(false, Ordering::SeqCst);
        let mut program = Program::new("exec >&-; exec sleep 100").stopped_by(Arc::clone(&stop));
        let later = thread::spawn(move || stop.store(true, Ordering::SeqCst));
        assert!(program.scores(&architectures(2)).is_err());
        assert!(later.join().is_ok());
    }
}
