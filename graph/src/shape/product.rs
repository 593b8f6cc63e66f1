//! Matrix products: `linear`, `matmul`, `einsum` and attention as one kernel.

use super::{broadcast, drop_default, like, operand, text};
use crate::{Attributes, OpKind, Operand, Shape, TensorSpec};
use std::collections::BTreeMap;

pub(super) fn canonical(a: &mut Attributes) {
    for (name, default) in [
        ("trans_a", 0.0),
        ("trans_b", 0.0),
        ("alpha", 1.0),
        ("beta", 1.0),
        ("integer", 0.0),
        ("trans_batch_a", 0.0),
        ("trans_batch_b", 0.0),
    ] {
        drop_default(a, name, default);
    }
}

pub(super) fn infer(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Operand],
) -> Result<Vec<TensorSpec>, String> {
    let first = operand(inputs, 0)?;
    let shape = match kind {
        OpKind::Einsum => {
            einsum(a.text("equation").ok_or("attribute `equation` is missing")?, inputs)?
        }
        OpKind::Attention => attention(inputs)?,
        _ => product(a, &first.shape, &operand(inputs, 1)?.shape)?,
    };
    Ok(vec![like(first, shape)])
}

/// Batched matrix product as numpy's `matmul`; `trans_a` and `trans_b` swap the last two dimensions
/// of an operand, after `trans_batch_a` and `trans_batch_b` moved its first dimension to the last
/// but one.
fn product(a: &Attributes, left: &[usize], right: &[usize]) -> Result<Shape, String> {
    let misfit = || format!("{} and {} cannot be multiplied", text(left), text(right));
    if left.is_empty() || right.is_empty() {
        return Err(misfit());
    }
    let transposed = |shape: &[usize], name: &str, batch: &str| {
        let mut shape = shape.to_vec();
        let n = shape.len();
        if a.int(batch).unwrap_or(0) != 0 && n > 2 {
            shape[..n - 1].rotate_left(1);
        }
        if a.int(name).unwrap_or(0) != 0 && n > 1 {
            shape.swap(n - 1, n - 2);
        }
        shape
    };
    let (mut l, mut r) = (
        transposed(left, "trans_a", "trans_batch_a"),
        transposed(right, "trans_b", "trans_batch_b"),
    );
    let (vector_left, vector_right) = (l.len() == 1, r.len() == 1);
    if vector_left {
        l.insert(0, 1);
    }
    if vector_right {
        r.push(1);
    }
    let (m, k) = (l[l.len() - 2], l[l.len() - 1]);
    if r[r.len() - 2] != k {
        return Err(misfit());
    }
    let mut shape = broadcast(&l[..l.len() - 2], &r[..r.len() - 2]).map_err(|_| misfit())?;
    if !vector_left {
        shape.push(m);
    }
    if !vector_right {
        shape.push(r[r.len() - 1]);
    }
    Ok(shape)
}

/// q `[.., N, D]`, k `[.., M, D]`, v `[.., M, E]` give `[.., N, E]`.
fn attention(inputs: &[Operand]) -> Result<Shape, String> {
    let (q, v) = (operand(inputs, 0)?, operand(inputs, 2)?);
    if q.rank() < 2 || v.rank() != q.rank() {
        return Err(format!(
            "queries {} and values {} do not fit each other",
            text(&q.shape),
            text(&v.shape)
        ));
    }
    let mut shape = q.shape.clone();
    shape[q.rank() - 1] = v.shape[v.rank() - 1];
    Ok(shape)
}

/// Where one operand's dimensions belong: labels, with `...` expanded to numbered labels that are
/// aligned at the end.
fn labels(term: &str, rank: usize, widest: &mut usize) -> Result<Vec<String>, String> {
    let (before, after) = match term.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (term, None),
    };
    let letters = |part: &str| part.chars().map(String::from).collect::<Vec<_>>();
    let mut labels = letters(before);
    if let Some(after) = after {
        let batch = rank
            .checked_sub(before.chars().count() + after.chars().count())
            .ok_or_else(|| format!("term `{term}` has too many labels"))?;
        *widest = (*widest).max(batch);
        labels.extend((0..batch).rev().map(|i| format!("...{i}")));
        labels.extend(letters(after));
    }
    if labels.len() != rank {
        return Err(format!("term `{term}` does not fit a tensor of {rank} dimensions"));
    }
    Ok(labels)
}

fn einsum(equation: &str, inputs: &[Operand]) -> Result<Shape, String> {
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != inputs.len() {
        return Err(format!("`{equation}` has {} terms for {} inputs", terms.len(), inputs.len()));
    }
    let (mut extents, mut counts, mut widest) = (BTreeMap::new(), BTreeMap::new(), 0);
    for (term, input) in terms.iter().zip(inputs) {
        for (label, &d) in
            labels(term, input.tensor.rank(), &mut widest)?.into_iter().zip(&input.tensor.shape)
        {
            let known = extents.entry(label.clone()).or_insert(d);
            if *known == 1 {
                *known = d;
            } else if *known != d && d != 1 {
                return Err(format!("`{label}` of `{equation}` is both {known} and {d}"));
            }
            *counts.entry(label).or_insert(0) += 1;
        }
    }
    let output = match right {
        Some(term) => {
            let rank = term.replace("...", "").chars().count()
                + if term.contains("...") { widest } else { 0 };
            labels(term, rank, &mut widest)?
        }
        None => {
            let once = counts
                .iter()
                .filter(|(label, count)| **count == 1 && !label.starts_with("..."))
                .map(|(label, _)| label.clone());
            (0..widest).rev().map(|i| format!("...{i}")).chain(once).collect()
        }
    };
    output
        .iter()
        .map(|label| {
            extents
                .get(label)
                .copied()
                .ok_or_else(|| format!("`{label}` of `{equation}` is in no input"))
        })
        .collect()
}
