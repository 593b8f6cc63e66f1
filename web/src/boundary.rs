//! [`Explorer`]: a [`Session`] as JavaScript sees it. Sizes of images are texts such as `224x224`.

use crate::{
    Failure, Session,
    answers::{
        BundleCard, Comparison, Details, Dimensions, Drawn, Forecast, Latency, ModelCard, Read,
        Sample, SizeRow, Split,
    },
};
use serde::Serialize;
use tsify::{Ts, Tsify};
use vitempo::{graph::ImageSize, models::SHIPPED, search_space::Space};
use wasm_bindgen::{JsError, prelude::wasm_bindgen};

/// The models and bundles that are open on a page.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Explorer(Session);

/// What a method gives; an error is thrown as an `Error` with the library's text.
type Answer<T> = Result<Ts<T>, JsError>;

fn give<T: Tsify + Serialize>(answer: Result<T, Failure>) -> Answer<T> {
    Ok(answer?.into_ts()?)
}

fn size(text: Option<String>) -> Result<Option<ImageSize>, Failure> {
    text.map(|text| text.parse()).transpose().map_err(Failure::of)
}

#[wasm_bindgen]
impl Explorer {
    /// Without models and bundles.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The version of the library.
    #[must_use]
    pub fn version() -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    /// Names of the models that ship.
    #[must_use]
    pub fn examples() -> Vec<String> {
        SHIPPED.iter().map(|model| model.name.to_owned()).collect()
    }

    /// Names of the search spaces.
    #[must_use]
    pub fn spaces() -> Vec<String> {
        Space::names().map(str::to_owned).collect()
    }

    /// [`Session::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&mut self, file: &str, bytes: &[u8], dimensions: Ts<Dimensions>) -> Answer<Read> {
        let dimensions = dimensions.to_rust()?;
        give(self.0.read(file, bytes, &dimensions))
    }

    /// [`Session::example`].
    ///
    /// # Errors
    /// As there.
    pub fn example(&mut self, name: &str) -> Answer<ModelCard> {
        give(self.0.example(name))
    }

    /// [`Session::close`].
    pub fn close(&mut self, model: u32) {
        self.0.close(model);
    }

    /// [`Session::add_bundle`].
    ///
    /// # Errors
    /// As there.
    #[wasm_bindgen(js_name = addBundle)]
    pub fn add_bundle(&mut self, file: &str, bytes: &[u8]) -> Answer<BundleCard> {
        give(self.0.add_bundle(file, bytes))
    }

    /// [`Session::forecast`].
    ///
    /// # Errors
    /// As there.
    pub fn forecast(
        &mut self,
        model: u32,
        image: Option<String>,
        bundle: &str,
    ) -> Answer<Forecast> {
        give(self.0.forecast(model, size(image)?, bundle))
    }

    /// [`Session::details`].
    ///
    /// # Errors
    /// As there.
    pub fn details(&mut self, model: u32, image: Option<String>, bundle: &str) -> Answer<Details> {
        give(self.0.details(model, size(image)?, bundle))
    }

    /// [`Session::compare`].
    ///
    /// # Errors
    /// As there.
    pub fn compare(
        &mut self,
        first: u32,
        first_image: Option<String>,
        second: u32,
        second_image: Option<String>,
        bundle: &str,
    ) -> Answer<Comparison> {
        let models = [(first, size(first_image)?), (second, size(second_image)?)];
        give(self.0.compare(models, bundle))
    }

    /// [`Session::at_size`].
    ///
    /// # Errors
    /// As there, and for a text that is no size.
    #[wasm_bindgen(js_name = atSize)]
    pub fn at_size(&mut self, model: u32, image: &str, bundles: Vec<String>) -> Answer<SizeRow> {
        let image = image.parse().map_err(Failure::of)?;
        give(self.0.at_size(model, image, &bundles))
    }

    /// [`Session::split`]; the round trip is in nanoseconds.
    ///
    /// # Errors
    /// As there.
    pub fn split(
        &mut self,
        model: u32,
        image: Option<String>,
        device: &str,
        server: &str,
        bytes_per_s: f64,
        round_trip: f64,
    ) -> Answer<Split> {
        // Saturates: no such link is that fast or that slow.
        let (bytes_per_s, round_trip) = (bytes_per_s as u64, round_trip as u64);
        give(self.0.split(model, size(image)?, [device, server], bytes_per_s, round_trip))
    }

    /// [`Session::sample`].
    ///
    /// # Errors
    /// As there.
    pub fn sample(&self, space: &str, seed: u32) -> Answer<Sample> {
        give(self.0.sample(space, seed))
    }

    /// [`Session::sampled`].
    ///
    /// # Errors
    /// As there.
    pub fn sampled(&self, space: &str, encoding: &str) -> Answer<Sample> {
        give(self.0.sampled(space, encoding))
    }

    /// [`Session::sample_latency`].
    ///
    /// # Errors
    /// As there.
    #[wasm_bindgen(js_name = sampleLatency)]
    pub fn sample_latency(&mut self, space: &str, encoding: &str, bundle: &str) -> Answer<Latency> {
        give(self.0.sample_latency(space, encoding, bundle))
    }

    /// [`Session::draw`].
    ///
    /// # Errors
    /// As there.
    pub fn draw(&self, space: &str, count: usize, seed: u32) -> Result<Vec<String>, JsError> {
        Ok(self.0.draw(space, count, seed)?)
    }

    /// [`Session::latencies`].
    ///
    /// # Errors
    /// As there.
    pub fn latencies(
        &mut self,
        space: &str,
        bundle: &str,
        encodings: Vec<String>,
    ) -> Result<Vec<f64>, JsError> {
        Ok(self.0.latencies(space, bundle, &encodings)?)
    }

    /// The architectures that no other beats on both devices.
    ///
    /// # Errors
    /// None is known.
    pub fn front(encodings: Vec<String>, first: Vec<f64>, second: Vec<f64>) -> Answer<Drawn> {
        give(Ok(Session::drawn(encodings, first, second)))
    }
}
