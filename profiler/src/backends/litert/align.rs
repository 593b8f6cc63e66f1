//! Finds the operator that each kernel of XNNPACK runs. Both lists are in execution order, but
//! XNNPACK fuses some operators into others and adds kernels of its own. The cheapest alignment
//! that keeps the order is taken (dynamic programming), where an operator without a kernel costs
//! least if it is expected to have none, and less if it is of a kind that XNNPACK fuses.

use super::kernel_names::{converts, runs};

const EXPECTED: u32 = 1;
const FUSED: u32 = 3;
const SKIPPED: u32 = 9;
const UNKNOWN: u32 = 5;
const ADDED: u32 = 1;

/// An operator that may have a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    /// TensorFlow Lite's name of it.
    pub code: &'a str,
    /// Whether it is expected to be fused into a neighbour.
    pub fused: bool,
}

/// For each kernel the place of its operator in `operators`; `None` for a kernel that belongs to
/// none.
pub(super) fn align(kernels: &[&str], operators: &[Candidate<'_>]) -> Vec<Option<usize>> {
    let (rows, columns) = (kernels.len() + 1, operators.len() + 1);
    // costs[k * columns + o]: of the kernels from k on with the operators from o on.
    let mut costs = vec![0u32; rows * columns];
    for k in (0..rows).rev() {
        for o in (0..columns).rev().filter(|&o| (k, o) != (rows - 1, columns - 1)) {
            costs[k * columns + o] = steps(kernels, operators, &costs, columns, k, o)
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(u32::MAX);
        }
    }
    let (mut k, mut o) = (0, 0);
    let mut aligned = vec![None; kernels.len()];
    while k < kernels.len() {
        let [matched, skipped, _] = steps(kernels, operators, &costs, columns, k, o);
        let best = Some(costs[k * columns + o]);
        if matched == best {
            aligned[k] = Some(o);
            (k, o) = (k + 1, o + 1);
        } else if skipped == best {
            o += 1;
        } else {
            k += 1;
        }
    }
    aligned
}

/// Costs of the choices at (k, o): the kernel runs the operator; the operator has no kernel; the
/// kernel has no operator.
fn steps(
    kernels: &[&str],
    operators: &[Candidate<'_>],
    costs: &[u32],
    columns: usize,
    k: usize,
    o: usize,
) -> [Option<u32>; 3] {
    let at = |k: usize, o: usize| costs[k * columns + o];
    let (kernel, operator) = (kernels.get(k), operators.get(o));
    let matched = kernel
        .zip(operator)
        .filter(|(kernel, operator)| runs(kernel, operator.code))
        .map(|_| at(k + 1, o + 1));
    let skipped = operator.map(|operator| at(k, o + 1).saturating_add(without_kernel(operator)));
    let alone = kernel
        .map(|kernel| at(k + 1, o).saturating_add(if converts(kernel) { ADDED } else { UNKNOWN }));
    [matched, skipped, alone]
}

/// The cost of an operator without a kernel.
fn without_kernel(operator: &Candidate<'_>) -> u32 {
    match operator.code {
        _ if operator.fused => EXPECTED,
        "RELU" | "RELU6" | "RELU_N1_TO_1" | "MAXIMUM" | "MINIMUM" | "PAD" | "RESHAPE" | "MUL"
        | "SQUARE" | "QUANTIZE" | "DEQUANTIZE" => FUSED,
        _ => SKIPPED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates<'a>(codes: &[&'a str]) -> Vec<Candidate<'a>> {
        codes.iter().map(|&code| Candidate { code, fused: false }).collect()
    }

    #[test]
    fn expectations_decide_between_equals() {
        let mut operators = candidates(&["RESHAPE", "RESHAPE"]);
        for fused in [0, 1] {
            operators[fused].fused = true;
            assert_eq!(align(&["Static Reshape (NC)"], &operators), [Some(1 - fused)]);
            operators[fused].fused = false;
        }
    }

    #[test]
    fn fused_operators_are_passed_over() {
        let kernels = [
            "Convolution (NHWC, F32) IGEMM",
            "Constant Pad (ND, X32)",
            "Max Pooling (NHWC, F32)",
            "Add (ND)",
            "Clamp (NC)",
            "Static Reshape (NC)",
        ];
        let operators = ["PAD", "CONV_2D", "RELU", "PAD", "MAX_POOL_2D", "ADD", "RELU", "RESHAPE"];
        assert_eq!(align(&kernels, &candidates(&operators)), [1, 3, 4, 5, 6, 7].map(Some));
    }

    #[test]
    fn kernels_of_its_own_and_unknown_ones_belong_to_no_operator() {
        let kernels = [
            "Convert (NC)",
            "Fully Connected (NC, F16) GEMM",
            "Mystery (NC)",
            "GELU (NC)",
            "Convert (NC)",
        ];
        assert_eq!(
            align(&kernels, &candidates(&["FULLY_CONNECTED", "GELU"])),
            [None, Some(0), None, Some(1), None]
        );
        assert_eq!(align(&[], &candidates(&["ADD"])), []);
        assert_eq!(align(&["Add (ND)"], &[]), [None]);
    }
}
