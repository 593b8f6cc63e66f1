//! [`Lines`]: warnings of the libraries as lines of text, for the programs that show them. The
//! libraries themselves print nothing: they emit events of the crate `tracing`.

use std::fmt::{self, Write as _};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Shows warnings and errors of vitempo's crates.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Where a line goes.
    show: fn(&str),
}

impl Lines {
    /// Shows the events of this process from now on; a program does so once, at its beginning.
    /// `show` gets a line without its end.
    pub fn install(show: fn(&str)) {
        // A process that has a subscriber keeps it.
        let _ = tracing::subscriber::set_global_default(Self { show });
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && *metadata.level() <= Level::WARN
            && metadata.target().starts_with("vitempo")
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message::default();
        event.record(&mut message);
        let kind = if *event.metadata().level() == Level::ERROR { "error" } else { "warning" };
        (self.show)(&format!("{kind}: {}", message.0));
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The text of an event.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string does not fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static SHOWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn warnings_of_ours_are_shown_and_nothing_else() {
        let show = |line: &str| SHOWN.lock().expect("a lock").push(line.to_owned());
        tracing::subscriber::with_default(Lines { show }, || {
            tracing::warn!("{}: no such {}", "a", "thing");
            tracing::info!("not shown");
            tracing::warn!(target: "hyper", "another crate's");
            tracing::error!("broken");
        });
        let shown = SHOWN.lock().expect("a lock").clone();
        assert_eq!(shown, ["warning: a: no such thing", "error: broken"]);
    }
}
