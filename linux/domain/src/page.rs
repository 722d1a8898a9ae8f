//! The layout of what a participant shows to its domain.
//!
//! There are two pieces of memory. Only its process can write the [`Page`]. Every process of the
//! domain may ring the [`Doorbells`]. Everything is atomic, because the other side may be killed,
//! stopped or replaced by anything at any instruction. A reader checks each value when it uses it.

use crate::admission_queue::Processors;
use crate::claim::Nanoseconds;
use crate::doorbell::Doorbell;
use crate::figures::Figures;
use crate::membership::Slot;
use crate::memory::Shareable;
use crate::rendezvous;
use corank::Published;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The version of the layouts, of their meaning and of the handshake, to be raised with every
/// change.
///
/// Processes with different versions do not see each other, and warn of it.
pub(crate) const VERSION: u32 = 3;
/// The first word of a page.
const MAGIC: u64 = u64::from_le_bytes(*b"CORANK\0P");

/// The limit of workers of a participant.
pub(crate) const WORKERS: usize = 64;
/// The limit of executors of a participant.
pub(crate) const EXECUTORS: usize = 16;
/// The number of bytes of a name that is shown.
pub(crate) const NAME: usize = 64;

/// A cache line.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Alone<T>(pub(crate) T);

/// The memory that a participant shows.
#[repr(C, align(4096))]
pub(crate) struct Page {
    head: Head,
    /// The time when the agent last showed that the process is alive.
    pub(crate) heartbeat: Alone<AtomicU64>,
    /// The slots, one for each worker.
    pub(crate) slots: [Slot; WORKERS],
    /// The bitmaps of its executors.
    pub(crate) executors: [Alone<Published>; EXECUTORS],
    /// The counters that `corank top` shows.
    pub(crate) figures: Figures,
}

// SAFETY: atomics alone, also in what `corank_figures::Figures` promises.
unsafe impl Shareable for Page {}

/// The part that does not change after the participant has shown its page to another process,
/// except for the two counts.
#[repr(C, align(64))]
struct Head {
    magic: AtomicU64,
    version: AtomicU32,
    process: AtomicU32,
    id: AtomicU64,
    /// The mode: 0 is relaxed, 1 is strict.
    strict: AtomicU32,
    /// The number of slots that have ever been used.
    workers: AtomicU32,
    /// The number of executors that have ever published.
    executors: AtomicU32,
    processors: [AtomicU64; 16],
    name: [AtomicU8; NAME],
}

/// The identity of a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The number of the process, and 32 random bits. It is the same for all readers.
    pub(crate) id: u64,
    pub(crate) process: u32,
    pub(crate) strict: bool,
    pub(crate) processors: Processors,
    pub(crate) name: String,
}

/// The reason why a page is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// It does not begin as a page does.
    NoPage,
    /// It has another version of the layout.
    Version(u32),
    /// It names another process than the one that sent it.
    Process(u32),
}

impl Page {
    /// Fills in the identity. The page is all zeros before.
    pub(crate) fn introduce(&self, identity: &Identity) {
        let head = &self.head;
        head.process.store(identity.process, Ordering::Relaxed);
        head.id.store(identity.id, Ordering::Relaxed);
        head.strict.store(identity.strict.into(), Ordering::Relaxed);
        for (word, &bits) in head.processors.iter().zip(&identity.processors) {
            word.store(bits, Ordering::Relaxed);
        }
        // At most all but one, because the name ends with a zero.
        for (byte, &letter) in head.name[..NAME - 1].iter().zip(identity.name.as_bytes()) {
            byte.store(letter, Ordering::Relaxed);
        }
        head.version.store(VERSION, Ordering::Relaxed);
        head.magic.store(MAGIC, Ordering::Release);
    }

    /// Returns the identity in this page, which `process` sent.
    pub(crate) fn identity(&self, process: u32) -> Result<Identity, Foreign> {
        let head = &self.head;
        if head.magic.load(Ordering::Acquire) != MAGIC {
            return Err(Foreign::NoPage);
        }
        match head.version.load(Ordering::Relaxed) {
            VERSION => {}
            other => return Err(Foreign::Version(other)),
        }
        match head.process.load(Ordering::Relaxed) {
            claimed if claimed == process => {}
            other => return Err(Foreign::Process(other)),
        }
        let id = head.id.load(Ordering::Relaxed);
        if rendezvous::process_of(id) != process {
            return Err(Foreign::Process(rendezvous::process_of(id)));
        }
        let name: Vec<u8> = (head.name.iter())
            .map(|byte| byte.load(Ordering::Relaxed))
            .take_while(|&byte| byte != 0)
            .collect();
        // It may be shown on a terminal, so characters that change how others are shown are
        // replaced.
        let visible = |letter: char| if steers(letter) { '?' } else { letter };
        Ok(Identity {
            id,
            process,
            strict: head.strict.load(Ordering::Relaxed) != 0,
            processors: std::array::from_fn(|at| head.processors[at].load(Ordering::Relaxed)),
            name: String::from_utf8_lossy(&name)
                .chars()
                .map(visible)
                .collect(),
        })
    }

    /// Returns how many slots to read.
    pub(crate) fn workers(&self) -> usize {
        (self.head.workers.load(Ordering::Acquire) as usize).min(WORKERS)
    }

    /// Makes readers read at least `count` slots from now on.
    pub(crate) fn use_workers(&self, count: usize) {
        self.head.workers.fetch_max(count as u32, Ordering::AcqRel);
    }

    /// Returns the next executor's cell; `None` if all are taken.
    pub(crate) fn next_executor(&self) -> Option<&Published> {
        let taken = (self.head.executors)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
                ((taken as usize) < EXECUTORS).then(|| taken + 1)
            })
            .ok()?;
        Some(&self.executors[taken as usize].0)
    }

    /// Returns the cells of the executors that have ever published.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Published> {
        let used = self.head.executors.load(Ordering::Acquire) as usize;
        self.executors.iter().take(used).map(|cell| &cell.0)
    }

    /// Returns the last sign of life of the process.
    pub(crate) fn last_heartbeat(&self) -> Nanoseconds {
        self.heartbeat.0.load(Ordering::Relaxed)
    }
}

/// Tests whether a character changes how the others are shown.
///
/// These are control characters, those that set the direction of text, and those without a width.
fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A doorbell for each worker of a participant.
#[repr(C, align(4096))]
pub(crate) struct Doorbells(pub(crate) [Doorbell; WORKERS]);

// SAFETY: atomics alone.
unsafe impl Shareable for Doorbells {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Mapping, Writers};

    fn page() -> Mapping<Page> {
        Mapping::create("test", Writers::Owner).unwrap().0
    }

    fn identity(name: &str) -> Identity {
        Identity {
            id: 77 << 32 | 4,
            process: 4,
            strict: true,
            processors: std::array::from_fn(|at| at as u64),
            name: name.to_string(),
        }
    }

    #[test]
    fn an_identity_is_read_as_it_was_written() {
        let page = page();
        assert_eq!(page.identity(4), Err(Foreign::NoPage));
        page.introduce(&identity("server"));
        assert_eq!(page.identity(4), Ok(identity("server")));
        assert_eq!(page.identity(5), Err(Foreign::Process(4)));
    }

    #[test]
    fn a_number_that_belongs_to_another_process_is_refused() {
        let page = page();
        page.introduce(&identity("server"));
        page.head.id.store(77 << 32 | 9, Ordering::Relaxed);
        assert_eq!(page.identity(4), Err(Foreign::Process(9)));
    }

    #[test]
    fn another_version_is_named() {
        let page = page();
        page.introduce(&identity("server"));
        page.head.version.store(VERSION + 1, Ordering::Relaxed);
        assert_eq!(page.identity(4), Err(Foreign::Version(VERSION + 1)));
    }

    #[test]
    fn names_are_cut_and_cannot_steer_a_terminal() {
        let page = page();
        page.introduce(&identity(&format!("\u{1b}[2J{}", "x".repeat(100))));
        let name = page.identity(4).unwrap().name;
        assert_eq!(name, format!("?[2J{}", "x".repeat(NAME - 1 - 4)));
        // What follows would be shown from right to left.
        page.introduce(&identity("a\u{202e}b\u{200b}c\0"));
        assert!(page.identity(4).unwrap().name.starts_with("a?b?c"));
    }

    #[test]
    fn counts_are_bounded_whatever_is_in_the_page() {
        let page = page();
        page.head.workers.store(u32::MAX, Ordering::Relaxed);
        page.head.executors.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(page.workers(), WORKERS);
        assert_eq!(page.published().count(), EXECUTORS);
        assert!(page.next_executor().is_none());
    }
}
