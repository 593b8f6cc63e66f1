//! vitempo-profiler
