#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod check;
mod cut;
mod format;
mod order;
mod read;
mod summary;
mod write;

pub use check::{Checked, Violation, check, full_name, ring_name};
pub use cut::{CutError, Scene, cut};
pub use format::{Id, Kind, Layout, Port, Role, Settings, VERSION};
pub use order::{Ordered, Step, StepKind};
pub use read::{Damage, Event, Recording, RecordingHeader, RingEvents};
pub use summary::{Inversion, LevelSummary, Poll, Ready, Summary, TaskSummary, Waits, short_name};
pub use write::{Ring, Writer};
