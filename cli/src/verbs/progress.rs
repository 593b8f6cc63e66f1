//! Progress bars, on standard error, and only if that is a terminal.

use super::output::visible;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

const TEMPLATE: &str = "{prefix:>12} {wide_bar} {pos}/{len}  {elapsed} gone, {eta} to go  {msg}";

/// A bar over `length` steps.
pub fn bar(length: u64, what: &'static str) -> ProgressBar {
    let style =
        ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(length).with_style(style).with_prefix(what);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// Moves a bar to `done` of `total` steps.
pub fn advance(bar: &ProgressBar, done: usize, total: usize) {
    bar.set_length(total as u64);
    bar.set_position(done as u64);
}

/// A message that stays: what is being done now.
pub fn say(text: impl AsRef<str>) {
    eprintln!("{}", visible(text.as_ref(), true));
}
