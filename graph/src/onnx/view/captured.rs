//! Names that graphs in a node's attributes (branches of an `If`, bodies of a `Loop` and of a
//! `Scan`) read from around them. They are not among the node's inputs.

use super::{Found, each_field};
use std::collections::HashSet;

/// Graphs within attributes within graphs. Protobuf's own readers take messages within messages up
/// to a depth of 100; each graph is three of them.
const DEEPEST: usize = 32;
/// Why a file with more of them is not read.
pub(in crate::onnx) const TOO_DEEP: &str = "graphs are nested deeper than 32";
const _: () = assert!(DEEPEST == 32, "the sentence has the number");

/// Adds the names that a graph reads and does not provide itself.
///
/// # Errors
/// A sentence where it is damaged; [`TOO_DEEP`].
pub(super) fn add<'a>(names: &mut Vec<&'a str>, graph: Found<'a, '_>) -> Result<(), String> {
    free_names(names, graph, 1)
}

fn free_names<'a>(
    names: &mut Vec<&'a str>,
    graph: Found<'a, '_>,
    depth: usize,
) -> Result<(), String> {
    if depth > DEEPEST {
        return Err(TOO_DEEP.to_owned());
    }
    let (mut reads, mut own) = (Vec::new(), HashSet::new());
    each_field(graph, |number, found| {
        match number {
            1 => node(&mut reads, &mut own, found, depth)?,
            5 => own.extend(text(found, 8)?),
            11 => own.extend(text(found, 1)?),
            12 => reads.extend(text(found, 1)?),
            15 => each_field(found, |number, values| {
                if number == 1 {
                    own.extend(text(values, 8)?);
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    names.extend(reads.into_iter().filter(|name| !name.is_empty() && !own.contains(name)));
    Ok(())
}

fn node<'a>(
    reads: &mut Vec<&'a str>,
    own: &mut HashSet<&'a str>,
    node: Found<'a, '_>,
    depth: usize,
) -> Result<(), String> {
    each_field(node, |number, found| {
        match number {
            1 => reads.push(found.text()?),
            2 => _ = own.insert(found.text()?),
            5 => each_field(found, |number, graph| match number {
                6 | 11 => free_names(reads, graph, depth + 1),
                _ => Ok(()),
            })?,
            _ => {}
        }
        Ok(())
    })
}

/// The text in a field of a message.
fn text<'a>(message: Found<'a, '_>, wanted: u64) -> Result<Option<&'a str>, String> {
    let mut text = None;
    each_field(message, |number, found| {
        if number == wanted {
            text = Some(found.text()?);
        }
        Ok(())
    })?;
    Ok(text)
}
