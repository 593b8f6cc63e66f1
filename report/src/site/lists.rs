//! Lists of links to environments, studies and models.

use super::{
    Section,
    index::{Entry, Index},
    results::Errors,
};
use crate::{
    group::Group,
    markup::{escape, prose},
    survey::Survey,
    table::three_digits,
};

const UP: &str = "";

/// The name of an environment, as the link to its page.
pub fn environment_link(index: &Index<'_>, up: &str, survey: &Survey) -> String {
    let label = escape(&survey.label);
    match index.environment(up, &survey.label) {
        Some(page) => format!("<a href=\"{}\">{label}</a>", escape(&page)),
        None => label,
    }
}

pub fn environments(index: &Index<'_>) -> String {
    let card = |survey: &Survey| {
        let e = &survey.environment;
        let errors = Errors::real(survey).map_or_else(String::new, |errors| {
            format!("<span>{}</span>", prose(&format!("error on real models {:.1} %", errors.mape)))
        });
        format!(
            "<li>{}<span class=\"quiet\">{}</span><span>{}</span>{errors}\
             <span class=\"quiet small\">{}</span></li>\n",
            environment_link(index, UP, survey),
            escape(&format!("{}, {} {}", e.device, e.framework, e.framework_version)),
            escape(&counts(survey)),
            prose(&survey.when()),
        )
    };
    let cards: String = index.surveys.iter().map(card).collect();
    format!("<ul class=\"cards\">\n{cards}</ul>\n")
}

/// `103 real and 200 synthetic models, 4077 single operators`.
pub fn counts(survey: &Survey) -> String {
    let of = |is_one: &dyn Fn(Option<Group>) -> bool| {
        survey.models.iter().filter(|m| is_one(m.group)).count()
    };
    let synthetic = of(&|group| group == Some(Group::Synthetic));
    let real = of(&|group| group.is_some_and(|group| group != Group::Synthetic));
    let single = of(&|group| group.is_none());
    let single = if single > 0 { format!(", {single} single operators") } else { String::new() };
    whole(real, synthetic) + &single
}

/// `103 real and 200 synthetic models`.
pub fn whole(real: usize, synthetic: usize) -> String {
    match (real, synthetic) {
        (real, 0) => format!("{real} real models"),
        (0, synthetic) => format!("{synthetic} synthetic models"),
        (real, synthetic) => format!("{real} real and {synthetic} synthetic models"),
    }
}

pub fn studies(index: &Index<'_>, sections: &[Section]) -> String {
    let card = |section: &Section| {
        let count = section.count();
        let held = match (count.tables, count.figures) {
            (0, 0) => "not measured".to_owned(),
            (tables, figures) => format!("{}, {}", some(tables, "table"), some(figures, "figure")),
        };
        let name = escape(section.topic.title());
        let link = match index.study(UP, section.topic) {
            Some(page) => format!("<a href=\"{}\">{name}</a>", escape(&page)),
            None => name,
        };
        format!(
            "<li>{link}<span>{}</span><span class=\"quiet small\">{held}</span></li>\n",
            escape(section.topic.summary())
        )
    };
    let cards: String = sections.iter().map(card).collect();
    format!("<ul class=\"cards\">\n{cards}</ul>\n")
}

fn some(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Every model that has a page; a script adds a search above the list.
pub fn models(index: &Index<'_>) -> String {
    if index.models.is_empty() {
        return "<p>Only sampled models were measured; they are in the tables of their \
            environments.</p>\n"
            .to_owned();
    }
    let item = |entry: &Entry<'_>| {
        let work = entry.work.map_or_else(String::new, |work| {
            format!(", {} GFLOPs", three_digits(work.flops as f64 / 1e9))
        });
        format!(
            "<li data-kind=\"{kind}\"><a href=\"models/{}.html\">{}</a> \
             <span class=\"quiet small\">{kind}{work}</span></li>\n",
            escape(&entry.slug),
            escape(entry.title()),
            kind = escape(&entry.group.to_string()),
        )
    };
    let items: String = index.models.iter().map(item).collect();
    format!(
        "<p class=\"quiet\">{} with a page each; sampled models are in the tables of their \
         environments.</p>\n<ul class=\"models\" id=\"list-of-models\" data-filter=\"models\">\n\
         {items}</ul>\n",
        some(index.models.len(), "model"),
    )
}
