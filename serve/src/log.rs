//! Structured logs: one JSON object a line on standard error, with `time` (UTC), `level`, `event`
//! and the event's own members.

use jiff::Timestamp;
use serde_json::{Map, Value};
use std::{io::Write, time::SystemTime};

/// How much is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Log {
    /// Every request, and what happens to the server.
    #[default]
    Requests,
    /// What happens to the server.
    Server,
    /// Nothing.
    Nothing,
}

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As it should be.
    Info,
    /// Something was refused or left out; the server goes on.
    Warning,
    /// Something failed that should not.
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Log {
    /// An answer to a client.
    pub(super) fn request(self, fields: Value) {
        if self == Self::Requests {
            write(&line(SystemTime::now(), Level::Info, "request", fields));
        }
    }

    /// Something that happened to the server; `fields` is an object.
    pub fn event(self, level: Level, event: &str, fields: Value) {
        if self != Self::Nothing {
            write(&line(SystemTime::now(), level, event, fields));
        }
    }
}

/// If standard error is closed, there is no log.
fn write(line: &str) {
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

fn line(time: SystemTime, level: Level, event: &str, fields: Value) -> String {
    let mut members = Map::new();
    members.insert("time".to_owned(), rfc3339(time).into());
    members.insert("level".to_owned(), level.name().into());
    members.insert("event".to_owned(), event.into());
    if let Value::Object(fields) = fields {
        members.extend(fields);
    }
    Value::Object(members).to_string() + "\n"
}

/// `2026-11-21T18:03:28.123Z`; the beginning of 1970 for what lies outside of the calendar.
fn rfc3339(time: SystemTime) -> String {
    format!("{:.3}", Timestamp::try_from(time).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn dates_by_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
        ];
        for (seconds, text) in cases {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert_eq!(
            rfc3339(UNIX_EPOCH + Duration::from_millis(1_795_284_208_123)),
            "2026-11-21T18:03:28.123Z"
        );
    }

    #[test]
    fn a_line_is_one_object_whatever_a_client_sent() {
        let text = line(
            UNIX_EPOCH,
            Level::Warning,
            "reload",
            serde_json::json!({"reason": "two\nlines \u{1b}[31m", "path": "a\"b"}),
        );
        assert!(
            text.ends_with('\n') && text.matches('\n').count() == 1 && !text.contains('\u{1b}')
        );
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!(
            (&value["level"], &value["reason"]),
            (&"warning".into(), &"two\nlines \u{1b}[31m".into())
        );
    }
}
