//! Searches the repository for terms that were retired, so that they do not come back.

use super::Context;
use super::outcome::Outcome;
use crate::repository;
use anyhow::{Context as _, Result, bail};
use std::process::Command;

/// The list of retired terms, and the description of its format.
pub(super) const TERMS: &str = "docs/retired-terms.txt";
/// Files that may name retired terms.
const EXEMPT: [&str; 2] = [":!docs/retired-terms.txt", ":!CHANGELOG.md"];

/// One entry of the list.
#[derive(Debug, PartialEq, Eq)]
struct Term<'a> {
    /// Folders and files to search, from the repository's root.
    scopes: Vec<&'a str>,
    /// An extended regular expression.
    pattern: &'a str,
    /// What to write instead.
    instead: &'a str,
}

/// Searches for each term of the list.
///
/// # Errors
/// If the list cannot be read or has a bad line, or if `git grep` fails.
pub(super) fn check(context: &mut Context) -> Result<Outcome> {
    if !repository::path(".git").exists() {
        return Ok(Outcome::skipped(
            "retired terms are searched with `git grep`, and this is no git checkout",
        ));
    }
    let list = std::fs::read_to_string(repository::path(TERMS))?;
    let mut outcome = Outcome::default();
    for term in parse(&list)? {
        let found = search(&term)?;
        outcome.add(if found.is_empty() {
            Outcome::passed()
        } else {
            let Term {
                pattern, instead, ..
            } = term;
            context.show(&format!(
                "{found}`{pattern}` is retired ({TERMS}); write instead: {instead}\n"
            ));
            Outcome::failed()
        });
    }
    Ok(outcome)
}

/// Returns the entries of the list.
fn parse(list: &str) -> Result<Vec<Term<'_>>> {
    let mut terms = Vec::new();
    for (number, line) in (1..).zip(list.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let [scopes, pattern, instead] = line.split(" | ").collect::<Vec<_>>()[..] else {
            bail!("{TERMS}:{number}: expected `SCOPES | PATTERN | INSTEAD`, found `{line}`");
        };
        terms.push(Term {
            scopes: scopes.split_whitespace().collect(),
            pattern,
            instead,
        });
    }
    Ok(terms)
}

/// Returns the lines of tracked files in which the term occurs, each as `FILE:LINE:TEXT`.
fn search(term: &Term<'_>) -> Result<String> {
    let mut command = Command::new("git");
    command.args(["grep", "-I", "--line-number", "--extended-regexp"]);
    command.args(["-e", term.pattern, "--"]);
    command.args(&term.scopes).args(EXEMPT);
    command.current_dir(repository::root());
    let output = command.output().context("git cannot be run")?;
    match output.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Some(1) => Ok(String::new()),
        _ => bail!(
            "`git grep` cannot search for `{}`: {}",
            term.pattern,
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_scopes_a_pattern_and_a_replacement() {
        let terms = parse("# a comment\n\na b/c | \\bold\\b|older | new\n").unwrap();
        let expected = Term {
            scopes: vec!["a", "b/c"],
            pattern: "\\bold\\b|older",
            instead: "new",
        };
        assert_eq!(terms, [expected]);
    }

    #[test]
    fn a_line_without_a_replacement_is_refused_by_number() {
        let error = parse("# a comment\na | b\n").unwrap_err();
        assert!(error.to_string().contains(":2: "), "{error}");
    }

    #[test]
    fn a_term_is_found_with_file_and_line() {
        let term = |pattern| Term {
            scopes: vec!["xtask/Cargo.toml"],
            pattern,
            instead: "",
        };
        assert_eq!(
            search(&term("^name = ")).unwrap(),
            "xtask/Cargo.toml:2:name = \"xtask\"\n"
        );
        assert_eq!(search(&term("^no such line$")).unwrap(), "");
        assert!(search(&term("(")).is_err());
    }

    #[test]
    fn the_list_can_be_read() {
        let list = std::fs::read_to_string(repository::path(TERMS)).unwrap();
        assert!(!parse(&list).unwrap().is_empty());
    }
}
