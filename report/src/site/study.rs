//! [`page`]: a study, a section of the report with its figures and tables.

use super::{
    Section,
    frame::{CHAPTERS, Frame, paragraph},
    index::Index,
};
use crate::{
    Block, Figure, draw,
    markup::{escape, lead, prose},
};

const UP: &str = "../";

pub fn page(index: &Index<'_>, section: &Section) -> String {
    let mut texts = Vec::new();
    let mut body = String::new();
    for block in &section.blocks {
        match block {
            Block::Text(text) if body.is_empty() => texts.push(text.clone()),
            Block::Text(text) => body += &paragraph(text),
            Block::Missing(text) => body += &missing(text),
            Block::Table(table) => {
                body += &table.html(&|heading, cell| index.cell(UP, heading, cell));
            }
            Block::Figure(figure) => body += &drawn(index, UP, figure),
        }
    }
    let frame = Frame {
        title: section.topic.title(),
        up: UP,
        chapter: Some(CHAPTERS[1]),
        lead: texts,
        body: contents(section) + &body,
    };
    frame.html()
}

/// What was not measured.
pub fn missing(text: &str) -> String {
    format!("<p class=\"missing\">Not shown. {}</p>\n", prose(text))
}

/// A figure in a region that scrolls on a narrow screen, on a page `up` below the overview.
pub fn drawn(index: &Index<'_>, up: &str, figure: &Figure) -> String {
    let (first, rest) = lead(&figure.caption);
    let svg = draw::inline(&figure.chart, first, &|model| index.model(up, model));
    let id = escape(&figure.name);
    format!(
        "<figure class=\"chart\" id=\"figure-{id}\">\n<figcaption class=\"caption\" \
         id=\"of-{id}\"><b>{}.</b> {}</figcaption>\n<div class=\"scroll\" role=\"region\" \
         tabindex=\"0\" aria-labelledby=\"of-{id}\">\n{svg}</div>\n</figure>\n",
        prose(first),
        prose(rest)
    )
}

/// Links to the figures and tables; none where there are few.
fn contents(section: &Section) -> String {
    let shown = |block: &Block| match block {
        Block::Table(table) => Some(("table", table.name.clone(), table.caption.clone())),
        Block::Figure(figure) => Some(("figure", figure.name.clone(), figure.caption.clone())),
        _ => None,
    };
    let all: Vec<(&str, String, String)> = section.blocks.iter().filter_map(shown).collect();
    if all.len() < 3 {
        return String::new();
    }
    let words = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    let is_shared = |first: &str| {
        all.iter().filter(|(_, _, caption)| words(lead(caption).0) == words(first)).count() > 1
    };
    let link = |(kind, name, caption): &(&str, String, String)| {
        let (first, rest) = lead(caption);
        // Figures of the same differ in their environments.
        let shown = match rest.split(';').next().filter(|_| is_shared(first)) {
            Some(place) => format!("{first}: {place}"),
            None => first.to_owned(),
        };
        format!("<li><a href=\"#{kind}-{}\">{}</a></li>\n", escape(name), prose(&shown))
    };
    let links: String = all.iter().map(link).collect();
    format!("<nav class=\"contents\" aria-label=\"On this page\">\n<ul>\n{links}</ul>\n</nav>\n")
}
