//! Models without a file of their own: [`find`] makes the graph of one that ships, by its name, and
//! of an architecture, by its encoding.
//!
//! ```
//! use vitempo::{export, graph::onnx};
//!
//! let model = export::find("mobilevit_xxs", None)?;
//! assert!(model.nodes().len() > 100);
//! let architecture = export::find("iv1-224p16-c192h3m4lgx12-t", None)?;
//! let bytes = onnx::to_bytes(&architecture, &onnx::WriteOptions::seeded(1))?;
//! assert!(bytes.len() > 20_000_000, "its weights are in the file");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{
    bundle::near::{near, similar},
    models::SHIPPED,
};
use vitempo_graph::{Graph, onnx::OnnxError};
use vitempo_search_space::{Architecture, Space, SpaceError};

/// Why there is no such model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// Neither a name nor the beginning of an encoding.
    #[error(
        "no model `{name}` ships, and no search space has encodings that begin like this{}",
        similar(near)
    )]
    Unknown {
        /// As it was given.
        name: String,
        /// Similar names, the most similar first.
        near: Vec<String>,
    },
    /// The sampled name of a multi-task model.
    #[error("`{name}` is a multi-task model: only `{plain}`, without the decoders, is an encoding")]
    MultiTask {
        /// As it was given.
        name: String,
        /// The encoding of its architecture.
        plain: String,
    },
    /// An encoding that is not one of the space.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// A shipped model that cannot be read: a fault of ours.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
}

/// The graph of a shipped model by its name, or of an architecture by its encoding: of `space`, or
/// where there is none, of the space that ships with its family.
///
/// # Errors
/// [`ExportError::Unknown`] with similar names, [`ExportError::MultiTask`] for encodings with
/// decoders, [`ExportError::Space`] where an encoding cannot be read.
pub fn find(name: &str, space: Option<&Space>) -> Result<Graph, ExportError> {
    if let Some(shipped) = SHIPPED.iter().find(|model| model.name == name) {
        return Ok(shipped.graph()?);
    }
    if Architecture::family_of(name).is_none() {
        let near = near(name, SHIPPED.iter().map(|model| model.name));
        return Err(ExportError::Unknown { name: name.to_owned(), near });
    }
    if let Some((plain, _)) = name.split_once('+') {
        return Err(ExportError::MultiTask { name: name.to_owned(), plain: plain.to_owned() });
    }
    let decoded = match space {
        Some(space) => space.decode(name)?,
        None => Space::of_encoding(name)?.decode(name)?,
    };
    Ok(decoded.to_graph()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_encodings_are_found_and_others_refused_with_similar_ones() {
        for model in &SHIPPED {
            let graph = find(model.name, None).expect("a model that ships");
            assert_eq!(graph.name(), model.name);
        }
        for name in Space::names() {
            let space = Space::named(name).expect("a space");
            let encoding = space.sample(1).encode();
            let graph = find(&encoding, None).expect("an architecture");
            assert_eq!(graph.name(), encoding);
            let other = Space::names().find(|other| *other != name).expect("another space");
            let other = Space::named(other).expect("a space");
            assert!(matches!(find(&encoding, Some(&other)), Err(ExportError::Space(_))));
        }
        assert!(matches!(find("mobilevit_xs", None),
            Err(ExportError::Unknown { near, .. }) if near == ["mobilevit_xxs"]));
        assert!(matches!(find("iv1-224", None), Err(ExportError::Space(_))));
        assert!(matches!(find("iv1-224+depth+normals", None),
            Err(ExportError::MultiTask { plain, .. }) if plain == "iv1-224"));
    }
}
