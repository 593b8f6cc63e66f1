//! What `vitempo serve --check` prints: address, token, spaces and bundles that would be served.

use crate::verbs::{
    error::CliResult,
    output::{self, Report, Table},
};
use serde_json::json;
use std::sync::Arc;
use vitempo::{graph::LatencyModel, search_space::Space};
use vitempo_serve::{Options, RegisteredBundle};

/// What would be served.
pub struct Checked<'a> {
    pub options: &'a Options,
    pub bundles: Vec<Arc<RegisteredBundle>>,
}

impl Checked<'_> {
    fn rows(&self) -> Table {
        let mut table = Table::new(&["Bundle", "Environment", "Method", "Level"], 3);
        for registered in &self.bundles {
            let b = &registered.bundle;
            table.row([
                b.name().to_owned(),
                b.environment().describe(),
                b.method().to_owned(),
                output::percent(b.level()),
            ]);
        }
        table
    }

    fn spaces(&self) -> Vec<&str> {
        self.options.spaces.iter().map(Space::name).collect()
    }
}

impl Report for Checked<'_> {
    fn table(&self) -> String {
        let token =
            if self.options.token.is_some() { "needed" } else { "none: for this machine only" };
        let lines = [
            ("Address", self.options.listen.to_string()),
            ("Token", token.to_owned()),
            ("Spaces", self.spaces().join(", ")),
        ];
        let head: String =
            lines.iter().map(|(name, value)| format!("{name:<9}{value}\n")).collect();
        head + "\n" + &self.rows().to_text()
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let limits = &self.options.limits;
        let bundle = |registered: &Arc<RegisteredBundle>| {
            let b = &registered.bundle;
            json!({"name": b.name(), "digest": b.digest(), "environment": b.environment().id()})
        };
        Ok(json!({
            "listen": self.options.listen,
            "token": self.options.token.is_some(),
            "spaces": self.spaces(),
            "bundles": self.bundles.iter().map(bundle).collect::<Vec<_>>(),
            "limits": {
                "body_bytes": limits.body_bytes,
                "response_bytes": limits.answer_bytes,
                "memory_bytes": limits.memory_bytes,
                "forecasts": limits.forecasts,
                "head_timeout_ns": limits.head_timeout.as_nanos() as u64,
                "timeout_ns": limits.timeout.as_nanos() as u64,
                "workers": limits.workers,
                "queue": limits.queue,
                "connections": limits.connections,
                "connections_per_address": limits.connections_per_address,
                "grace_ns": limits.grace.as_nanos() as u64,
            },
        }))
    }
}
