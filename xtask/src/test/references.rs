//! Tests that the files and the tests that documents name are there.

use super::Context;
use super::format::{files, text};
use super::outcome::Outcome;
use crate::repository;
use anyhow::{Context as _, Result};
use std::collections::HashSet;

/// Documents that name what was, or what other projects have.
const EXEMPT: [&str; 3] = ["CHANGELOG.md", "docs/decisions/", "docs/papers.md"];
/// How the names of files end that are looked for.
const ENDINGS: [&str; 7] = [".rs", ".hpp", ".cpp", ".toml", ".md", ".ld", ".s"];
/// The sources in which names are defined.
const SOURCES: [&str; 5] = ["*.rs", "*.hpp", "*.cpp", "*.toml", "*.py"];
/// A name with so many words is that of a test or another item, and nothing else.
const WORDS: usize = 4;

/// Checks each document, as one test.
///
/// # Errors
/// If `git` cannot be run or a file cannot be read.
pub(super) fn check(context: &mut Context) -> Result<Outcome> {
    if !repository::path(".git").exists() {
        return Ok(Outcome::skipped(
            "files are listed with `git ls-files`, and this is no git checkout",
        ));
    }
    let tracked = files(&["."])?;
    let mut sources = Vec::new();
    for file in files(&SOURCES)? {
        sources.push(read(&file)?);
    }
    let words: HashSet<&str> = sources.iter().flat_map(|source| words(source)).collect();
    let mut outcome = Outcome::default();
    for document in files(&["*.md"])? {
        if EXEMPT.iter().any(|exempt| document.starts_with(exempt)) {
            continue;
        }
        let content = read(&document)?;
        let mut result = Outcome::passed();
        for (line, span) in spans(&content) {
            let is_there = match reference(span) {
                None => true,
                Some(Reference::File(name)) => tracked.iter().any(|file| ends_with(file, name)),
                Some(Reference::Item(name)) => words.contains(name),
            };
            if !is_there {
                context.show(&format!("{document}:{line}: there is no `{span}`"));
                result = Outcome::failed();
            }
        }
        outcome.add(result);
    }
    Ok(outcome)
}

fn read(file: &str) -> Result<String> {
    std::fs::read_to_string(repository::path(file)).with_context(|| format!("cannot read {file}"))
}

/// What a span of code in a document refers to.
#[derive(Debug, PartialEq, Eq)]
enum Reference<'a> {
    /// The end of a file's path.
    File(&'a str),
    /// A test, or another item with a long name.
    Item(&'a str),
}

/// Returns what a span of code refers to, if that is checked.
fn reference(span: &str) -> Option<Reference<'_>> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if ENDINGS.iter().any(|ending| span.ends_with(ending)) {
        let name = span.trim_start_matches("../").trim_start_matches("./");
        // `*.rs` and `.toml` are endings, `NAME.toml` is any file.
        let is_name = !name.starts_with('.') && !name.contains("NAME") && name.chars().all(is_path);
        return is_name.then_some(Reference::File(name));
    }
    let name = span.rsplit("::").next()?;
    let is_item = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = name.split('_').filter(|word| !word.is_empty()).count();
    (words >= WORDS && name.chars().all(is_item)).then_some(Reference::Item(name))
}

/// Returns the spans of code of a document that lie in one line, with the numbers of their lines.
fn spans(content: &str) -> impl Iterator<Item = (usize, &str)> {
    text(content).into_iter().flat_map(|(number, line)| {
        let inside = line.split('`').skip(1).step_by(2);
        inside.map(move |span| (number, span))
    })
}

/// Returns the words of a source.
fn words(source: &str) -> impl Iterator<Item = &str> {
    source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// Tests whether a path ends with these folders and this file.
fn ends_with(path: &str, end: &str) -> bool {
    path.strip_suffix(end)
        .is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_items_are_told_from_other_code() {
        let file = |name| Some(Reference::File(name));
        let item = |name| Some(Reference::Item(name));
        assert_eq!(reference("net/tcp.rs"), file("net/tcp.rs"));
        assert_eq!(reference("../model/src/lib.rs"), file("model/src/lib.rs"));
        assert_eq!(reference("a::it_is_woken_once"), item("it_is_woken_once"));
        for other in [
            "*.rs",
            ".toml",
            "NAME.toml",
            "spawn_with",
            "cargo xtask a_b_c_d",
            "",
        ] {
            assert_eq!(reference(other), None, "{other}");
        }
    }

    #[test]
    fn spans_have_the_numbers_of_their_lines() {
        let document = "a `b` c\n```sh\n`x`\n```\n`d` and `e`\n";
        let found: Vec<_> = spans(document).collect();
        assert_eq!(found, [(1, "b"), (5, "d"), (5, "e")]);
    }

    #[test]
    fn a_file_is_named_by_whole_folders() {
        assert!(ends_with("os/kernel/src/net/tcp.rs", "net/tcp.rs"));
        assert!(ends_with("README.md", "README.md"));
        assert!(!ends_with("os/kernel/src/internet/tcp.rs", "net/tcp.rs"));
    }
}
