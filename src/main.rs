//! vitempo binary
fn main() {}
