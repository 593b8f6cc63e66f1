//! The null backend runs nothing, so its times are those of the harness itself, including the
//! clock.
//!
//! Its operators are the graph's own, each with one pair of clock readings per repeat.

use super::{
    availability::{Availability, Capabilities},
    engine::{Backend, Model, ProfiledRuns, Session},
    error::BackendError,
    options::RunOptions,
    values::OutputValues,
};
use crate::clock::{RunTime, Stopwatch};
use vitempo_graph::{Graph, Measurement, MemoryFormat, Precision, Processor, Samples, Status};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Null;

struct NullSession {
    graph: Graph,
}

impl Backend for Null {
    fn name(&self) -> &'static str {
        vitempo_graph::Framework::Null.name()
    }

    fn description(&self) -> &'static str {
        "runs nothing; measures the harness itself"
    }

    fn probe(&self, _options: &RunOptions) -> Availability {
        Availability::Available(Capabilities {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            path: None,
            devices: vec![Processor::Cpu],
            precisions: vec![Precision::F32, Precision::F16, Precision::Bf16, Precision::I8],
            memory_formats: vec![MemoryFormat::ChannelsFirst, MemoryFormat::ChannelsLast],
            settings: Vec::new(),
            operator_timing: true,
        })
    }

    fn load(&self, model: &Model, options: &RunOptions) -> Result<Box<dyn Session>, BackendError> {
        self.probe(options).require(self.name())?.check(self.name(), options)?;
        Ok(Box::new(NullSession { graph: model.graph.clone() }))
    }
}

impl Session for NullSession {
    fn run(&mut self) -> Result<RunTime, BackendError> {
        Ok(Stopwatch::start().stop())
    }

    fn profile(&mut self, warmups: usize, repeats: usize) -> Result<ProfiledRuns, BackendError> {
        let mut e2e = Samples::default();
        let mut operators: Vec<Measurement> = self.graph.nodes().iter().map(empty_row).collect();
        for repeat in 0..warmups.saturating_add(repeats) {
            let whole = Stopwatch::start();
            for row in &mut operators {
                let time = Stopwatch::start().stop();
                if repeat >= warmups {
                    row.samples.wall_ns.push(time.wall_ns);
                }
            }
            if repeat >= warmups {
                whole.stop().append_to(&mut e2e);
            }
        }
        Ok(ProfiledRuns { e2e, operators })
    }

    fn outputs(&mut self) -> Result<Vec<OutputValues>, BackendError> {
        Ok(Vec::new())
    }

    fn feed(&mut self, _values: &[&OutputValues]) -> Result<(), BackendError> {
        Ok(())
    }
}

fn empty_row(node: &vitempo_graph::Node) -> Measurement {
    Measurement {
        op: node.op.clone().into(),
        node: node.name.clone(),
        kernel: node.op.kind.name().to_owned(),
        samples: Samples::default(),
        memory_bytes: None,
        status: Status::Ok,
    }
}
