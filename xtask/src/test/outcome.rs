//! Counting tests.

use crate::process::Finished;

/// The tests of one stage, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) passed: u64,
    pub(super) failed: u64,
    /// The reason for each test that did not run.
    pub(super) skipped: Vec<String>,
}

impl Outcome {
    /// Counts one test that passed.
    pub(super) fn passed() -> Self {
        Self {
            passed: 1,
            ..Self::default()
        }
    }

    /// Counts one test that failed.
    pub(super) fn failed() -> Self {
        Self {
            failed: 1,
            ..Self::default()
        }
    }

    /// Counts one test that can't run on this machine.
    pub(super) fn skipped(reason: impl Into<String>) -> Self {
        Self {
            skipped: vec![reason.into()],
            ..Self::default()
        }
    }

    /// Counts a command as one test, such as a lint or a model.
    pub(super) fn of_command(finished: &Finished) -> Self {
        if finished.success() {
            Self::passed()
        } else {
            Self::failed()
        }
    }

    /// Counts the tests that `cargo test` printed.
    ///
    /// A run that fails without a failed test (it does not build, or a test ends the process)
    /// counts as one failure, and so does one that ran nothing.
    pub(super) fn of_cargo_test(finished: &Finished) -> Self {
        let counted = sum_of_cargo_test(&finished.output);
        counted.at_least_one_failure_unless(finished.success())
    }

    /// Counts the tests that a program of GoogleTest printed.
    ///
    /// One that ends without its summary counts as one failure.
    pub(super) fn of_googletest(finished: &Finished) -> Self {
        let number = |mark: &str| -> u64 {
            finished
                .output
                .lines()
                .filter_map(|line| {
                    line.strip_prefix(mark)?
                        .trim()
                        .split(' ')
                        .next()?
                        .parse()
                        .ok()
                })
                .next()
                .unwrap_or(0)
        };
        let counted = Self {
            passed: number("[  PASSED  ]"),
            failed: number("[  FAILED  ]"),
            skipped: Vec::new(),
        };
        counted.at_least_one_failure_unless(finished.success())
    }

    /// Counts the tests of a program whose last line is `N passed, N failed`.
    pub(super) fn of_last_line(output: &str, success: bool) -> Self {
        let last = output
            .lines()
            .map(str::trim)
            .rfind(|line| !line.is_empty())
            .unwrap_or_default();
        match counts(last) {
            Some((passed, failed)) => Self {
                passed,
                failed,
                ..Self::default()
            }
            .at_least_one_failure_unless(success),
            None => Self::failed(),
        }
    }

    fn at_least_one_failure_unless(mut self, success: bool) -> Self {
        if self.failed == 0 && (!success || self.passed == 0) {
            self.failed = 1;
        }
        self
    }

    /// Adds another stage's tests.
    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
    }

    /// Returns `N passed, N failed`, and the number of skipped ones if there are any.
    pub(super) fn counts(&self) -> String {
        match self.skipped.len() {
            0 => format!("{} passed, {} failed", self.passed, self.failed),
            skipped => format!(
                "{} passed, {} failed, {skipped} skipped",
                self.passed, self.failed
            ),
        }
    }
}

/// Adds up the lines `test result: ok. 3 passed; 0 failed; …`, one per test binary.
fn sum_of_cargo_test(output: &str) -> Outcome {
    let mut sum = Outcome::default();
    for line in output.lines() {
        let Some(result) = line.trim().strip_prefix("test result: ") else {
            continue;
        };
        let (_, numbers) = result.split_once(". ").unwrap_or_default();
        for part in numbers.split(';') {
            match part.trim().split_once(' ') {
                Some((count, "passed")) => sum.passed += count.parse().unwrap_or(0),
                Some((count, "failed")) => sum.failed += count.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
    sum
}

/// Returns the two numbers of `N passed, N failed`.
fn counts(line: &str) -> Option<(u64, u64)> {
    let (passed, failed) = line.split_once(", ")?;
    Some((
        passed.strip_suffix(" passed")?.parse().ok()?,
        failed.strip_suffix(" failed")?.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_BINARIES: &str = "\
running 3 tests
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
   Doc-tests corank
test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
";

    #[test]
    fn binaries_are_added_up() {
        assert_eq!(
            sum_of_cargo_test(TWO_BINARIES),
            Outcome {
                passed: 7,
                failed: 2,
                skipped: Vec::new()
            }
        );
        assert_eq!(
            sum_of_cargo_test("error: could not compile"),
            Outcome::default()
        );
    }

    #[test]
    fn the_last_line_counts() {
        assert_eq!(
            Outcome::of_last_line("1 passed, 0 failed\nbye\n12 passed, 0 failed\r\n\n", true)
                .passed,
            12
        );
        assert_eq!(
            Outcome::of_last_line("12 passed, 3 failed", false).failed,
            3
        );
    }

    #[test]
    fn output_without_a_result_is_a_failure() {
        assert_eq!(Outcome::of_last_line("panicked", true), Outcome::failed());
        assert_eq!(Outcome::of_last_line("", true), Outcome::failed());
        // All passed, but the program then ended with a code other than 0.
        assert_eq!(
            Outcome::of_last_line("2 passed, 0 failed", false).counts(),
            "2 passed, 1 failed"
        );
        // Nothing ran: a test suite that lost its tests.
        assert_eq!(
            Outcome::of_last_line("0 passed, 0 failed", true),
            Outcome::failed()
        );
    }

    #[test]
    fn outcomes_are_summed() {
        let mut sum = Outcome::passed();
        sum.add(Outcome::failed());
        assert_eq!(sum.counts(), "1 passed, 1 failed");
        sum.add(Outcome::skipped("no nightly"));
        assert_eq!(sum.counts(), "1 passed, 1 failed, 1 skipped");
        assert_eq!(sum.skipped, ["no nightly"]);
    }
}
