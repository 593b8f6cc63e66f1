//! Rotations as quaternions (x, y, z, w) and as matrices.

/// The matrix of a rotation; `None` for a quaternion of length 0.
pub fn rotation(quaternion: [f64; 4]) -> Option<[[f64; 3]; 3]> {
    let length = quaternion.iter().map(|q| q * q).sum::<f64>().sqrt();
    let [x, y, z, w] = quaternion.map(|q| q / length);
    let matrix = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
    ];
    (length > 1e-9).then_some(matrix)
}

/// The quaternion of a rotation, of length 1 and with `w` of 0 or more (Shepperd 1978: the largest
/// of the four numbers is found first, so that nothing small divides).
pub fn quaternion(matrix: [[f64; 3]; 3]) -> [f64; 4] {
    let [[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]] = matrix;
    // Four times the square of each number.
    let squares = [1.0 + xx - yy - zz, 1.0 - xx + yy - zz, 1.0 - xx - yy + zz, 1.0 + xx + yy + zz];
    let most = (0..4).max_by(|a, b| squares[*a].total_cmp(&squares[*b])).unwrap_or(3);
    let (sums, differences) = ([zy + yz, xz + zx, yx + xy], [zy - yz, xz - zx, yx - xy]);
    let products = match most {
        0 => [squares[0], sums[2], sums[1], differences[0]],
        1 => [sums[2], squares[1], sums[0], differences[1]],
        2 => [sums[1], sums[0], squares[2], differences[2]],
        _ => [differences[0], differences[1], differences[2], squares[3]],
    };
    let by = 0.5 / squares[most].max(f64::MIN_POSITIVE).sqrt();
    products.map(|product| product * if products[3] < 0.0 { -by } else { by })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_turn_by_hand() {
        let half = std::f64::consts::FRAC_1_SQRT_2;
        let turned = rotation([0.0, half, 0.0, half]).expect("a rotation");
        assert!((turned[0][2] - 1.0).abs() < 1e-9 && (turned[2][0] + 1.0).abs() < 1e-9);
        assert_eq!(rotation([0.0; 4]), None);
    }

    #[test]
    fn quaternions_come_back_from_their_matrices() {
        for of in [
            [0.0, 0.0, 0.0, 1.0],
            [1.0, 0.0, 0.0, 0.0],
            [0.0, 1.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 0.0],
            [0.1, -0.7, 0.2, 0.3],
            [0.9, 0.1, -0.3, 0.01],
            [0.1, 0.2, -0.9, 0.2],
        ] {
            let length = of.iter().map(|q: &f64| q * q).sum::<f64>().sqrt();
            let back = quaternion(rotation(of).expect("a rotation"));
            let apart = of.iter().zip(back).map(|(a, b)| (a / length - b).abs());
            assert!(apart.fold(0.0, f64::max) < 1e-12, "{of:?}: {back:?}");
        }
    }
}
