//! Tools for processes and time.
use crate::{Arguments, Trouble, for_each};
use corank_user::{process, time};
use core::time::Duration;

/// The signal that `kill` sends by default.
const TERMINATE: u32 = 15;

/// Ends processes.
pub(crate) fn kill(arguments: &Arguments) -> Result<(), Trouble> {
    let (signal, pids) = match arguments.split_first() {
        Some((first, rest)) if first.starts_with('-') => {
            let signal = first[1..].parse().map_err(|_| Trouble::Usage)?;
            (signal, rest)
        }
        _ => (TERMINATE, arguments.as_slice()),
    };
    if pids.is_empty() {
        return Err(Trouble::Usage);
    }
    for_each("kill", pids, |word| {
        let pid = word.parse().map_err(|_| Trouble::Usage)?;
        process::kill(pid, signal).map_err(|_| Trouble::with(word, "there is no such process"))
    })
}

/// Waits so many seconds, or parts of one.
pub(crate) fn sleep(arguments: &Arguments) -> Result<(), Trouble> {
    let [seconds] = arguments.as_slice() else {
        return Err(Trouble::Usage);
    };
    let seconds: f64 = seconds.parse().map_err(|_| Trouble::Usage)?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| Trouble::Usage)?;
    time::sleep(duration);
    Ok(())
}
