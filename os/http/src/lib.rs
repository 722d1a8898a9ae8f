//! What a server of files has to know of HTTP/1.1 (RFC 9110, RFC 9112), without any input or
//! output: `http-server` of the operating system stands on it, and its tests run on the host.
//!
//! ```text
//!  bytes ─▶ request::Scanner ─▶ a whole head ─▶ request::parse ─▶ Request ─▶ level::Levels: how urgent it is
//!                                                    │               │
//!                                                    ▼               ▼ the file's size and date
//!                                                 Refusal        condition, range ─▶ answer::Head ─▶ bytes
//! ```
//! - [`request`]: where a request ends, and what it asks for;
//! - [`path`]: from a request's target to a path that cannot leave the site;
//! - [`condition`] and [`range`]: what of the file is sent, if anything;
//! - [`answer`]: statuses, and heads of answers;
//! - [`listing`]: a directory as a page; [`media`]: types of files; [`date`]: dates in HTTP's form;
//! - [`level`]: which paths are how urgent.
//!
//! Nothing here panics, whatever the bytes are. The cost is bounded by the limits of [`request`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod answer;
pub mod condition;
pub mod date;
pub mod level;
pub mod listing;
pub mod media;
pub mod path;
pub mod range;
pub mod request;
