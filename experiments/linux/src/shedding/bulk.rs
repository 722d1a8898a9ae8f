//! Bulk requests, sent by `wrk`.
//!
//! wrk's own figures mix answers and refusals. So its script prints a line for each request and
//! each answer; both have the time at which the request was sent, which the server sends back.

use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tempfile::NamedTempFile;

use super::{Counts, TRIAL, counts};

/// The mean pause of a connection after an answer.
const PAUSE: Duration = Duration::from_millis(400);

/// Prints `sent TIME` and `STATUS TIME NOW`, in microseconds of the system's monotonic clock.
const SCRIPT: &str = r#"
local ffi = require("ffi")
ffi.cdef[[
  typedef struct { long sec; long nsec; } corank_time;
  int clock_gettime(int clock, corank_time *time);
]]
local time = ffi.new("corank_time")
local function now()
  ffi.C.clock_gettime(1, time)
  return string.format("%d", tonumber(time.sec) * 1000000 + math.floor(tonumber(time.nsec) / 1000))
end
function delay()
  return math.floor(-PAUSE * math.log(1 - math.random()) + 0.5)
end
function request()
  local sent = now()
  io.write("sent ", sent, "\n")
  return wrk.format("GET", "/bulk", { ["sent"] = sent })
end
function response(status, headers)
  io.write(status, " ", headers["sent"] or "none", " ", now(), "\n")
end
"#;

/// `wrk`, sending requests for the time of a trial.
pub(super) struct Load {
    /// Reads what wrk prints: otherwise it would wait for room in the pipe.
    wrk: JoinHandle<Output>,
    begun: u64,
    _script: NamedTempFile,
}

/// Returns the monotonic time in microseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1000
}

impl Load {
    /// Starts to send so many requests a second.
    pub(super) fn start(server: SocketAddr, rate: f64) -> Self {
        let pause = PAUSE.as_millis().to_string();
        let mut script = NamedTempFile::new().expect("a temporary file");
        (script.write_all(SCRIPT.replace("PAUSE", &pause).as_bytes())).expect("room for a script");
        let connections = (rate * PAUSE.as_secs_f64()).round().max(1.0);
        let wrk: Child = Command::new("wrk")
            .args(["-t1", &format!("-c{connections}")])
            .args([&format!("-d{}s", TRIAL.as_secs()), "--timeout=60s", "-s"])
            .arg(script.path())
            .arg(format!("http://{server}/"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("wrk starts");
        Self {
            wrk: thread::spawn(|| wrk.wait_with_output().expect("its output")),
            begun: now(),
            _script: script,
        }
    }

    /// Waits for the end, and returns the latencies of the requests that were not refused.
    ///
    /// They are in microseconds; those without an answer took until the end.
    pub(super) fn end(self) -> (Counts, Vec<f64>) {
        let output = self.wrk.join().expect("no panic");
        let end = now();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "wrk failed:\n{text}");
        // The state of the requests by the times at which they were sent: several may share one.
        let mut open: HashMap<u64, usize> = HashMap::new();
        let (mut count, mut latencies) = (Counts::default(), Vec::new());
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| word.parse::<u64>().expect("a time");
            let time_of = |sent| Duration::from_micros(u64::saturating_sub(sent, self.begun));
            match words[..] {
                ["sent", sent] => {
                    let sent = number(sent);
                    if counts(time_of(sent)) {
                        count.offered += 1;
                        *open.entry(sent).or_default() += 1;
                    }
                }
                [status @ ("200" | "503"), sent, now] => {
                    let (sent, now) = (number(sent), number(now));
                    if !counts(time_of(sent)) {
                        continue;
                    }
                    *open.entry(sent).or_default() -= 1;
                    if status == "200" {
                        count.served += 1;
                        latencies.push((now - sent) as f64);
                    } else {
                        count.refused += 1;
                    }
                }
                // wrk's own figures follow.
                _ => {}
            }
        }
        for (sent, count) in open {
            latencies.extend(std::iter::repeat_n((end - sent) as f64, count));
        }
        assert!(count.offered > 0, "wrk sent nothing:\n{text}");
        (count, latencies)
    }
}
