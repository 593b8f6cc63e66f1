//! What plans are made of and what becomes of them: costs of a model's operators as bundles
//! forecast them, and the files of a divided model.

pub mod costs;
pub mod parts;
