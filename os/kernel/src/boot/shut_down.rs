//! The orderly end of the system.
use crate::executor::executor;
use crate::power::off;
use crate::{fs, net, println, process};
use corank::Priority;

/// Ends all processes, lets what they have sent go out, and writes what the disk does not have yet.
///
/// Then switches the machine off; see [`off`].
pub(super) fn shut_down(code: i32) {
    let ending = executor().spawn(Priority::MOST_URGENT, async move {
        process::end_all().await;
        net::shut_down().await;
        fs::shut_down().await;
        off(code)
    });
    if ending.is_err() {
        println!("corank: no memory to write the disk");
        off(code);
    }
}
