//! The table of registered descriptors, which grows and never moves an entry.
//!
//! So a token leads to its entry without a lock, and a registration allocates nothing while there
//! are free entries. Exhausted memory is an error where the table grows. The table keeps its memory
//! as long as the runtime exists.

use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::readiness::Readiness;

/// Entries of the first part. Each part has twice as many as the one before.
const FIRST: usize = 64;
/// Together they have 2^32 - 64 entries: the last indices stay unused, and with them the token of
/// the interrupt.
const PARTS: usize = 26;

/// Keeps the two directions of each registered descriptor.
pub(crate) struct Sources {
    parts: [OnceLock<Vec<Source>>; PARTS],
    free: Mutex<Free>,
}

struct Free {
    /// Unused entries. It has room for all entries.
    entries: Vec<u32>,
    parts: usize,
    /// Number of registrations: an event of an old one does not reach the next one of the same
    /// entry.
    registered: u32,
}

/// Keeps both directions of a registered descriptor.
pub(crate) struct Source {
    pub(crate) read: Readiness,
    pub(crate) write: Readiness,
}

/// Names a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u64);

impl Token {
    fn new(index: u32, number: u32) -> Self {
        Self(u64::from(index) << 32 | u64::from(number))
    }

    fn index(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the number of the registration; it repeats after 2^32 registrations.
    pub(crate) fn number(self) -> u32 {
        self.0 as u32
    }
}

/// Returns the part that contains an entry, and the entry's offset there.
fn part_of(index: u32) -> (usize, usize) {
    let shifted = index as usize + FIRST;
    let part = (shifted / FIRST).ilog2() as usize;
    (part, shifted - (FIRST << part))
}

impl Sources {
    pub(crate) fn new() -> Self {
        Self {
            parts: [const { OnceLock::new() }; PARTS],
            free: Mutex::new(Free {
                entries: Vec::new(),
                parts: 0,
                registered: 0,
            }),
        }
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the entry of a registration, or of a later one of the same entry.
    ///
    /// Returns `None` if the token never was one.
    #[inline]
    pub(crate) fn get(&self, token: Token) -> Option<&Source> {
        let (part, offset) = part_of(token.index());
        self.parts.get(part)?.get()?.get(offset)
    }

    /// Takes an entry for a descriptor. `ready`: whether to try before an event was announced.
    ///
    /// # Errors
    /// Fails without memory ([`OutOfMemory`](io::ErrorKind::OutOfMemory)), and if 2^32 - 64
    /// descriptors are registered.
    pub(crate) fn insert(&self, ready: bool) -> io::Result<Token> {
        let token = {
            let mut free = self.free();
            if free.entries.is_empty() {
                self.grow(&mut free)?;
            }
            let index = free.entries.pop().expect("it has grown");
            free.registered = free.registered.wrapping_add(1);
            Token::new(index, free.registered)
        };
        let source = self.get(token).expect("an entry that was free");
        source.read.begin(token.number(), ready);
        source.write.begin(token.number(), ready);
        Ok(token)
    }

    /// Ends a registration, once.
    pub(crate) fn remove(&self, token: Token) {
        if let Some(source) = self.get(token) {
            source.read.end();
            source.write.end();
            self.free().entries.push(token.index());
        }
    }

    /// Adds a part, because no entry is free.
    fn grow(&self, free: &mut Free) -> io::Result<()> {
        let (part, size) = (free.parts, FIRST << free.parts);
        let cell = self
            .parts
            .get(part)
            .ok_or_else(|| io::Error::other("2^32 - 64 descriptors are registered"))?;
        let before = size - FIRST;
        // If either allocation fails, nothing changes.
        let mut sources = Vec::new();
        sources.try_reserve_exact(size)?;
        free.entries.try_reserve_exact(before + size)?;
        sources.extend((0..size).map(|_| Source {
            read: Readiness::new(),
            write: Readiness::new(),
        }));
        let is_new = cell.set(sources).is_ok();
        debug_assert!(is_new, "parts are made in turn, under the lock");
        free.parts += 1;
        // The first entry is taken first.
        free.entries
            .extend((before..before + size).rev().map(|index| index as u32));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_places_of_their_own() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(part_of(index), expected);
            let (part, offset) = expected;
            expected = if offset + 1 == FIRST << part {
                (part + 1, 0)
            } else {
                (part, offset + 1)
            };
        }
        let last = u32::MAX - FIRST as u32;
        assert_eq!(part_of(last), (PARTS - 1, (FIRST << (PARTS - 1)) - 1));
        assert_eq!(part_of(u32::MAX).0, PARTS);
    }

    #[test]
    fn a_token_is_given_once_and_its_entry_again() {
        let sources = Sources::new();
        let tokens: Vec<Token> = (0..1000).map(|_| sources.insert(true).unwrap()).collect();
        let mut indices: Vec<u32> = tokens.iter().map(|token| token.index()).collect();
        indices.sort_unstable();
        assert!(indices.iter().copied().eq(0..1000));
        for &token in &tokens {
            sources.remove(token);
        }
        let again: Vec<Token> = (0..1000).map(|_| sources.insert(true).unwrap()).collect();
        assert!(again.iter().all(|token| !tokens.contains(token)));
        assert_eq!(sources.free().parts, 5, "64, 128, ... 1024 entries");
        assert!(sources.get(Token(u64::MAX)).is_none());
    }
}
