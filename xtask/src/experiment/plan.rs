//! Which points experiments A and B measure, and how often.

use super::Name;

/// Both sides of the comparison, in the names of the results.
const MODELS: &[&str] = &["coroutine", "thread-yield", "thread-block"];

/// One boot of the machine: every combination of these lists, `runs` times, models in turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    numbers: Vec<u32>,
    /// The experiment's own parameter, and its values.
    parameter: (&'static str, &'static [&'static str]),
    processes: u32,
    runs: u32,
}

impl Part {
    /// The program's arguments.
    pub(super) fn arguments(&self) -> Vec<String> {
        let numbers: Vec<String> = self.numbers.iter().map(u32::to_string).collect();
        let (name, values) = self.parameter;
        let options = [
            ("models", MODELS.join(",")),
            ("n", numbers.join(",")),
            (name, values.join(",")),
            ("processes", self.processes.to_string()),
            ("runs", self.runs.to_string()),
        ];
        options
            .into_iter()
            .flat_map(|(name, value)| [format!("--{name}"), value])
            .collect()
    }

    /// How many rows will come.
    pub(super) fn rows(&self) -> u64 {
        let points = MODELS.len() * self.numbers.len() * self.parameter.1.len();
        points as u64 * u64::from(self.runs)
    }
}

/// The parts of experiment A or B. The papers go from 200 tasks to 4000 in steps of 200; a quick run has the points that they
/// print as numbers.
pub(super) fn parts(name: Name, quick: bool) -> Vec<Part> {
    const SIZES: (&str, &[&str]) = ("bytes", &["1", "256", "4096"]);
    const IN_ORDER: (&str, &[&str]) = ("order", &["in-order"]);
    const SHUFFLED: (&str, &[&str]) = ("order", &["shuffled"]);
    let steps = |last: u32| (200..=last).step_by(200).collect::<Vec<u32>>();
    let part = |numbers: Vec<u32>, parameter, processes, runs| Part {
        numbers,
        parameter,
        processes,
        runs,
    };
    match (name, quick) {
        (Name::A, true) => vec![
            part(vec![200, 800, 1000, 4000], IN_ORDER, 1, 3),
            part(vec![200, 1000], SHUFFLED, 1, 3),
        ],
        (Name::A, false) => vec![
            part(steps(4000), IN_ORDER, 1, 5),
            part(steps(1000), SHUFFLED, 1, 5),
            part(vec![200, 1000, 2000], IN_ORDER, 4, 5),
        ],
        (Name::B, true) => vec![part(vec![200, 400, 4000], SIZES, 1, 3)],
        (Name::B, false) => vec![
            part(steps(4000), SIZES, 1, 5),
            part(vec![200, 1000, 2000], SIZES, 4, 5),
        ],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_those_of_the_program() {
        let part = &parts(Name::A, true)[1];
        assert_eq!(
            part.arguments().join(" "),
            "--models coroutine,thread-yield,thread-block --n 200,1000 --order shuffled --processes 1 --runs 3"
        );
        assert_eq!(part.rows(), 18);
    }

    #[test]
    fn a_whole_run_has_the_papers_points() {
        for name in [Name::A, Name::B] {
            let numbers = &parts(name, false)[0].numbers;
            assert_eq!((numbers.len(), numbers[0], numbers[19]), (20, 200, 4000));
        }
        assert_eq!(parts(Name::B, false)[0].rows(), 20 * 3 * 3 * 5);
    }
}
