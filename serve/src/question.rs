//! [`Questions`]: what bundles are asked about each [`Item`], a model at one size of images.

use super::{
    problem::Problem,
    request::{Asked, Question, Settings, Subject},
};
use vitempo::graph::{Graph, ImageSize, onnx::ReadOptions, with_image_size_within};
use vitempo::search_space::Space;

/// A model to forecast, at its own or another size of images.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The model.
    pub subject: &'a Subject,
    /// Its place in the request.
    place: usize,
    /// Another size than the model's, and its place in the request.
    size: Option<(usize, ImageSize)>,
}

impl<'a> Item<'a> {
    /// What is asked for: each model at each size, model by model.
    pub fn all(asked: &'a Asked) -> Vec<Self> {
        let sizes: Vec<_> = match asked.settings.sizes.as_slice() {
            [] => vec![None],
            sizes => sizes.iter().copied().enumerate().map(Some).collect(),
        };
        let at_each = |(place, subject): (usize, &'a Subject)| {
            sizes.iter().map(move |&size| Self { subject, place, size }).collect::<Vec<_>>()
        };
        asked.subjects.iter().enumerate().flat_map(at_each).collect()
    }

    /// The size, where it is not the model's own.
    pub fn size(&self) -> Option<ImageSize> {
        self.size.map(|(_, size)| size)
    }
}

/// Reads models. One that is asked about at several sizes is read once.
pub struct Questions<'a> {
    space: &'a Space,
    options: &'a ReadOptions,
    settings: &'a Settings,
    /// The last model that was read for another size, by its place.
    last: Option<(usize, Result<Graph, Problem>)>,
}

impl<'a> Questions<'a> {
    /// Architectures are of `space`; each model is read, and given each size, within the budget of
    /// `options`. The graph of an architecture is made where `settings` take graphs.
    pub fn new(space: &'a Space, options: &'a ReadOptions, settings: &'a Settings) -> Self {
        Self { space, options, settings, last: None }
    }

    /// What bundles are asked.
    ///
    /// # Errors
    /// An invalid model, or a size at which it does not work, naming the node if there is one.
    pub fn question(&mut self, item: &Item<'_>) -> Result<Question, Problem> {
        let Some((place, size)) = item.size else {
            return item.subject.question(self.space, self.options, self.settings);
        };
        let (options, settings) = (self.options, self.settings);
        let graph = self.read(item)?;
        let resized = with_image_size_within(graph, size, &options.budget());
        let refuse = |error| Problem::from(error).field(settings.size_field(place));
        resized.map(Question::Graph).map_err(refuse)
    }

    /// Whether the last model cannot be read at all.
    pub fn is_unreadable(&self) -> bool {
        matches!(self.last, Some((_, Err(_))))
    }

    fn read(&mut self, item: &Item<'_>) -> Result<&Graph, Problem> {
        if self.last.as_ref().is_none_or(|(place, _)| *place != item.place) {
            // The graph before goes first.
            self.last = None;
            let graph = item.subject.graph(self.space, self.options, self.settings);
            self.last = Some((item.place, graph));
        }
        let missing = || Problem::unprocessable("the model was not read");
        self.last.as_ref().ok_or_else(missing)?.1.as_ref().map_err(Problem::clone)
    }
}
