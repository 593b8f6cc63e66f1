//! [`Running`]: a load in its worker, a pass at a time between two requests of the host.

use super::{LoadRequest, LoadWork, Prepared, stream, stream::Stream};
use crate::{
    backends::{Availability, Backend, RunOptions, Session},
    clock::process_cpu_ns,
    environment, source,
};
use serde::{Deserialize, Serialize};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};
use vitempo_graph::{Graph, ResourceRates, Work, footprint_bytes, lowering};

/// Times of single runs that a tally has at most; further runs are only counted.
const MOST_TIMES: usize = 100_000;

/// What a load did since it was last asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Pieces of a stream, or runs of a model.
    pub passes: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: u64,
    /// Wall-clock time, ns.
    pub wall_ns: u64,
    /// CPU time of the worker, ns; `None` where the system does not report it.
    pub cpu_ns: Option<u64>,
    /// Of a model: wall-clock time of each run, ns.
    pub runs_ns: Vec<u64>,
}

impl Tally {
    /// Per second of wall-clock time; zero where no time has passed.
    #[must_use]
    pub fn rates(&self) -> ResourceRates {
        let per_s = |count: u64| match self.wall_ns {
            0 => 0,
            ns => (count as f64 * 1e9 / ns as f64).round() as u64,
        };
        ResourceRates { bytes_per_s: per_s(self.bytes), flops_per_s: per_s(self.flops) }
    }
}

/// What runs.
enum Passes {
    Stream(Stream),
    Model { session: Box<dyn Session>, work: Work },
}

/// A load that is ready, and runs while it is going.
pub(crate) struct Running {
    passes: Passes,
    going: bool,
    fault: Option<String>,
    tally: Tally,
    since: Instant,
    cpu_since: Option<u64>,
}

impl Running {
    /// Makes a load ready to run.
    ///
    /// # Errors
    /// A sentence with the engine's reason.
    pub(crate) fn prepare<'b>(
        request: LoadRequest,
        backend: impl FnOnce(&str) -> Result<&'b dyn Backend, String>,
    ) -> Result<(Self, Prepared), String> {
        let cache_bytes = request.cores.first().and_then(|&core| stream::cache_bytes(core));
        let (passes, footprint_bytes) = match request.work {
            LoadWork::Stream(spec) => {
                let stream = Stream::new(spec, cache_bytes)?;
                let footprint = stream.footprint_bytes();
                (Passes::Stream(stream), footprint)
            }
            LoadWork::Model { backend: engine, options, name, graph, source } => {
                let options = RunOptions { cores: request.cores, ..*options };
                let backend = backend(&engine)?;
                let kernels = kernels(backend, &graph, &options)?;
                let model = source::ready(&name, &source, &graph, backend, &options)?;
                let session = backend.load(&model, &options).map_err(|e| e.to_string())?;
                let ops = || kernels.nodes().iter().map(|node| &node.op);
                let work: Work = ops().map(Work::of_operator).sum();
                (Passes::Model { session, work }, footprint_bytes(ops()))
            }
        };
        let running = Self {
            passes,
            going: false,
            fault: None,
            tally: Tally::default(),
            since: Instant::now(),
            cpu_since: None,
        };
        Ok((running, Prepared { footprint_bytes, cache_bytes }))
    }

    pub(crate) fn is_going(&self) -> bool {
        self.going
    }

    /// Counts anew, and runs from now on.
    pub(crate) fn go(&mut self) {
        self.going = self.fault.is_none();
        self.reset();
    }

    /// What it did since it was last asked.
    ///
    /// # Errors
    /// The reason for which it stopped by itself.
    pub(crate) fn tally(&mut self) -> Result<Tally, String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let mut tally = std::mem::take(&mut self.tally);
        if self.going {
            tally.wall_ns = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let cpu = self.cpu_since.zip(process_cpu_ns());
            tally.cpu_ns = cpu.map(|(from, to)| to.saturating_sub(from));
        }
        self.reset();
        Ok(tally)
    }

    /// The same, and rests.
    ///
    /// # Errors
    /// As [`Self::tally`].
    pub(crate) fn pause(&mut self) -> Result<Tally, String> {
        let tally = self.tally();
        self.going = false;
        if let Passes::Stream(stream) = &mut self.passes {
            stream.rest();
        }
        tally
    }

    fn reset(&mut self) {
        self.tally = Tally::default();
        self.since = Instant::now();
        self.cpu_since = process_cpu_ns();
    }

    /// One pass. A failure or a panic of the engine ends the load; the next request hears of it.
    pub(crate) fn pass(&mut self) {
        let passes = &mut self.passes;
        let done = catch_unwind(AssertUnwindSafe(|| match passes {
            Passes::Stream(stream) => {
                let (bytes, flops) = stream.pass();
                Ok((bytes, flops, None))
            }
            Passes::Model { session, work } => {
                let time = session.run().map_err(|e| e.to_string())?;
                let bytes = work.bytes_read.saturating_add(work.bytes_written);
                Ok((bytes, work.flops, Some(time.wall_ns)))
            }
        }));
        match done.unwrap_or_else(|_| Err("the engine of the load panicked".to_owned())) {
            Ok((bytes, flops, ns)) => {
                let tally = &mut self.tally;
                tally.passes += 1;
                tally.bytes = tally.bytes.saturating_add(bytes);
                tally.flops = tally.flops.saturating_add(flops);
                if tally.runs_ns.len() < MOST_TIMES {
                    tally.runs_ns.extend(ns);
                }
            }
            Err(reason) => {
                self.going = false;
                self.fault = Some(reason);
            }
        }
    }
}

/// The kernels that the engine runs for the model; its own operators where they are not known.
fn kernels(backend: &dyn Backend, graph: &Graph, options: &RunOptions) -> Result<Graph, String> {
    let capabilities = match backend.probe(options) {
        Availability::Available(capabilities) => capabilities,
        Availability::Unavailable { reason, .. } => return Err(reason),
    };
    let environment =
        environment::detect(backend.name(), &capabilities, options).map_err(|e| e.to_string())?;
    Ok(lowering::lower(graph, &environment).unwrap_or_else(|_| graph.clone()))
}
