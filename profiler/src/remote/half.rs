//! The server's half of split models, in the agent's own process: tensors come, an engine on its
//! cores runs a part, results go back in the order in which tensors came.
//!
//! The engine's thread, the one that sends, and the one that receives overlap, so that the next
//! frame's tensors come while this one is computed. An engine that crashes ends the agent; the
//! client sees the connection end.

use super::{
    frame::Kind,
    link::{Event, Incoming, Link, Writer},
    message::{Answer, Ask},
    options::AgentOptions,
    session::Farewell,
};
use crate::{
    live::{LiveProcessor, Rig, Ticket},
    split::{
        Encoding, Shape,
        layout::{self, Asked, Layout},
    },
};
use std::{
    io,
    path::PathBuf,
    sync::mpsc::{self, Receiver, SyncSender},
    thread,
    time::{Duration, Instant},
};
use vitempo_graph::{
    Graph,
    onnx::{self, ReadOptions},
};

/// Frames that are computed or wait to be sent back.
const AHEAD: usize = 4;
/// Largest answer to a frame that measures the link, bytes.
const LARGEST_ECHO: u64 = 64 << 20;

/// Parts of models, and the engine that runs them.
pub(super) struct Half {
    rig: Rig,
    inputs: Vec<Layout>,
    outputs: Vec<Layout>,
}

impl Half {
    /// Reads the parts and starts the engine, which loads each part when it first runs.
    pub fn load(
        processor: &LiveProcessor,
        parts: Vec<(String, PathBuf, Vec<Encoding>)>,
    ) -> Result<Self, String> {
        let (mut inputs, mut outputs, mut graphs) = (Vec::new(), Vec::new(), Vec::new());
        for (name, file, encodings) in parts {
            let graph = read(&name, &file)?;
            inputs.push(Layout::of_inputs(&graph, &encodings)?);
            outputs.push(Layout::of_outputs(&graph)?);
            graphs.push(graph);
        }
        let rig = Rig::start(std::slice::from_ref(processor), graphs).map_err(|e| e.to_string())?;
        Ok(Self { rig, inputs, outputs })
    }

    fn ask(&self, part: usize, tensors: &[u8]) -> Result<Ticket, String> {
        let layout = self.inputs.get(part).ok_or_else(|| format!("part {part} is not held"))?;
        self.rig.ask(part, 0, &layout.read(tensors)?).map_err(|e| e.to_string())
    }
}

fn read(name: &str, file: &std::path::Path) -> Result<Graph, String> {
    let bytes = std::fs::read(file).map_err(|e| format!("part `{name}`: {e}"))?;
    onnx::read_weights(name, &bytes, &ReadOptions::default()).map_err(|e| e.to_string())
}

/// What is sent back, in this order.
enum Due {
    Beat,
    Shaped(Option<Shape>),
    Echo { number: u64, back: u64 },
    Run { number: u64, part: usize, asked: Result<Ticket, String> },
}

/// Runs parts until the client releases them; the answer to that is returned.
pub(super) fn serve(
    link: &mut Link,
    options: &AgentOptions,
    half: Half,
) -> Result<Answer, Farewell> {
    let cores = half.rig.cores().next().map(<[usize]>::to_vec).unwrap_or_default();
    link.say(&Answer::Held { cores })?;
    let (incoming, writer, _) = link.ends();
    let beat = options.beat();
    let done = thread::scope(|scope| {
        let (due, dues) = mpsc::sync_channel(AHEAD);
        let sender = scope.spawn(|| send(writer, &half.outputs, dues, beat));
        let done = receive(incoming, options, &half, &due);
        drop(due);
        let sent = sender.join();
        done.and_then(|()| match sent {
            Ok(sent) => Ok(sent?),
            Err(_) => Err(Farewell::Refused("the agent failed; its log says more".to_owned())),
        })
    });
    link.ends().1.shape(None);
    done.map(|()| Answer::Released)
}

fn receive(
    incoming: Incoming<'_>,
    options: &AgentOptions,
    half: &Half,
    due: &SyncSender<Due>,
) -> Result<(), Farewell> {
    // Whoever sends has met the reason why the connection ends.
    let queue =
        |what: Due| due.send(what).map_err(|_| Farewell::Gone("the connection broke".to_owned()));
    loop {
        let since = Instant::now();
        match incoming.wait(options.beat()) {
            Some(Event::Frame(frame)) => match frame.kind {
                Kind::Tensors => match layout::read_ask(&frame.payload) {
                    Some(Asked::Run { number, part, tensors }) => {
                        queue(Due::Run { number, part, asked: half.ask(part, tensors) })?;
                    }
                    Some(Asked::Echo { number, back }) => {
                        queue(Due::Echo { number, back: back.min(LARGEST_ECHO) })?;
                    }
                    None => return Err(Farewell::Refused("tensors without a head".to_owned())),
                },
                Kind::Message => match serde_json::from_slice(&frame.payload) {
                    Ok(Ask::Beat) => {}
                    Ok(Ask::Shape(shape)) => queue(Due::Shaped(shape))?,
                    Ok(Ask::Release) => return Ok(()),
                    Ok(_) => return Err(Farewell::Refused("parts are held".to_owned())),
                    Err(e) => {
                        return Err(Farewell::Refused(format!("a message cannot be read: {e}")));
                    }
                },
                Kind::Piece => {
                    return Err(Farewell::Refused("a piece of a model: parts are held".to_owned()));
                }
            },
            Some(Event::Ended(error)) => return Err(error.into()),
            Some(Event::Greeted(_) | Event::Done) => {}
            None if incoming.silent_for(since) > options.silence_limit => {
                return Err(Farewell::Gone("nothing was heard for too long".to_owned()));
            }
            // A full queue has something to send.
            None => drop(due.try_send(Due::Beat)),
        }
    }
}

fn send(
    writer: &mut Writer,
    outputs: &[Layout],
    dues: Receiver<Due>,
    beat: Duration,
) -> io::Result<()> {
    for due in dues {
        match due {
            Due::Beat => writer.say(&Answer::Beat)?,
            Due::Shaped(shape) => {
                writer.say(&Answer::Shaped)?;
                writer.shape(shape);
            }
            Due::Echo { number, back } => {
                let mut bytes = layout::reply(number, false, 0);
                bytes.resize(bytes.len() + back as usize, 0);
                writer.send_tensors(&bytes, false)?;
            }
            Due::Run { number, part, asked } => {
                let answer = match asked {
                    Ok(ticket) => computed(&ticket, outputs.get(part), writer, beat)?,
                    Err(reason) => Err(reason),
                };
                let bytes = match answer {
                    Ok((busy_ns, tensors)) => {
                        let mut bytes = layout::reply(number, false, busy_ns);
                        bytes.extend(tensors);
                        bytes
                    }
                    Err(reason) => {
                        let mut bytes = layout::reply(number, true, 0);
                        bytes.extend(reason.into_bytes());
                        bytes
                    }
                };
                writer.send_tensors(&bytes, true)?;
            }
        }
    }
    Ok(())
}

type Computed = Result<(u64, Vec<u8>), String>;

/// The engine's time and the outputs of a part; heartbeats go out until they are there.
fn computed(
    ticket: &Ticket,
    outputs: Option<&Layout>,
    writer: &mut Writer,
    beat: Duration,
) -> io::Result<Computed> {
    let Some(layout) = outputs else { return Ok(Err("a part that is not held".to_owned())) };
    loop {
        match ticket.wait_for(beat) {
            Ok(Some(answer)) => {
                let mut bytes = Vec::with_capacity(layout.size_bytes() as usize);
                let written = layout.write(&answer.values, &mut bytes);
                return Ok(written.map(|()| (answer.busy_ns, bytes)));
            }
            Ok(None) => writer.say(&Answer::Beat)?,
            Err(error) => return Ok(Err(error.to_string())),
        }
    }
}
