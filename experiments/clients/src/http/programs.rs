//! Well-known programs as clients: curl and wrk.

use crate::check::Test;
use crate::server::Server;
use crate::site::{self, LARGE, MIDDLE, MIDDLE_TARGET, URGENT};
use anyhow::{Context, Result, bail, ensure};
use std::process::Command;

pub(crate) const TESTS: &[(&str, Test)] = &[("curl", curl), ("wrk", wrk)];

/// Runs a program that must succeed, and returns what it prints.
fn run(program: &str, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("can't start {program}: cargo xtask setup"))?;
    if !output.status.success() {
        bail!(
            "{program} {} failed ({}): {}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(output.stdout)
}

fn curl(server: &Server) -> Result<()> {
    let site = format!("http://{}", server.site);
    let url = |target: &str| format!("{site}{target}");
    let quiet = ["--silent", "--show-error", "--fail", "--max-time", "60"];
    let curl = |arguments: &[&str]| run("curl", &[&quiet[..], arguments].concat());
    let large = site::content(LARGE);
    ensure!(curl(&[&url(LARGE)])? == large, "{LARGE}");
    let ends = ["--range", "16000-"];
    ensure!(
        curl(&[ends[0], ends[1], &url(LARGE)])? == large[16_000..],
        "a part"
    );
    // Several connections, and several requests on each.
    let list = url("/page/assets/{0.css,1.js,2.png,3.svg,4.css,5.js,6.png,7.svg}");
    let all = curl(&["--parallel", "--parallel-max", "4", &list])?;
    let length: usize = (0..8)
        .map(|number| site::content(&site::asset(number)).len())
        .sum();
    ensure!(all.len() == length, "{} bytes in parallel", all.len());
    let followed = curl(&["--location", &url("/page")])?;
    ensure!(
        followed == site::content("/page/index.html"),
        "a redirection"
    );
    let head = String::from_utf8(curl(&["--head", &url(URGENT)])?)?;
    let changed = head
        .lines()
        .find_map(|line| line.strip_prefix("Last-Modified: "));
    let changed = changed.context("no date")?.trim_end();
    let code = ["--write-out", "%{http_code}", "--output", "/dev/null"];
    let since = ["--time-cond", changed, &url(URGENT)];
    ensure!(curl(&[&code[..], &since].concat())? == b"304", "unchanged");
    let body = ["--request", "GET", "--data", "a=b", &url(MIDDLE_TARGET)];
    ensure!(
        curl(&body)? == site::content(MIDDLE),
        "a request with a body"
    );
    let head = String::from_utf8(curl(&["--head", &url(LARGE)])?)?;
    ensure!(head.contains("Content-Length: 2000001\r\n"), "{head}");
    Ok(())
}

/// Sends as many requests as `wrk` can for a short time; all must be answered well.
fn wrk(server: &Server) -> Result<()> {
    let url = format!("http://{}{URGENT}", server.site);
    let said = run("wrk", &["-t2", "-c32", "-d2s", "--timeout", "30s", &url])?;
    let said = String::from_utf8(said)?;
    ensure!(
        said.contains("requests in")
            && !said.contains("Non-2xx")
            && !said.contains("Socket errors"),
        "wrk says: {said}"
    );
    Ok(())
}
