//! Charges from two threads at once, in every interleaving.
//!
//! Run it with `RUSTFLAGS="--cfg loom" cargo test --release --package corank-account --test loom`.
//! It finds a sum that is checked before it is changed, in two steps, and an account that keeps
//! what a refused charge has taken from it.
#![cfg(loom)]

use corank_account::Account;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

#[test]
fn two_charges_never_exceed_a_limit_together() {
    loom::model(|| {
        let root = Account::root(10);
        let held = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (account, held) = (root.child(), held.clone());
                thread::spawn(move || {
                    if let Ok(charge) = account.charge(6) {
                        let before = held.fetch_add(6, Ordering::SeqCst);
                        assert!(before + 6 <= 10);
                        held.fetch_sub(6, Ordering::SeqCst);
                        drop(charge);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(root.used(), 0);
    });
}

#[test]
fn a_refused_charge_leaves_nothing_behind() {
    loom::model(|| {
        let root = Account::root(5);
        let account = root.child();
        let other = account.clone();
        let thread = thread::spawn(move || drop(other.charge(6)));
        let charge = account.charge(3);
        assert!(charge.is_ok());
        thread.join().unwrap();
        assert_eq!((root.used(), account.used()), (3, 3));
        drop(charge);
        assert_eq!((root.used(), account.used()), (0, 0));
    });
}
