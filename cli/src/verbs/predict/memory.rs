//! The memory of a model, as text and in CSV.

use super::super::output::si;
use vitempo::memory::MemoryForecast;

/// Columns of CSV, bytes.
pub const COLUMNS: &[&str] = &["memory_bytes", "memory_lower_bytes", "memory_upper_bytes"];

/// The cells of [`COLUMNS`].
pub fn cells(memory: Option<&MemoryForecast>) -> Vec<String> {
    let Some(memory) = memory else { return vec![String::new(); COLUMNS.len()] };
    let peak = memory.peak_bytes;
    let cell = |bytes: Option<u64>| bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
    [Some(peak.point()), Some(peak.lower()), memory.upper_bytes()].map(cell).into()
}

/// A line of text.
pub fn line(memory: &MemoryForecast) -> String {
    let (peak, demand) = (memory.peak_bytes, memory.demand);
    let [point, lower] = [peak.point(), peak.lower()].map(si);
    let upper = memory.upper_bytes().map_or("-".to_owned(), |bytes| format!("{}B", si(bytes)));
    let freed = match demand.freed_bytes {
        0 => String::new(),
        bytes => format!(", {}B freed while loading", si(bytes)),
    };
    format!(
        "Memory     {point}B   [{lower}B .. {upper}]   with {}B of weights, {}B of \
         activations{freed}\n",
        si(demand.weights_bytes()),
        si(demand.activations_bytes)
    )
}
