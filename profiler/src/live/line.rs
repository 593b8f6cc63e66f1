//! [`Rig::run`]: frames through stages. Every stage is a thread that sends tasks to processors,
//! waits for them, and passes the frame on.

use super::{
    LiveError, Rig,
    server::{Job, PartJob},
};
use crate::backends::OutputValues;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

/// A part of the model on a processor, both by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Index of the part.
    pub part: usize,
    /// Index of the processor.
    pub processor: usize,
}

/// A worker that takes one frame at a time through steps; the tasks of one step run at the same
/// time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// For messages.
    pub name: String,
    /// Frames that may wait before it; not used by the first stage.
    pub queue: usize,
    /// One after the other.
    pub steps: Vec<Vec<Task>>,
}

/// Where frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Another frame as soon as the first stage is free.
    Closed,
    /// From a camera with this period: the next to come when the first stage is free; those that
    /// come while it is busy are dropped.
    Camera(Duration),
}

/// How a line is tried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Where frames come from.
    pub arrivals: Arrivals,
    /// Frames before those that count; one at least, in which engines load their parts.
    pub warmups: usize,
    /// Frames that count. A few more follow, so that the last of them is not alone in the line.
    pub frames: usize,
}

/// Measurements of the frames after warm-up; ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// From capture to results.
    pub latency_ns: Vec<u64>,
    /// When results came, since the run began.
    pub completed_ns: Vec<u64>,
    /// Dropped frames of a camera, from the first measured frame to the last.
    pub dropped: u64,
    /// How long each part took with feeding it, by part and processor.
    pub busy_ns: BTreeMap<(usize, usize), Vec<u64>>,
    /// Everything that was computed for the last frame, and its inputs.
    pub values: Vec<Arc<OutputValues>>,
}

struct Frame {
    number: usize,
    captured: Instant,
    /// Number on the camera's grid.
    grid: u64,
    values: Vec<Arc<OutputValues>>,
    busy_ns: Vec<(Task, u64)>,
}

impl Rig {
    /// Sends frames with these inputs through stages.
    ///
    /// # Errors
    /// [`LiveError`] naming the stage, or the part and processor that failed;
    /// [`LiveError::Interrupted`].
    pub fn run(
        &self,
        stages: &[Stage],
        inputs: &[Arc<OutputValues>],
        trial: &Trial,
        interrupted: &AtomicBool,
    ) -> Result<Run, LiveError> {
        self.check(stages, trial)?;
        let counted = trial.warmups.max(1)..trial.warmups.max(1) + trial.frames;
        // As many more as fit into the line.
        let last = counted.end + stages.iter().map(|stage| 1 + stage.queue).sum::<usize>();
        let (done, finished) = mpsc::channel::<Result<(Frame, Instant), LiveError>>();
        let begin = Instant::now();
        let mut run = Run::default();
        let mut grid = None;
        let collected = thread::scope(|scope| {
            let mut before: Option<Receiver<Frame>> = None;
            for (index, stage) in stages.iter().enumerate() {
                let frames = before.take();
                let next = stages.get(index + 1).map(|after| mpsc::sync_channel(after.queue));
                let (sender, receiver) = next.unzip();
                before = receiver;
                let done = done.clone();
                let worker = Worker { rig: self, stage, next: sender, done };
                let source = Source { arrivals: trial.arrivals, begin, inputs, last, interrupted };
                scope.spawn(move || match frames {
                    Some(frames) => worker.serve(frames.iter()),
                    None => worker.serve(source.frames()),
                });
            }
            drop(done);
            for result in &finished {
                let (frame, at) = result?;
                if interrupted.load(Ordering::Relaxed) {
                    return Err(LiveError::Interrupted);
                }
                if counted.contains(&frame.number) {
                    run.dropped += grid
                        .replace(frame.grid)
                        .map_or(0, |before: u64| frame.grid.saturating_sub(before + 1));
                    run.latency_ns.push(nanoseconds(at - frame.captured));
                    run.completed_ns.push(nanoseconds(at - begin));
                    frame.busy_ns.into_iter().for_each(|(task, ns)| {
                        run.busy_ns.entry((task.part, task.processor)).or_default().push(ns);
                    });
                    run.values = frame.values;
                }
            }
            Ok(())
        });
        collected?;
        if run.latency_ns.len() == trial.frames { Ok(run) } else { Err(LiveError::Interrupted) }
    }

    fn check(&self, stages: &[Stage], trial: &Trial) -> Result<(), LiveError> {
        if stages.is_empty()
            || trial.frames == 0
            || stages.iter().any(|stage| stage.steps.iter().all(Vec::is_empty))
        {
            return Err(LiveError::Empty);
        }
        for stage in stages {
            for task in stage.steps.iter().flatten() {
                let named = [
                    ("part", task.part, self.parts.len()),
                    ("processor", task.processor, self.servers.len()),
                ];
                if let Some((what, index, count)) =
                    named.into_iter().find(|(_, index, count)| index >= count)
                {
                    return Err(LiveError::Unknown {
                        stage: stage.name.clone(),
                        what,
                        index,
                        count,
                    });
                }
            }
        }
        Ok(())
    }
}

/// One stage's thread.
struct Worker<'a> {
    rig: &'a Rig,
    stage: &'a Stage,
    next: Option<SyncSender<Frame>>,
    done: mpsc::Sender<Result<(Frame, Instant), LiveError>>,
}

impl Worker<'_> {
    /// Works until there are no more frames, the next stage has ended, or a task fails.
    fn serve(&self, frames: impl Iterator<Item = Frame>) {
        for mut frame in frames {
            let worked = self.stage.steps.iter().try_for_each(|step| self.step(step, &mut frame));
            let at = Instant::now();
            let handed_on = match (worked, &self.next) {
                (Err(error), _) => {
                    let _ = self.done.send(Err(error));
                    return;
                }
                (Ok(()), Some(next)) => next.send(frame).is_ok(),
                (Ok(()), None) => self.done.send(Ok((frame, at))).is_ok(),
            };
            if !handed_on {
                return;
            }
        }
    }

    /// Runs the tasks of one step at the same time, and waits for all.
    fn step(&self, tasks: &[Task], frame: &mut Frame) -> Result<(), LiveError> {
        let (reply, replies) = mpsc::channel();
        for task in tasks {
            let (part, values) = (task.part, frame.values.clone());
            let job = PartJob { part, values, reply: reply.clone() };
            self.rig.servers[task.processor].submit(Job::Part(job))?;
        }
        drop(reply);
        for _ in tasks {
            let ended = || LiveError::Processor {
                processor: self.stage.name.clone(),
                reason: "an engine of this stage ended".to_owned(),
            };
            let finished = replies.recv().map_err(|_| ended())??;
            if let Some(&task) = tasks.iter().find(|task| task.part == finished.part) {
                frame.busy_ns.push((task, finished.busy_ns));
            }
            frame.values.extend(finished.values.into_iter().map(Arc::new));
        }
        Ok(())
    }
}

/// Frames for the first stage.
struct Source<'a> {
    arrivals: Arrivals,
    begin: Instant,
    inputs: &'a [Arc<OutputValues>],
    /// Frames in all.
    last: usize,
    interrupted: &'a AtomicBool,
}

impl<'a> Source<'a> {
    /// Each frame starts when it is requested, or as soon as the camera has it.
    fn frames(self) -> impl Iterator<Item = Frame> + 'a {
        (0..self.last).take_while(move |_| !self.interrupted.load(Ordering::Relaxed)).map(
            move |number| {
                let (captured, grid) = match self.arrivals {
                    Arrivals::Closed => (Instant::now(), number as u64),
                    Arrivals::Camera(period) => next_on_grid(self.begin, period),
                };
                thread::sleep(captured.saturating_duration_since(Instant::now()));
                Frame { number, captured, grid, values: self.inputs.to_vec(), busy_ns: Vec::new() }
            },
        )
    }
}

/// The camera's next frame: when it comes, and its number.
fn next_on_grid(begin: Instant, period: Duration) -> (Instant, u64) {
    let period_ns = nanoseconds(period).max(1);
    let number = nanoseconds(begin.elapsed()) / period_ns + 1;
    (begin + Duration::from_nanos(number.saturating_mul(period_ns)), number)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
