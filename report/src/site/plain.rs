//! The report for other programs and for quoting: [`markdown`] and [`tables_json`].

use super::Section;
use crate::{Block, environments, markup::markdown as escaped, survey::Survey};
use serde_json::json;

pub const TITLE: &str = "Inference latency of vision models";

const INTRODUCTION: &str = "Every table and figure of the mobile ViT study (Li, Paolieri, \
    Golubchik), rebuilt from the measurements listed below by `vitempo report`. Captions name \
    environment, machine, origin and date. Every table of errors has the noise floor. Each section \
    starts with what the study found on its phones.";

/// All sections as one text; figures are the SVG files beside it.
pub fn markdown(surveys: &[Survey], sections: &[Section]) -> String {
    let head = environments::table(surveys);
    let mut text = format!("# {TITLE}\n\n{INTRODUCTION}\n\n{}", head.markdown());
    for Section { topic, blocks } in sections {
        text += &format!("\n## {}\n", topic.title());
        for block in blocks {
            text += &match block {
                Block::Text(words) => format!("\n{}\n", without_html(words)),
                Block::Missing(words) => format!("\nNot shown. {}\n", without_html(words)),
                Block::Table(table) => format!("\n{}", table.markdown()),
                Block::Figure(figure) => {
                    format!("\n![{}](figures/{}.svg)\n", escaped(&figure.caption), figure.name)
                }
            };
        }
    }
    text
}

/// Paragraphs, also of notes that others wrote: markup, but no HTML.
fn without_html(words: &str) -> String {
    words.replace('<', "&lt;")
}

/// All tables by name, with exact numbers.
pub fn tables_json(surveys: &[Survey], sections: &[Section]) -> String {
    let tables = sections.iter().flat_map(|section| &section.blocks).filter_map(|b| match b {
        Block::Table(table) => Some(table.json()),
        _ => None,
    });
    let all: Vec<_> = std::iter::once(environments::table(surveys).json()).chain(tables).collect();
    format!("{:#}\n", json!({"tables": all}))
}
