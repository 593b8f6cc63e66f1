//! [`Trained`]: the network's files; [`OnEngine`]: the network on an engine, at every size.

use super::AriaStudyError;
use std::{path::Path, sync::Arc};
use vitempo::{
    aria::{
        CHANNELS, FeatureMap, FlowSource, Grid, Intrinsics,
        scene::{Dense, Network},
    },
    graph::{
        Graph,
        onnx::{self, ReadOptions},
        quantize::{Conversion, Options},
    },
    plan::{
        aria::{
            AriaModels, FlowFile,
            live::{decoded, decoder_inputs},
            read_flow,
        },
        live::Engine,
    },
    profiler::{OutputValues, live::Rig},
};

/// Pixels along each side of a patch.
const PATCH: usize = 8;
/// Seed of weights that a file lacks: ours lack none.
const SEED: u64 = 1;

/// Encoder and decoder with their weights.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The models.
    pub models: AriaModels,
    /// The flow that was trained on the encoder's features, where there is one.
    pub flow: Option<FlowFile>,
}

/// The precision in which a network runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// As trained.
    F32,
    /// 8-bit products, with ranges computed at run time.
    Int8,
}

impl Trained {
    /// Reads `encoder.onnx`, `decoder.onnx` and, where there is one, `flow.json` of a folder.
    ///
    /// # Errors
    /// [`AriaStudyError`] naming the file.
    pub fn read(folder: &Path) -> Result<Self, AriaStudyError> {
        let read = |name: &str| -> Result<Graph, AriaStudyError> {
            let path = folder.join(format!("{name}.onnx"));
            let bytes = std::fs::read(&path)
                .map_err(|e| AriaStudyError::File { path, reason: e.to_string() })?;
            Ok(onnx::read_weights(&format!("aria_{name}"), &bytes, &ReadOptions::default())?)
        };
        let models = AriaModels::new(read("encoder")?, Some(read("decoder")?), Some(PATCH))?;
        let flow = folder.join("flow.json");
        let flow = flow.exists().then(|| read_flow(&flow)).transpose()?;
        Ok(Self { models, flow })
    }

    /// The trained flow for a camera, where there is one.
    ///
    /// # Errors
    /// [`AriaStudyError::Flow`] where it was trained for other features or lenses.
    pub fn flow_behind(
        &self,
        grid: Grid,
        intrinsics: Intrinsics,
    ) -> Result<Option<FlowSource>, AriaStudyError> {
        let Some(flow) = &self.flow else { return Ok(None) };
        let features = self.models.features()?;
        Ok(Some(FlowSource::Learned(flow.behind(&features, grid, intrinsics)?)))
    }

    /// The network on an engine, with encoders and decoders for these numbers of patches.
    ///
    /// # Errors
    /// [`AriaStudyError`] naming the size or the engine.
    pub fn on(
        &self,
        backend: &str,
        precision: Precision,
        encoders: &[Grid],
        decoders: &[Grid],
    ) -> Result<OnEngine, AriaStudyError> {
        let size = |grid: &Grid| [grid.rows(), grid.cols()];
        let mut parts = Vec::new();
        for grid in encoders {
            parts.push(in_precision(self.models.encoder_at(size(grid))?, precision)?);
        }
        for grid in decoders {
            let decoder = self.models.decoder_at(size(grid))?;
            parts.extend(decoder.map(|graph| in_precision(graph, precision)).transpose()?);
        }
        let engine =
            Engine { name: "network".to_owned(), backend: backend.to_owned(), cores: Vec::new() };
        let rig = Rig::start(&[engine.processor()], parts)?;
        Ok(OnEngine { rig, encoders: encoders.to_vec(), decoders: decoders.to_vec() })
    }
}

fn in_precision(graph: Graph, precision: Precision) -> Result<Graph, AriaStudyError> {
    match precision {
        Precision::F32 => Ok(graph),
        Precision::Int8 => {
            let named = graph.name().to_owned();
            Ok(Conversion::Integer.apply(&graph, &Options::seeded(SEED))?.with_name(named))
        }
    }
}

/// A network on an engine.
#[derive(Debug)]
pub struct OnEngine {
    rig: Rig,
    encoders: Vec<Grid>,
    decoders: Vec<Grid>,
}

fn place(grids: &[Grid], grid: Grid, what: &str) -> Result<usize, AriaStudyError> {
    let found = grids.iter().position(|known| *known == grid);
    found.ok_or_else(|| AriaStudyError::Size(format!("{what} {grid}")))
}

impl Network for OnEngine {
    type Error = AriaStudyError;

    fn encode(&mut self, pixels: Vec<f32>, grid: Grid) -> Result<Vec<f32>, AriaStudyError> {
        let part = place(&self.encoders, grid, "encoding")?;
        let graph = &self.rig.parts()[part];
        let patch = (pixels.len() / CHANNELS / grid.patches()).isqrt();
        let name = graph.inputs().first().map(|id| graph.value(*id).name.clone());
        let input = OutputValues {
            name: name.unwrap_or_default(),
            shape: vec![1, CHANNELS, grid.rows() * patch, grid.cols() * patch],
            values: pixels,
        };
        let mut answer = self.rig.ask(part, 0, &[Arc::new(input)])?.wait()?;
        let output = answer.values.first_mut().map(|output| std::mem::take(&mut output.values));
        output
            .filter(|features| !features.is_empty() && features.len() % grid.patches() == 0)
            .ok_or(AriaStudyError::NoFeatures {
                model: graph.name().to_owned(),
                patches: grid.patches(),
            })
    }

    fn decode(&mut self, features: &FeatureMap) -> Result<Dense, AriaStudyError> {
        let part = self.encoders.len() + place(&self.decoders, features.grid(), "decoding")?;
        let decoder = &self.rig.parts()[part];
        let answer = self.rig.ask(part, 0, &decoder_inputs(decoder, features))?.wait()?;
        Ok(decoded(decoder, answer, features)?)
    }
}
