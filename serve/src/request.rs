//! The request of `POST /predict`: [`Asked`], from a JSON document or an ONNX file, with settings
//! of the query string for absent members.
//!
//! No member is a path: bundles and spaces are names that the server was started with, models are
//! bytes.

use super::{expansion, form::Form, problem::Problem};
use axum::http::{HeaderMap, StatusCode, header};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    marker::PhantomData,
};
use vitempo::graph::{
    Graph, ImageSize, Limits, Stop,
    onnx::{self, OnnxError, ReadOptions},
};
use vitempo::search_space::{Architecture, Space};

/// Longest text of an encoded architecture, in characters.
pub const LONGEST_ENCODING: usize = 1024;
/// Largest size of a dimension.
pub const LARGEST_DIMENSION: f64 = 999_999_999.0;
/// Most sizes of images that one request asks for.
pub const MOST_SIZES: usize = 256;
/// The name of an upload in its answer.
const UPLOAD: &str = "model";

/// The kinds of body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// A document that lists encodings and models.
    Json,
    /// One model.
    Onnx,
}

impl Media {
    /// From the headers.
    ///
    /// # Errors
    /// 415 for anything else, and for a compressed body; 400 for two types.
    pub fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let unsupported = |detail: String| {
            Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)
                .hint("send application/json or application/x-onnx")
        };
        let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
        if encodings.any(|e| !e.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(
                unsupported("compressed bodies are not read".to_owned()).field("Content-Encoding")
            );
        }
        if headers.get_all(header::CONTENT_TYPE).iter().nth(1).is_some() {
            let twice = "the request has more than one content type";
            return Err(Problem::new(StatusCode::BAD_REQUEST, twice).field("Content-Type"));
        }
        let given =
            headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/json" => Ok(Self::Json),
            "application/x-onnx" | "application/octet-stream" => Ok(Self::Onnx),
            "" => {
                Err(unsupported("the request has no content type".to_owned()).field("Content-Type"))
            }
            other => Err(unsupported(format!("`{other}` is not read here")).field("Content-Type")),
        }
    }
}

/// The bundles to forecast with, and the detail of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Names of bundles; empty: all.
    pub bundles: Vec<String>,
    /// Sizes of symbolic dimensions.
    pub dimensions: BTreeMap<String, usize>,
    /// Sizes of images that each model is forecast for; empty: the model's own.
    pub sizes: Vec<ImageSize>,
    /// Whether every operator is listed.
    pub breakdown: bool,
    /// Whether memory is forecast.
    pub memory: bool,
    /// Whether the answer is a document or a table.
    pub form: Form,
    /// Members of the document that give these settings; all else is of the query string.
    pub members: BTreeSet<String>,
}

impl Settings {
    /// From a query string.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn read(query: &str) -> Result<Self, Problem> {
        let mut settings = Self::default();
        let (mut breakdown, mut memory) = (None, None);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let wrong = |detail: String| {
                Problem::new(StatusCode::BAD_REQUEST, detail).field(name.to_string())
            };
            match &*name {
                "bundle" => settings.bundles.push(value.into_owned()),
                "breakdown" => once(&mut breakdown, &value).map_err(wrong)?,
                "memory" => once(&mut memory, &value).map_err(wrong)?,
                "dim" => {
                    let (symbol, size) = value
                        .rsplit_once('=')
                        .ok_or_else(|| wrong(format!("`{value}` is not of the form NAME=SIZE")))?;
                    let is_plain = size.starts_with(|c: char| matches!(c, '1'..='9'));
                    let number = size.parse::<u32>().ok().filter(|_| is_plain).map(f64::from);
                    let size = number
                        .and_then(dimension)
                        .ok_or_else(|| wrong(format!("`{size}` is not a size of a dimension")))?;
                    if settings.dimensions.insert(symbol.to_owned(), size).is_some() {
                        return Err(wrong(format!("the dimension `{symbol}` is given twice")));
                    }
                }
                "size" => {
                    let size = value.parse::<ImageSize>().map_err(|e| wrong(e.to_string()))?;
                    settings.sizes.push(size);
                }
                other => {
                    return Err(wrong(format!("there is no parameter `{other}`"))
                        .hint("the parameters are bundle, dim, size, breakdown and memory"));
                }
            }
        }
        let sizes = settings.sizes.len();
        if sizes > MOST_SIZES {
            return Err(Problem::new(StatusCode::BAD_REQUEST, too_many(sizes)).field("size"));
        }
        settings.breakdown = breakdown.unwrap_or_default();
        settings.memory = memory.unwrap_or_default();
        Ok(settings)
    }

    /// Whether answers take the graphs of architectures: tables have neither operators nor memory.
    pub fn is_by_graphs(&self) -> bool {
        self.breakdown || self.memory
    }

    /// The member or parameter that names a bundle, by its place.
    pub fn bundle_field(&self, place: usize) -> String {
        self.field("bundles", &format!("bundles[{place}]"), "bundle")
    }

    /// The member or parameter that names a size of images, by its place.
    pub fn size_field(&self, place: usize) -> String {
        self.field("sizes", &format!("sizes[{place}]"), "size")
    }

    /// The member or parameter with the size of a symbolic dimension.
    pub fn dimension_field(&self, symbol: &str) -> String {
        let member = dimension_member(symbol);
        self.field(&member, &member, "dim")
    }

    fn field(&self, member: &str, field: &str, parameter: &str) -> String {
        if self.members.contains(member) { field.to_owned() } else { parameter.to_owned() }
    }
}

fn dimension_member(symbol: &str) -> String {
    format!("dimensions.{symbol}")
}

/// A parameter that is true or false, given once.
fn once(flag: &mut Option<bool>, value: &str) -> Result<(), String> {
    if flag.is_some() {
        return Err("this parameter is given twice".to_owned());
    }
    *flag = Some(value.parse().map_err(|_| format!("`{value}` is neither true nor false"))?);
    Ok(())
}

fn too_many(sizes: usize) -> String {
    format!("{sizes} sizes of images; at most {MOST_SIZES} are forecast at once")
}

fn dimension(size: f64) -> Option<usize> {
    (size.fract() == 0.0 && (1.0..=LARGEST_DIMENSION).contains(&size)).then_some(size as usize)
}

/// One model to forecast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An architecture of a search space, encoded.
    Encoding(String),
    /// An ONNX file in base64, with its name in the answer.
    Base64(String, String),
    /// An ONNX file.
    Onnx(Vec<u8>),
}

impl Subject {
    /// Its name in the answer.
    pub fn name(&self) -> &str {
        match self {
            Self::Encoding(name) | Self::Base64(name, _) => name,
            Self::Onnx(_) => UPLOAD,
        }
    }

    /// Bytes that were sent for it.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Encoding(text) | Self::Base64(_, text) => text.len(),
            Self::Onnx(bytes) => bytes.len(),
        }
    }

    /// What a bundle is asked. Only bytes are read: weights that a file keeps elsewhere stay where
    /// they are. The graph of an architecture is made where `settings` take graphs.
    ///
    /// # Errors
    /// An invalid model, naming the node if there is one.
    pub fn question(
        &self,
        space: &Space,
        options: &ReadOptions,
        settings: &Settings,
    ) -> Result<Question, Problem> {
        match self {
            Self::Encoding(text) if !settings.is_by_graphs() => {
                Ok(Question::Architecture(space.decode(text)?))
            }
            _ => self.graph(space, options, settings).map(Question::Graph),
        }
    }

    /// Its operators.
    ///
    /// # Errors
    /// As [`Subject::question`].
    pub fn graph(
        &self,
        space: &Space,
        options: &ReadOptions,
        settings: &Settings,
    ) -> Result<Graph, Problem> {
        match self {
            Self::Encoding(text) => Ok(space.decode(text)?.to_graph()?),
            Self::Base64(name, text) => {
                let bytes = BASE64_STANDARD
                    .decode(text)
                    .map_err(|e| Problem::unprocessable(format!("`onnx` is not base64: {e}")))?;
                read(name, &bytes, options, settings)
            }
            Self::Onnx(bytes) => read(UPLOAD, bytes, options, settings),
        }
    }
}

fn read(
    name: &str,
    bytes: &[u8],
    options: &ReadOptions,
    settings: &Settings,
) -> Result<Graph, Problem> {
    expansion::check(bytes)?;
    let read = onnx::read_bytes_with_notes(name, bytes, options)?;
    let refuse = |error: OnnxError| match &error {
        OnnxError::UnusedDimension { name, .. } => {
            let field = settings.dimension_field(name);
            Problem::from(error).field(field)
        }
        _ => error.into(),
    };
    Ok(read.with_all_dimensions_used().map_err(refuse)?.graph)
}

/// A model in the form that bundles take.
#[derive(Clone, Debug)]
pub enum Question {
    /// An architecture of the requested space.
    Architecture(Architecture),
    /// Any model.
    Graph(Graph),
}

impl Question {
    /// The architecture, where it is one.
    pub fn architecture(&self) -> Option<Architecture> {
        if let Self::Architecture(architecture) = self { Some(*architecture) } else { None }
    }

    /// The operators; `None` of an architecture where those are `looked_up`.
    pub fn graph(&self, looked_up: bool) -> Option<Result<Cow<'_, Graph>, Problem>> {
        match self {
            Self::Architecture(_) if looked_up => None,
            Self::Architecture(architecture) => {
                Some(architecture.to_graph().map(Cow::Owned).map_err(Problem::from))
            }
            Self::Graph(graph) => Some(Ok(Cow::Borrowed(graph))),
        }
    }
}

/// A valid request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The bundles, and the detail of the answer.
    pub settings: Settings,
    /// Name of the space that encodings are of; `None`: the first.
    pub space: Option<String>,
    /// The models to forecast, in the order of the answer.
    pub subjects: Vec<Subject>,
}

impl Asked {
    /// From a body.
    ///
    /// # Errors
    /// 400 for a body that is not JSON, 422 naming the invalid member.
    pub fn read(media: Media, bytes: Vec<u8>, settings: Settings) -> Result<Self, Problem> {
        match media {
            Media::Onnx => Ok(Self { settings, space: None, subjects: vec![Subject::Onnx(bytes)] }),
            Media::Json => Document::read(&bytes)?.asked(settings),
        }
    }

    /// Forecasts that are asked for, where all are of architectures as they are; models, and images
    /// of another size, may take any time.
    pub fn architectures(&self, served: usize) -> Option<usize> {
        let bundles = match self.settings.bundles.len() {
            0 => served,
            named => named,
        };
        let all = self.subjects.iter().all(|subject| matches!(subject, Subject::Encoding(_)));
        (all && self.settings.sizes.is_empty()).then(|| self.subjects.len().saturating_mul(bundles))
    }

    /// How models are read: within these limits, and for as long as somebody waits.
    pub fn options(&self, limits: Limits, stop: Stop) -> ReadOptions {
        let dimensions = self.settings.dimensions.clone();
        ReadOptions { dimensions, limits, stop, ..ReadOptions::default() }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Document {
    #[serde(deserialize_with = "present")]
    bundles: Option<Vec<String>>,
    #[serde(deserialize_with = "present")]
    space: Option<String>,
    encodings: Vec<String>,
    models: Vec<ModelDocument>,
    dimensions: Members<f64>,
    #[serde(deserialize_with = "present")]
    sizes: Option<Vec<String>>,
    #[serde(deserialize_with = "present")]
    breakdown: Option<bool>,
    #[serde(deserialize_with = "present")]
    memory: Option<bool>,
}

/// Name and base64.
#[derive(Deserialize)]
#[serde(try_from = "Members<String>")]
struct ModelDocument(String, String);

impl TryFrom<Members<String>> for ModelDocument {
    type Error = String;

    fn try_from(Members(mut members): Members<String>) -> Result<Self, String> {
        let mut take =
            |name: &str| members.remove(name).ok_or_else(|| format!("`{name}` is missing"));
        let model = Self(take("name")?, take("onnx")?);
        members
            .into_keys()
            .next()
            .map_or(Ok(model), |other| Err(format!("there is no member `{other}`")))
    }
}

/// An object whose members are given once: serde would take the last.
struct Members<T>(BTreeMap<String, T>);

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor(PhantomData))
    }
}

struct MembersVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for MembersVisitor<T> {
    type Value = Members<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<T>, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, T>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format!("`{name}` is given twice")));
            }
            members.insert(name, value);
        }
        Ok(Members(members))
    }
}

/// `null` is not accepted: a member has a value or is absent.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl Document {
    fn read(bytes: &[u8]) -> Result<Self, Problem> {
        // serde would accept a list as the members in their order.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            serde_json::from_slice::<IgnoredAny>(bytes).map_err(|error| no_json(&error))?;
            return Err(Problem::unprocessable("the document is not an object"));
        }
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let document = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = error.path().to_string();
            let inner = error.into_inner();
            if !inner.is_data() {
                return no_json(&inner);
            }
            let problem = Problem::unprocessable(inner.to_string());
            let field = if path == "." { given_twice(&inner) } else { Some(path) };
            match field {
                Some(field) => problem.field(field),
                None => problem,
            }
        })?;
        json.end().map_err(|error| no_json(&error))?;
        Ok(document)
    }

    fn asked(self, mut settings: Settings) -> Result<Asked, Problem> {
        if let Some(bundles) = self.bundles {
            if bundles.is_empty() {
                return Err(Problem::unprocessable("no bundle is named")
                    .field("bundles")
                    .hint("leave the member out to ask all bundles"));
            }
            settings.bundles = bundles;
            settings.members.insert("bundles".to_owned());
        }
        let (has_encodings, has_models) = (!self.encodings.is_empty(), !self.models.is_empty());
        if has_encodings && !has_models {
            check_no_dimensions(&self.dimensions.0, &settings)?;
        }
        if has_models && !has_encodings && self.space.is_some() {
            let problem = without_effect("a space is about encodings, and there are models alone");
            return Err(problem.field("space"));
        }
        for (symbol, size) in self.dimensions.0 {
            let wrong = || {
                Problem::unprocessable(format!("{size} is not a size of a dimension"))
                    .field(dimension_member(&symbol))
            };
            let size = dimension(size).ok_or_else(wrong)?;
            settings.members.insert(dimension_member(&symbol));
            settings.dimensions.insert(symbol, size);
        }
        if let Some(sizes) = self.sizes {
            settings.sizes = image_sizes(&sizes)?;
            settings.members.insert("sizes".to_owned());
        }
        settings.breakdown = self.breakdown.unwrap_or(settings.breakdown);
        settings.memory = self.memory.unwrap_or(settings.memory);
        if let Some(index) =
            self.encodings.iter().position(|text| text.chars().count() > LONGEST_ENCODING)
        {
            return Err(Problem::unprocessable("this is too long for an encoding")
                .field(format!("encodings[{index}]")));
        }
        let encodings = self.encodings.into_iter().map(Subject::Encoding);
        let models = self.models.into_iter().map(|model| Subject::Base64(model.0, model.1));
        let subjects: Vec<Subject> = encodings.chain(models).collect();
        if subjects.is_empty() {
            return Err(Problem::unprocessable("there is nothing to forecast")
                .field("encodings")
                .hint("list encodings, models or both"));
        }
        Ok(Asked { settings, space: self.space, subjects })
    }
}

/// Sizes of dimensions are about models: encodings alone have none.
///
/// # Errors
/// 422 naming the member or the parameter.
fn check_no_dimensions(listed: &BTreeMap<String, f64>, settings: &Settings) -> Result<(), Problem> {
    let field = match (listed.is_empty(), settings.dimensions.is_empty()) {
        (false, _) => "dimensions",
        (true, false) => "dim",
        (true, true) => return Ok(()),
    };
    Err(without_effect("dimensions are about models, and there are encodings alone").field(field))
}

fn without_effect(reason: &str) -> Problem {
    Problem::unprocessable(format!("this has no effect: {reason}")).hint("leave it out")
}

/// The member that is given twice, if that is what is wrong: no path leads to it.
fn given_twice(error: &serde_json::Error) -> Option<String> {
    let text = error.to_string();
    let (name, _) = text.strip_prefix("duplicate field `")?.split_once('`')?;
    Some(name.to_owned())
}

/// # Errors
/// 422 naming the member.
fn image_sizes(texts: &[String]) -> Result<Vec<ImageSize>, Problem> {
    let hint = "leave the member out to forecast models as they are";
    match texts.len() {
        0 => {
            let problem = Problem::unprocessable("no size is named");
            return Err(problem.field("sizes").hint(hint));
        }
        many if many > MOST_SIZES => {
            return Err(Problem::unprocessable(too_many(many)).field("sizes"));
        }
        _ => {}
    }
    let size = |(index, text): (usize, &String)| {
        let wrong = |error: vitempo::graph::ImageSizeError| {
            Problem::unprocessable(error.to_string()).field(format!("sizes[{index}]"))
        };
        text.parse().map_err(wrong)
    };
    texts.iter().enumerate().map(size).collect()
}

fn no_json(error: &serde_json::Error) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, format!("the body is not a JSON document: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Result<Asked, serde_json::Value> {
        Asked::read(Media::Json, text.as_bytes().to_vec(), Settings::default())
            .map_err(|p| serde_json::to_value(p).unwrap_or_default())
    }

    #[test]
    fn a_document_says_what_to_forecast_and_how() {
        let text = r#"{"bundles": ["a"], "encodings": ["hv1"], "models": [{"name": "m", "onnx": "AAAA"}], "dimensions": {"batch": 2}, "breakdown": true}"#;
        let asked = json(text).unwrap_or_default();
        assert_eq!(
            asked.subjects,
            [
                Subject::Encoding("hv1".to_owned()),
                Subject::Base64("m".to_owned(), "AAAA".to_owned())
            ]
        );
        assert_eq!(
            (asked.settings.bundles, asked.settings.breakdown),
            (vec!["a".to_owned()], true)
        );
        assert_eq!(asked.settings.dimensions["batch"], 2);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            (r#"{"encodings": ["a""#, 400, ""),
            ("", 400, ""),
            (r#"{"encodings": ["a"]} more"#, 400, ""),
            (r#"{"encodings": ["a", 7]}"#, 422, "encodings[1]"),
            (r#"{"encodings": null}"#, 422, "encodings"),
            (r#"{"encodings": ["a"], "bundles": null}"#, 422, "bundles"),
            (r#"{"encodings": ["a"], "bundles": []}"#, 422, "bundles"),
            (
                r#"{"models": [{"name": "m", "onnx": ""}], "dimensions": {"n": 0}}"#,
                422,
                "dimensions.n",
            ),
            (
                r#"{"models": [{"name": "m", "onnx": ""}], "dimensions": {"n": 1.5}}"#,
                422,
                "dimensions.n",
            ),
            (r#"{"encodings": ["a"], "dimensions": {"n": 4, "n": 2}}"#, 422, "dimensions"),
            (r#"{"encodings": ["a"], "dimensions": {"n": 4}}"#, 422, "dimensions"),
            (r#"{"models": [{"name": "m", "onnx": ""}], "space": "hybrid-vit"}"#, 422, "space"),
            (r#"{"encodings": ["a"], "encodings": ["b"]}"#, 422, "encodings"),
            (r#"{"encodings": ["a"], "memory": true, "memory": true}"#, 422, "memory"),
            (r#"{"models": [{"name": "m", "name": "n", "onnx": "AAAA"}]}"#, 422, "models[0]"),
            (r#"{"encodings": ["a"], "sizes": []}"#, 422, "sizes"),
            (r#"{"encodings": ["a"], "sizes": [224]}"#, 422, "sizes[0]"),
            (r#"{"encodings": ["a"], "sizes": ["224", "0x8"]}"#, 422, "sizes[1]"),
            (r#"{"encodings": ["a"], "sizes": ["65537"]}"#, 422, "sizes[0]"),
            (r#"{"models": [{"name": "m"}]}"#, 422, "models[0]"),
            (r#"{"encodings": [], "models": []}"#, 422, "encodings"),
            (r#"{"path": "/etc/passwd"}"#, 422, "path"),
            ("[]", 422, ""),
            (r#"[["a"], "hybrid-vit", ["hv1"]]"#, 422, ""),
            (r#"{"models": [["m", "AAAA"]]}"#, 422, "models[0]"),
        ];
        for (text, status, field) in cases {
            let problem = json(text).err().unwrap_or_default();
            assert_eq!(problem["status"], status, "{text}: {problem}");
            assert!(field.is_empty() || problem["field"] == field, "{text}: {problem}");
        }
        let sizes = vec!["\"224\""; MOST_SIZES + 1].join(",");
        let problem = json(&format!("{{\"encodings\": [\"a\"], \"sizes\": [{sizes}]}}")).err();
        assert_eq!(problem.unwrap_or_default()["field"], "sizes");
        let nested = format!("{{\"encodings\": {}{}}}", "[".repeat(9000), "]".repeat(9000));
        assert!(json(&nested).is_err());
    }

    #[test]
    fn settings_come_from_the_query_too() {
        let settings = Settings::read("bundle=a&bundle=b%20c&dim=batch%3D4&breakdown=true")
            .unwrap_or_default();
        assert_eq!(
            (settings.bundles, settings.dimensions["batch"], settings.breakdown),
            (vec!["a".to_owned(), "b c".to_owned()], 4, true)
        );
        let sizes = Settings::read("size=192x256&size=384").unwrap_or_default().sizes;
        assert_eq!(
            sizes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["192x256", "384x384"]
        );
        let many = "size=8&".repeat(MOST_SIZES + 1);
        for (query, says) in [
            (many.as_str(), "at most"),
            ("size=", "size"),
            ("size=8x", "`8x`"),
            ("size=65537x1", "65536"),
            ("size=-1", "`-1`"),
            ("breakdown=maybe", "maybe"),
            ("breakdown=true&breakdown=true", "twice"),
            ("memory=1", "`1`"),
            ("dim=4", "NAME=SIZE"),
            ("dim=n=0", "size"),
            ("dim=n=NaN", "size"),
            ("dim=n=4&dim=n=2", "`n` is given twice"),
            ("path=/etc", "path"),
        ] {
            assert!(Settings::read(query).is_err_and(|p| p.detail().contains(says)), "{query}");
        }
    }

    #[test]
    fn fields_are_those_of_the_query_string_or_of_the_document() {
        let query = || Settings::read("bundle=a&size=8&dim=n=4").unwrap_or_default();
        let fields = |settings: &Settings| {
            [settings.bundle_field(1), settings.size_field(0), settings.dimension_field("n")]
        };
        assert_eq!(fields(&query()), ["bundle", "size", "dim"]);
        let text = r#"{"models": [{"name": "m", "onnx": ""}], "bundles": ["a"], "sizes": ["8"], "dimensions": {"n": 4}}"#;
        let asked = Asked::read(Media::Json, text.into(), query()).unwrap_or_default();
        assert_eq!(fields(&asked.settings), ["bundles[1]", "sizes[0]", "dimensions.n"]);
        let alone = Asked::read(Media::Json, r#"{"encodings": ["a"]}"#.into(), query());
        let problem = alone.map_err(|p| serde_json::to_value(p).unwrap_or_default());
        assert_eq!(problem.err().unwrap_or_default()["field"], "dim");
    }

    #[test]
    fn headers_that_are_sent_twice_are_all_read() {
        let of = |lines: &[(header::HeaderName, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(name, axum::http::HeaderValue::from_static(value));
            }
            let problem = Media::of(&headers).map_err(serde_json::to_value);
            problem.err().and_then(Result::ok).unwrap_or_default()["status"].clone()
        };
        let json = (header::CONTENT_TYPE, "application/json");
        let encoding = |value| (header::CONTENT_ENCODING, value);
        assert_eq!(of(&[json.clone(), encoding("identity"), encoding("gzip")]), 415);
        assert_eq!(of(&[json.clone(), (header::CONTENT_TYPE, "application/x-onnx")]), 400);
        assert!(of(&[json, encoding("identity"), encoding("Identity")]).is_null());
    }

    #[test]
    fn media_types_that_are_read() {
        let of = |text: &'static str| {
            Media::of(&HeaderMap::from_iter([(
                header::CONTENT_TYPE,
                axum::http::HeaderValue::from_static(text),
            )]))
        };
        assert_eq!(of("Application/JSON; charset=utf-8").ok(), Some(Media::Json));
        assert_eq!(of("application/x-onnx").ok(), Some(Media::Onnx));
        assert!(
            of("text/plain").is_err_and(|p| p.detail().contains("text/plain"))
                && Media::of(&HeaderMap::new()).is_err()
        );
    }
}
