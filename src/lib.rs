//! vitempo
