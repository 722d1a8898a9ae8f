//! The lists of functions that the linker scripts include.

use std::fmt::Write;

/// How a list begins.
const HEAD: &str = "/* Written by `cargo xtask os-layout --write`: what a step of experiment B executes, in its order, and
   then what else runs for each of its tasks. Compilers put different functions in line. */
";

/// Returns a list with these lines for one compiler, and with what it had for others.
pub(super) fn updated(list: &str, compiler: &str, lines: &str) -> String {
    let mut updated = String::from(HEAD);
    let mut is_new = true;
    for block in list.split("\n/* rustc ").skip(1) {
        let (version, others) = block.split_once(" */\n").unwrap_or((block, ""));
        let is_it = version == compiler;
        is_new &= !is_it;
        // Writing to a string can't fail.
        let _ = write!(
            updated,
            "\n/* rustc {version} */\n{}",
            if is_it { lines } else { others }
        );
    }
    if is_new {
        let _ = write!(updated, "\n/* rustc {compiler} */\n{lines}");
    }
    updated
}

/// Returns a function's name as a pattern that matches in other builds too.
///
/// Of a mangled name (Rust's v0) it leaves out what depends on the build: crates' numbers, numbers
/// that tell equal names apart, references back, constants and lifetimes.
pub(super) fn pattern(name: &str) -> String {
    let name = name.split(".llvm.").next().unwrap_or(name);
    let Some(mut rest) = name.strip_prefix("_R") else {
        return name.to_string();
    };
    let mut pattern = String::from("_R");
    while let Some(first) = rest.chars().next() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let length: usize = rest[..digits].parse().unwrap_or(0);
        // An identifier that begins with a digit or `_` has a `_` in front.
        let behind = digits + usize::from(rest[digits..].starts_with('_'));
        if digits > 0 && rest.len() >= behind + length {
            pattern.push_str(&rest[..behind + length]);
            rest = &rest[behind + length..];
        } else if let ('s' | 'B' | 'K' | 'L' | 'G', Some((_, behind))) =
            (first, rest.split_once('_'))
        {
            if !pattern.ends_with('*') {
                pattern.push('*');
            }
            rest = behind;
        } else {
            pattern.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_leave_out_what_depends_on_the_build() {
        assert_eq!(
            pattern("_RNvMs0_NtNtCskOoYlNH_13corank_kernel4ring5serveNtB7_4Ring5serve"),
            "_RNvM*NtNtC*13corank_kernel4ring5serveNt*4Ring5serve"
        );
        assert_eq!(
            pattern("_RNvNtCs7kOoYlNH_13corank_kernel6thread3run.llvm.123"),
            "_RNvNtC*13corank_kernel6thread3run"
        );
        assert_eq!(pattern("_RINvCs1_1a3runAhKj80_E"), "_RINvC*1a3runAh*E");
        assert_eq!(pattern("memcpy"), "memcpy");
    }

    #[test]
    fn each_compiler_has_its_own_lines() {
        let first = updated("", "1.2.0", "*(.text.a)\n");
        assert_eq!(first, format!("{HEAD}\n/* rustc 1.2.0 */\n*(.text.a)\n"));
        let both = updated(&first, "1.3.0", "*(.text.b)\n");
        let again = updated(&both, "1.2.0", "*(.text.c)\n");
        assert_eq!(
            again,
            format!("{HEAD}\n/* rustc 1.2.0 */\n*(.text.c)\n\n/* rustc 1.3.0 */\n*(.text.b)\n")
        );
        assert_eq!(updated(&again, "1.2.0", "*(.text.c)\n"), again);
    }
}
