//! Encodings of architectures, costs files, search spaces.

use std::sync::LazyLock;
use vitempo::planners::cost::CostsFile;
use vitempo::search_space::{Generator, Space};

static SPACES: LazyLock<Vec<Space>> =
    LazyLock::new(|| Space::names().filter_map(|name| Space::named(name).ok()).collect());

/// Decodes a text in every built-in space; what decodes has this encoding, and a graph.
pub fn encoding(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for space in SPACES.iter() {
        if let Ok(architecture) = space.decode(text) {
            assert_eq!(architecture.encode(), text, "an architecture with two encodings");
            let graph = architecture.to_graph();
            assert!(graph.is_ok(), "a member of a space has no graph: {graph:?}");
        }
    }
}

/// Reads costs, checks them, and writes them again.
pub fn costs(bytes: &[u8]) {
    let Ok(file) = serde_json::from_slice::<CostsFile>(bytes) else { return };
    let Ok(costs) = file.check() else { return };
    let text = serde_json::to_string(&CostsFile::from(&costs));
    let again = text.map_err(|e| e.to_string()).and_then(|text| {
        let file: CostsFile = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        file.check().map_err(|e| e.to_string())
    });
    assert_eq!(again.as_ref(), Ok(&costs), "costs change when written and read");
}

/// Draws per space.
const DRAWS: usize = 3;

/// Reads a space, and draws, encodes, mutates and crosses some of its members.
pub fn space(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(space) = Space::parse("input", text) else { return };
    let mut generator = Generator::new(space.size() as u64);
    let mut parent = space.draw(&mut generator);
    for _ in 0..DRAWS {
        let child = space.draw(&mut generator);
        assert!(space.includes(&child), "`{}` is drawn and not included", child.encode());
        let decoded = space.decode(&child.encode());
        assert!(decoded.is_ok_and(|d| d == child), "`{}` decodes to another", child.encode());
        let mutated = space.mutate(&child, &mut generator);
        assert!(mutated.is_ok_and(|m| space.includes(&m)), "a mutation leaves the space");
        assert!(space.includes(&space.cross(&parent, &child, &mut generator)));
        parent = child;
    }
}
