//! [`Page`]: the files of the report: one self-contained HTML file, the figures as SVG files, and
//! the tables as Markdown and JSON.

use super::{Block, Topic, draw, environments, survey::Survey, table::Table};
use serde_json::json;
use std::collections::BTreeMap;

/// Files of a report: name and contents, in the order of the report.
pub struct Page {
    /// Name and content of each file.
    pub files: Vec<(String, String)>,
    /// What each section holds.
    pub sections: Vec<SectionCount>,
}

/// Notes on the measurements by those who made them, by section.
pub type Notes = BTreeMap<Topic, Vec<String>>;

/// The result of a section.
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

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;color:#1b1b1b;background:#fff;max-width:1100px;margin:2em auto;padding:0 1em}\
h1{font-size:1.7em}h2{font-size:1.3em;margin-top:2.2em;border-bottom:1px solid #ccc;padding-bottom:.2em}\
figure{margin:1.5em 0}figure \
svg{max-width:100%;height:auto}figcaption,caption{font-size:.85em;color:#444;text-align:left;padding:.3em 0;max-width:60em}\
table{border-collapse:collapse;font-size:.85em;margin:1.5em 0;display:block;overflow-x:auto}th,td{padding:.2em .7em;text-align:left;vertical-align:top;border-bottom:1px solid #e4e4e4}\
th{border-bottom:1px solid #888}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.missing{background:#f4f4f4;border-left:3px solid #888;padding:.5em 1em}\
nav ul{columns:2;padding-left:1.2em}footer{margin-top:3em;font-size:.85em;color:#444}\
@media print{body{max-width:none;margin:0;font-size:11pt}h2{break-after:avoid}figure,tr{break-inside:avoid}table{display:table;font-size:8pt}nav{display:none}}";

/// Puts sections on paper.
///
/// # Errors
/// A sentence from the drawing library.
pub fn page(surveys: &[Survey], topics: &[Topic], notes: &Notes) -> Result<Page, String> {
    let sections: Vec<(Topic, Vec<Block>)> =
        topics.iter().map(|t| (*t, with_notes(t.blocks(surveys), notes.get(t)))).collect();
    let head = environments::table(surveys);
    let mut figures = Vec::new();
    let mut body = String::new();
    for (topic, blocks) in &sections {
        body +=
            &format!("<section id=\"{}\">\n<h2>{}</h2>\n", anchor(*topic), escape(topic.title()));
        for block in once_missing(blocks) {
            match block {
                Block::Text(text) => body += &format!("<p>{}</p>\n", escape(text)),
                Block::Missing(text) => {
                    body += &format!("<p class=\"missing\">Not shown. {}</p>\n", escape(text));
                }
                Block::Table(table) => body += &table.html(),
                Block::Figure(figure) => {
                    let svg = draw::svg(&figure.chart)?;
                    let named = svg.replacen(
                        "<svg ",
                        &format!("<svg role=\"img\" aria-label=\"{}\" ", escape(&figure.caption)),
                        1,
                    );
                    body += &format!(
                        "<figure id=\"{}\">\n{named}<figcaption>{}</figcaption>\n</figure>\n",
                        escape(&figure.name),
                        escape(&figure.caption)
                    );
                    figures.push((format!("{}.svg", figure.name), svg));
                }
            }
        }
        body += "</section>\n";
    }
    let mut files = vec![("index.html".to_owned(), html(&head, topics, &body))];
    files.push(("report.md".to_owned(), markdown(&head, &sections)));
    files.push(("tables.json".to_owned(), tables_json(&head, &sections)));
    files.append(&mut figures);
    Ok(Page { files, sections: sections.iter().map(|(t, b)| count(*t, b)).collect() })
}

/// Blocks without repetitions of why something is missing.
fn once_missing(blocks: &[Block]) -> impl Iterator<Item = &Block> {
    blocks
        .iter()
        .enumerate()
        .filter(|(i, b)| !matches!(b, Block::Missing(_)) || !blocks[..*i].contains(b))
        .map(|(_, b)| b)
}

/// Inserts notes after what the study says.
fn with_notes(mut blocks: Vec<Block>, notes: Option<&Vec<String>>) -> Vec<Block> {
    let after = usize::from(matches!(blocks.first(), Some(Block::Text(_))));
    blocks.splice(after..after, notes.into_iter().flatten().map(Block::text));
    blocks
}

fn count(topic: Topic, blocks: &[Block]) -> SectionCount {
    let missing = once_missing(blocks)
        .filter_map(|b| if let Block::Missing(text) = b { Some(text.clone()) } else { None });
    SectionCount {
        topic,
        tables: blocks.iter().filter(|b| matches!(b, Block::Table(_))).count(),
        figures: blocks.iter().filter(|b| matches!(b, Block::Figure(_))).count(),
        missing: missing.collect(),
    }
}

fn anchor(topic: Topic) -> String {
    super::slug(topic.title())
}

const TITLE: &str =
    "Inference latency of vision models: what was measured, and how well it is forecast";

const INTRODUCTION: &str = "Every table and figure of the mobile ViT study (Li, Paolieri, \
    Golubchik), rebuilt from the measurements listed below by `vitempo report`. Captions name \
    environment, machine, origin and date. Every table of errors has the noise floor. Each section \
    starts with what the study found on its phones.";

fn html(head: &Table, topics: &[Topic], body: &str) -> String {
    let links: String = topics
        .iter()
        .map(|t| format!("<li><a href=\"#{}\">{}</a></li>\n", anchor(*t), escape(t.title())))
        .collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
        name=\"viewport\" content=\"width=device-width, \
        initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p>{introduction}</p>\n<nav><ul>\n{links}</ul></nav>\n{head}\n{body}\
         <footer>Made by vitempo {version}. Tables for quoting: report.md and tables.json; \
         figures: the SVG files beside this page.</footer>\n</body>\n</html>\n",
        title = escape(TITLE),
        introduction = escape(INTRODUCTION),
        head = head.html(),
        version = env!("CARGO_PKG_VERSION"),
    )
}

fn markdown(head: &Table, sections: &[(Topic, Vec<Block>)]) -> String {
    let mut text = format!("# {TITLE}\n\n{INTRODUCTION}\n\n{}", head.markdown());
    for (topic, blocks) in sections {
        text += &format!("\n## {}\n", topic.title());
        for block in once_missing(blocks) {
            text += &match block {
                Block::Text(words) => format!("\n{words}\n"),
                Block::Missing(words) => format!("\nNot shown. {words}\n"),
                Block::Table(table) => format!("\n{}", table.markdown()),
                Block::Figure(figure) => format!(
                    "\n![{}]({}.svg)\n",
                    figure.caption.replace(['[', ']'], ""),
                    figure.name
                ),
            };
        }
    }
    text
}

fn tables_json(head: &Table, sections: &[(Topic, Vec<Block>)]) -> String {
    let tables = |blocks: &Vec<Block>| {
        blocks
            .iter()
            .filter_map(|b| if let Block::Table(t) = b { Some(t.json()) } else { None })
            .collect::<Vec<_>>()
    };
    let all: Vec<_> = std::iter::once(head.json())
        .chain(sections.iter().flat_map(|(_, blocks)| tables(blocks)))
        .collect();
    format!("{:#}\n", json!({"tables": all}))
}

/// Text inside HTML, or inside a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            other => out.push(other),
        }
    }
    out
}
