//! [`SharedForecasts`]: forecasts of a space's architectures by a bundle, for callers that keep
//! them: from any thread, one by one or in batches over several threads.
//!
//! Lookups extend tables, so a thread takes tables of its own and gives them back when it is done.
//! A thread that finds none makes new ones. Making tables takes about as long as a thousand graphs,
//! so the first few architectures are answered by graphs; so is every architecture where the
//! kernels of the bundle's framework cannot be separated by stages.

use super::{
    QueryError,
    forecasts::{Forecasts, by_graph, is_local},
};
use crate::bundle::Bundle;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use vitempo_graph::Prediction;
use vitempo_search_space::{Architecture, Space};

/// Architectures from which tables are made.
const WORTHWHILE: usize = 1000;
/// Fewest architectures of a thread: less work than that is done before a thread has tables.
const PER_THREAD: usize = 20_000;
/// The same where each architecture takes a graph.
const GRAPHS_PER_THREAD: usize = 8;
/// Architectures between two questions whether to stop.
const BETWEEN_QUESTIONS: usize = 4096;
/// The same where each architecture takes a graph.
const GRAPHS_BETWEEN_QUESTIONS: usize = 16;
/// Bytes of tables that are kept.
const MOST_BYTES: usize = 1 << 29;

type Own = Forecasts<'static>;

/// Forecasts of the architectures of one space by one bundle.
///
/// ```
/// use vitempo::{Bundle, query::SharedForecasts, search_space::Space};
///
/// let bundle = Bundle::open("bundles/epyc-onnxruntime-f32-1t.vtb")?;
/// let space = Space::named("hybrid-vit")?;
/// let encoding = space.sample(7).encode();
/// let forecasts = SharedForecasts::new(bundle, space.into());
/// let one = forecasts.predict(&forecasts.space().decode(&encoding)?)?;
/// let all = forecasts.predict_encodings(&[&encoding], 2, &|| false)?.ok_or("stopped")?;
/// assert_eq!(all, [one]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedForecasts {
    bundle: Bundle,
    space: Arc<Space>,
    /// Tables that no thread uses.
    idle: Mutex<Vec<Own>>,
    /// Architectures so far, while these are too few for tables.
    asked: AtomicUsize,
}

impl SharedForecasts {
    /// Without tables yet.
    #[must_use]
    pub fn new(bundle: Bundle, space: Arc<Space>) -> Self {
        Self { bundle, space, idle: Mutex::default(), asked: AtomicUsize::new(0) }
    }

    /// The space.
    #[must_use]
    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// The forecast of one architecture of the space.
    ///
    /// # Errors
    /// [`QueryError`] for an architecture that cannot be built, or a bundle whose framework has no
    /// lowering rules.
    pub fn predict(&self, architecture: &Architecture) -> Result<Prediction, QueryError> {
        if !self.is_tabulated(1) {
            return by_graph(&self.bundle, architecture);
        }
        let one = std::slice::from_ref(architecture);
        let forecasts = self.with_tables(|tables| tables.predict_where(one, true))?;
        forecasts.first().copied().map_or_else(|| by_graph(&self.bundle, architecture), Ok)
    }

    /// Forecasts of encodings, in their order, over at most so many threads. `stopped` is asked
    /// now and then, by each of them; `None` where it answered yes.
    ///
    /// # Errors
    /// [`QueryError::Space`] naming the first encoding that cannot be read or is not in the space.
    pub fn predict_encodings<S: AsRef<str> + Sync>(
        &self,
        encodings: &[S],
        threads: usize,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<Prediction>>, QueryError> {
        let tabulated = self.is_tabulated(encodings.len());
        let fewest = if tabulated { PER_THREAD } else { GRAPHS_PER_THREAD };
        let threads = threads.min(encodings.len() / fewest).max(1);
        let parts = encodings.chunks(encodings.len().div_ceil(threads).max(1));
        let answer = |part: &[S]| {
            if tabulated { self.by_tables(part, stopped) } else { self.by_graphs(part, stopped) }
        };
        let answers: Vec<Result<Option<Vec<Prediction>>, QueryError>> =
            std::thread::scope(|scope| {
                let mut parts = parts.into_iter();
                let own = parts.next();
                let others: Vec<_> = parts.map(|part| scope.spawn(move || answer(part))).collect();
                let own = own.map(answer).into_iter();
                let joined = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                };
                own.chain(others.into_iter().map(joined)).collect()
            });
        let mut all = Vec::with_capacity(encodings.len());
        for part in answers {
            let Some(part) = part? else { return Ok(None) };
            all.extend(part);
        }
        Ok(Some(all))
    }

    /// Whether tables answer, so many architectures more included.
    fn is_tabulated(&self, more: usize) -> bool {
        if self.asked.load(Relaxed) >= WORTHWHILE {
            return true;
        }
        if !is_local(&self.bundle) {
            return false;
        }
        let before = self.asked.fetch_add(more.min(WORTHWHILE), Relaxed);
        before.saturating_add(more) >= WORTHWHILE
    }

    fn by_tables<S: AsRef<str>>(
        &self,
        encodings: &[S],
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<Prediction>>, QueryError> {
        let mut forecasts = Vec::with_capacity(encodings.len());
        self.with_tables(|tables| {
            for some in encodings.chunks(BETWEEN_QUESTIONS) {
                if stopped() {
                    return Ok(None);
                }
                forecasts.extend(tables.predict_encodings(some)?);
            }
            Ok(Some(forecasts))
        })
    }

    fn by_graphs<S: AsRef<str>>(
        &self,
        encodings: &[S],
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<Prediction>>, QueryError> {
        let mut forecasts = Vec::with_capacity(encodings.len());
        for some in encodings.chunks(GRAPHS_BETWEEN_QUESTIONS) {
            if stopped() {
                return Ok(None);
            }
            for encoding in some {
                let architecture = self.space.decode(encoding.as_ref())?;
                forecasts.push(by_graph(&self.bundle, &architecture)?);
            }
        }
        Ok(Some(forecasts))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Own>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works with tables that no other thread uses; keeps them for later, unless they have grown
    /// large.
    fn with_tables<T>(&self, work: impl FnOnce(&mut Own) -> T) -> T {
        let idle = self.idle().pop();
        let mut tables = idle.unwrap_or_else(|| Own::keeping(&self.bundle, &self.space));
        let result = work(&mut tables);
        if tables.bytes() <= MOST_BYTES {
            self.idle().push(tables);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::LatencyModel;

    fn forecasts(bundle: &str) -> SharedForecasts {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("bundles").join(bundle);
        let bundle = Bundle::open(path).expect("a bundle that ships");
        SharedForecasts::new(bundle, Space::named("hybrid-vit").expect("a space").into())
    }

    fn encodings(of: &SharedForecasts, count: usize) -> Vec<String> {
        let architectures = of.space().sample_many(count, 5).expect("samples");
        architectures.iter().map(Architecture::encode).collect()
    }

    #[test]
    fn tables_and_threads_give_the_forecasts_of_graphs() {
        for bundle in ["epyc-onnxruntime-f32-1t.vtb", "adapted/pixel4-tflite-cpu-f32.vtb"] {
            tables_and_threads_give_the_forecasts_of_graphs_with(bundle);
        }
    }

    fn tables_and_threads_give_the_forecasts_of_graphs_with(bundle: &str) {
        let shared = forecasts(bundle);
        let encodings = encodings(&shared, 2 * PER_THREAD + 1);
        let all = shared.predict_encodings(&encodings, 2, &|| false).expect("forecasts");
        let all = all.expect("not stopped");
        assert_eq!(shared.idle().len(), 2, "a thread each");
        for index in (0..encodings.len()).step_by(4999) {
            let architecture = shared.space().decode(&encodings[index]).expect("of the space");
            let one = shared.predict(&architecture).expect("a forecast");
            let graph = architecture.to_graph().expect("a graph");
            let by_graph = shared.bundle.predict(&graph).expect("a forecast").latency;
            for forecast in [one, all[index]] {
                let difference = forecast.point().ns() / by_graph.point().ns() - 1.0;
                assert!(
                    difference.abs() < 1e-9,
                    "{}: {forecast:?}, {by_graph:?}",
                    encodings[index]
                );
            }
        }
        assert_eq!(shared.idle().len(), 2, "tables are used again");
    }

    #[test]
    fn a_few_architectures_are_answered_by_graphs_on_several_threads() {
        let shared = forecasts("adapted/pixel4-tflite-cpu-f32.vtb");
        let encodings = encodings(&shared, 2 * GRAPHS_PER_THREAD);
        let all = shared.predict_encodings(&encodings, 2, &|| false).expect("forecasts");
        let one = |text: &String| {
            shared
                .predict(&shared.space().decode(text).expect("an architecture"))
                .expect("a forecast")
        };
        assert_eq!(all, Some(encodings.iter().map(one).collect()));
        assert!(shared.idle().is_empty());
    }

    #[test]
    fn work_ends_by_a_question_or_at_an_encoding_that_cannot_be_read() {
        let shared = forecasts("epyc-onnxruntime-f32-1t.vtb");
        let mut encodings = encodings(&shared, 40);
        assert_eq!(shared.predict_encodings(&encodings, 2, &|| true).expect("no error"), None);
        assert_eq!(
            shared.predict_encodings::<String>(&[], 2, &|| true).expect("no error"),
            Some(Vec::new())
        );
        encodings[33] = "hv1-nonsense".to_owned();
        let error = shared.predict_encodings(&encodings, 2, &|| false).expect_err("not readable");
        assert!(error.to_string().contains("hv1-nonsense"), "{error}");
    }
}
