//! The memory of a model, as text and in CSV.

use super::super::output::si;
use vitempo::memory::MemoryForecast;

/// Columns of CSV, bytes.
pub const COLUMNS: &[&str] = &["memory_bytes", "memory_lower_bytes", "memory_upper_bytes"];

/// The cells of [`COLUMNS`].
pub fn cells(memory: Option<&MemoryForecast>) -> Vec<String> {
    match memory.map(|memory| memory.peak_bytes) {
        Some(peak) => [peak.point(), peak.lower(), peak.upper()].map(|b| b.to_string()).into(),
        None => vec![String::new(); COLUMNS.len()],
    }
}

/// A line of text.
pub fn line(memory: &MemoryForecast) -> String {
    let (peak, demand) = (memory.peak_bytes, memory.demand);
    let bytes = [peak.point(), peak.lower(), peak.upper()].map(si);
    let [point, lower, upper] = &bytes;
    let freed = match demand.freed_bytes {
        0 => String::new(),
        bytes => format!(", {}B freed while loading", si(bytes)),
    };
    format!(
        "Memory     {point}B   [{lower}B .. {upper}B]   with {}B of weights, {}B of \
         activations{freed}\n",
        si(demand.weights_bytes()),
        si(demand.activations_bytes)
    )
}
