//! Linear least squares with coefficients of at least 0, by coordinate descent on the normal
//! equations (Franc, Hlaváč, Navara, CAIP 2005). The few products of a [`super::Form`] need no
//! library.

/// Rounds over all coefficients.
const ROUNDS: usize = 5000;
/// Change of a round that counts as none, relative to the largest coefficient.
const CONVERGED: f64 = 1e-12;
/// Added to the diagonal, relative to its mean: columns that are multiples of each other share.
const RIDGE: f64 = 1e-6;

/// One equation: products, the value they are to give, and its weight.
#[derive(Clone, Debug)]
pub(super) struct Equation {
    pub products: Vec<f64>,
    pub value: f64,
    pub weight: f64,
}

/// The coefficients, as many as `width`.
pub(super) fn solve<'e>(equations: impl Iterator<Item = &'e Equation>, width: usize) -> Vec<f64> {
    let mut matrix = vec![vec![0.0; width]; width];
    let mut right = vec![0.0; width];
    for Equation { products, value, weight } in equations {
        for (i, one) in products.iter().enumerate() {
            right[i] += weight * one * value;
            for (j, other) in products.iter().enumerate() {
                matrix[i][j] += weight * one * other;
            }
        }
    }
    let trace: f64 = (0..width).map(|i| matrix[i][i]).sum();
    let ridge = RIDGE * trace / width.max(1) as f64;
    (0..width).for_each(|i| matrix[i][i] += ridge);
    descend(&matrix, &right)
}

fn descend(matrix: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut found = vec![0.0_f64; right.len()];
    for _ in 0..ROUNDS {
        let mut change = 0.0_f64;
        for (i, row) in matrix.iter().enumerate() {
            if row[i] <= 0.0 {
                continue;
            }
            let gradient: f64 = row.iter().zip(&found).map(|(m, c)| m * c).sum::<f64>() - right[i];
            let next = (found[i] - gradient / row[i]).max(0.0);
            change = change.max((next - found[i]).abs());
            found[i] = next;
        }
        let largest = found.iter().copied().fold(0.0, f64::max);
        if change <= CONVERGED * largest {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equation(products: [f64; 2], value: f64) -> Equation {
        Equation { products: products.to_vec(), value, weight: 1.0 }
    }

    #[test]
    fn coefficients_are_found_and_never_negative() {
        let rows = [[1.0, 0.0], [0.5, 1.0], [0.2, 0.3], [1.0, 1.0]];
        let known: Vec<Equation> =
            rows.iter().map(|row| equation(*row, 2.0 * row[0] + 0.5 * row[1])).collect();
        let found = solve(known.iter(), 2);
        assert!((found[0] - 2.0).abs() < 1e-3 && (found[1] - 0.5).abs() < 1e-3, "{found:?}");
        let negative: Vec<Equation> =
            rows.iter().map(|row| equation(*row, 2.0 * row[0] - 0.5 * row[1])).collect();
        let found = solve(negative.iter(), 2);
        // The best without the second column: sum(x y) / sum(x x).
        let alone = negative.iter().map(|e| e.products[0] * e.value).sum::<f64>()
            / rows.iter().map(|row| row[0] * row[0]).sum::<f64>();
        assert!(found[1] == 0.0 && (found[0] - alone).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn columns_of_zeros_and_no_equations_have_no_coefficients() {
        let rows = [equation([1.0, 0.0], 3.0)];
        let found = solve(rows.iter(), 2);
        assert!((found[0] - 3.0).abs() < 1e-3 && found[1] == 0.0, "{found:?}");
        assert_eq!(solve([].into_iter(), 2), [0.0, 0.0]);
    }
}
