//! A run of experiment B with QEMU's log of executed blocks.

use crate::os::boot::{Boot, DEFAULT_MEMORY};
use crate::os::build::Image;
use crate::os::input::Input;
use crate::process;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::Stdio;
use std::time::Duration;

pub(super) const PAGE_SIZE: u64 = 4096;
/// The address of the trampoline between kernel and programs.
const TRAMPOLINE: u64 = 0xffff_ffff_ffff_f000;
/// The number of tasks in series.
///
/// Their steps come far more often than anything else that repeats.
const TASKS: usize = 200;
const LIMIT: Duration = Duration::from_secs(300);

/// Blocks of code by their addresses, in the order in which they were first executed.
pub(super) type Blocks = Vec<u64>;

/// What a run has executed.
pub(super) struct Log {
    /// The step that came most often.
    ///
    /// A step is what is executed from one entry of user mode to the next.
    pub(super) step: Blocks,
    /// What was executed at least once for each task.
    pub(super) hot: Blocks,
}

/// Runs experiment B with one model, in a kernel with this code.
///
/// # Errors
/// When QEMU fails, or no step comes often.
pub(super) fn run(image: &Image, model: &str, kernel: &Range<u64>) -> Result<Log> {
    let tasks = TASKS.to_string();
    let command = ["experiment-b", "--models", model, "--bytes", "1"];
    let command = [&command[..], &["--runs", "1", "--n", &tasks]].concat();
    let boot = Boot {
        smp: 1,
        memory: DEFAULT_MEMORY.to_string(),
        limit: None,
        disk: None,
        network: None,
        input: Input::None,
        count: Some(0),
        command: command.into_iter().map(str::to_string).collect(),
    };
    let mut command = boot.qemu(image);
    // The log goes to standard error. Its lines are:
    // `Trace 0: host address [base/address/flags/flags] name`
    command.args(["-d", "exec,nochain"]);
    let mut child = process::limited(&command, LIMIT, false)?
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("can't start QEMU")?;
    let log = BufReader::new(child.stderr.take().expect("standard error is piped"));
    let mut steps: HashMap<BTreeSet<u64>, (usize, Blocks)> = HashMap::new();
    let (mut step, mut seen, mut before) = (Blocks::new(), BTreeSet::new(), 0);
    let (mut order, mut times) = (Blocks::new(), HashMap::<u64, usize>::new());
    for line in log.split(b'\n') {
        let Some(block) = block(&String::from_utf8_lossy(&line?)) else {
            continue;
        };
        let enters_user = before >= TRAMPOLINE && block < TRAMPOLINE && !kernel.contains(&block);
        before = block;
        if enters_user {
            let pages = step.iter().map(|block| block / PAGE_SIZE).collect();
            let step = std::mem::take(&mut step);
            seen.clear();
            steps.entry(pages).or_insert((0, step)).0 += 1;
        }
        if seen.insert(block) {
            step.push(block);
        }
        // Not what runs at boot.
        if !steps.is_empty() {
            let times = times.entry(block).or_default();
            *times += 1;
            if *times == 1 {
                order.push(block);
            }
        }
    }
    let status = child.wait()?;
    let step = match steps.into_values().max_by_key(|(times, _)| *times) {
        Some((times, step)) if status.success() && times > TASKS / 4 => step,
        _ => bail!("QEMU's log of executed blocks shows no steps of experiment B ({status})"),
    };
    order.retain(|block| times[block] >= TASKS);
    Ok(Log { step, hot: order })
}

/// Returns the address in a line of the log.
fn block(line: &str) -> Option<u64> {
    let fields = line.strip_prefix("Trace ")?.split_once('[')?.1;
    u64::from_str_radix(fields.split('/').nth(1)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_an_address_in_each_line() {
        let line = "Trace 0: 0x7f0768000 [0000000000000000/0000003f00081000/00000001/ff000201] run";
        assert_eq!(block(line), Some(0x3f_0008_1000));
        assert_eq!(block("cpu_io_recompile: rewound execution"), None);
    }
}
