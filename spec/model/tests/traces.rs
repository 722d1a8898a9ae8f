//! The traces themselves: the model replays each, and they cover the contract.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use corank_model::{Model, TRACES, Trace, replay};

fn parsed() -> Vec<Trace> {
    let parse = |&(name, text): &(&str, &str)| {
        let file = format!("spec/traces/{name}.trace");
        Trace::parse(&file, text).unwrap_or_else(|error| panic!("{error}"))
    };
    TRACES.iter().map(parse).collect()
}

#[test]
fn the_model_replays_every_trace() {
    let mut failures = Vec::new();
    for trace in parsed() {
        match replay(&trace, &mut Model::default()) {
            Ok(report) => {
                assert_eq!(report.skipped, None, "{}", trace.name);
                assert_eq!(report.unanswered, 0, "{}", trace.name);
            }
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn the_list_has_every_file_once_under_its_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces");
    let files: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|file| file.strip_suffix(".trace").map(str::to_string))
        .collect();
    let listed: Vec<String> = TRACES.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(files.into_iter().collect::<Vec<_>>(), listed);
    for (trace, name) in parsed().iter().zip(listed) {
        assert_eq!(trace.name, name);
    }
}

/// Returns the rules of `contract.md` as (id, whether platforms test it themselves).
fn rules() -> Vec<(String, bool)> {
    let contract = include_str!("../../contract.md");
    let rule = |line: &str| {
        let (id, text) = line.strip_prefix("- **")?.split_once("**")?;
        Some((id.to_string(), text.starts_with(" [platform]")))
    };
    contract.lines().filter_map(rule).collect()
}

#[test]
fn every_rule_is_cited_by_a_trace_and_every_citation_is_a_rule() {
    let rules = rules();
    let known: BTreeSet<&str> = rules.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(known.len(), rules.len(), "a rule's number is given twice");
    let traces = parsed();
    let mut cited = BTreeSet::new();
    for trace in &traces {
        for rule in &trace.rules {
            assert!(known.contains(rule.as_str()), "{}: {rule}", trace.file);
            cited.insert(rule.as_str());
        }
    }
    let missing: Vec<&str> = rules
        .iter()
        .filter(|(id, platform)| !platform && !cited.contains(id.as_str()))
        .map(|(id, _)| id.as_str())
        .collect();
    assert!(missing.is_empty(), "no trace cites {missing:?}");
}

#[test]
fn a_trace_survives_being_written_and_read() {
    for trace in parsed() {
        let written = trace.to_string();
        let read = Trace::parse(&trace.file, &written).unwrap_or_else(|e| panic!("{e}\n{written}"));
        assert_eq!(read.to_string(), written);
        assert_eq!(read.steps.len(), trace.steps.len());
    }
}

#[test]
fn the_example_in_the_readme_is_a_trace() {
    let readme = include_str!("../../traces/README.md");
    let (_, rest) = readme.split_once("```text\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let trace = Trace::parse("README.md", example).unwrap();
    assert_eq!(replay(&trace, &mut Model::default()).unwrap().polls, 5);
}
