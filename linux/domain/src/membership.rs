//! The membership of a domain as one participant sees it. It defines how a worker claims, gives up
//! and gets back a processor.
//!
//! Each worker writes its claim, and then reads all claims. Both are sequentially consistent. So of
//! two workers that change their claims at once at least one sees both changes, and rings the
//! workers concerned.

use crate::admission_queue::{AdmissionQueue, Entry, Overlap, Processors};
use crate::atomic::{AtomicU64, Ordering, fence};
use crate::claim::{Claim, ClaimState, Nanoseconds};
use crate::doorbell::Doorbell;
use corank::Priority;
use std::time::Duration;

/// The words that a worker shows. Only the worker writes them.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Slot {
    /// A [`Claim`] or 0.
    claim: AtomicU64,
    /// The time when the worker last showed that it is still there.
    heartbeat: AtomicU64,
    /// The processor that it ran on when it last showed that, plus one; 0 before that.
    processor: AtomicU64,
}

impl Slot {
    /// Shows a claim, or none. What the caller reads after this is not older.
    pub(crate) fn show(&self, claim: Option<Claim>, now: Nanoseconds) {
        self.record_heartbeat(now);
        (self.claim).store(claim.map_or(0, Claim::to_word), Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Records that the worker is still there.
    pub(crate) fn record_heartbeat(&self, now: Nanoseconds) {
        self.heartbeat.store(now, Ordering::Relaxed);
    }

    /// Records the processor where the worker runs now. It may be moved at any time.
    pub(crate) fn runs_on(&self, processor: usize) {
        self.processor
            .store(processor as u64 + 1, Ordering::Relaxed);
    }

    /// Returns the processor where the worker was seen last, which may be any number.
    fn processor(&self) -> Option<u64> {
        self.processor.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Returns the word of the claim and the last heartbeat, whatever they are.
    pub(crate) fn words(&self) -> (u64, Nanoseconds) {
        let word = self.claim.load(Ordering::Acquire);
        (word, self.heartbeat.load(Ordering::Relaxed))
    }
}

/// A participant, through its pages.
pub(crate) trait Member {
    /// Returns its number, which is the same for all readers and different for all participants.
    fn id(&self) -> u64;
    /// Returns the processors where its workers may run.
    fn processors(&self) -> Processors;
    /// Returns how many slots to read.
    fn workers(&self) -> usize;
    /// Returns the slot of a worker below [`workers`](Self::workers).
    fn slot(&self, worker: usize) -> &Slot;
    /// Returns the doorbell of such a worker.
    fn doorbell(&self, worker: usize) -> &Doorbell;
    /// Returns the time when its agent last showed that the process is alive.
    fn heartbeat(&self) -> Nanoseconds;
    /// Records that a slot has a word that makes no sense.
    fn found_damage(&self);
}

/// The times for which claims and room count.
///
/// Every participant decides for itself. All are multiples of its tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// The interval at which everything is decided anew.
    pub(crate) tick: Duration,
    /// The time for which others wait for a worker that shows no sign of life.
    pub(crate) grace: Nanoseconds,
    /// The time for which room is kept for something urgent that has gone.
    pub(crate) hold: Nanoseconds,
    /// The time for which a worker runs before an equal that stepped aside has its turn.
    pub(crate) slice: Nanoseconds,
}

impl Timing {
    pub(crate) fn of_tick(tick: Duration) -> Self {
        let ticks = |count: u32| (tick * count).as_nanos() as Nanoseconds;
        Self {
            tick,
            grace: ticks(5),
            hold: ticks(25),
            slice: ticks(25),
        }
    }
}

/// The limit by which times of other processes may be in the future.
///
/// The clocks of two processors are read one after the other.
const FUTURE: Nanoseconds = 1_000_000_000;

/// The participants of a domain. The first member is the own process.
pub(crate) struct Membership<M> {
    pub(crate) members: Vec<M>,
    overlap: Overlap,
}

impl<M: Member> Membership<M> {
    pub(crate) fn new(members: Vec<M>) -> Self {
        let processors: Vec<Processors> = members.iter().map(Member::processors).collect();
        Self {
            overlap: Overlap::new(&processors),
            members,
        }
    }

    /// Tests whether there is no other participant.
    pub(crate) fn is_alone(&self) -> bool {
        self.members.len() <= 1
    }

    /// Reads the claims of all members into `queue`.
    pub(crate) fn survey(&self, queue: &mut AdmissionQueue, now: Nanoseconds, timing: &Timing) {
        queue.clear(self.members.len());
        for (index, member) in self.members.iter().enumerate() {
            for worker in 0..member.workers() {
                let (word, heartbeat) = member.slot(worker).words();
                let claim = match Claim::from_word(word) {
                    Ok(None) => continue,
                    Ok(Some(claim)) => claim,
                    Err(_) => {
                        member.found_damage();
                        continue;
                    }
                };
                let (seen, counts) = match claim.state {
                    ClaimState::Running => (heartbeat, timing.grace),
                    // It sleeps, so its agent sends the heartbeat for it.
                    ClaimState::Aside => (member.heartbeat(), timing.grace),
                    ClaimState::Released => (claim.since, timing.hold),
                };
                if seen.max(claim.since) > now + FUTURE {
                    member.found_damage();
                } else if now.saturating_sub(seen) <= counts {
                    queue.add(Entry {
                        member: index,
                        worker,
                        claim,
                        processor: member.slot(worker).processor(),
                        contended: false,
                    });
                }
            }
        }
    }

    /// Decides anew, and rings the workers concerned.
    ///
    /// If the worker `own` has to step aside, returns the most urgent level that it does so for.
    /// `own` is `None` if the caller is no worker.
    pub(crate) fn decide(
        &self,
        own: Option<usize>,
        queue: &mut AdmissionQueue,
        now: Nanoseconds,
        timing: &Timing,
    ) -> Option<Priority> {
        self.survey(queue, now, timing);
        self.ring(own, queue)
    }

    /// Does the second half of [`decide`](Self::decide).
    pub(crate) fn ring(&self, own: Option<usize>, queue: &mut AdmissionQueue) -> Option<Priority> {
        let mut decision = None;
        let rank = |member: usize| self.members[member].id();
        queue.decide(&self.overlap, rank, |entry, urgent| {
            if entry.member == 0 && Some(entry.worker) == own {
                decision = urgent;
                return;
            }
            let doorbell = self.members[entry.member].doorbell(entry.worker);
            match entry.claim.state {
                ClaimState::Running if urgent.is_some() && entry.claim.strict => doorbell.ring(),
                ClaimState::Aside if urgent.is_none() => doorbell.ring_and_wake(),
                _ => {}
            }
        });
        decision
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    const TICK: Duration = Duration::from_millis(4);
    const NOW: Nanoseconds = 1 << 40;

    struct Process {
        id: u64,
        slots: Vec<Slot>,
        doorbells: Vec<Doorbell>,
        heartbeat: Nanoseconds,
        damaged: Cell<bool>,
    }

    impl Process {
        fn new(id: u64, workers: usize) -> Self {
            Self {
                id,
                slots: (0..workers).map(|_| Slot::default()).collect(),
                doorbells: (0..workers).map(|_| Doorbell::default()).collect(),
                heartbeat: NOW,
                damaged: Cell::new(false),
            }
        }

        fn with(self, worker: usize, level: u8, state: ClaimState, heartbeat: Nanoseconds) -> Self {
            let claim = claim(level, state, heartbeat);
            self.slots[worker].show(Some(claim), heartbeat);
            self
        }

        fn rings(&self) -> Vec<u32> {
            self.doorbells.iter().map(Doorbell::load).collect()
        }
    }

    impl Member for Process {
        fn id(&self) -> u64 {
            self.id
        }
        fn processors(&self) -> Processors {
            let mut two = Processors::default();
            two[0] = 3;
            two
        }
        fn workers(&self) -> usize {
            self.slots.len()
        }
        fn slot(&self, worker: usize) -> &Slot {
            &self.slots[worker]
        }
        fn doorbell(&self, worker: usize) -> &Doorbell {
            &self.doorbells[worker]
        }
        fn heartbeat(&self) -> Nanoseconds {
            self.heartbeat
        }
        fn found_damage(&self) {
            self.damaged.set(true);
        }
    }

    fn claim(level: u8, state: ClaimState, since: Nanoseconds) -> Claim {
        Claim {
            level: Priority::new(level).unwrap(),
            state,
            strict: true,
            behind: false,
            since,
        }
    }

    fn decide(
        membership: &Membership<Process>,
        own: Option<usize>,
        now: Nanoseconds,
    ) -> Option<u8> {
        let timing = Timing::of_tick(TICK);
        let decision = membership.decide(own, &mut AdmissionQueue::default(), now, &timing);
        decision.map(Priority::level)
    }

    use ClaimState::{Aside, Released, Running};

    #[test]
    fn an_urgent_claim_rings_the_least_urgent_worker_alone() {
        let bulk = Process::new(1, 3)
            .with(0, 50, Running, NOW)
            .with(1, 50, Running, NOW);
        let urgent = Process::new(2, 1).with(0, 5, Running, NOW);
        let membership = Membership::new(vec![urgent, bulk]);
        assert_eq!(decide(&membership, Some(0), NOW), None);
        assert_eq!(membership.members[1].rings(), [0, 1, 0]);
        assert_eq!(membership.members[0].rings(), [0]);
    }

    /// A relaxed worker decides at its ticks, and not before.
    #[test]
    fn a_relaxed_worker_is_not_rung() {
        let bulk = Process::new(1, 2);
        for slot in &bulk.slots {
            let relaxed = Claim {
                strict: false,
                ..claim(50, Running, NOW)
            };
            slot.show(Some(relaxed), NOW);
        }
        let urgent = Process::new(2, 1).with(0, 5, Running, NOW);
        let mut membership = Membership::new(vec![urgent, bulk]);
        decide(&membership, Some(0), NOW);
        assert_eq!(membership.members[1].rings(), [0, 0]);
        // At its tick one of the two steps aside.
        membership.members.swap(0, 1);
        let aside = [0, 1].map(|worker| decide(&membership, Some(worker), NOW));
        assert!(
            matches!(aside, [None, Some(5)] | [Some(5), None]),
            "{aside:?}"
        );
    }

    #[test]
    fn a_free_processor_calls_the_head_of_the_queue() {
        let bulk = Process::new(1, 3)
            .with(0, 50, Running, NOW)
            .with(1, 50, Aside, NOW - 2000)
            .with(2, 50, Aside, NOW - 4000);
        let urgent = Process::new(2, 1).with(0, 5, Released, NOW);
        let membership = Membership::new(vec![urgent, bulk]);
        decide(&membership, Some(0), NOW);
        // The running one is the last in the queue, and there is room for two. So it is rung to
        // make room.
        assert_eq!(membership.members[1].rings(), [1, 1, 1]);
    }

    /// The bound for a worker that is killed, is stopped or hangs.
    ///
    /// It counts for the grace, and not a nanosecond more.
    #[test]
    fn a_silent_worker_counts_until_the_grace_expires() {
        let grace = Timing::of_tick(TICK).grace;
        assert_eq!(Duration::from_nanos(grace), 5 * TICK);
        let bulk = Process::new(1, 1).with(0, 50, Running, NOW);
        let urgent = Process::new(2, 2)
            .with(0, 5, Running, NOW)
            .with(1, 5, Running, NOW);
        let membership = Membership::new(vec![bulk, urgent]);
        assert_eq!(decide(&membership, Some(0), NOW + grace), Some(5));
        membership.members[0].slots[0].record_heartbeat(NOW + grace + 1);
        assert_eq!(decide(&membership, Some(0), NOW + grace + 1), None);
        // One of its workers goes on.
        membership.members[1].slots[1].record_heartbeat(NOW + grace + 1);
        assert_eq!(decide(&membership, Some(0), NOW + grace + 1), None);
    }

    /// Beside something urgent as many run as there are processors, so that it finds one when it
    /// comes back.
    ///
    /// That lasts for the hold, and not a nanosecond more.
    #[test]
    fn room_is_kept_for_a_worker_that_left_as_long_as_the_hold() {
        let hold = Timing::of_tick(TICK).hold;
        assert_eq!(Duration::from_nanos(hold), 25 * TICK);
        let bulk = (0..3).fold(Process::new(1, 3), |bulk, worker| {
            bulk.with(worker, 50, Running, NOW)
        });
        let urgent = Process::new(2, 1).with(0, 5, Released, NOW);
        let membership = Membership::new(vec![bulk, urgent]);
        let aside = |now| {
            membership.members[0]
                .slots
                .iter()
                .for_each(|slot| slot.record_heartbeat(now));
            let decisions = (0..3).map(|worker| decide(&membership, Some(worker), now));
            decisions.flatten().collect::<Vec<_>>()
        };
        assert_eq!(aside(NOW + hold), [5]);
        assert_eq!(aside(NOW + hold + 1), []);
    }

    #[test]
    fn a_sleeping_worker_counts_while_its_agent_lives() {
        let grace = Timing::of_tick(TICK).grace;
        let mut other = Process::new(2, 2)
            .with(0, 7, Aside, NOW)
            .with(1, 7, Aside, NOW);
        other.heartbeat = NOW + 100 * grace;
        let now = other.heartbeat + grace;
        let own = Process::new(1, 1).with(0, 50, Running, now);
        let mut membership = Membership::new(vec![own, other]);
        assert_eq!(decide(&membership, Some(0), now), Some(7));
        membership.members[1].heartbeat -= 1;
        assert_eq!(decide(&membership, Some(0), now), None);
    }

    #[test]
    fn a_time_in_the_future_is_damage() {
        let other = Process::new(2, 1).with(0, 1, Running, NOW + 2 * FUTURE);
        let membership = Membership::new(vec![Process::new(1, 1), other]);
        decide(&membership, None, NOW);
        assert!(membership.members[1].damaged.get());
        assert!(!membership.members[0].damaged.get());
    }

    #[test]
    fn an_impossible_claim_is_damage() {
        let other = Process::new(2, 1).with(0, 1, Running, NOW);
        // It has a level, but no state.
        other.slots[0].claim.store(1, Ordering::Relaxed);
        let membership = Membership::new(vec![Process::new(1, 1), other]);
        decide(&membership, None, NOW);
        assert!(membership.members[1].damaged.get());
        assert!(!membership.members[0].damaged.get());
    }

    proptest! {
        /// Whatever is in another participant's page, a decision is made, and the process's own
        /// worker steps aside for a level at most.
        #[test]
        fn any_page_leads_to_a_decision(words in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..20), near: bool) {
            let foreign = Process::new(2, words.len());
            for (slot, &(word, heartbeat)) in foreign.slots.iter().zip(&words) {
                slot.claim.store(if near { word & 0xffff | ((NOW / 1024) << 16) } else { word }, Ordering::Relaxed);
                slot.heartbeat.store(if near { NOW } else { heartbeat }, Ordering::Relaxed);
            }
            let own = Process::new(1, 1).with(0, 50, Running, NOW);
            let membership = Membership::new(vec![own, foreign]);
            if let Some(level) = decide(&membership, Some(0), NOW) {
                prop_assert!(level < 50);
            }
        }
    }
}
