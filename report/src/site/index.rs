//! [`Index`]: the pages of a report and the links to them.

use crate::{
    Topic,
    accuracy::best_fed,
    chart::ModelKey,
    evaluate::FEWEST_MODELS,
    forecasts::ModelForecast,
    group::Group,
    slugs::Slugs,
    survey::{FAMILIES, Model, Survey, family_index},
    table::Cell,
};
use std::collections::BTreeMap;
use vitempo::{graph::Work, predictors::Method};

/// What pages there are.
pub struct Index<'a> {
    pub surveys: &'a [Survey],
    pub topics: &'a [Topic],
    /// Models that are not sampled, by name, then by architecture.
    pub models: Vec<Entry<'a>>,
    /// By survey and model: measured time by operator family, ns.
    pub families: Vec<Vec<[f64; FAMILIES]>>,
    labels: BTreeMap<&'a str, &'a str>,
    /// Pages of models by name and architecture.
    pages: BTreeMap<(&'a str, &'a str), String>,
}

/// A model that has a page.
pub struct Entry<'a> {
    pub name: &'a str,
    pub architecture: &'a str,
    pub group: Group,
    pub slug: String,
    pub work: Option<Work>,
    /// Width of its input image, pixels.
    pub side: Option<usize>,
    /// Where it was measured, in the order of environments.
    pub places: Vec<Place<'a>>,
}

/// A model in an environment.
pub struct Place<'a> {
    pub survey: &'a Survey,
    /// Its place among the survey's models.
    pub number: usize,
    pub model: &'a Model,
    /// By the bundle that was trained on the most and not on it; or why there is none.
    pub forecast: Result<&'a ModelForecast, String>,
}

impl Entry<'_> {
    /// Its name, or that it has none.
    pub fn title(&self) -> &str {
        if self.name.is_empty() { "unnamed" } else { self.name }
    }
}

impl<'a> Index<'a> {
    /// Of surveys with unique labels.
    pub fn of(surveys: &'a [Survey], topics: &'a [Topic]) -> Self {
        let labels = surveys.iter().map(|s| (s.label.as_str(), s.slug.as_str())).collect();
        let models = entries(surveys, topics);
        let page = |entry: &Entry<'a>| {
            ((entry.name, entry.architecture), format!("models/{}.html", entry.slug))
        };
        let pages = models.iter().map(page).collect();
        let families = surveys.iter().map(families).collect();
        Self { surveys, topics, models, families, labels, pages }
    }

    /// The page of an environment, seen from a page `up` below the overview.
    pub fn environment(&self, up: &str, label: &str) -> Option<String> {
        Some(format!("{up}environments/{}.html", self.labels.get(label)?))
    }

    /// The page of a model; sampled ones have none.
    pub fn model(&self, up: &str, model: &ModelKey) -> Option<String> {
        let page = self.pages.get(&(model.name.as_str(), model.architecture.as_str()))?;
        Some(format!("{up}{page}"))
    }

    /// The page of what a cell of a table names.
    pub fn cell(&self, up: &str, heading: &str, cell: &Cell) -> Option<String> {
        match cell {
            Cell::Text(label) if heading == "Environment" => self.environment(up, label),
            Cell::Model(model) => self.model(up, model),
            _ => None,
        }
    }

    /// The page of a study, if the report has it.
    pub fn study(&self, up: &str, topic: Topic) -> Option<String> {
        self.topics.contains(&topic).then(|| format!("{up}studies/{}.html", topic.name()))
    }
}

/// Measured time by operator family for each model, ns.
fn families(survey: &Survey) -> Vec<[f64; FAMILIES]> {
    let mut times = vec![[0.0; FAMILIES]; survey.models.len()];
    for row in &survey.rows {
        let sums = times.get_mut(row.model);
        if let Some(sum) = sums.and_then(|sums| sums.get_mut(family_index(&row.kind))) {
            *sum += row.time_ns();
        }
    }
    times
}

/// Models that are not sampled; networks around single operators are.
fn entries<'a>(surveys: &'a [Survey], topics: &[Topic]) -> Vec<Entry<'a>> {
    let mut found: BTreeMap<(&str, &str), Vec<Place<'a>>> = BTreeMap::new();
    for survey in surveys {
        for (number, model) in survey.models.iter().enumerate() {
            if model.group.is_some_and(|group| group != Group::Synthetic) {
                let forecast = forecast(survey, model, topics);
                let place = Place { survey, number, model, forecast };
                found.entry((&model.name, &model.architecture)).or_default().push(place);
            }
        }
    }
    let mut slugs = Slugs::default();
    let entry = |((name, architecture), places): ((&'a str, &'a str), Vec<Place<'a>>)| {
        // A graph says what kind of model it is.
        let known = places.iter().filter_map(|p| p.model.group).min().unwrap_or(Group::Real);
        Entry {
            name,
            architecture,
            group: known,
            slug: slugs.unique(name, architecture),
            work: places.iter().find_map(|p| p.model.work),
            side: places.iter().find_map(|p| p.model.side),
            places,
        }
    };
    found.into_iter().map(entry).collect()
}

fn forecast<'a>(
    survey: &'a Survey,
    model: &Model,
    topics: &[Topic],
) -> Result<&'a ModelForecast, String> {
    let is_it =
        |f: &&ModelForecast| f.row.name == model.name && f.row.architecture == model.architecture;
    let evaluated = best_fed(survey, Method::Gbdt);
    if let Some(found) = evaluated.and_then(|e| e.forecasts.iter().find(is_it)) {
        return Ok(found);
    }
    // Reasons are known by name alone.
    let is_ambiguous = survey.models.iter().filter(|m| m.name == model.name).count() > 1;
    let skipped = || {
        let evaluation = evaluated.filter(|_| !is_ambiguous)?.sets.get(&model.group?)?;
        evaluation.skipped.iter().find(|(what, _)| *what == model.name).map(|(_, why)| why.clone())
    };
    Err(why_none(survey, topics)
        .or_else(|| model.latency_ns.is_none().then(|| "no end-to-end latency".to_owned()))
        .or_else(skipped)
        .unwrap_or_else(|| "no operator of it was timed".to_owned()))
}

/// Why an environment has no forecasts; `None` where it has.
pub fn why_none(survey: &Survey, topics: &[Topic]) -> Option<String> {
    if !survey.evaluations.is_empty() {
        return None;
    }
    if !topics.contains(&Topic::Accuracy) {
        return Some("the report was made without its section `accuracy`".to_owned());
    }
    let synthetic = survey.group(Group::Synthetic).count();
    Some(match synthetic < FEWEST_MODELS {
        true => format!(
            "{synthetic} synthetic models were measured here, and a bundle is trained on \
             {FEWEST_MODELS} or more"
        ),
        false => "no bundle was evaluated".to_owned(),
    })
}
