//! [`Pool`]: computes forecasts on threads of its own, with limits on the requests in progress, on
//! those waiting, and on their time.

use super::problem::Problem;
use axum::http::StatusCode;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};
use vitempo::graph::Stop;

/// Whether the result is no longer needed: the client is gone, or time is up.
#[derive(Clone, Debug, Default)]
pub struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    /// Ends the reading and lowering of a model.
    pub fn stop(&self) -> Stop {
        let abandoned = self.0.clone();
        Stop::when(move || abandoned.load(Ordering::Relaxed))
    }

    /// Ends a job between two of its steps.
    ///
    /// # Errors
    /// A problem that no client receives.
    pub fn check(&self) -> Result<(), Problem> {
        if self.0.load(Ordering::Relaxed) {
            Err(Problem::busy("the client is gone or its time is up"))
        } else {
            Ok(())
        }
    }
}

/// Signals the job when its waiter is dropped.
struct Waiting(Abandoned);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// A bounded number of jobs on threads of their own.
#[derive(Clone, Debug)]
pub struct Pool {
    places: Arc<Semaphore>,
    workers: Arc<Semaphore>,
    time_limit: Duration,
}

impl Pool {
    /// `workers` jobs at a time, `queue` more waiting; the `time_limit` of each begins with its
    /// request.
    pub fn new(workers: usize, queue: usize, time_limit: Duration) -> Self {
        let places = Semaphore::new(workers.saturating_add(queue).min(Semaphore::MAX_PERMITS));
        Self {
            places: Arc::new(places),
            workers: Arc::new(Semaphore::new(workers.min(Semaphore::MAX_PERMITS))),
            time_limit,
        }
    }

    /// Free places, in the queue and on the workers.
    pub fn free(&self) -> usize {
        self.places.available_permits()
    }

    /// Runs a job. A worker is occupied until the job has ended, even if the client is gone.
    ///
    /// # Errors
    /// What the job returns; 503 when the queue is full or time is up; 500 when the job panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Abandoned) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let full = |_| Problem::busy("all workers are busy and the queue is full");
        let place = self.places.clone().try_acquire_owned().map_err(full)?;
        let abandoned = Abandoned::default();
        let _waiting = Waiting(abandoned.clone());
        let work = async {
            let worker = self
                .workers
                .clone()
                .acquire_owned()
                .await
                .map_err(|_| Problem::busy("the server is shutting down"))?;
            let held = (place, worker);
            let outcome = spawn_blocking(move || {
                let outcome = job(&abandoned);
                drop(held);
                outcome
            });
            outcome.await.unwrap_or_else(|_| {
                Err(Problem::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the forecast failed by a fault of this server",
                ))
            })
        };
        let late = |_| {
            let detail = format!("there was no answer within {} s", self.time_limit.as_secs_f64());
            Err(Problem::busy(detail).hint("ask for fewer models at once"))
        };
        timeout(self.time_limit, work).await.unwrap_or_else(late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn a_full_queue_refuses_and_a_panic_is_an_answer() {
        let pool = Pool::new(1, 0, Duration::from_secs(60));
        let (go, wait) = mpsc::channel::<()>();
        runtime().block_on(async {
            let busy = pool.clone();
            let (begun, begins) = tokio::sync::oneshot::channel();
            let first = tokio::spawn(async move {
                busy.run(move |_| {
                    let _ = begun.send(());
                    let _ = wait.recv();
                    Ok(1)
                })
                .await
            });
            let _ = begins.await;
            assert!(pool.run(|_| Ok(2)).await.is_err_and(|p| p.detail().contains("queue is full")));
            let _ = go.send(());
            assert_eq!(first.await.ok().and_then(Result::ok), Some(1));
            assert!(
                pool.run(|_| -> Result<(), Problem> { panic!("a fault") })
                    .await
                    .is_err_and(|p| p.detail().contains("fault"))
            );
            assert_eq!((pool.run(|_| Ok(3)).await.ok(), pool.free()), (Some(3), 1));
        });
    }

    #[test]
    fn a_job_learns_that_nobody_waits() {
        let pool = Pool::new(1, 0, Duration::from_millis(1));
        let (sender, receiver) = mpsc::channel();
        runtime().block_on(async {
            let job = move |abandoned: &Abandoned| {
                while abandoned.check().is_ok() {
                    std::thread::yield_now();
                }
                let _ = sender.send(());
                Ok(())
            };
            assert!(pool.run(job).await.is_err_and(|p| p.detail().contains("no answer within")));
        });
        assert_eq!(receiver.recv(), Ok(()));
    }
}
