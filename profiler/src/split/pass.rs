//! [`Frames`]: one pass of frames through the device's half, the link, the server's half and the
//! link back. Each of them works on another frame where several are in flight.
//!
//! | thread | does |
//! |---|---|
//! | the device's | runs the device's half and encodes tensors |
//! | the sender's | sends them at the link's rate |
//! | this one | takes results and watches the deadline |

use super::{
    SplitRunError,
    layout::{self, ASK_HEAD, REPLY_HEAD},
    rig::{OnServer, Split},
    server::{ServerEnd, Shapes},
};
use crate::{
    backends::OutputValues,
    live::Rig,
    remote::{
        frame::{Kind, OVERHEAD},
        link::{Event, Incoming, Writer},
        message::{Answer, Ask},
    },
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

/// Interval of checks for an interruption and for deadlines.
const SLICE: Duration = Duration::from_millis(50);
/// How much longer the first answer of a half may take, for which the engine loads it.
const LOADING: u32 = 10;
/// Frames that wait to be sent.
const QUEUE: usize = 1;

/// Times of one frame, ns, and what it sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FrameTimes {
    /// Index of the frame in the sequence.
    pub frame: usize,
    /// Index of its split.
    pub split: usize,
    /// From its capture to its results.
    pub latency_ns: u64,
    /// When its results were there, since the pass began.
    pub completed_ns: u64,
    /// How long the device's engine took.
    pub device_ns: u64,
    /// How long the server's engine took.
    pub server_ns: u64,
    /// Bytes sent to the server, with what frames add to tensors.
    pub sent_bytes: u64,
    /// Bytes that came back.
    pub received_bytes: u64,
}

/// A frame without results.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Lost {
    /// Index of the frame in the sequence.
    pub frame: usize,
    /// Why.
    pub reason: String,
}

/// The result of a sequence of frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pass {
    /// Frames with results, in the order of these.
    pub frames: Vec<FrameTimes>,
    /// Frames that were lost with the server.
    pub lost: Vec<Lost>,
    /// Frames that did not begin, because the server was lost too often.
    pub not_run: usize,
    /// Why these did not begin.
    pub gave_up: Option<String>,
    /// What was computed for the last frame with results, and its inputs.
    pub values: Vec<Arc<OutputValues>>,
}

impl Pass {
    /// Adds what a connection brought; returns how many frames were lost with it.
    pub(super) fn append(&mut self, from: usize, ended: &Ended) -> usize {
        let at = |times: &FrameTimes| FrameTimes { frame: from + times.frame, ..*times };
        self.frames.extend(ended.frames.iter().map(at));
        if !ended.values.is_empty() {
            self.values.clone_from(&ended.values);
        }
        let Some(reason) = &ended.loss else { return 0 };
        let is_done = |frame: &usize| ended.frames.iter().any(|times| times.frame == *frame);
        let lost: Vec<usize> = (0..ended.begun).filter(|frame| !is_done(frame)).collect();
        lost.iter().for_each(|frame| self.lose(from + frame, reason));
        lost.len()
    }

    pub(super) fn lose(&mut self, frame: usize, reason: &str) {
        self.lost.push(Lost { frame, reason: reason.to_owned() });
    }
}

/// What one connection brought.
#[derive(Default)]
pub(super) struct Ended {
    pub frames: Vec<FrameTimes>,
    /// Frames that began.
    pub begun: usize,
    /// Why the server is lost, if it is.
    pub loss: Option<String>,
    pub values: Vec<Arc<OutputValues>>,
}

/// Frames to run.
pub(super) struct Frames<'a> {
    pub device: &'a Rig,
    pub splits: &'a [Split],
    pub sequence: &'a [usize],
    pub inputs: &'a [Arc<OutputValues>],
    pub shapes: Shapes,
    pub timeout: Duration,
    pub interrupted: &'a AtomicBool,
}

/// A frame between its capture and its results.
struct UnderWay {
    times: FrameTimes,
    captured: Instant,
    values: Vec<Arc<OutputValues>>,
    /// When it went to the sender.
    handed: Instant,
}

/// What the threads share.
struct Shared<'a> {
    frames: &'a Frames<'a>,
    begin: Instant,
    begun: AtomicUsize,
    stop: AtomicBool,
    under_way: Mutex<VecDeque<UnderWay>>,
    done: Mutex<(Vec<FrameTimes>, Vec<Arc<OutputValues>>)>,
    permits: Sender<()>,
}

impl Frames<'_> {
    /// Runs frames that need no server.
    pub(super) fn run_here(&self) -> Result<Ended, SplitRunError> {
        let (permits, _keep) = mpsc::channel();
        let shared = Shared::new(self, permits);
        for number in 0..self.sequence.len() {
            super::server::go_on(self.interrupted)?;
            let frame = shared.on_device(number)?;
            shared.complete(frame, Vec::new());
        }
        Ok(shared.ended(None))
    }

    /// Runs frames, so many at a time.
    pub(super) fn run(
        &self,
        server: &mut ServerEnd,
        in_flight: usize,
    ) -> Result<Ended, SplitRunError> {
        let beat = server.beat();
        let wake = server.connection.link().sender();
        let (permits, allowed) = mpsc::channel();
        for _ in 0..in_flight {
            let _ = permits.send(());
        }
        let shared = Shared::new(self, permits);
        let (to_send, sending) = mpsc::sync_channel(QUEUE);
        let (incoming, writer, carrier) = server.connection.link().ends();
        let (received, computed) = thread::scope(|scope| {
            let sender = scope.spawn(move || send(writer, &sending, beat));
            let shared = &shared;
            let device = scope.spawn(move || {
                let computed = shared.compute(&allowed, to_send);
                // The receiver may be waiting for frames that need no server.
                let _ = wake.try_send(Event::Done);
                computed
            });
            let received = shared.receive(incoming, || device.is_finished());
            shared.stop.store(true, Ordering::Relaxed);
            if !matches!(received, Ok(None)) {
                // Whoever sends may wait for a server that takes nothing.
                carrier.kill();
            }
            let computed = device.join();
            let _ = sender.join();
            (received, computed)
        });
        let computed = computed.unwrap_or_else(|_| {
            Err(SplitRunError::Parts("a measuring thread panicked".to_owned()))
        });
        let loss = received?;
        // A device that fails matters more than a server that does not answer any more.
        computed?;
        match loss {
            Some(reason) => Ok(shared.ended(Some(server.explained(&reason)))),
            None => {
                server.touch();
                Ok(shared.ended(None))
            }
        }
    }
}

impl<'a> Shared<'a> {
    fn new(frames: &'a Frames<'a>, permits: Sender<()>) -> Self {
        Self {
            frames,
            begin: Instant::now(),
            begun: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            under_way: Mutex::default(),
            done: Mutex::default(),
            permits,
        }
    }

    fn ended(self, loss: Option<String>) -> Ended {
        let (frames, values) = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ended { frames, begun: self.begun.into_inner(), loss, values }
    }

    fn split(&self, number: usize) -> &'a Split {
        &self.frames.splits[self.frames.sequence[number]]
    }

    /// The device's half of a frame.
    fn on_device(&self, number: usize) -> Result<UnderWay, SplitRunError> {
        let captured = Instant::now();
        self.begun.store(number + 1, Ordering::Relaxed);
        let mut values = self.frames.inputs.to_vec();
        let mut device_ns = 0;
        if let Some(part) = self.split(number).device {
            let answer = self.frames.device.ask(part, 0, self.frames.inputs)?.wait()?;
            device_ns = answer.busy_ns;
            values.extend(answer.values.into_iter().map(Arc::new));
        }
        let times = FrameTimes {
            frame: number,
            split: self.frames.sequence[number],
            latency_ns: 0,
            completed_ns: 0,
            device_ns,
            server_ns: 0,
            sent_bytes: 0,
            received_bytes: 0,
        };
        Ok(UnderWay { times, captured, values, handed: captured })
    }

    fn complete(&self, frame: UnderWay, results: Vec<Arc<OutputValues>>) {
        let mut times = frame.times;
        times.latency_ns = nanoseconds(frame.captured.elapsed());
        times.completed_ns = nanoseconds(self.begin.elapsed());
        self.frames.splits[times.split].is_loaded.store(true, Ordering::Relaxed);
        let mut values = frame.values;
        values.extend(results);
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.0.push(times);
        done.1 = values;
        drop(done);
        let _ = self.permits.send(());
    }

    /// The device's thread.
    fn compute(
        &self,
        allowed: &Receiver<()>,
        to_send: SyncSender<Vec<u8>>,
    ) -> Result<(), SplitRunError> {
        for number in 0..self.frames.sequence.len() {
            loop {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                match allowed.recv_timeout(SLICE) {
                    Ok(()) => break,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
            }
            let mut frame = self.on_device(number)?;
            let Some(OnServer { part, inputs, .. }) = &self.split(number).server else {
                self.complete(frame, Vec::new());
                continue;
            };
            let mut payload = layout::ask(number as u64, *part, inputs.size_bytes());
            inputs.write(&frame.values, &mut payload).map_err(SplitRunError::Parts)?;
            frame.times.sent_bytes = (payload.len() + OVERHEAD) as u64;
            frame.handed = Instant::now();
            self.waiting().push_back(frame);
            if to_send.send(payload).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, VecDeque<UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes results until all frames have theirs; returns why the server is lost, if it is.
    fn receive(
        &self,
        incoming: Incoming<'_>,
        device_ended: impl Fn() -> bool,
    ) -> Result<Option<String>, SplitRunError> {
        let mut progress = self.begin;
        loop {
            // In this order: what the device hands on before it ends is seen.
            let (ended, is_idle) = (device_ended(), self.waiting().is_empty());
            if ended && is_idle && self.waiting().is_empty() {
                return Ok(None);
            }
            match incoming.wait(SLICE) {
                Some(Event::Frame(frame)) if frame.kind == Kind::Tensors => {
                    progress = Instant::now();
                    if let Some(loss) = self.take(&frame.payload)? {
                        return Ok(Some(loss));
                    }
                }
                Some(Event::Frame(frame)) => match serde_json::from_slice(&frame.payload) {
                    Ok(Answer::Beat) => {}
                    Ok(Answer::Refused { reason }) => return Ok(Some(reason)),
                    _ => return Ok(Some("the server answered another question".to_owned())),
                },
                Some(Event::Ended(error)) => return Ok(Some(error.to_string())),
                Some(Event::Greeted(_) | Event::Done) | None => {}
            }
            super::server::go_on(self.frames.interrupted)?;
            if let Some(reason) = self.overdue(progress) {
                return Ok(Some(reason));
            }
        }
    }

    /// Takes the results of the frame that has waited longest.
    fn take(&self, payload: &[u8]) -> Result<Option<String>, SplitRunError> {
        let unasked = || Ok(Some("the server answered another question".to_owned()));
        let (Some(reply), Some(mut frame)) =
            (layout::read_reply(payload), self.waiting().pop_front())
        else {
            return unasked();
        };
        let server = self.frames.splits[frame.times.split].server.as_ref();
        let Some(server) = server.filter(|_| reply.number == frame.times.frame as u64) else {
            return unasked();
        };
        if reply.is_failed {
            let reason = String::from_utf8_lossy(reply.rest).into_owned();
            return Err(SplitRunError::Server { reason });
        }
        let results = match server.outputs.read(reply.rest) {
            Ok(results) => results,
            Err(reason) => return Ok(Some(format!("the server's results: {reason}"))),
        };
        frame.times.server_ns = reply.busy_ns;
        frame.times.received_bytes = (payload.len() + OVERHEAD) as u64;
        self.complete(frame, results);
        Ok(None)
    }

    /// Whether the frame that has waited longest has waited too long.
    fn overdue(&self, progress: Instant) -> Option<String> {
        let waiting = self.waiting();
        let frame = waiting.front()?;
        let split = &self.frames.splits[frame.times.split];
        let loads = !split.is_loaded.load(Ordering::Relaxed);
        let timeout = self.frames.timeout * if loads { LOADING } else { 1 };
        let allowed = timeout.saturating_add(self.transfer(split));
        let is_over = frame.handed.max(progress).elapsed() > allowed;
        is_over.then(|| format!("no answer within {:.1} s", allowed.as_secs_f64()))
    }

    /// What the link takes for a frame as it is declared.
    fn transfer(&self, split: &Split) -> Duration {
        let Some(OnServer { inputs, outputs, .. }) = &split.server else {
            return Duration::ZERO;
        };
        let ways = [
            (self.frames.shapes.there, inputs.size_bytes() + ASK_HEAD as u64),
            (self.frames.shapes.back, outputs.size_bytes() + REPLY_HEAD as u64),
        ];
        let one = |(shape, bytes): (Option<super::Shape>, u64)| {
            let bytes = bytes + OVERHEAD as u64;
            shape.map_or(0, |s| s.setup_ns.saturating_add(s.transfer_ns(bytes)))
        };
        Duration::from_nanos(ways.into_iter().map(one).fold(0, u64::saturating_add))
    }
}

/// The sender's thread: it ends with the device's, or with the connection.
fn send(writer: &mut Writer, sending: &Receiver<Vec<u8>>, beat: Duration) {
    loop {
        let sent = match sending.recv_timeout(beat) {
            Ok(payload) => writer.send_tensors(&payload, true),
            Err(RecvTimeoutError::Timeout) => writer.say(&Ask::Beat),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
