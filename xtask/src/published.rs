//! The crates that are published, and what they promise.

use crate::repository;
use anyhow::{Context as _, Result};

/// The published crates, each behind its dependencies.
pub(crate) const CRATES: [&str; 7] = [
    "corank",
    "corank-figures",
    "corank-domain",
    "corank-linux-macros",
    "corank-recording",
    "corank-linux",
    "corank-top",
];

/// Returns the oldest compiler that the published crates promise to build with.
pub(crate) fn oldest_compiler() -> Result<String> {
    let manifest: toml::Table = std::fs::read_to_string(repository::path("Cargo.toml"))?.parse()?;
    let stated = &manifest["workspace"]["package"]["rust-version"];
    Ok(stated
        .as_str()
        .context("`rust-version` is a string")?
        .to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn the_crates_are_those_that_may_be_published() {
        let metadata = process::answer("cargo", &["metadata", "--no-deps", "--format-version=1"]);
        let metadata: serde_json::Value = serde_json::from_str(&metadata.unwrap()).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let published = packages
            .iter()
            .filter(|package| package["publish"].is_null());
        let mut names: Vec<&str> = published
            .map(|package| package["name"].as_str().unwrap())
            .collect();
        let mut expected = CRATES;
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected);
    }
}
