//! Signals of the system: SIGTERM and SIGINT stop the server, a second one at once; SIGHUP reads
//! the bundles anew.

use super::{Level, Log, Reloader};
use serde_json::json;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    io,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};
use tokio::sync::oneshot;

/// Without polling, the time between two checks that the server still runs.
const LONG: Duration = Duration::from_secs(3600);

/// Watches signals and, every `period` (never, where that is zero), the bundles' files. What is
/// returned is done when the server is to stop.
///
/// # Errors
/// When the system allows no handlers.
pub fn watch(
    reloader: Reloader,
    period: Duration,
    log: Log,
) -> io::Result<impl Future<Output = ()>> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let (hang_up, hung_up) = mpsc::channel();
    let (stop, stopped) = oneshot::channel();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut stop = Some(stop);
        for signal in signals.forever() {
            match (signal, stop.take()) {
                (SIGHUP, kept) => {
                    stop = kept;
                    let _ = hang_up.send(());
                }
                (_, Some(stop)) => {
                    let _ = stop.send(());
                }
                (_, None) => {
                    log.event(
                        Level::Warning,
                        "stopped",
                        json!({"all_answered": false, "reason": "a second signal"}),
                    );
                    std::process::exit(128 + signal);
                }
            }
        }
    })?;
    thread::Builder::new().name("bundles".to_owned()).spawn(move || {
        let period = if period.is_zero() { None } else { Some(period) };
        loop {
            match hung_up.recv_timeout(period.unwrap_or(LONG)) {
                Ok(()) => drop(reloader.refresh(true)),
                Err(RecvTimeoutError::Timeout) if period.is_some() => drop(reloader.refresh(false)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    })?;
    Ok(async move {
        // The server also stops if the watcher is gone.
        let _ = stopped.await;
    })
}
