//! [`Session`]: the models and bundles that are open, by number and by name.

use crate::{
    Failure,
    answers::{BundleCard, Dimensions, ImageSides, ModelCard, OpenDimension, Read},
};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use vitempo::{
    Bundle,
    bundle::{BundleCard as Card, Location},
    graph::{ImageSize, Work, image_size, onnx::ReadOptions},
    models::{self, Model, SymbolicDimension},
    query::SharedForecasts,
    search_space::Space,
};

/// Models at other sizes than their file's that are kept.
const MOST_RESIZED: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub struct Session {
    models: BTreeMap<u32, Model>,
    resized: BTreeMap<(u32, Option<ImageSize>), Arc<Model>>,
    bundles: BTreeMap<String, Bundle>,
    spaces: BTreeMap<(String, String), SharedForecasts>,
    opened: u32,
    pub(crate) options: ReadOptions,
}

impl Session {
    /// Without models and bundles.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a model of a file with this name.
    ///
    /// # Errors
    /// The library's, naming the file and the node.
    pub fn read(
        &mut self,
        file: &str,
        bytes: &[u8],
        dimensions: &Dimensions,
    ) -> Result<Read, Failure> {
        let mut options = self.options.clone();
        options.dimensions = dimensions.0.clone();
        let open = models::symbolic_dimensions(bytes, &options);
        if !open.is_empty() {
            let dimensions = open.into_iter().map(OpenDimension::from).collect();
            return Ok(Read::Open { dimensions });
        }
        let model = models::read_bytes(Path::new(file), bytes, &options).map_err(Failure::of)?;
        Ok(Read::Model(self.open(model)))
    }

    /// Opens a model that ships with the library, or the architecture of an encoding.
    ///
    /// # Errors
    /// The library's, with similar names.
    pub fn example(&mut self, name: &str) -> Result<ModelCard, Failure> {
        let graph = vitempo::export::find(name, None).map_err(Failure::of)?;
        Ok(self.open(Model::of_graph(graph)))
    }

    fn open(&mut self, model: Model) -> ModelCard {
        self.opened += 1;
        let card = ModelCard::new(self.opened, &model);
        self.models.insert(self.opened, model);
        card
    }

    /// Forgets a model.
    pub fn close(&mut self, model: u32) {
        self.models.remove(&model);
        self.resized.retain(|(of, _), _| *of != model);
    }

    /// Opens a bundle of a file with this name; it replaces one of the same name.
    ///
    /// # Errors
    /// The library's, naming the file.
    pub fn add_bundle(&mut self, file: &str, bytes: &[u8]) -> Result<BundleCard, Failure> {
        let location = Location::File(file.into());
        let bundle = Bundle::from_bytes(location, bytes).map_err(Failure::of)?;
        let card = BundleCard::of(&bundle.card())?;
        self.spaces.retain(|(_, of), _| of != bundle.name());
        self.bundles.insert(bundle.name().to_owned(), bundle);
        Ok(card)
    }

    /// An open bundle.
    pub(crate) fn bundle(&self, name: &str) -> Result<&Bundle, Failure> {
        self.bundles.get(name).ok_or_else(|| Failure::unknown("bundle", name))
    }

    /// An open model, at this size of images.
    pub(crate) fn model(
        &mut self,
        model: u32,
        size: Option<ImageSize>,
    ) -> Result<Arc<Model>, Failure> {
        let found = self.models.get(&model).ok_or_else(|| Failure::unknown("model", model))?;
        let own = image_size(&found.graph);
        let other = size.filter(|size| Some(*size) != own);
        if let Some(kept) = self.resized.get(&(model, other)) {
            return Ok(kept.clone());
        }
        let made = match other {
            None => found.clone(),
            Some(size) => {
                found.with_image_size_within(size, &self.options.budget()).map_err(Failure::of)?
            }
        };
        if self.resized.len() >= MOST_RESIZED {
            self.resized.clear();
        }
        let made = Arc::new(made);
        self.resized.insert((model, other), made.clone());
        Ok(made)
    }

    /// Forecasts of a space's architectures by an open bundle.
    pub(crate) fn over(&mut self, space: &str, bundle: &str) -> Result<&SharedForecasts, Failure> {
        let key = (space.to_owned(), bundle.to_owned());
        if !self.spaces.contains_key(&key) {
            let opened = self.bundle(bundle)?.clone();
            let of = Space::named(space).map_err(Failure::of)?;
            self.spaces.insert(key.clone(), SharedForecasts::new(opened, of.into()));
        }
        self.spaces.get(&key).ok_or_else(|| Failure::unknown("bundle", bundle))
    }
}

impl From<SymbolicDimension> for OpenDimension {
    fn from(of: SymbolicDimension) -> Self {
        Self { symbol: of.symbol, input: of.input, index: of.index }
    }
}

impl ModelCard {
    fn new(id: u32, model: &Model) -> Self {
        let work = Work::of_graph(&model.graph);
        let inputs = model.graph.inputs().iter().map(|input| {
            let value = model.graph.value(*input);
            let shape = value.tensor.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{} {shape}", value.name)
        });
        Self {
            id,
            name: model.identity.name.clone(),
            inputs: inputs.collect(),
            image: image_size(&model.graph).map(ImageSides::from),
            operators: model.graph.nodes().len(),
            flops: work.flops,
            parameters: work.params,
            notes: model.notes.iter().map(ToString::to_string).collect(),
        }
    }
}

impl From<ImageSize> for ImageSides {
    fn from(of: ImageSize) -> Self {
        Self { height: of.height(), width: of.width() }
    }
}

impl BundleCard {
    /// Both have the same fields under the same names.
    fn of(card: &Card) -> Result<Self, Failure> {
        let value = serde_json::to_value(card).map_err(Failure::of)?;
        serde_json::from_value(value).map_err(Failure::of)
    }
}
