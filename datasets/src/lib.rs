//! vitempo-datasets
