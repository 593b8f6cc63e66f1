//! Fits regressors to rows: [`Lasso`] by linfa, random forests by smartcore, boosted trees by
//! LightGBM. A forest is converted to `Trees`: these libraries train and never forecast.
//!
//! In: [`FitData`], features and latencies in ns. Out: a [`Fitted`] regressor. Forecasting needs
//! nothing of this folder, so it is compiled with the feature `train` alone.

mod examples;
pub mod gbdt;
mod lasso;
mod predictors;
pub mod random_forest;
mod stand_ins;

pub(crate) use examples::{Example, examples, features_of};
pub(crate) use predictors::{FEWEST_ROWS, FitSettings, KeyFit, Model};

use crate::{
    Boosting,
    regressors::{FitData, Fitted, Lasso, Method, base},
};
use rayon::{
    ThreadPoolBuilder,
    iter::{IntoParallelIterator, ParallelIterator},
};

/// Something that can be fitted to rows.
pub trait Fit: Sized {
    /// Fits to relative error; the same data and seed give the same regressor.
    ///
    /// # Errors
    /// A sentence from the library underneath.
    fn fit(data: &FitData<'_>, seed: u64) -> Result<Self, String>;
}

/// Fewest rows for a linear model under the trees: one fitted to fewer extrapolates badly.
const FEWEST_FOR_LINEAR: usize = 20;

impl Fitted {
    /// Fits `method`; `boosting` is for [`Method::Gbdt`].
    ///
    /// # Errors
    /// A sentence from the library underneath.
    pub fn fit(
        method: Method,
        data: &FitData<'_>,
        boosting: &Boosting,
        seed: u64,
    ) -> Result<Self, String> {
        if method == Method::Lasso {
            return Ok(Self::Lasso(Lasso::fit(data, seed)?));
        }
        let linear =
            if data.rows() >= FEWEST_FOR_LINEAR { Lasso::fit(data, seed).ok() } else { None };
        let linear_ns = base(linear.as_ref(), data.x, data.columns, data.baseline_ns);
        let data = FitData { baseline_ns: &linear_ns, ..*data };
        let trees = match method {
            Method::RandomForest => random_forest::fit(&data, seed)?,
            _ => gbdt::fit(&data, boosting, seed)?,
        };
        Ok(Self::Trees { linear, trees })
    }
}

/// What `work` gives for each number below `count`, on so many threads.
pub(crate) fn on_threads<T: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> T + Send + Sync,
) -> Vec<T> {
    match ThreadPoolBuilder::new().num_threads(threads.clamp(1, count.max(1))).build() {
        Ok(pool) => pool.install(|| (0..count).into_par_iter().map(&work).collect()),
        // The system refuses the threads.
        Err(_) => (0..count).map(work).collect(),
    }
}
