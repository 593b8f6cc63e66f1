//! [`Metrics`]: the counters of the server, in Prometheus' text format. Times in seconds.

use std::{
    collections::BTreeMap,
    fmt::{Display, Write},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Upper ends of the histogram's buckets, s.
const BUCKETS: [f64; 11] = [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// Route, method and status, each with few values for any request.
type Label = (&'static str, &'static str, u16);

#[derive(Clone, Copy, Debug, Default)]
struct Durations {
    /// Not cumulative.
    buckets: [u64; BUCKETS.len()],
    sum_s: f64,
    count: u64,
}

/// Forecasts of one bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Models forecast.
    pub forecast: u64,
    /// Of these, models with operators by fallback.
    pub fallback: u64,
    /// Of these, models with operators outside the training data.
    pub extrapolating: u64,
    /// Models that could not be forecast.
    pub refused: u64,
}

/// One count of a tally.
type Count = fn(&Tally) -> u64;

/// A value that goes up and down, for as long as a [`Held`] of it lives.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

/// One more, until it is dropped.
#[derive(Debug)]
pub struct Held<'a>(&'a Gauge);

impl Gauge {
    /// Counts one more.
    pub fn hold(&self) -> Held<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Held(self)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counters of one server.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<Label, u64>>,
    durations: Mutex<BTreeMap<&'static str, Durations>>,
    tallies: Mutex<BTreeMap<String, Tally>>,
    reloads: AtomicU64,
    failed_reloads: AtomicU64,
    aborted: AtomicU64,
    /// Requests that have no answer yet.
    pub in_flight: Gauge,
    /// Open connections.
    pub connections: Gauge,
}

impl Metrics {
    /// A request was answered.
    pub fn answered(&self, label: Label, took: Duration) {
        *lock(&self.requests).entry(label).or_default() += 1;
        let mut durations = lock(&self.durations);
        let durations = durations.entry(label.0).or_default();
        let seconds = took.as_secs_f64();
        if let Some(bucket) = BUCKETS.iter().position(|&most| seconds <= most) {
            durations.buckets[bucket] += 1;
        }
        durations.sum_s += seconds;
        durations.count += 1;
    }

    /// A client was gone before its answer.
    pub fn aborted(&self) {
        self.aborted.fetch_add(1, Ordering::Relaxed);
    }

    /// Forecasts were made.
    pub fn forecast(&self, bundle: &str, tally: Tally) {
        let mut tallies = lock(&self.tallies);
        let sum = tallies.entry(bundle.to_owned()).or_default();
        sum.forecast += tally.forecast;
        sum.fallback += tally.fallback;
        sum.extrapolating += tally.extrapolating;
        sum.refused += tally.refused;
    }

    /// Bundles were reloaded, or could not be read.
    pub fn reloaded(&self, loaded: usize, failed: usize) {
        self.reloads.fetch_add(loaded as u64, Ordering::Relaxed);
        self.failed_reloads.fetch_add(failed as u64, Ordering::Relaxed);
    }

    /// The page, with the values of other modules.
    pub fn page(&self, bundles: usize, free_places: usize) -> String {
        let mut page = Page(String::new());
        page.family("vitempo_build_info", "gauge", "The program that runs.");
        page.sample("vitempo_build_info", &[("version", &env!("CARGO_PKG_VERSION"))], 1.0);
        page.family("vitempo_http_requests_total", "counter", "Requests answered.");
        for ((route, method, status), count) in lock(&self.requests).iter() {
            page.sample(
                "vitempo_http_requests_total",
                &[("route", route), ("method", method), ("status", status)],
                *count as f64,
            );
        }
        page.single(
            "vitempo_http_requests_aborted_total",
            "counter",
            "Requests whose client was gone before the answer.",
            load(&self.aborted),
        );
        self.write_durations(&mut page);
        page.single(
            "vitempo_http_requests_in_flight",
            "gauge",
            "Requests without an answer yet.",
            load(&self.in_flight.0),
        );
        page.single(
            "vitempo_http_connections",
            "gauge",
            "Open connections.",
            load(&self.connections.0),
        );
        page.single(
            "vitempo_pool_free_places",
            "gauge",
            "Places left on the workers and in the queue.",
            free_places as f64,
        );
        page.single("vitempo_bundles", "gauge", "Bundles that are served.", bundles as f64);
        page.family(
            "vitempo_bundle_loads_total",
            "counter",
            "Bundle files read, at the start and when they changed.",
        );
        page.sample("vitempo_bundle_loads_total", &[("outcome", &"loaded")], load(&self.reloads));
        page.sample(
            "vitempo_bundle_loads_total",
            &[("outcome", &"failed")],
            load(&self.failed_reloads),
        );
        self.write_tallies(&mut page);
        page.0
    }

    fn write_durations(&self, page: &mut Page) {
        const NAME: &str = "vitempo_http_request_duration_seconds";
        page.family(NAME, "histogram", "From the request's head to its answer.");
        for (route, durations) in lock(&self.durations).iter() {
            let mut below = 0;
            for (most, count) in BUCKETS.iter().zip(durations.buckets) {
                below += count;
                page.sample(
                    &format!("{NAME}_bucket"),
                    &[("route", route), ("le", most)],
                    below as f64,
                );
            }
            page.sample(
                &format!("{NAME}_bucket"),
                &[("route", route), ("le", &"+Inf")],
                durations.count as f64,
            );
            page.sample(&format!("{NAME}_sum"), &[("route", route)], durations.sum_s);
            page.sample(&format!("{NAME}_count"), &[("route", route)], durations.count as f64);
        }
    }

    fn write_tallies(&self, page: &mut Page) {
        let families: [(&str, &str, Count); 4] = [
            ("vitempo_forecasts_total", "Models forecast.", |t| t.forecast),
            (
                "vitempo_forecasts_fallback_total",
                "Models forecast with operators that have no predictor.",
                |t| t.fallback,
            ),
            (
                "vitempo_forecasts_extrapolating_total",
                "Models forecast with operators outside the training data.",
                |t| t.extrapolating,
            ),
            ("vitempo_forecasts_refused_total", "Models that could not be forecast.", |t| {
                t.refused
            }),
        ];
        let tallies = lock(&self.tallies);
        for (name, help, value) in families {
            page.family(name, "counter", help);
            for (bundle, tally) in tallies.iter() {
                page.sample(name, &[("bundle", bundle)], value(tally) as f64);
            }
        }
    }
}

/// Counts remain correct when a thread panics between them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn load(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}

struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &dyn Display)], value: f64) {
        let escape =
            |text: String| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escape(value.to_string())))
            .collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_counts_what_happened() {
        let metrics = Metrics::default();
        metrics.answered(("/predict", "POST", 200), Duration::from_millis(2));
        metrics.answered(("/predict", "POST", 200), Duration::from_secs(60));
        metrics.forecast("a\"b", Tally { forecast: 3, extrapolating: 1, ..Tally::default() });
        metrics.reloaded(2, 1);
        let held = metrics.connections.hold();
        let page = metrics.page(2, 7);
        for line in [
            "vitempo_http_requests_total{route=\"/predict\",method=\"POST\",status=\"200\"} 2",
            "vitempo_http_request_duration_seconds_bucket{route=\"/predict\",le=\"0.001\"} 0",
            "vitempo_http_request_duration_seconds_bucket{route=\"/predict\",le=\"0.003\"} 1",
            "vitempo_http_request_duration_seconds_bucket{route=\"/predict\",le=\"30\"} 1",
            "vitempo_http_request_duration_seconds_bucket{route=\"/predict\",le=\"+Inf\"} 2",
            "vitempo_http_connections 1",
            "vitempo_forecasts_total{bundle=\"a\\\"b\"} 3",
            "vitempo_bundle_loads_total{outcome=\"failed\"} 1",
            "vitempo_pool_free_places 7",
        ] {
            assert!(page.lines().any(|l| l == line), "{line} is not in\n{page}");
        }
        drop(held);
        assert!(metrics.page(0, 0).contains("vitempo_http_connections 0"));
    }
}
