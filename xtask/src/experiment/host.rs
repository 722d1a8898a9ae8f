//! The machine that an experiment runs on, as far as results depend on it.

use crate::process;
use serde_json::{Map, Value, json};

/// Describes processor, cores, memory, kernel and the versions of QEMU and the compiler.
pub(super) fn describe() -> Map<String, Value> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let qemu = process::answer("qemu-system-riscv64", &["--version"]).unwrap_or_default();
    let mut host = Map::new();
    host.insert(
        "cpu".into(),
        json!(after_colon(&read("/proc/cpuinfo"), "model name").unwrap_or("unknown")),
    );
    host.insert("cores".into(), json!(cores));
    host.insert(
        "memory".into(),
        json!(after_colon(&read("/proc/meminfo"), "MemTotal").unwrap_or("unknown")),
    );
    host.insert(
        "kernel".into(),
        json!(process::answer("uname", &["-sr"]).unwrap_or_default()),
    );
    host.insert(
        "qemu".into(),
        json!(
            qemu.lines()
                .next()
                .unwrap_or("")
                .trim_start_matches("QEMU emulator version ")
        ),
    );
    host.insert(
        "rustc".into(),
        json!(process::answer("rustc", &["--version"]).unwrap_or_default()),
    );
    host
}

/// Returns the text behind `name :` in one of Linux's tables.
fn after_colon<'a>(table: &'a str, name: &str) -> Option<&'a str> {
    table.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_linux_are_read() {
        assert_eq!(
            after_colon("x : 1\nmodel name\t: A CPU: 3\n", "model name"),
            Some("A CPU: 3")
        );
        assert_eq!(after_colon("x : 1\n", "y"), None);
    }
}
