//! [`Page`]: what a page is made of, read by a small parser that demands balanced tags, quoted
//! attributes and escaped text.

use std::collections::BTreeSet;

const EMPTY: [&str; 5] = ["meta", "link", "br", "input", "img"];

/// An opening tag.
struct Tag {
    name: String,
    attributes: Vec<(String, String)>,
}

impl Tag {
    fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A page as read.
pub struct Page {
    tags: Vec<Tag>,
    /// Targets of links, of the style sheet and of the script.
    pub links: Vec<String>,
    /// Places that links may lead to.
    pub ids: BTreeSet<String>,
}

impl Page {
    /// Panics where a tag is not closed, or text is not escaped.
    pub fn read(path: &str, text: &str) -> Self {
        let rest = text.strip_prefix("<!DOCTYPE html>").unwrap_or_else(|| panic!("{path}"));
        let (mut open, mut tags): (Vec<String>, Vec<Tag>) = (Vec::new(), Vec::new());
        let mut rest = rest;
        while let Some((before, after)) = rest.split_once('<') {
            assert!(!before.contains('>'), "{path}: `>` in {before}");
            let end = tag_end(after).unwrap_or_else(|| panic!("{path}: an open tag in {after}"));
            let (inside, behind) = (&after[..end], &after[end + 1..]);
            rest = behind;
            if let Some(name) = inside.strip_prefix('/') {
                assert_eq!(
                    open.pop().as_deref(),
                    Some(name),
                    "{path}: </{name}> before {rest:.80}"
                );
                continue;
            }
            let closed = inside.ends_with('/');
            let tag = read_tag(path, inside.trim_end_matches('/'));
            if !closed && !EMPTY.contains(&tag.name.as_str()) {
                open.push(tag.name.clone());
            }
            tags.push(tag);
        }
        assert!(open.is_empty(), "{path}: not closed: {open:?}");
        let of = |name: &str| {
            tags.iter().filter_map(|tag| tag.get(name)).map(unescape).collect::<Vec<String>>()
        };
        let ids = of("id");
        let unique: BTreeSet<String> = ids.iter().cloned().collect();
        assert_eq!(unique.len(), ids.len(), "{path}: an id twice in {ids:?}");
        let links = of("href").into_iter().chain(of("src")).collect();
        Self { tags, links, ids: unique }
    }

    fn count(&self, name: &str) -> usize {
        self.tags.iter().filter(|tag| tag.name == name).count()
    }

    /// What every page has, and what none may have.
    pub fn check(&self, path: &str) {
        for name in ["html", "head", "body", "main", "h1"] {
            assert_eq!(self.count(name), 1, "{path}: <{name}>");
        }
        // Pictures have titles too.
        let head = self.tags.iter().take_while(|tag| tag.name != "body");
        assert_eq!(head.filter(|tag| tag.name == "title").count(), 1, "{path}: <title>");
        let html = self.tags.iter().find(|tag| tag.name == "html").and_then(|t| t.get("lang"));
        assert_eq!(html, Some("en"), "{path}");
        let policy = self.tags.iter().find(|t| t.get("http-equiv").is_some());
        let policy = policy.and_then(|t| t.get("content")).unwrap_or_default();
        assert!(policy.starts_with("default-src &#39;none&#39;") || policy.contains("'none'"));
        assert_eq!((self.count("style"), self.count("script")), (0, 1), "{path}");
        let levels = self.tags.iter().filter_map(|tag| {
            tag.name.strip_prefix('h').and_then(|level| level.parse::<u32>().ok())
        });
        levels.fold(0, |before, level| {
            assert!(level <= before + 1, "{path}: h{level} after h{before}");
            level
        });
        for tag in &self.tags {
            for (key, value) in &tag.attributes {
                assert!(key != "style" && !key.starts_with("on"), "{path}: {key} of {}", tag.name);
                let references = key.starts_with("aria-labelledby");
                assert!(!references || self.ids.contains(value), "{path}: no id {value}");
                assert!(key != "xmlns" || value == "http://www.w3.org/2000/svg", "{path}");
                assert!(key == "xmlns" || !value.contains("://"), "{path}: {value}");
            }
            let scope = tag.name != "th" || tag.get("scope").is_some();
            assert!(scope, "{path}: a heading of a table without its scope");
        }
        assert!(self.ids.contains("content") && self.links.iter().any(|l| l == "#content"));
    }
}

/// Where a tag ends: the first `>` outside of quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quoted = false;
    text.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (c == '>' && !quoted).then_some(at)
    })
}

fn read_tag(path: &str, inside: &str) -> Tag {
    let (name, mut rest) = inside.split_once([' ', '\n']).unwrap_or((inside, ""));
    assert!(
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()),
        "{path}: no tag is called {name}"
    );
    let mut attributes = Vec::new();
    while !rest.trim().is_empty() {
        rest = rest.trim_start();
        let word = rest.find([' ', '=']).unwrap_or(rest.len());
        let (key, after) = (&rest[..word], &rest[word..]);
        let Some(value) = after.strip_prefix("=\"") else {
            attributes.push((key.to_owned(), String::new()));
            rest = after;
            continue;
        };
        let (value, behind) = value.split_once('"').unwrap_or_else(|| panic!("{path}: {rest}"));
        attributes.push((key.to_owned(), value.to_owned()));
        rest = behind;
    }
    let once: BTreeSet<&String> = attributes.iter().map(|(key, _)| key).collect();
    assert_eq!(once.len(), attributes.len(), "{path}: an attribute twice in {inside}");
    Tag { name: name.to_owned(), attributes }
}

fn unescape(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    plain.replace("&#39;", "'").replace("&amp;", "&")
}

/// The file that a link of a page leads to.
pub fn resolve(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => {
                assert!(parts.pop().is_some(), "{page}: {link} leaves the site");
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}
