//! Charges are sums: an account has used what is charged to it and below it, and never more than
//! its limit.
#![cfg(not(loom))]

use corank_account::{Account, Charge, MOST_LIMITS, OutOfMemory, TooManyLimits};
use proptest::prelude::*;

/// One step of a process tree's life; numbers choose among what is there.
#[derive(Clone, Debug)]
enum Step {
    Fork(usize),
    Lower(usize, usize),
    Charge(usize, usize),
    Grow(usize, usize),
    Shrink(usize, usize),
    GiveBack(usize),
    End(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = 0..1000_usize;
    let bytes = 0..400_usize;
    let step = prop_oneof![
        place.clone().prop_map(Step::Fork),
        (place.clone(), 0..2000_usize).prop_map(|(at, limit)| Step::Lower(at, limit)),
        (place.clone(), bytes.clone()).prop_map(|(at, bytes)| Step::Charge(at, bytes)),
        (place.clone(), bytes.clone()).prop_map(|(at, bytes)| Step::Grow(at, bytes)),
        (place.clone(), bytes).prop_map(|(at, bytes)| Step::Shrink(at, bytes)),
        place.clone().prop_map(Step::GiveBack),
        place.prop_map(Step::End),
    ];
    proptest::collection::vec(step, 0..200)
}

const ROOT: usize = 5000;

proptest! {
    #[test]
    fn the_root_has_used_the_sum_of_all_charges_and_never_more_than_its_limit(steps in steps()) {
        let root = Account::root(ROOT);
        let mut accounts = vec![root.clone()];
        let mut charges: Vec<Charge> = Vec::new();
        for step in steps {
            let count = charges.len().max(1);
            match step {
                Step::Fork(at) => accounts.push(accounts[at % accounts.len()].child()),
                Step::Lower(at, limit) => {
                    let account = &accounts[at % accounts.len()];
                    let before = account.limit();
                    if let Ok(now) = account.lower(limit) {
                        prop_assert_eq!(now, before.min(limit));
                    }
                    prop_assert!(account.limit() <= before);
                }
                Step::Charge(at, bytes) => {
                    let account = &accounts[at % accounts.len()];
                    let (used, all) = (account.used(), root.used());
                    match account.charge(bytes) {
                        Ok(charge) => charges.push(charge),
                        Err(OutOfMemory) => {
                            prop_assert_eq!((account.used(), root.used()), (used, all));
                        }
                    }
                }
                Step::Grow(at, bytes) => {
                    if let Some(charge) = charges.get_mut(at % count) {
                        let before = charge.bytes();
                        let grown = charge.grow(bytes).is_ok();
                        let more = if grown { bytes } else { 0 };
                        prop_assert_eq!(charge.bytes(), before + more);
                    }
                }
                Step::Shrink(at, bytes) => {
                    if let Some(charge) = charges.get_mut(at % count) {
                        charge.shrink(bytes);
                    }
                }
                Step::GiveBack(at) if !charges.is_empty() => drop(charges.swap_remove(at % count)),
                Step::GiveBack(_) => {}
                // The root stays. Charges of an account that ends, and accounts below it, keep it.
                Step::End(at) if accounts.len() > 1 => {
                    let at = 1 + at % (accounts.len() - 1);
                    drop(accounts.swap_remove(at));
                }
                Step::End(_) => {}
            }
            let sum: usize = charges.iter().map(Charge::bytes).sum();
            prop_assert_eq!(root.used(), sum);
            prop_assert!(root.used() <= root.limit().max(sum));
            prop_assert!(sum <= ROOT);
        }
        charges.clear();
        for account in &accounts {
            prop_assert_eq!(account.used(), 0);
        }
    }
}

#[test]
fn a_limit_holds_for_children_that_come_after_it() {
    let root = Account::root(1000);
    let parent = root.child();
    let before = parent.child();
    assert_eq!(parent.lower(100), Ok(100));
    let after = parent.child();
    let first = after.charge(60).expect("below the limit");
    assert_eq!(parent.charge(41).err(), Some(OutOfMemory));
    let _second = before.charge(500).expect("only the root counts it");
    drop(first);
    let _third = parent.charge(100).expect("the limit is free again");
    assert_eq!(after.charge(1).err(), Some(OutOfMemory));
}

#[test]
fn a_limit_is_never_raised() {
    let root = Account::root(1000);
    let account = root.child();
    assert_eq!(account.lower(100), Ok(100));
    assert_eq!(account.lower(usize::MAX), Ok(100));
    assert_eq!(root.lower(2000), Ok(1000));
}

#[test]
fn generations_without_limits_lie_beside_each_other() {
    let root = Account::root(1 << 30);
    let mut account = root.child();
    // Accounts that were linked to all before them would overflow the stack when the last is
    // dropped.
    let charges: Vec<_> = (0..1_000_000)
        .map(|_| {
            account = account.child();
            account.charge(1).expect("room")
        })
        .collect();
    assert_eq!(root.used(), charges.len());
    drop(charges);
    assert_eq!(root.used(), 0);
}

#[test]
fn only_so_many_limits_lie_above_each_other() {
    let mut account = Account::root(1000);
    for _ in 1..MOST_LIMITS {
        account = account.child();
        assert_eq!(account.lower(900), Ok(900));
    }
    let last = account.child();
    assert_eq!(last.lower(800), Err(TooManyLimits));
    assert_eq!(last.lower(usize::MAX), Ok(usize::MAX));
    let _charge = last.charge(900).expect("as its parents allow");
}

#[test]
fn a_charge_of_nothing_cannot_grow() {
    let mut charge = Charge::none();
    assert_eq!(charge.grow(1), Err(OutOfMemory));
    charge.shrink(1);
    assert_eq!(charge.bytes(), 0);
}
