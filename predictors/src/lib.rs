//! vitempo-predictors
