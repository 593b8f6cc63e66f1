//! [`Site`]: the files of the report: linked pages with one style sheet and one script, figures as
//! SVG, tables as Markdown and JSON, and the models of each environment as CSV.
//!
//! `overview.rs`, `environment.rs`, `study.rs` and `model.rs` each make a kind of page; `index.rs`
//! knows which pages there are, and gives links to these alone.

mod data;
mod environment;
mod frame;
mod index;
mod lists;
mod model;
mod overview;
mod plain;
mod results;
mod rows;
mod study;
mod summary;

use super::{Block, ReportError, Topic, draw, survey::Survey};
use index::Index;
use std::collections::{BTreeMap, BTreeSet};

/// Files of a report: path and contents, the overview first.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Path and content of each file; paths have `/` between folders.
    pub files: Vec<(String, String)>,
    /// What each section holds.
    pub sections: Vec<SectionCount>,
}

/// Notes on the measurements by those who made them, by section.
pub type Notes = BTreeMap<Topic, Vec<String>>;

/// The result of a section.
#[derive(Clone, Debug, PartialEq)]
pub struct SectionCount {
    /// The section.
    pub topic: Topic,
    /// Tables in it.
    pub tables: usize,
    /// Figures in it.
    pub figures: usize,
    /// A missing part, and the reason.
    pub missing: Vec<String>,
}

/// A section and what it shows.
struct Section {
    topic: Topic,
    blocks: Vec<Block>,
}

impl Section {
    fn of(topic: Topic, surveys: &[Survey], notes: &Notes) -> Self {
        let blocks = with_notes(topic.blocks(surveys), notes.get(&topic));
        Self { topic, blocks: once_missing(blocks) }
    }

    fn count(&self) -> SectionCount {
        let missing = self.blocks.iter().filter_map(|b| match b {
            Block::Missing(text) => Some(text.clone()),
            _ => None,
        });
        SectionCount {
            topic: self.topic,
            tables: self.blocks.iter().filter(|b| matches!(b, Block::Table(_))).count(),
            figures: self.blocks.iter().filter(|b| matches!(b, Block::Figure(_))).count(),
            missing: missing.collect(),
        }
    }
}

/// The report on surveys with numbers, unique labels and unique names of files; pages of studies for
/// these topics alone.
///
/// # Errors
/// [`ReportError::Csv`] where a table cannot be written; [`ReportError::EqualPaths`] where two
/// surveys have one name for their files.
pub fn site(surveys: &[Survey], topics: &[Topic], notes: &Notes) -> Result<Site, ReportError> {
    let index = Index::of(surveys, topics);
    let sections: Vec<Section> =
        topics.iter().map(|topic| Section::of(*topic, surveys, notes)).collect();
    let mut files = vec![
        ("index.html".to_owned(), overview::page(&index, &sections)),
        ("style.css".to_owned(), include_str!("style.css").to_owned()),
        ("site.js".to_owned(), include_str!("site.js").to_owned()),
        ("report.md".to_owned(), plain::markdown(surveys, &sections)),
        ("tables.json".to_owned(), plain::tables_json(surveys, &sections)),
    ];
    for survey in surveys {
        let slug = &survey.slug;
        files.push((format!("environments/{slug}.html"), environment::page(&index, survey)));
        files.push((format!("environments/{slug}.csv"), data::models(survey)?));
    }
    for section in &sections {
        let name = section.topic.name();
        files.push((format!("studies/{name}.html"), study::page(&index, section)));
    }
    for entry in &index.models {
        files.push((format!("models/{}.html", entry.slug), model::page(&index, entry)));
    }
    let figures = sections.iter().flat_map(|section| &section.blocks).filter_map(|b| match b {
        Block::Figure(figure) => Some(figure),
        _ => None,
    });
    files.extend(figures.map(|f| (format!("figures/{}.svg", f.name), draw::svg(&f.chart))));
    refuse_equal_paths(&files)?;
    Ok(Site { files, sections: sections.iter().map(Section::count).collect() })
}

/// The second of two files of one path would replace the first.
fn refuse_equal_paths(files: &[(String, String)]) -> Result<(), ReportError> {
    let mut paths = BTreeSet::new();
    match files.iter().find(|(path, _)| !paths.insert(path)) {
        Some((path, _)) => Err(ReportError::EqualPaths { path: path.clone() }),
        None => Ok(()),
    }
}

/// Blocks without repetitions of why something is missing.
fn once_missing(blocks: Vec<Block>) -> Vec<Block> {
    let mut once: Vec<Block> = Vec::new();
    for block in blocks {
        if !matches!(block, Block::Missing(_)) || !once.contains(&block) {
            once.push(block);
        }
    }
    once
}

/// Inserts notes after what the study says.
fn with_notes(mut blocks: Vec<Block>, notes: Option<&Vec<String>>) -> Vec<Block> {
    let after = usize::from(matches!(blocks.first(), Some(Block::Text(_))));
    blocks.splice(after..after, notes.into_iter().flatten().map(Block::text));
    blocks
}

#[cfg(test)]
mod tests;
