//! Data that others published becomes a dataset of origin `imported`, with its source and licence in every visit.

pub(crate) mod mobile_ml_benchmark;
pub(crate) mod published;
