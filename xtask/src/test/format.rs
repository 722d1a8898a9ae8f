//! Tests of the format of sources and documents: rustfmt, clang-format, and the width of comments
//! and text.

use super::Context;
use super::outcome::Outcome;
use crate::process;
use crate::repository;
use crate::toolchain::host_cargo;
use anyhow::{Context as _, Result};
use std::process::Command;

/// The most characters in a line of comments and text.
const WIDTH: usize = 100;

/// The workspaces of the repository.
///
/// Each is formatted by itself.
const WORKSPACES: [&str; 5] = [".", "os", "core/mcu", "fuzz", "linux/scx"];

/// Checks everything.
///
/// Each tool and each kind of width is one test.
///
/// # Errors
/// If a command cannot be run or a file cannot be read.
pub(super) fn check(context: &mut Context) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for workspace in WORKSPACES {
        let folder = repository::path(workspace);
        if folder.join("Cargo.toml").exists() {
            let mut command = host_cargo();
            command.args(["fmt", "--all", "--check", "--", "--color=never"]);
            outcome.add(Outcome::of_command(
                &context.command(command.current_dir(folder))?,
            ));
        }
    }
    let cpp = files(&["cpp/*.hpp", "cpp/*.cpp"])?;
    let mut clang = Command::new("clang-format-19");
    clang.args(["--dry-run", "-Werror"]).args(&cpp);
    clang.current_dir(repository::root());
    outcome.add(Outcome::of_command(&context.command(&clang)?));
    outcome.add(widths(context, &files(&["*.rs"])?, comments)?);
    outcome.add(widths(context, &cpp, comments)?);
    outcome.add(widths(context, &files(&["*.md"])?, text)?);
    Ok(outcome)
}

/// Returns the tracked files with these names, from the repository's root.
pub(super) fn files(patterns: &[&str]) -> Result<Vec<String>> {
    let root = repository::root().to_string_lossy();
    let arguments = [&["-C", &root, "ls-files", "--"], patterns].concat();
    let list = process::answer("git", &arguments).context("`git ls-files` failed")?;
    Ok(list.lines().map(str::to_string).collect())
}

/// Names each line that is too wide, as one test.
fn widths(
    context: &mut Context,
    files: &[String],
    select: fn(&str) -> Vec<(usize, &str)>,
) -> Result<Outcome> {
    let mut outcome = Outcome::passed();
    for file in files {
        let content = std::fs::read_to_string(repository::path(file))
            .with_context(|| format!("cannot read {file}"))?;
        for (number, line) in select(&content) {
            if is_too_wide(line) {
                let width = line.chars().count();
                context.show(&format!(
                    "{file}:{number}: {width} characters, of {WIDTH} at most"
                ));
                outcome = Outcome::failed();
            }
        }
    }
    Ok(outcome)
}

/// Returns the lines that are only comments, without their blocks of code and diagrams.
fn comments(content: &str) -> Vec<(usize, &str)> {
    let mut code = false;
    let mut lines = Vec::new();
    for (at, line) in content.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            code = false;
            continue;
        };
        if comment
            .trim_start_matches(['/', '!', ' '])
            .starts_with("```")
        {
            code = !code;
        } else if !code {
            lines.push((at + 1, line));
        }
    }
    lines
}

/// Returns the lines of a document without its blocks of code.
pub(super) fn text(content: &str) -> Vec<(usize, &str)> {
    let mut code = false;
    let mut lines = Vec::new();
    for (at, line) in content.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if !code && !line.starts_with("    ") {
            lines.push((at + 1, line));
        }
    }
    lines
}

/// Tests whether a line is too wide and could be broken.
///
/// Rows of tables and long links stay whole.
fn is_too_wide(line: &str) -> bool {
    if line.chars().count() <= WIDTH {
        return false;
    }
    let words = line.trim_start_matches(|c: char| "/! \t".contains(c));
    let is_row = words.starts_with('|') || words.starts_with('#');
    // A span of code is one word. The first word may be a mark of a list.
    let spans = words.split('`').enumerate();
    let text: Vec<&str> = spans
        .map(|(at, part)| if at % 2 == 0 { part } else { "x" })
        .collect();
    let can_break = text.concat().split_whitespace().count() > 2;
    !is_row && can_break
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_and_code_is_not() {
        let source = "let a = 1; // beside code\n    // a\n/// b\n//! c\n";
        let found: Vec<usize> = comments(source).iter().map(|line| line.0).collect();
        assert_eq!(found, [2, 3, 4]);
        let diagram = comments("/// a\n/// ```text\n/// b\n/// ```\n/// c\n");
        let found: Vec<&str> = diagram.iter().map(|line| line.1).collect();
        assert_eq!(found, ["/// a", "/// c"]);
    }

    #[test]
    fn blocks_of_code_have_any_width() {
        let document = "a\n```sh\nb\n```\nc\n";
        let found: Vec<&str> = text(document).iter().map(|line| line.1).collect();
        assert_eq!(found, ["a", "c"]);
    }

    #[test]
    fn what_can_be_broken_must_be() {
        let wide = "é ".repeat(60);
        assert!(is_too_wide(&wide));
        assert!(!is_too_wide(&"é ".repeat(50)));
        assert!(!is_too_wide(&format!("/// | {wide} |")));
        assert!(!is_too_wide(&format!("- {}", "x".repeat(120))));
        assert!(!is_too_wide(&format!("//! `{wide}`.")));
    }
}
