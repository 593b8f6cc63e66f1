//! [`Form`]: the media type of the answer, by the header `Accept`.

use super::arrow_rows;
use axum::http::{HeaderMap, HeaderValue, header};

/// The form of an answer with forecasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A document that names each model.
    #[default]
    Json,
    /// A table, as an Arrow IPC stream.
    Arrow,
}

/// The ranges that JSON is in: the first that is given has its quality.
const JSON_RANGES: [&str; 3] = ["application/json", "application/*", "*/*"];

impl Form {
    /// A table, where the client names its media type and prefers no JSON; JSON otherwise.
    pub fn of(headers: &HeaderMap) -> Self {
        let ranges = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let (mut table, mut json) = (0.0, [None; JSON_RANGES.len()]);
        for range in ranges.flat_map(|value| value.split(',')) {
            let (media, quality) = parsed(range);
            let media = media.to_ascii_lowercase();
            if media == arrow_rows::MEDIA {
                table = quality;
            } else if let Some(place) = JSON_RANGES.iter().position(|range| *range == media) {
                json[place] = Some(quality);
            }
        }
        let json = json.into_iter().flatten().next().unwrap_or(0.0);
        if table > 0.0 && table >= json { Self::Arrow } else { Self::Json }
    }

    /// Its media type.
    pub fn media(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Arrow => arrow_rows::MEDIA,
        })
    }
}

/// A media range and its quality, 0 to 1.
fn parsed(range: &str) -> (&str, f32) {
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    (media, quality.map_or(1.0, |q| q.parse().unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_sent_to_those_who_name_it() {
        let cases = [
            (&[][..], Form::Json),
            (&["*/*"], Form::Json),
            (&["application/json"], Form::Json),
            (&["application/vnd.apache.arrow.stream"], Form::Arrow),
            (&["Application/Vnd.Apache.Arrow.Stream;q=1"], Form::Arrow),
            (&["application/json, application/vnd.apache.arrow.stream"], Form::Arrow),
            (&["application/json", "application/vnd.apache.arrow.stream;q=0.5"], Form::Json),
            (&["application/json;q=0.1, application/vnd.apache.arrow.stream; q=0.5"], Form::Arrow),
            (&["application/vnd.apache.arrow.stream;q=0, */*"], Form::Json),
            (&["application/vnd.apache.arrow.stream;q=0.5, */*"], Form::Json),
            (&["application/vnd.apache.arrow.stream, */*"], Form::Arrow),
            (&["application/vnd.apache.arrow.stream;q=0.5, */*;q=0.1"], Form::Arrow),
            (
                &["application/vnd.apache.arrow.stream;q=0.5", "application/*, */*;q=0.1"],
                Form::Json,
            ),
            (
                &["application/vnd.apache.arrow.stream;q=0.5, */*, application/json;q=0.4"],
                Form::Arrow,
            ),
            (&["application/vnd.apache.arrow.stream;q=nothing"], Form::Json),
            (&[";;,,=q"], Form::Json),
        ];
        for (accept, form) in cases {
            let mut headers = HeaderMap::new();
            for value in accept {
                headers.append(header::ACCEPT, HeaderValue::from_static(value));
            }
            assert_eq!(Form::of(&headers), form, "{accept:?}");
        }
    }
}
