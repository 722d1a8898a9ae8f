//! Every interleaving of workers that claim, release and step aside, explored by loom.
//!
//! Run it with
//! `RUSTFLAGS="--cfg loom" cargo test --release -p corank-domain --lib --target-dir target/loom`.
//!
//! A sleep that nothing ends is a deadlock, which loom reports. Sleeps have no time limits here.
//!
//! | what is broken | test that fails |
//! |---|---|
//! | no fence in `Slot::show` | both |
//! | the doorbell read after the decision; the sleeper rung but not woken | `a_worker_that_stepped_aside_is_woken_when_the_urgent_one_leaves` |
//! | no worker rung at a claim | `an_urgent_claim_always_reaches_the_other_worker` |
//! | no fence in `AloneFlag::set_while`, or in `AloneFlag::clear` | `each_join_is_noticed` |

use crate::admission_queue::{AdmissionQueue, Processors};
use crate::alone_flag::AloneFlag;
use crate::atomic::{AtomicU32, Ordering};
use crate::claim::{Claim, ClaimState, Nanoseconds};
use crate::doorbell::Doorbell;
use crate::membership::{Member, Membership, Slot, Timing};
use corank::Priority;
use loom::sync::Arc;
use std::time::Duration;

struct Process {
    id: u64,
    slot: Slot,
    doorbell: Doorbell,
}

impl Process {
    fn new(id: u64) -> Arc<Self> {
        Arc::new(Self {
            id,
            slot: Slot::default(),
            doorbell: Doorbell::default(),
        })
    }
}

impl Member for Arc<Process> {
    fn id(&self) -> u64 {
        self.id
    }
    fn processors(&self) -> Processors {
        let mut one = Processors::default();
        one[0] = 1;
        one
    }
    fn workers(&self) -> usize {
        1
    }
    fn slot(&self, _: usize) -> &Slot {
        &self.slot
    }
    fn doorbell(&self, _: usize) -> &Doorbell {
        &self.doorbell
    }
    fn heartbeat(&self) -> Nanoseconds {
        NOW
    }
    fn found_damage(&self) {
        panic!("nothing else is written");
    }
}

const NOW: Nanoseconds = 1 << 30;

/// Returns a timing that keeps no room for something that has gone, so that a release alone must
/// end a sleep.
fn timing() -> Timing {
    Timing {
        hold: 0,
        ..Timing::of_tick(Duration::from_millis(4))
    }
}

fn claim(level: u8, state: ClaimState) -> Option<Claim> {
    Some(Claim {
        level: Priority::new(level).unwrap(),
        state,
        strict: true,
        behind: false,
        since: if state == ClaimState::Released {
            0
        } else {
            NOW
        },
    })
}

fn decide(membership: &Membership<Arc<Process>>) -> bool {
    (membership.decide(Some(0), &mut AdmissionQueue::default(), NOW, &timing())).is_some()
}

#[test]
fn a_worker_that_stepped_aside_is_woken_when_the_urgent_one_leaves() {
    loom::model(|| {
        let (urgent, bulk) = (Process::new(1), Process::new(2));
        urgent.slot.show(claim(1, ClaimState::Running), NOW);
        let membership = Membership::new(vec![bulk.clone(), urgent.clone()]);
        let other = loom::thread::spawn(move || {
            let membership = Membership::new(vec![urgent.clone(), bulk]);
            urgent.slot.show(claim(1, ClaimState::Released), NOW);
            decide(&membership);
        });
        let own = &membership.members[0];
        own.slot.show(claim(50, ClaimState::Aside), NOW);
        loop {
            let seen = own.doorbell.load_acquire();
            if !decide(&membership) {
                break;
            }
            own.doorbell.sleep(seen, Duration::MAX);
        }
        other.join().unwrap();
    });
}

#[test]
fn an_urgent_claim_always_reaches_the_other_worker() {
    loom::model(|| {
        let (urgent, bulk) = (Process::new(1), Process::new(2));
        let membership = Membership::new(vec![bulk.clone(), urgent.clone()]);
        let other = loom::thread::spawn(move || {
            let membership = Membership::new(vec![urgent.clone(), bulk]);
            urgent.slot.show(claim(1, ClaimState::Running), NOW);
            assert!(!decide(&membership), "nothing is more urgent");
        });
        let own = &membership.members[0];
        own.slot.show(claim(50, ClaimState::Running), NOW);
        let seen = own.doorbell.load_acquire();
        let aside = decide(&membership);
        other.join().unwrap();
        // Either it has seen the claim, or its doorbell rings before its next poll.
        assert!(aside || own.doorbell.load_acquire() != seen);
    });
}

#[test]
fn each_join_is_noticed() {
    loom::model(|| {
        let (alone_flag, others) = (Arc::new(AloneFlag::default()), Arc::new(AtomicU32::new(0)));
        let agent = loom::thread::spawn({
            let (alone_flag, others) = (alone_flag.clone(), others.clone());
            move || {
                others.store(1, Ordering::Relaxed);
                alone_flag.clear();
            }
        });
        alone_flag.set_while(|| others.load(Ordering::Relaxed) == 0);
        agent.join().unwrap();
        // A participant has come, so the worker asks.
        assert!(!alone_flag.is_set());
    });
}
