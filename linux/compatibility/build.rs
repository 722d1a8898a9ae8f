//! Makes a test of each example in the documentation of other crates, from their sources, as Cargo
//! has them for this build. The examples are not changed, except for what rustdoc does with them.
//! The examples of `futures` name their own `block_on`, which is replaced by ours.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The crates whose examples become tests.
const CRATES: [&str; 4] = [
    "async-broadcast",
    "async-channel",
    "async-lock",
    "futures-util",
];

/// Examples that name one of these are about another executor, another generation of futures, or an
/// unstable feature.
const OTHERS: [&str; 6] = [
    ".compat()",
    "block_on_stream",
    "compat::",
    "futures_01",
    "ThreadPool",
    "write_all_vectored",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let mut tests = String::new();
    for tested in CRATES {
        let folder = source(tested);
        let mut files = Vec::new();
        rust_files(&folder.join("src"), &mut files);
        files.sort();
        let before = tests.len();
        writeln!(tests, "mod {} {{", tested.replace('-', "_")).expect("text");
        for file in files {
            let text = fs::read_to_string(&file).expect("a source file is text");
            let name = file.strip_prefix(folder.join("src")).expect("it is inside");
            let name = name.with_extension("").display().to_string();
            for example in examples(&text) {
                example.write_test(&name.replace(['/', '-'], "_"), &mut tests);
            }
        }
        let count = tests[before..].matches("#[test]").count();
        assert!(
            count >= 10,
            "{tested} has {count} examples: has its documentation another form?"
        );
        tests.push_str("}\n");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo says it"));
    fs::write(out.join("examples.rs"), tests).expect("room for the tests");
}

/// Returns the folder where Cargo has the sources of a package of this build.
fn source(package: &str) -> PathBuf {
    let cargo = env::var_os("CARGO").expect("Cargo says it");
    let target = env::var("TARGET").expect("Cargo says it");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked"])
        // The packages of other systems need not be here.
        .arg(format!("--filter-platform={target}"))
        .output()
        .expect("Cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        panic!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    });
    let packages = metadata["packages"].as_array().expect("a list");
    let found = packages.iter().find(|found| found["name"] == package);
    let found = found.unwrap_or_else(|| panic!("{package} is no dependency"));
    let manifest = found["manifest_path"].as_str().expect("a path");
    Path::new(manifest)
        .parent()
        .expect("a folder")
        .to_path_buf()
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a folder of sources").path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// A block of code in a documentation comment.
struct Example {
    line: usize,
    /// The text behind the fence, such as `should_panic`.
    attributes: String,
    code: String,
}

fn examples(text: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut open: Option<Example> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let comment = line
            .strip_prefix("//!")
            .or_else(|| line.strip_prefix("///"));
        let Some(comment) = comment else {
            continue;
        };
        let comment = comment.strip_prefix(' ').unwrap_or(comment);
        if let Some(attributes) = comment.trim().strip_prefix("```") {
            match open.take() {
                Some(example) => found.push(example),
                None => {
                    open = Some(Example {
                        line: number + 1,
                        attributes: attributes.to_string(),
                        code: String::new(),
                    });
                }
            }
        } else if let Some(example) = &mut open {
            // As rustdoc: hidden lines are code.
            let code = match comment.trim_start() {
                "#" => "",
                hidden if hidden.starts_with("# ") => &hidden[2..],
                _ => comment,
            };
            example.code.push_str(code);
            example.code.push('\n');
        }
    }
    found
}

impl Example {
    fn write_test(&self, file: &str, tests: &mut String) {
        let has = |attribute: &str| {
            self.attributes
                .split(',')
                .any(|one| one.trim() == attribute)
        };
        let is_rust =
            self.attributes.is_empty() || has("rust") || has("should_panic") || has("no_run");
        let is_others = OTHERS.iter().any(|name| self.code.contains(name));
        if !is_rust || is_others || !self.code.contains("block_on") {
            return;
        }
        let code = self.code.replace(
            "futures::executor::block_on",
            "futures_lite::future::block_on",
        );
        if !has("no_run") {
            tests.push_str("#[test]\n");
        }
        if has("should_panic") {
            tests.push_str("#[should_panic]\n");
        }
        let name = format!("{file}_{}", self.line);
        // As rustdoc does with an example that ends with a result, or has a `main` of its own.
        let body = if code.contains("fn main()") {
            format!("{code}\nmain();")
        } else if code.trim_end().ends_with("(())") {
            format!(
                "fn example() -> Result<(), impl std::fmt::Debug> {{\n{code}\n}}\nexample().unwrap();"
            )
        } else {
            code
        };
        writeln!(tests, "fn {name}() {{\n{body}\n}}").expect("text");
    }
}
