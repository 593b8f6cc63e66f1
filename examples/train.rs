//! Trains a bundle on measurements of one environment, and evaluates it on the models that it was
//! not trained on.

use std::{error::Error, path::Path};
use vitempo::{
    datasets::{self, SplitSize},
    evaluation::Evaluated,
    predictors::{Method, TrainOptions},
    training,
};

/// Of one of the environments in the dataset.
const ENVIRONMENT: &str = "amd-epyc-rten-0.27.0-cpu-1t-f32-4ae9488a";

/// Prints the error on the models held out.
pub fn main() -> Result<(), Box<dyn Error>> {
    let data = Path::new("datasets/measured/epyc-engines-20-models");
    let dataset = training::load_environment(data, Some(ENVIRONMENT))?;
    let split = datasets::split(&dataset, SplitSize::TestFraction(0.2), 1)?;
    let options = TrainOptions::default();
    let bundle = training::train(&dataset, &split, Method::Lasso, &options, &mut |_| ())?;
    let evaluated = Evaluated::new("lasso".to_owned(), &bundle, &dataset.profiles, &dataset)?;
    for (set, evaluation) in evaluated.sets() {
        if let Some(end_to_end) = &evaluation.e2e {
            println!("{} {set} models: MAPE {:.1} %", end_to_end.models, end_to_end.mape);
        }
    }
    Ok(())
}
