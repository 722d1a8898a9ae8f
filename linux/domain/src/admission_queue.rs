//! The admission queue of the workers of a domain: which of them have a processor, and which step
//! aside.
//!
//! A worker steps aside when
//! 1. as many workers as there are processors stand ahead of it, which are those at a more urgent
//!    level, and at its own level those that stand there for longer; and
//! 2. something strictly more urgent wants a processor, or has wanted one a short while ago.
//!
//! Among equals those stand behind that were last seen on a processor on which something strictly
//! more urgent is now. They have lost it already. If workers on another processor stepped aside
//! instead, that would be left without work.
//!
//! Equals do not count in 1. for a worker that Linux knows to be less urgent (it is at nice 19).
//! More urgent work gets the processor of such a worker from Linux at once, however many such
//! workers there are. If such a worker slept, it would leave a processor without work until Linux
//! has moved another thread there.
//!
//! So equals alone are left to Linux, which shares the processors among them fairly. But beside
//! something more urgent only as many workers stay as there is room for. Otherwise the urgent one
//! finds several equals on each processor when it comes, and Linux lets it wait for their slices.

use crate::claim::{Claim, ClaimState, Nanoseconds};
use corank::Priority;

/// A worker in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The member of the membership that it belongs to.
    pub(crate) member: usize,
    /// The number of the worker among the member's workers.
    pub(crate) worker: usize,
    pub(crate) claim: Claim,
    /// The processor where it was seen last, as far as that is known.
    ///
    /// A worker that is aside keeps it. Otherwise it would be called back at once to where it made
    /// room.
    pub(crate) processor: Option<u64>,
    /// Something strictly more urgent runs there too. The [`AdmissionQueue`] finds this out.
    pub(crate) contended: bool,
}

/// The number of processors that each pair of members has in common.
///
/// The workers of one member take these away from the workers of the other.
#[derive(Clone, Debug)]
pub(crate) struct Overlap {
    members: usize,
    processors: Vec<usize>,
}

/// The processors that a process may use: bit *i* of the words is processor *i*.
pub(crate) type Processors = [u64; 16];

impl Overlap {
    pub(crate) fn new(members: &[Processors]) -> Self {
        let common = |a: &Processors, b: &Processors| -> usize {
            a.iter()
                .zip(b)
                .map(|(a, b)| (a & b).count_ones() as usize)
                .sum()
        };
        Self {
            members: members.len(),
            processors: (members.iter())
                .flat_map(|a| members.iter().map(move |b| common(a, b)))
                .collect(),
        }
    }

    fn between(&self, a: usize, b: usize) -> usize {
        self.processors[a * self.members + b]
    }
}

/// Buffers for a decision, kept to be used again.
#[derive(Debug, Default)]
pub(crate) struct AdmissionQueue {
    entries: Vec<Entry>,
    /// The number of workers of each member ahead of the one that is being decided.
    ahead: Vec<usize>,
    /// The number of workers of each member that are strictly more urgent than that one.
    more_urgent: Vec<usize>,
    /// The most urgent level of each member that wants a processor, or has wanted one lately.
    urgent: Vec<Option<Priority>>,
}

impl AdmissionQueue {
    /// Empties the queue, for this many members.
    pub(crate) fn clear(&mut self, members: usize) {
        self.entries.clear();
        for counts in [&mut self.ahead, &mut self.more_urgent] {
            counts.clear();
            counts.resize(members, 0);
        }
        self.urgent.clear();
        self.urgent.resize(members, None);
    }

    /// Adds a worker that wants a processor, or that has wanted one lately.
    pub(crate) fn add(&mut self, entry: Entry) {
        let urgent = &mut self.urgent[entry.member];
        let level = entry.claim.level;
        if urgent.is_none_or(|urgent| level.is_more_urgent_than(urgent)) {
            *urgent = Some(level);
        }
        if entry.claim.wants() {
            self.entries.push(entry);
        }
    }

    /// Tests whether a worker in the queue is aside at this level.
    pub(crate) fn has_aside_at(&self, level: Priority) -> bool {
        (self.entries.iter())
            .any(|entry| entry.claim.state == ClaimState::Aside && entry.claim.level == level)
    }

    /// Returns since when the latest of the most urgent ones wants a processor.
    ///
    /// Returns `None` unless they are strictly more urgent than `level`.
    pub(crate) fn more_urgent_since(&self, level: Priority) -> Option<Nanoseconds> {
        let level = (self.entries.iter())
            .map(|entry| entry.claim.level)
            .min()
            .filter(|most_urgent| most_urgent.is_more_urgent_than(level))?;
        (self.entries.iter())
            .filter(|entry| entry.claim.level == level)
            .map(|entry| entry.claim.since)
            .max()
    }

    fn find_contended(&mut self) {
        for at in 0..self.entries.len() {
            let one = self.entries[at];
            let contended = self.entries.iter().any(|other| {
                other.claim.state == ClaimState::Running
                    && other.processor == one.processor
                    && other.claim.level.is_more_urgent_than(one.claim.level)
            });
            self.entries[at].contended = one.processor.is_some() && contended;
        }
    }

    /// Calls `report` for each entry, from the head of the queue, with the decision whether it has
    /// to step aside.
    ///
    /// If it has to, the decision is the most urgent level that it does so for. `rank` orders
    /// entries of the same moment in the same way for all participants.
    pub(crate) fn decide(
        &mut self,
        overlap: &Overlap,
        rank: impl Fn(usize) -> u64,
        mut report: impl FnMut(&Entry, Option<Priority>),
    ) {
        self.find_contended();
        self.entries.sort_unstable_by_key(|entry| {
            (
                entry.claim.level,
                entry.contended,
                entry.claim.since,
                rank(entry.member),
                entry.worker,
            )
        });
        let mut level = None;
        for entry in &self.entries {
            if level.replace(entry.claim.level) != Some(entry.claim.level) {
                self.more_urgent.clone_from(&self.ahead);
            }
            let own = entry.member;
            let room = overlap.between(own, own);
            let ahead = if entry.claim.behind {
                &self.more_urgent
            } else {
                &self.ahead
            };
            let taken: usize = (ahead.iter().enumerate())
                .map(|(member, &ahead)| ahead.min(overlap.between(own, member)))
                .sum();
            let full = taken >= room.max(1);
            let urgent = if full {
                (self.urgent.iter().enumerate())
                    .filter(|&(member, _)| overlap.between(own, member) > 0)
                    .filter_map(|(_, &urgent)| urgent)
                    .min()
                    .filter(|urgent| urgent.is_more_urgent_than(entry.claim.level))
            } else {
                None
            };
            report(entry, urgent);
            self.ahead[own] += 1;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(member: usize, worker: usize, level: u8, state: ClaimState, since: u64) -> Entry {
        let level = Priority::new(level).unwrap();
        Entry {
            member,
            worker,
            claim: Claim {
                level,
                state,
                strict: true,
                behind: false,
                since,
            },
            processor: None,
            contended: false,
        }
    }

    fn on(processor: u64, entry: Entry) -> Entry {
        Entry {
            processor: Some(processor),
            ..entry
        }
    }

    fn processors(mask: u64) -> Processors {
        let mut words = Processors::default();
        words[0] = mask;
        words
    }

    /// Returns the workers that step aside, as (member, worker).
    fn aside(entries: &[Entry], masks: &[u64]) -> Vec<(usize, usize)> {
        let masks: Vec<Processors> = masks.iter().map(|&mask| processors(mask)).collect();
        let mut queue = AdmissionQueue::default();
        queue.clear(masks.len());
        entries.iter().for_each(|&entry| queue.add(entry));
        let mut aside = Vec::new();
        queue.decide(
            &Overlap::new(&masks),
            |member| member as u64,
            |entry, urgent| {
                if urgent.is_some() {
                    aside.push((entry.member, entry.worker));
                }
            },
        );
        aside
    }

    use ClaimState::{Aside, Released, Running};

    #[test]
    fn equals_are_left_to_linux() {
        let bulk: Vec<Entry> = (0..8).map(|at| entry(1, at, 50, Running, 5)).collect();
        assert_eq!(aside(&bulk, &[3, 3]), []);
    }

    #[test]
    fn beside_something_urgent_as_many_stay_as_there_is_room_for() {
        let mut all: Vec<Entry> = (0..4).map(|at| entry(1, at, 50, Running, 5)).collect();
        all.push(entry(0, 0, 2, Running, 9));
        assert_eq!(aside(&all, &[3, 3]), [(1, 1), (1, 2), (1, 3)]);
        // It has gone, but not for long: its processor is taken again, by one.
        all[4] = entry(0, 0, 2, Released, 9);
        assert_eq!(aside(&all, &[3, 3]), [(1, 2), (1, 3)]);
    }

    #[test]
    fn among_equals_the_longest_waiting_is_first() {
        let all = [
            entry(0, 0, 2, Running, 9),
            entry(1, 0, 50, Running, 8),
            entry(1, 1, 50, Aside, 7),
        ];
        assert_eq!(aside(&all, &[3, 3]), [(1, 0)]);
    }

    #[test]
    fn a_worker_without_its_processor_steps_aside_before_its_equals() {
        let all = [
            on(1, entry(0, 0, 2, Running, 9)),
            on(0, entry(1, 0, 50, Running, 8)),
            on(1, entry(1, 1, 50, Running, 7)),
        ];
        assert_eq!(aside(&all, &[3, 3]), [(1, 1)]);
        // It stays behind while it sleeps, although it has stood in the queue for longer.
        let all = [
            on(1, entry(0, 0, 2, Running, 9)),
            on(0, entry(1, 0, 50, Running, 8)),
            on(1, entry(1, 1, 50, Aside, 7)),
        ];
        assert_eq!(aside(&all, &[3, 3]), [(1, 1)]);
        // Equals do not contend.
        let all = [
            on(1, entry(0, 0, 50, Running, 9)),
            on(0, entry(0, 1, 2, Running, 9)),
            on(1, entry(1, 1, 50, Running, 7)),
        ];
        assert_eq!(aside(&all, &[3, 3]), [(0, 0)]);
    }

    #[test]
    fn a_worker_that_linux_puts_behind_yields_only_to_the_more_urgent() {
        let mut all: Vec<Entry> = (0..4).map(|at| entry(1, at, 50, Running, 5)).collect();
        all.iter_mut().for_each(|entry| entry.claim.behind = true);
        all.push(entry(0, 0, 2, Running, 9));
        assert_eq!(aside(&all, &[3, 3]), []);
        all.push(entry(0, 1, 2, Running, 9));
        assert_eq!(aside(&all, &[3, 3]).len(), 4);
    }

    #[test]
    fn the_most_urgent_never_steps_aside() {
        let all: Vec<Entry> = (0..9).map(|at| entry(0, at, 7, Running, 0)).collect();
        assert_eq!(aside(&all, &[1]), []);
    }

    #[test]
    fn workers_on_other_processors_do_not_count() {
        // One of two processors is the urgent process's alone.
        let all = [
            entry(0, 0, 2, Running, 0),
            entry(0, 1, 2, Running, 0),
            entry(1, 0, 50, Running, 0),
        ];
        assert_eq!(aside(&all, &[1, 2]), []);
        assert_eq!(
            aside(&all, &[1, 3]),
            [],
            "both are on one, the other is free"
        );
        assert_eq!(aside(&all, &[3, 3]), [(1, 0)]);
    }

    #[test]
    fn a_mask_without_processors_is_taken_for_one() {
        let all = [entry(0, 0, 50, Running, 0)];
        assert_eq!(aside(&all, &[0]), []);
    }

    fn any_entry() -> impl Strategy<Value = (usize, u8, usize, u64, Option<u64>, bool)> {
        (
            0usize..3,
            0u8..4,
            0usize..3,
            0u64..4,
            proptest::option::of(0u64..3),
            any::<bool>(),
        )
    }

    proptest! {
        /// Compares with the definition at the top, counted anew for each entry.
        #[test]
        fn the_decision_is_the_definition(them in proptest::collection::vec(any_entry(), 0..12), masks in proptest::array::uniform3(0u64..8)) {
            let entries: Vec<Entry> = (them.iter().enumerate())
                .map(|(at, &(member, level, state, since, processor, behind))| {
                    let mut entry = entry(member, at, level, [Running, Aside, Released][state], since);
                    entry.processor = processor;
                    entry.claim.behind = behind;
                    entry
                })
                .collect();
            let contended = |entry: &Entry| entry.processor.is_some() && entries.iter().any(|other| {
                other.claim.state == Running && other.processor == entry.processor && other.claim.level < entry.claim.level
            });
            let key = |entry: &Entry| (entry.claim.level, contended(entry), entry.claim.since, entry.member, entry.worker);
            let mut expected: Vec<&Entry> = entries.iter().filter(|one| {
                let room = masks[one.member].count_ones().max(1);
                let ahead: u32 = (0..3).map(|member| {
                    let them = entries.iter().filter(|other| other.member == member && other.claim.wants() && if one.claim.behind {
                        other.claim.level < one.claim.level
                    } else {
                        key(other) < key(one)
                    });
                    (them.count() as u32).min((masks[one.member] & masks[member]).count_ones())
                }).sum();
                let urgent = entries.iter().any(|other| {
                    masks[one.member] & masks[other.member] != 0 && other.claim.level < one.claim.level
                });
                one.claim.wants() && ahead >= room && urgent
            }).collect();
            expected.sort_by_key(|entry| key(entry));
            let expected: Vec<(usize, usize)> = expected.iter().map(|entry| (entry.member, entry.worker)).collect();
            prop_assert_eq!(aside(&entries, &masks), expected);
        }
    }
}
