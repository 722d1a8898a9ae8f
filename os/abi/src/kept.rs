//! Completions that are kept until there is room in their ring.
extern crate alloc;

use crate::ring::Completion;
use alloc::collections::{TryReserveError, VecDeque};
use alloc::vec::Vec;

/// How many completions lie side by side at most.
const SEGMENT: usize = 512;

/// A queue with room that is made in segments that never move, before anything comes.
///
/// A single segment has as many places as are asked for, up to [`SEGMENT`], and grows by being
/// copied. Further segments have [`SEGMENT`] places each. There is always one more than what is
/// kept could fill, as the first and the last in use may both be filled in part.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The segments in use, oldest completions first. All but the first and the last are full.
    used: VecDeque<VecDeque<Completion>>,
    /// Segments that are empty.
    spare: Vec<VecDeque<Completion>>,
    length: usize,
    room: usize,
}

impl Kept {
    /// Returns how many completions are kept.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns how many completions may be kept.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Returns how many bytes of memory a queue with this room takes at most.
    pub(crate) const fn bytes(room: usize) -> usize {
        let places = if room <= SEGMENT {
            room
        } else {
            segments(room) * SEGMENT
        };
        let segment = size_of::<VecDeque<Completion>>();
        places * size_of::<Completion>() + segments(room) * 2 * segment
    }

    /// Makes room for so many completions.
    ///
    /// Copies at most one segment.
    ///
    /// # Errors
    /// When there is no memory for them; what there was room for stays.
    pub(crate) fn make_room(&mut self, room: usize) -> Result<(), TryReserveError> {
        if room <= self.room {
            return Ok(());
        }
        let count = segments(room);
        self.used.try_reserve_exact(count - self.used.len())?;
        self.spare.try_reserve_exact(count - self.spare.len())?;
        // One that is smaller is the only one.
        let places = room.min(SEGMENT);
        for segment in self.used.iter_mut().chain(&mut self.spare).take(1) {
            segment.try_reserve_exact(places.saturating_sub(segment.len()))?;
        }
        while self.used.len() + self.spare.len() < count {
            let mut segment = VecDeque::new();
            segment.try_reserve_exact(places)?;
            self.spare.push(segment);
        }
        self.room = room;
        Ok(())
    }

    /// Adds a completion at the end; false, and it is lost, if there is no room for it.
    pub(crate) fn push(&mut self, completion: Completion) -> bool {
        if self.length == self.room {
            return false;
        }
        let has_place = |last: &VecDeque<Completion>| last.len() < last.capacity();
        if !self.used.back().is_some_and(has_place)
            && let Some(segment) = self.spare.pop()
        {
            self.used.push_back(segment);
        }
        if let Some(last) = self.used.back_mut() {
            last.push_back(completion);
            self.length += 1;
        }
        true
    }

    /// Takes so many completions out, the oldest first.
    pub(crate) fn drain(&mut self, count: usize) -> impl Iterator<Item = Completion> {
        (0..count).map_while(|_| self.pop())
    }

    /// Takes the oldest completion out.
    pub(crate) fn pop(&mut self) -> Option<Completion> {
        let first = self.used.front_mut()?;
        let completion = first.pop_front()?;
        self.length -= 1;
        if first.is_empty() {
            self.spare.extend(self.used.pop_front());
        }
        Some(completion)
    }
}

/// Returns how many segments a queue with this room has.
const fn segments(room: usize) -> usize {
    if room <= SEGMENT {
        1
    } else {
        (room + SEGMENT - 1).div_ceil(SEGMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(key: u64) -> Completion {
        Completion { key, result: 0 }
    }

    #[test]
    fn as_many_are_kept_as_there_is_room_for_in_their_order() {
        for room in [1, 2, 16, 511, 512, 513, 1024, 5000] {
            // Wherever the first one in use begins.
            for before in [0, room / 3, room / 2, room - 1] {
                let mut kept = Kept::default();
                kept.make_room(room).unwrap();
                for key in 0..before as u64 {
                    assert!(kept.push(completion(key)));
                }
                let (mut next, mut first) = (before as u64, 0);
                for _ in 0..3 * room {
                    while kept.len() < room {
                        assert!(kept.push(completion(next)));
                        next += 1;
                    }
                    assert!(!kept.push(completion(next)));
                    assert_eq!(kept.pop().map(|oldest| oldest.key), Some(first));
                    first += 1;
                }
                while let Some(oldest) = kept.pop() {
                    assert_eq!(oldest.key, first);
                    first += 1;
                }
                assert_eq!((first, kept.len()), (next, 0));
            }
        }
    }

    #[test]
    fn room_grows_while_completions_are_kept() {
        let mut kept = Kept::default();
        let (mut next, mut first) = (0, 0);
        for room in [3, 12, 100, 500, 600, 1000, 3000, 9000] {
            kept.make_room(room).unwrap();
            assert_eq!(kept.room(), room);
            while kept.push(completion(next)) {
                next += 1;
            }
            assert_eq!(kept.len(), room);
            for _ in 0..room / 3 {
                assert_eq!(kept.pop().map(|oldest| oldest.key), Some(first));
                first += 1;
            }
        }
        while let Some(oldest) = kept.pop() {
            assert_eq!(oldest.key, first);
            first += 1;
        }
        assert_eq!(first, next);
    }
}
