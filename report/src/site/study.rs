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
                body += &table.html(&|heading, text| index.cell(UP, heading, text));
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
    let svg = draw::inline(&figure.chart, first, &|name| index.model(up, name));
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
    let link = |block: &Block| {
        let (kind, name, caption) = match block {
            Block::Table(table) => ("table", &table.name, &table.caption),
            Block::Figure(figure) => ("figure", &figure.name, &figure.caption),
            _ => return None,
        };
        let id = escape(name);
        Some(format!("<li><a href=\"#{kind}-{id}\">{}</a></li>\n", prose(lead(caption).0)))
    };
    let links: Vec<String> = section.blocks.iter().filter_map(link).collect();
    if links.len() < 3 {
        return String::new();
    }
    format!(
        "<nav class=\"contents\" aria-label=\"On this page\">\n<ul>\n{}</ul>\n</nav>\n",
        links.concat()
    )
}
