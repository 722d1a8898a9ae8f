//! Tools for time.
use crate::{Arguments, Trouble};
use corank_user::time;
use core::time::Duration;

/// Waits this many seconds, or parts of one.
pub(crate) fn sleep(arguments: &Arguments) -> Result<(), Trouble> {
    let [seconds] = arguments.as_slice() else {
        return Err(Trouble::Usage);
    };
    let seconds: f64 = seconds.parse().map_err(|_| Trouble::Usage)?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| Trouble::Usage)?;
    time::sleep(duration);
    Ok(())
}
