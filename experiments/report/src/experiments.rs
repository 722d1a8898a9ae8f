//! The experiments: each is one [`Experiment`] in its module.
//!
//! A new one adds its module and its entry in [`ALL`], and nothing elsewhere: `cargo xtask` and the
//! report take names, schedules and what is shown from here.

mod answers;
mod edge;
mod gateway;
mod global;
mod linux_latency;
mod linux_machine;
mod mcu;
mod scheduler;
mod tasks;
mod tcp_models;
mod tcp_priority;

use crate::document::Document;
use crate::experiment::Experiment;
use anyhow::{Context, Result};

/// Every experiment.
pub const ALL: [&Experiment; 12] = [
    &tasks::TURN,
    &tasks::PIPES,
    &scheduler::EXPERIMENT,
    &global::EXPERIMENT,
    &tcp_models::EXPERIMENT,
    &tcp_priority::EXPERIMENT,
    &linux_latency::EXPERIMENT,
    &linux_machine::EXPERIMENT,
    &mcu::SWITCH,
    &mcu::SIZE,
    &edge::EXPERIMENT,
    &gateway::EXPERIMENT,
];

/// Returns the experiment that a document has the results of.
///
/// # Errors
/// If no experiment has the document's name.
pub fn of(document: &Document) -> Result<&'static Experiment> {
    named(&document.experiment)
}

/// Returns the experiment with this name.
///
/// # Errors
/// If none has it.
pub fn named(name: &str) -> Result<&'static Experiment> {
    (ALL.into_iter().find(|experiment| experiment.name == name))
        .with_context(|| format!("no experiment is called `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passage::{self, wrong_targets};
    use crate::sample;
    use crate::schedule::Schedule;
    use std::fs;
    use std::path::Path;

    /// Returns a page of this repository.
    fn page(name: &str) -> String {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(name);
        fs::read_to_string(&file).unwrap()
    }

    fn passage<'a>(page: &'a str, name: &str) -> &'a str {
        let [begin, end] = passage::between(page, name).unwrap();
        &page[begin..end]
    }

    #[test]
    fn names_are_those_that_other_tools_rely_on() {
        let names = ALL.map(|experiment| experiment.name);
        let expected = "a b core global tcp-models tcp-priority linux-latency linux-machine mcu-switch mcu-size edge gateway";
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn each_experiment_is_complete() {
        for experiment in ALL {
            let texts = [experiment.summary, experiment.heading, experiment.about];
            assert!(
                texts.iter().all(|text| !text.is_empty()),
                "{}",
                experiment.name
            );
            match experiment.schedule {
                Schedule::Host(package) | Schedule::HostParts(package) => assert_ne!(package, ""),
                Schedule::System(parts) => assert!(!parts(true).is_empty()),
                Schedule::Driver(_) => {}
            }
        }
    }

    #[test]
    fn the_pages_say_what_their_figures_say() {
        for (name, file) in [("edge", edge::PAGE), ("gateway", gateway::PAGE)] {
            let page = page(file);
            let nothing = sample::document(name, &[]);
            let targets = of(&nothing).unwrap().verdicts(&nothing).unwrap();
            assert_eq!(
                wrong_targets(passage(&page, name), &targets),
                None,
                "{file}; `cargo xtask report --docs` writes it"
            );
        }
    }

    #[test]
    fn the_front_page_has_a_figure_of_the_interleavers_page() {
        let (front, guide) = (page("README.md"), page(edge::PAGE));
        let mut figures: Vec<f64> = passage(&front, edge::FASTEST)
            .split(" to ")
            .map(|figure| figure.parse().unwrap())
            .collect();
        figures.sort_by(f64::total_cmp);
        let line = passage(&guide, "edge")
            .lines()
            .find(|line| line.starts_with("| B+ tree, scan of 64-byte leaves |"))
            .unwrap();
        // With 32 coroutines, and with the automatic number; with both compilers.
        let cells: Vec<&str> = line.split('|').collect();
        let mut there: Vec<f64> = [cells[3], cells[5]]
            .iter()
            .flat_map(|cell| cell.split('/'))
            .map(|figure| figure.trim().parse::<f64>().unwrap().round())
            .collect();
        there.sort_by(f64::total_cmp);
        assert_eq!(figures, [there[0], there[3]]);
    }
}
