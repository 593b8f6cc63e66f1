//! [`Canvas`]: the text of an SVG element. Places are pixels from the top left corner; they are
//! written with one decimal.

use crate::{hue::PALETTE, markup::escape};

/// The text so far.
pub struct Canvas {
    text: String,
}

/// What an element is painted with.
#[derive(Clone, Copy, Debug)]
pub enum Ink {
    /// A colour of the palette.
    Colour(usize),
    /// Lines of a grid.
    Rule,
    /// Axes, and less important words.
    Quiet,
    /// Words and ticks.
    Plain,
}

impl Ink {
    fn class(self) -> String {
        match self {
            Self::Colour(number) => format!("c{number}"),
            Self::Rule => "rule".to_owned(),
            Self::Quiet => "quiet".to_owned(),
            Self::Plain => "ink".to_owned(),
        }
    }

    fn colour(self) -> &'static str {
        match self {
            Self::Colour(number) => PALETTE[number % PALETTE.len()],
            Self::Rule => "#dde4e8",
            Self::Quiet => "#51606c",
            Self::Plain => "#14202b",
        }
    }

    /// Class and colour of a filled shape.
    fn fill(self) -> String {
        format!("class=\"fill {}\" fill=\"{}\"", self.class(), self.colour())
    }

    /// Class and colour of a line.
    fn stroke(self, width: f64) -> String {
        format!(
            "class=\"line {}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"",
            self.class(),
            self.colour()
        )
    }
}

/// Where a word stands relative to its place.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A number of pixels with at most one decimal.
pub fn px(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    // No `-0`.
    format!("{}", rounded + 0.0)
}

impl Canvas {
    /// An empty element on white paper; `attributes` begin with a space.
    pub fn new(width: f64, height: f64, attributes: &str) -> Self {
        let (width, height) = (px(width), px(height));
        let text = format!(
            "<svg{attributes} class=\"figure\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\" \
             font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        );
        Self { text }
    }

    pub fn finish(self) -> String {
        self.text + "</svg>\n"
    }

    /// A word, centred upon the height `y`.
    pub fn word(&mut self, words: &str, (x, y): (f64, f64), anchor: Anchor, ink: Ink) {
        self.text += &format!(
            "<text {} x=\"{}\" y=\"{}\" dy=\".35em\" text-anchor=\"{}\">{}</text>\n",
            ink.fill(),
            px(x),
            px(y),
            anchor.name(),
            escape(words)
        );
    }

    /// A word that reads from below to above, centred upon its place.
    pub fn upright(&mut self, words: &str, (x, y): (f64, f64), ink: Ink) {
        self.text += &format!(
            "<text {} text-anchor=\"middle\" \
             transform=\"translate({} {}) rotate(-90)\">{}</text>\n",
            ink.fill(),
            px(x),
            px(y),
            escape(words)
        );
    }

    /// A rectangle from its top left corner, with words for those who point at it.
    pub fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), ink: Ink, title: &str) {
        self.text += &format!(
            "<rect {} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>\n",
            ink.fill(),
            px(x),
            px(y),
            px(width.max(0.0)),
            px(height),
            escape(title)
        );
    }

    /// A line through these places.
    pub fn line(&mut self, places: &[(f64, f64)], ink: Ink, width: f64, dashed: bool) {
        let path: Vec<String> =
            places.iter().map(|(x, y)| format!("{} {}", px(*x), px(*y))).collect();
        if path.is_empty() {
            return;
        }
        let dash = if dashed { " stroke-dasharray=\"7 4\"" } else { "" };
        self.text += &format!("<path {}{dash} d=\"M{}\"/>\n", ink.stroke(width), path.join("L"));
    }

    /// Shapes of a path that is filled.
    pub fn filled(&mut self, path: &str, ink: Ink, around: &Around) {
        self.shape(&ink.fill(), path, around);
    }

    /// Shapes of a path that is drawn as a line.
    pub fn outlined(&mut self, path: &str, ink: Ink, width: f64, around: &Around) {
        self.shape(&format!("{} stroke-linecap=\"round\"", ink.stroke(width)), path, around);
    }

    fn shape(&mut self, paint: &str, path: &str, around: &Around) {
        let paint = paint.replacen("class=\"", "class=\"dots ", 1);
        let open = around.target.as_ref().map_or_else(String::new, |target| {
            format!("<a href=\"{}\" tabindex=\"-1\">", escape(target))
        });
        let close = if around.target.is_some() { "</a>" } else { "" };
        self.text += &match &around.title {
            Some(title) => format!(
                "{open}<path {paint} d=\"{path}\"><title>{}</title></path>{close}\n",
                escape(title)
            ),
            None => format!("{open}<path {paint} d=\"{path}\"/>{close}\n"),
        };
    }
}

/// What is written around a shape.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// Words for those who point at it.
    pub title: Option<String>,
    /// The page that it leads to.
    pub target: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_at_most_one_decimal() {
        assert_eq!([0.0, -0.01, 12.34, 100.0].map(px), ["0", "0", "12.3", "100"]);
    }
}
