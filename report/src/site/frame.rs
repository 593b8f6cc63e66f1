//! [`Frame`]: what all pages have in common: head, navigation, and the content policy that refuses
//! whatever is not a file of the report.

use crate::markup::{escape, prose};

/// A page to be written.
pub struct Frame<'a> {
    /// The heading, and the page's title.
    pub title: &'a str,
    /// The way to the overview: empty, or `../`.
    pub up: &'a str,
    /// The chapter of the overview that the page belongs to: its anchor and its name.
    pub chapter: Option<(&'a str, &'a str)>,
    /// Sentences below the heading, in plain text.
    pub lead: Vec<String>,
    /// Markup below them.
    pub body: String,
}

/// Chapters of the overview: anchor and name.
pub const CHAPTERS: [(&str, &str); 3] =
    [("environments", "Environments"), ("studies", "Studies"), ("models", "Models")];

/// Only files beside the page, neither inline styles nor inline scripts.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
    base-uri 'none'; form-action 'none'";

impl Frame<'_> {
    pub fn html(&self) -> String {
        let Self { title, up, .. } = self;
        let lead: String = self
            .lead
            .iter()
            .map(|text| format!("<p class=\"lead\">{}</p>\n", prose(text)))
            .collect();
        let suffix = if up.is_empty() { "" } else { " - vitempo report" };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}{suffix}</title>\n\
             <link rel=\"stylesheet\" href=\"{up}style.css\">\n\
             <script src=\"{up}site.js\" defer></script>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#content\">Skip to the content</a>\n\
             {header}<main id=\"content\" tabindex=\"-1\">\n{trail}<h1>{title}</h1>\n{lead}{body}\
             </main>\n{footer}</body>\n</html>\n",
            title = escape(title),
            header = self.header(),
            trail = self.trail(),
            body = self.body,
            footer = self.footer(),
        )
    }

    fn header(&self) -> String {
        let up = self.up;
        let here = |is_here: bool| if is_here { " aria-current=\"page\"" } else { "" };
        let chapters: String = CHAPTERS
            .iter()
            .map(|(anchor, name)| {
                let current = match self.chapter {
                    Some((own, _)) if own == *anchor => " aria-current=\"true\"",
                    _ => "",
                };
                format!("<li><a href=\"{up}index.html#{anchor}\"{current}>{name}</a></li>\n")
            })
            .collect();
        format!(
            "<header class=\"top\">\n<p class=\"brand\">vitempo <span class=\"quiet\">report\
             </span></p>\n<nav aria-label=\"Chapters\">\n<ul>\n\
             <li><a href=\"{up}index.html\"{}>Overview</a></li>\n{chapters}</ul>\n</nav>\n\
             </header>\n",
            here(up.is_empty()),
        )
    }

    /// Where the page is.
    fn trail(&self) -> String {
        let up = self.up;
        self.chapter.map_or_else(String::new, |(anchor, name)| {
            format!(
                "<p class=\"trail\"><a href=\"{up}index.html\">Overview</a> / \
                 <a href=\"{up}index.html#{anchor}\">{name}</a></p>\n"
            )
        })
    }

    fn footer(&self) -> String {
        let up = self.up;
        format!(
            "<footer class=\"foot\">\n<p>Made by vitempo {}. For quoting: \
             <a href=\"{up}report.md\">report.md</a> and <a href=\"{up}tables.json\">tables.json\
             </a> have every table of the studies.</p>\n</footer>\n",
            env!("CARGO_PKG_VERSION")
        )
    }
}

/// A section with a heading.
pub fn section(id: &str, heading: &str, body: &str) -> String {
    format!(
        "<section id=\"{id}\" aria-labelledby=\"h-{id}\">\n<h2 id=\"h-{id}\">{}</h2>\n{body}\
         </section>\n",
        escape(heading)
    )
}

/// A paragraph of plain text.
pub fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", prose(text))
}

/// Terms and what they are, in plain text.
pub fn facts(pairs: &[(&str, String)]) -> String {
    let known = pairs.iter().filter(|(_, value)| !value.is_empty());
    let shown: String = known
        .map(|(term, value)| {
            format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(term), prose(value))
        })
        .collect();
    format!("<dl class=\"facts\">\n{shown}</dl>\n")
}
