//! [`Pool`]: where forecasts are computed, apart from the threads that talk to clients. So many at
//! a time, so many waiting, so long. Short jobs have workers and a queue of their own, so that they
//! never wait for long ones.

use super::problem::Problem;
use axum::http::StatusCode;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::{Instant, timeout},
};
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

/// Which workers a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A few architectures: a matter of milliseconds.
    Short,
    /// Anything else.
    Long,
}

/// Workers and a queue.
#[derive(Clone, Debug)]
struct Lane {
    places: Arc<Semaphore>,
    workers: Arc<Semaphore>,
    /// When a worker was last free.
    moved: Arc<Mutex<Instant>>,
}

impl Lane {
    fn new(workers: usize, queue: usize) -> Self {
        let places = Semaphore::new(workers.saturating_add(queue).min(Semaphore::MAX_PERMITS));
        Self {
            places: Arc::new(places),
            workers: Arc::new(Semaphore::new(workers.min(Semaphore::MAX_PERMITS))),
            moved: Arc::new(Mutex::new(Instant::now())),
        }
    }

    async fn worker(&self, place: OwnedSemaphorePermit) -> Result<Working, Problem> {
        if self.workers.available_permits() > 0 {
            now(&self.moved);
        }
        let worker = self.workers.clone().acquire_owned().await;
        let worker = worker.map_err(|_| Problem::busy("the server is shutting down"))?;
        Ok(Working { moved: self.moved.clone(), _held: (place, worker) })
    }

    /// Whether no worker was free for `long`.
    fn is_stuck(&self, long: Duration) -> bool {
        let moved = *self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        self.workers.available_permits() == 0 && moved.elapsed() > long
    }
}

fn now(moved: &Mutex<Instant>) {
    *moved.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
}

/// A worker that is taken, with its place.
struct Working {
    moved: Arc<Mutex<Instant>>,
    _held: (OwnedSemaphorePermit, OwnedSemaphorePermit),
}

impl Drop for Working {
    fn drop(&mut self) {
        now(&self.moved);
    }
}

/// A bounded number of jobs on threads of their own.
#[derive(Clone, Debug)]
pub struct Pool {
    short: Lane,
    long: Lane,
    time_limit: Duration,
}

impl Pool {
    /// `workers` jobs of either length at a time, `queue` more waiting; each has `time_limit` from
    /// when it is asked for.
    pub fn new(workers: usize, queue: usize, time_limit: Duration) -> Self {
        let lane = || Lane::new(workers, queue);
        Self { short: lane(), long: lane(), time_limit }
    }

    fn lane(&self, length: Length) -> &Lane {
        match length {
            Length::Short => &self.short,
            Length::Long => &self.long,
        }
    }

    /// Free places, in the queue and on the workers.
    pub fn free(&self, length: Length) -> usize {
        self.lane(length).places.available_permits()
    }

    /// Whether no worker has come free for the time that a job has.
    pub fn is_stuck(&self) -> bool {
        self.short.is_stuck(self.time_limit) || self.long.is_stuck(self.time_limit)
    }

    /// Runs a job. A worker is occupied until the job has ended, even if the client is gone.
    ///
    /// # Errors
    /// What the job returns; 503 when the queue is full or time is up; 500 when the job panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        length: Length,
        job: impl FnOnce(&Abandoned) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let lane = self.lane(length);
        let full = |_| Problem::busy("all workers are busy and the queue is full");
        let place = lane.places.clone().try_acquire_owned().map_err(full)?;
        let abandoned = Abandoned::default();
        let _waiting = Waiting(abandoned.clone());
        let work = async {
            let working = lane.worker(place).await?;
            let outcome = spawn_blocking(move || {
                let outcome = job(&abandoned);
                drop(working);
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
                busy.run(Length::Long, move |_| {
                    let _ = begun.send(());
                    let _ = wait.recv();
                    Ok(1)
                })
                .await
            });
            let _ = begins.await;
            let refused = pool.run(Length::Long, |_| Ok(2)).await;
            assert!(refused.is_err_and(|p| p.detail().contains("queue is full")));
            let short = pool.run(Length::Short, |_| Ok(2)).await;
            assert_eq!(short.ok(), Some(2), "short jobs do not wait for long ones");
            assert!(!pool.is_stuck());
            let _ = go.send(());
            assert_eq!(first.await.ok().and_then(Result::ok), Some(1));
            assert!(
                pool.run(Length::Long, |_| -> Result<(), Problem> { panic!("a fault") })
                    .await
                    .is_err_and(|p| p.detail().contains("fault"))
            );
            let last = pool.run(Length::Long, |_| Ok(3)).await.ok();
            assert_eq!((last, pool.free(Length::Long)), (Some(3), 1));
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
            let late = pool.run(Length::Long, job).await;
            assert!(late.is_err_and(|p| p.detail().contains("no answer within")));
        });
        assert_eq!(receiver.recv(), Ok(()));
    }

    #[test]
    fn a_job_that_does_not_end_is_noticed() {
        let pool = Pool::new(1, 0, Duration::from_millis(1));
        let (go, wait) = mpsc::channel::<()>();
        runtime().block_on(async {
            assert!(!pool.is_stuck(), "a worker is free");
            let deaf = move |_: &Abandoned| {
                let _ = wait.recv();
                Ok(())
            };
            assert!(pool.run(Length::Long, deaf).await.is_err());
            while !pool.is_stuck() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let _ = go.send(());
            while pool.is_stuck() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
}
