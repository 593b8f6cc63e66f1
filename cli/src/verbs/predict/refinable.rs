//! The command that narrows a wide forecast, as text and JSON.

use crate::verbs::output::percent;
use vitempo::{Bundle, forecast::ModelForecast, models::Model, refine::Suggestion};

fn suggestion(forecast: &ModelForecast, bundle: &Bundle) -> Option<Suggestion> {
    Suggestion::of(bundle, &forecast.model, forecast.prediction.latency)
}

/// A hint where the interval is wide.
pub fn hint(forecast: &ModelForecast, bundle: &Bundle) -> Option<String> {
    let Suggestion { width, usual_width } = suggestion(forecast, bundle)?;
    let usual = usual_width.map_or_else(String::new, |usual| {
        format!("; nine tenths of the held-out models: at most {}", percent(usual))
    });
    Some(format!(
        "hint: the interval is wide ({}{usual}); measure what it is least sure of, where the bundle \
        holds: `{}`\n",
        percent(width),
        command(&forecast.model, bundle)
    ))
}

/// The command, where the interval is wide, else null.
pub fn json(forecast: &ModelForecast, bundle: &Bundle) -> serde_json::Value {
    suggestion(forecast, bundle).map(|_| command(&forecast.model, bundle)).into()
}

/// The command that refines, as a shell takes it.
fn command(model: &Model, bundle: &Bundle) -> String {
    let path = bundle.location().path();
    let bundle = path.map_or_else(|| bundle.name().to_owned(), |path| path.display().to_string());
    let out = format!("{}-refined.vtb", model.identity.name);
    let words = [model.path.display().to_string(), bundle, out];
    let [file, bundle, out] = words.map(|word| quoted(&word));
    let size = model.size.map_or_else(String::new, |size| format!(" --size {size}"));
    format!("vitempo refine {file}{size} --bundle {bundle} --out {out}")
}

/// A word in single quotes where a shell would take it apart.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_command_are_quoted_where_needed() {
        for (word, shown) in
            [("a/b-1.onnx", "a/b-1.onnx"), ("my model", "'my model'"), ("it's", r"'it'\''s'")]
        {
            assert_eq!(quoted(word), shown);
        }
    }
}
