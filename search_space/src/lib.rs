//! vitempo-search_space
