//! Shares of training: together they give the bundle of one machine, byte for byte; files that are
//! damaged, or of other data, are errors.

#![allow(clippy::unwrap_used)]

mod simulated;

use vitempo_predictors::{
    Boosting, Fitted, Method, PredictorError, Share, TrainOptions, train, train_with,
};

const OPTIONS: TrainOptions =
    TrainOptions { seed: 1, folds: 2, threads: 1, level: 0.9, boosting: Boosting::USUAL };

#[test]
fn shares_together_are_one_training_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let (profiles, graphs) = simulated::data(12, 1, 0.02);
    for method in Method::ALL {
        let alone = train(&profiles, &graphs, method, &OPTIONS, &mut |_| {}).unwrap();
        let mut fitted = Fitted::default();
        let mut fitted_apart = 0;
        for index in 0..3 {
            let share = Fitted::fit(&profiles, method, &OPTIONS, Share { index, of: 3 }).unwrap();
            let path = folder.path().join(format!("{method}-{index}.fitted"));
            share.save(&path).unwrap();
            let read = Fitted::load(&path).unwrap();
            assert_eq!(read, share);
            fitted_apart += read.len();
            fitted.add(read).unwrap();
        }
        assert_eq!(fitted.len(), fitted_apart, "no regressor is fitted twice");
        let mut left = 0;
        let together = train_with(&profiles, &graphs, method, &OPTIONS, &fitted, &mut |p| {
            left = left.max(p.regressors);
        });
        assert_eq!(left, 0, "nothing is left to fit");
        assert_eq!(together.unwrap().to_bytes().unwrap(), alone.to_bytes().unwrap(), "{method}");
        // Where a share is missing, its regressors are fitted then.
        let first = Fitted::fit(&profiles, method, &OPTIONS, Share { index: 0, of: 3 }).unwrap();
        let rest = train_with(&profiles, &graphs, method, &OPTIONS, &first, &mut |_| {}).unwrap();
        assert_eq!(rest.to_bytes().unwrap(), alone.to_bytes().unwrap(), "{method}");
    }
}

#[test]
fn shares_of_other_data_and_damaged_files_are_errors() {
    let (profiles, graphs) = simulated::data(12, 1, 0.02);
    let fit = |options: &TrainOptions, share| Fitted::fit(&profiles, Method::Lasso, options, share);
    let whole = Share { index: 0, of: 1 };
    let mut fitted = fit(&OPTIONS, whole).unwrap();
    let (others, _) = simulated::data(10, 7, 0.02);
    let error = train_with(&others, &graphs, Method::Lasso, &OPTIONS, &fitted, &mut |_| {});
    assert!(matches!(error, Err(PredictorError::Option { option: "shares", .. })));
    let other = fit(&TrainOptions { seed: 2, ..OPTIONS }, whole).unwrap();
    assert!(matches!(fitted.add(other), Err(PredictorError::Option { .. })));
    let none = fit(&OPTIONS, Share { index: 3, of: 3 }).unwrap_err().to_string();
    assert!(none.contains("4 of 3"), "{none}");
    let bytes = fitted.to_bytes().unwrap();
    for end in (0..bytes.len()).step_by(97) {
        assert!(Fitted::from_bytes(&bytes[..end]).is_err());
    }
    for at in (0..bytes.len()).step_by(131) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        assert!(Fitted::from_bytes(&damaged).is_err(), "{at}");
    }
}
