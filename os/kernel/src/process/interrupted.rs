//! The end of groups that were interrupted at the console.
use super::GroupEnd;
use crate::console;
use crate::executor::executor;
use crate::stretch::{self, Work};
use corank::Priority;

/// The exit code of what Ctrl-C has ended.
const INTERRUPTED: i32 = -2;

/// Starts the coroutine that ends interrupted groups.
///
/// # Panics
/// When there is no memory for it.
pub(super) fn start() {
    executor()
        .spawn(Priority::MOST_URGENT, serve())
        .expect("there is memory for the console");
}

/// Ends interrupted groups.
///
/// It is most urgent, so that a program can be interrupted whatever its level. Behind each piece
/// others of its level have their turn.
async fn serve() {
    loop {
        let group = console::interrupted().await;
        let mut end = GroupEnd::new(INTERRUPTED);
        while end.step(|other| other == group) {
            corank::yield_now().await;
            stretch::works_on(Work::Service("console"));
        }
    }
}
