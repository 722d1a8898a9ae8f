//! What the kernel reports of the processes and of itself.
use alloc::vec::Vec;

use corank_abi::call::{PROCESS_LIST, SYSTEM_STATUS};
pub use corank_abi::information::{ENDED, ENDING, ProcessRecord, RUNNING, SystemStatus};

use crate::raw::{Error, check, system_call};

/// Returns a record of each process, in the order of their numbers; behind them those that have
/// ended and not been waited for.
///
/// # Errors
/// None that is known of.
pub fn processes() -> Result<Vec<ProcessRecord>, Error> {
    let mut records = Vec::<ProcessRecord>::new();
    loop {
        let place = records.as_mut_ptr();
        let arguments = [place.expose_provenance(), records.len(), 0];
        // SAFETY: the kernel writes at most so many records into memory that is the vector's own.
        let count = check(unsafe { system_call(PROCESS_LIST, arguments) })?;
        if count <= records.len() {
            records.truncate(count);
            return Ok(records);
        }
        // Some more, in case that there are more by then.
        records.resize(count + 8, ProcessRecord::default());
    }
}

/// Returns the name of the program that a process runs.
#[must_use]
pub fn name(record: &ProcessRecord) -> &str {
    let end = record.name.iter().position(|byte| *byte == 0);
    let name = &record.name[..end.unwrap_or(record.name.len())];
    // A name that was cut off in the middle of a character ends in front of that.
    match core::str::from_utf8(name) {
        Ok(name) => name,
        Err(error) => core::str::from_utf8(&name[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// Returns the system as a whole.
///
/// # Errors
/// None that is known of.
pub fn system() -> Result<SystemStatus, Error> {
    let mut status = SystemStatus::default();
    let place = (&raw mut status).expose_provenance();
    // SAFETY: the kernel writes a `SystemStatus` into `status`.
    check(unsafe { system_call(SYSTEM_STATUS, [place, 0, 0]) }).map(|_| status)
}
