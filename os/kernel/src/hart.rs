//! One hardware thread: its page, and how it reaches the others.
//!
//! While the kernel runs, `tp` is the address of the hart's page.
//!
//! Harts reach each other in two ways. A *call* (a software interrupt) ends `wfi` and user mode.
//! The hart then checks again what there is to do. A *remote fence* makes a hart forget
//! translations. OpenSBI serves it above the kernel, so no hart waits for one that waits for a
//! lock.

mod call;
mod page;
mod rounds;
mod start;
mod translations;

pub(crate) use call::{
    interrupt_elsewhere, serve_as, set_interruptible, set_short_polls, take_call, take_own_call,
    waker,
};
pub(crate) use page::{
    count, float_on, float_owner, id, index, next_tick, page_address, serving, set_limit,
};
pub(crate) use rounds::{begin_round, quiesce};
pub(crate) use start::{Addresses, enter, started};
pub(crate) use translations::{enter_user, forget, forget_elsewhere, forget_page, leave_user};
