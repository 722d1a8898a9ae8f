//! One hardware thread: its page, its worker handle and its main loop.
//!
//! All harts serve one executor, so each always takes the most urgent coroutine that is ready
//! anywhere (rule H2). A hart has one stack. While the kernel runs, `tp` is the address of the
//! hart's page. The kernel runs with interrupts off and never takes an interrupt. It checks for
//! pending ones between two coroutines. It sleeps with `wfi`, which a pending interrupt ends even
//! so. Therefore no interrupt handler waits for a lock that is held on its own hart.
//!
//! Harts reach each other in two ways. A *call* (a software interrupt) ends `wfi` and user mode.
//! The hart then checks again what there is to do. A *remote fence* makes a hart forget
//! translations. OpenSBI serves it above the kernel, so no hart waits for one that waits for a
//! lock.

mod call;
mod page;
mod rounds;
mod run;
mod start;
mod translations;
mod urgency;

pub(crate) use call::{
    interrupt_elsewhere, pause, set_interruptible, set_short_polls, take_own_call,
};
pub(crate) use page::{
    MAX_HARTS, count, float_on, float_owner, id, index, next_tick, page_address, serving, set_limit,
};
pub(crate) use rounds::quiesce;
pub(crate) use run::run;
pub(crate) use start::{start, start_others};
pub(crate) use translations::{enter_user, forget, forget_elsewhere, forget_page, leave_user};
pub(crate) use urgency::{executor, has_arrivals, has_more_urgent_work, is_more_urgent_ready};
