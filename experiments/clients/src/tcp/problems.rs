//! Requests, and the answers that they should get, made before the time counts.
//!
//! Every answer is compared with all bytes of the right one.

/// Number of matrices: requests of a connection that follow each other have different ones.
///
/// After this many requests the matrices come again. The request's number always differs.
const MATRICES: u64 = 64;

/// Matrices of one size, and their squares.
#[derive(Debug)]
pub(crate) struct Problems {
    rows: u16,
    /// The bytes of each matrix, and of its square.
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Problems {
    /// Creates matrices with this many rows, and their squares.
    pub(crate) fn new(rows: u16) -> Self {
        let side = usize::from(rows);
        let bytes = |values: &[u32]| {
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect()
        };
        let pair = |seed: u64| {
            let matrix: Vec<u32> = (0..side * side)
                .map(|place| (place as u32 ^ seed as u32).wrapping_mul(2_654_435_761))
                .collect();
            (bytes(&matrix), bytes(&square(&matrix, side)))
        };
        Self {
            rows,
            // None has the seed 0: the square of a matrix of one row would be itself.
            pairs: (1..=MATRICES).map(pair).collect(),
        }
    }

    pub(crate) fn rows(&self) -> u16 {
        self.rows
    }

    /// Returns the bytes of a request, and of an answer.
    pub(crate) fn message(&self) -> usize {
        8 + self.pairs[0].0.len()
    }

    fn pair(&self, number: u64) -> &(Vec<u8>, Vec<u8>) {
        &self.pairs[(number % MATRICES) as usize]
    }

    /// Appends the request with this number.
    pub(crate) fn write_request(&self, number: u64, bytes: &mut Vec<u8>) {
        bytes.extend(number.to_le_bytes());
        bytes.extend(&self.pair(number).0);
    }

    /// Tests whether this is the answer to the request with this number.
    pub(crate) fn is_answer(&self, number: u64, bytes: &[u8]) -> bool {
        bytes.split_at_checked(8).is_some_and(|(first, square)| {
            first == number.to_le_bytes() && square == self.pair(number).1
        })
    }
}

fn square(matrix: &[u32], rows: usize) -> Vec<u32> {
    let mut product = vec![0_u32; rows * rows];
    for row in 0..rows {
        for at in 0..rows {
            let left = matrix[row * rows + at];
            for column in 0..rows {
                let cell = &mut product[row * rows + column];
                *cell = cell.wrapping_add(left.wrapping_mul(matrix[at * rows + column]));
            }
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_squared() {
        assert_eq!(square(&[3], 1), [9]);
        assert_eq!(square(&[1, 2, 3, 4], 2), [7, 10, 15, 22]);
    }

    #[test]
    fn a_request_is_a_number_and_a_matrix() {
        let mut bytes = Vec::new();
        Problems::new(1).write_request(0x1_0000_0002, &mut bytes);
        let value = 3_u32.wrapping_mul(2_654_435_761).to_le_bytes();
        assert_eq!(bytes, [&[2, 0, 0, 0, 1, 0, 0, 0], &value[..]].concat());
    }

    #[test]
    fn an_answer_has_the_number_and_the_square() {
        let problems = Problems::new(2);
        let number = 2 * MATRICES + 5;
        let answer = [&number.to_le_bytes(), &problems.pairs[5].1[..]].concat();
        assert_eq!(answer.len(), problems.message());
        assert!(problems.is_answer(number, &answer));
        for at in 0..answer.len() {
            let mut other = answer.clone();
            other[at] ^= 1;
            assert!(!problems.is_answer(number, &other), "byte {at}");
        }
        assert!(!problems.is_answer(number, &answer[..answer.len() - 1]));
        assert!(!problems.is_answer(number + MATRICES, &answer));
        assert!(!problems.is_answer(number, &[]));
    }

    #[test]
    fn no_square_is_its_own_matrix() {
        for rows in [1, 15, 20] {
            let problems = Problems::new(rows);
            assert!(
                problems
                    .pairs
                    .iter()
                    .all(|(matrix, square)| matrix != square)
            );
        }
    }
}
