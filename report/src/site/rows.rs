//! Figures of rows: words, a track and numbers beside each other, which fit a phone as well as a
//! desk. A track is an SVG element whose places are shares of its width.

use crate::{
    chart::Axis,
    hue::Hue,
    markup::{escape, prose},
    scale::Scale,
};
use vitempo::graph::Latency;

/// A value with an end on each side.
pub type Ends = [f64; 3];

/// Latencies of one row, ms.
pub struct Latencies {
    /// Who it is about, as markup.
    pub who: String,
    /// Colour of the forecast.
    pub hue: Hue,
    /// Least, median and most over model runs.
    pub measured: Option<Ends>,
    /// Lower end, forecast and upper end.
    pub forecast: Option<Ends>,
    /// Numbers, as plain text, the most important first.
    pub numbers: Vec<String>,
}

/// A bar of one row.
pub struct Bar {
    /// What the colour stands for, also in words.
    pub hue: Hue,
    pub name: String,
    pub value: f64,
    /// A tick across the bar.
    pub floor: Option<f64>,
    /// The number beside it.
    pub number: String,
}

/// Parts of one row that add up.
pub struct Stack {
    /// Who it is about, as markup.
    pub who: String,
    /// Colour, name and length of each part; what is negative is taken off the others.
    pub parts: Vec<(Hue, String, f64)>,
    /// The number beside it.
    pub number: String,
}

/// Most times the smallest latency that a linear axis shows well.
const LINEAR: f64 = 12.0;

/// Measured latencies and forecasts with their intervals, on one axis.
pub fn latencies(rows: &[Latencies], caption: &str) -> String {
    let ends = || rows.iter().flat_map(|r| r.measured.iter().chain(&r.forecast).flatten().copied());
    let (low, high) =
        (ends().fold(f64::INFINITY, f64::min), ends().fold(f64::NEG_INFINITY, f64::max));
    let axis = Axis { label: String::new(), log: low > 0.0 && high > LINEAR * low };
    let scale = Scale::of(&axis, ends());
    let row = |r: &Latencies| {
        let mut track =
            "<line class=\"rule\" x1=\"0\" x2=\"100%\" y1=\"14\" y2=\"14\"/>".to_owned();
        let class = format!("c{}", r.hue.colour(0));
        if let Some([lower, point, upper]) = r.forecast.and_then(|ends| places(&scale, ends)) {
            track += &format!(
                "<rect class=\"span {class}\" x=\"{lower}%\" y=\"10\" width=\"{}%\" height=\"8\" \
                 rx=\"4\"/><circle class=\"dot {class}\" cx=\"{point}%\" cy=\"14\" r=\"5.5\"/>",
                share(upper - lower)
            );
        }
        if let Some([least, median, most]) = r.measured.and_then(|ends| places(&scale, ends)) {
            track += &format!(
                "<line class=\"spread\" x1=\"{least}%\" x2=\"{most}%\" y1=\"14\" y2=\"14\"/>\
                 <line class=\"measured\" x1=\"{median}%\" x2=\"{median}%\" y1=\"4\" y2=\"24\"/>"
            );
        }
        line(&r.who, &svg(28, &track), &numbers(&r.numbers))
    };
    let shown: String = rows.iter().map(row).collect();
    let forecast = if rows.iter().any(|r| r.forecast.is_some()) { FORECAST_KEY } else { "" };
    let key = format!("<p class=\"key\">{MEASURED_KEY}{forecast}</p>\n");
    figure(caption, &key, &(shown + &axis_row(&scale, "ms")))
}

const MEASURED_KEY: &str = "<span><svg class=\"swatch\" width=\"22\" height=\"20\" \
    aria-hidden=\"true\"><line class=\"measured\" x1=\"11\" x2=\"11\" y1=\"2\" y2=\"18\"/></svg> \
    measured, with the range of its runs</span>\n";
const FORECAST_KEY: &str = "<span><svg class=\"swatch\" width=\"22\" height=\"20\" \
    aria-hidden=\"true\"><rect class=\"span c8\" y=\"6\" width=\"22\" height=\"8\" rx=\"4\"/>\
    <circle class=\"dot c8\" cx=\"11\" cy=\"10\" r=\"5.5\"/></svg> \
    forecast with its interval</span>\n";

/// Groups of bars on one axis that starts at 0.
pub fn bars(groups: &[(String, Vec<Bar>)], unit: &str, caption: &str) -> String {
    let all = || groups.iter().flat_map(|(_, bars)| bars);
    let values = all().flat_map(|b| std::iter::once(b.value).chain(b.floor));
    let scale = Scale::of(&Axis::linear(""), values);
    let bar = |b: &Bar| {
        let width = place(&scale, b.value).unwrap_or(0.0);
        let mut track = format!(
            "<rect class=\"fill c{}\" x=\"0\" y=\"2\" width=\"{width}%\" height=\"12\" rx=\"2\"/>",
            b.hue.colour(0)
        );
        if let Some(floor) = b.floor.and_then(|floor| place(&scale, floor)) {
            track += &format!(
                "<line class=\"floor\" x1=\"{floor}%\" x2=\"{floor}%\" y1=\"0\" y2=\"16\"/>"
            );
        }
        format!(
            "<li class=\"bar\"><span class=\"name\">{}</span>{}<span class=\"number\">{}</span>\
             </li>\n",
            escape(&b.name),
            svg(16, &track),
            prose(&b.number)
        )
    };
    let group = |(who, bars): &(String, Vec<Bar>)| {
        let bars: String = bars.iter().map(bar).collect();
        format!("<li class=\"group\"><span class=\"who\">{who}</span><ul>\n{bars}</ul></li>\n")
    };
    let shown: String = groups.iter().map(group).collect();
    figure(caption, "", &(shown + &axis_group(&scale, unit)))
}

impl Stack {
    /// How far it reaches before anything is taken off.
    fn reach(&self) -> f64 {
        self.parts.iter().map(|p| p.2.max(0.0)).sum()
    }

    /// Its parts together: what its number says.
    fn total(&self) -> f64 {
        self.parts.iter().map(|p| p.2).sum()
    }

    /// Parts beside each other; those that are negative cover the end, as far as they go, so that
    /// what remains in full colour is as long as the total.
    fn track(&self, longest: f64) -> String {
        let (mut track, mut at) = (String::new(), 0.0);
        let (added, taken): (Vec<_>, Vec<_>) = self.parts.iter().partition(|p| p.2 > 0.0);
        for (hue, name, length) in added {
            track += &self.rectangle(&part_class(hue, *length), (at, *length), longest, name);
            at += length;
        }
        for (hue, name, length) in taken.into_iter().filter(|p| p.2 < 0.0) {
            at += length;
            track += &self.rectangle(&part_class(hue, *length), (at, *length), longest, name);
        }
        track
    }

    /// One part, with its share of the total for those who point at it.
    fn rectangle(&self, class: &str, (at, length): (f64, f64), longest: f64, name: &str) -> String {
        let percent = |length: f64| share(100.0 * length / longest);
        let total = self.total();
        let title = match total > 0.0 {
            true => format!("{name}: {:.0} %", 100.0 * length / total),
            false => name.to_owned(),
        };
        format!(
            "<rect class=\"{class}\" x=\"{}%\" y=\"3\" width=\"{}%\" height=\"20\">\
             <title>{}</title></rect>",
            percent(at),
            percent(length.abs()),
            escape(&title)
        )
    }
}

/// The classes of a part: filled, or an outline above what it takes off.
fn part_class(hue: &Hue, length: f64) -> String {
    let kind = if length < 0.0 { "off" } else { "fill part" };
    format!("{kind} c{}", hue.colour(0))
}

/// Stacks on one scale, each as long as its parts together.
pub fn stacks(rows: &[Stack], caption: &str) -> String {
    let longest = rows.iter().map(Stack::reach).fold(f64::MIN_POSITIVE, f64::max);
    let row = |row: &Stack| {
        let number = numbers(std::slice::from_ref(&row.number));
        line(&row.who, &svg(26, &row.track(longest)), &number)
    };
    let shown: String = rows.iter().map(row).collect();
    figure(caption, &key(rows), &shown)
}

/// Each name once, in the order of parts, beside its colour; once more where it is taken off.
fn key(rows: &[Stack]) -> String {
    let mut names: Vec<(String, String)> = Vec::new();
    for (hue, name, length) in rows.iter().flat_map(|r| &r.parts).filter(|p| p.2 != 0.0) {
        let name = if *length < 0.0 { format!("{name}, taken off") } else { name.clone() };
        if !names.iter().any(|(_, known)| *known == name) {
            names.push((part_class(hue, *length), name));
        }
    }
    let item = |(class, name): &(String, String)| {
        format!(
            "<li><svg class=\"swatch\" width=\"14\" height=\"14\" aria-hidden=\"true\">\
             <rect class=\"{class}\" width=\"14\" height=\"14\" rx=\"3\"/></svg> {}</li>\n",
            escape(name)
        )
    };
    let items: String = names.iter().map(item).collect();
    format!("<ul class=\"key\">\n{items}</ul>\n")
}

fn figure(caption: &str, key: &str, rows: &str) -> String {
    let (first, rest) = crate::markup::lead(caption);
    format!(
        "<figure class=\"chart\">\n<figcaption class=\"caption\"><b>{}.</b> {}</figcaption>\n\
         {key}<ul class=\"rows\">\n{rows}</ul>\n</figure>\n",
        prose(first),
        prose(rest)
    )
}

fn line(who: &str, track: &str, numbers: &str) -> String {
    format!("<li class=\"row\"><span class=\"who\">{who}</span>{track}{numbers}</li>\n")
}

fn numbers(lines: &[String]) -> String {
    let shown: Vec<String> = lines.iter().map(|l| format!("<span>{}</span>", prose(l))).collect();
    format!("<span class=\"numbers\">{}</span>", shown.join(" "))
}

fn svg(height: u32, inside: &str) -> String {
    format!(
        "<svg class=\"track\" width=\"100%\" height=\"{height}\" aria-hidden=\"true\" \
         focusable=\"false\">{inside}</svg>"
    )
}

/// Labels of the ticks, below the tracks of rows.
fn axis_row(scale: &Scale, unit: &str) -> String {
    format!(
        "<li class=\"row axis\" aria-hidden=\"true\"><span class=\"who\"></span>{}\
         <span class=\"numbers\">{}</span></li>\n",
        ticks(scale),
        escape(unit)
    )
}

/// Labels of the ticks, below the tracks of groups of bars.
fn axis_group(scale: &Scale, unit: &str) -> String {
    format!(
        "<li class=\"group axis\" aria-hidden=\"true\"><span class=\"who\"></span><ul>\
         <li class=\"bar\"><span class=\"name\"></span>{}<span class=\"number\">{}</span></li>\
         </ul></li>\n",
        ticks(scale),
        escape(unit)
    )
}

fn ticks(scale: &Scale) -> String {
    let tick = |tick: &f64| {
        let at = share(100.0 * (tick - scale.low) / (scale.high - scale.low));
        format!("<text x=\"{at}%\" y=\"12\" text-anchor=\"middle\">{}</text>", scale.tick(*tick))
    };
    let labels: String = thinned(&scale.ticks).iter().map(tick).collect();
    svg(16, &labels)
}

/// At most seven ticks, so that their labels do not touch on a phone.
fn thinned(ticks: &[f64]) -> Vec<f64> {
    let step = ticks.len().div_ceil(7).max(1);
    ticks.iter().copied().step_by(step).collect()
}

fn places(scale: &Scale, ends: Ends) -> Option<Ends> {
    let [low, middle, high] = ends.map(|end| place(scale, end));
    Some([low?, middle?, high?])
}

/// The place of a value in percent of the width.
fn place(scale: &Scale, value: f64) -> Option<f64> {
    let at = scale.place(value)?;
    Some(share(100.0 * (at - scale.low) / (scale.high - scale.low)))
}

/// Two decimals are finer than a pixel.
fn share(percent: f64) -> f64 {
    (percent.clamp(0.0, 100.0) * 100.0).round() / 100.0 + 0.0
}

/// `12.3 ms`, in the unit that reads best.
pub fn shown(ms: f64) -> String {
    Latency::from_ms(ms).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_have_places_in_percent_and_names_are_escaped() {
        let row = |measured, forecast| Latencies {
            who: "who".to_owned(),
            hue: Hue::Environment(1),
            measured,
            forecast,
            numbers: vec!["<1> ms".to_owned()],
        };
        let shown = latencies(
            &[row(Some([1.0, 1.0, 1.0]), Some([1.0, 2.0, 4.0])), row(None, None)],
            "What. Where.",
        );
        assert!(shown.contains("&lt;1&gt;") && !shown.contains(" style="), "{shown}");
        assert!(shown.contains("class=\"span c1\"") && shown.contains("cx=\"48.08%\""), "{shown}");
        assert_eq!(shown.matches("class=\"measured\"").count(), 2, "one, and one in the key");
    }

    #[test]
    fn a_negative_part_is_taken_off_the_end() {
        let part = |name: &str, length| (Hue::Environment(0), name.to_owned(), length);
        let stack = |parts| Stack { who: String::new(), parts, number: String::new() };
        let rows = [
            stack(vec![part("kernels", 6.0), part("overhead", -2.0)]),
            stack(vec![part("kernels", 4.0)]),
        ];
        let shown = stacks(&rows, "What.");
        // From 4 to 6 of 6: what is left is as long as the other row, and is 4.
        for part in [
            "class=\"fill part c0\" x=\"0%\" y=\"3\" width=\"100%\"",
            "<title>kernels: 150 %</title>",
            "class=\"off c0\" x=\"66.67%\" y=\"3\" width=\"33.33%\"",
            "<title>overhead: -50 %</title>",
            "class=\"fill part c0\" x=\"0%\" y=\"3\" width=\"66.67%\"",
            "</svg> overhead, taken off</li>",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn parts_follow_each_other() {
        let stack = Stack {
            who: "who".to_owned(),
            parts: vec![
                (Hue::Environment(0), "a".to_owned(), 1.0),
                (Hue::Environment(1), "<b>".to_owned(), 3.0),
                (Hue::Environment(2), "none".to_owned(), 0.0),
            ],
            number: String::new(),
        };
        let shown = stacks(&[stack], "What.");
        assert!(shown.contains("x=\"25%\" y=\"3\" width=\"75%\""), "{shown}");
        assert!(shown.contains("<title>&lt;b&gt;: 75 %</title>") && !shown.contains("none"));
    }
}
