//! The index of calls by their keys.
//!
//! It is a hash table whose buckets are lists through the calls. It is made in pieces when a
//! process first cancels or re-prioritises a call, and follows each call from then on.

use super::{ALL, CallId, Calls, NONE, SEARCHED_AT_ONCE, Search, reports};
use crate::memory::account::{self, Account, Charge};
use alloc::sync::Arc;
use alloc::vec::Vec;
use corank_abi::ring::Submission;

/// How many buckets one piece of work makes.
const BUCKETS_AT_ONCE: usize = SEARCHED_AT_ONCE;

/// How many calls one piece of work puts into their buckets.
const INDEXED_AT_ONCE: usize = SEARCHED_AT_ONCE / 4;

impl Calls {
    /// Finds a call that is served, in the key's bucket.
    ///
    /// Visits a bounded number of calls.
    pub(super) fn find(&mut self, key: u64, search: &mut Search) -> Option<usize> {
        // What was linked behind a call may be in the bucket now. Then all of that is visited once
        // more.
        if search.has_bucket && search.entered == self.entered {
            return None;
        }
        search.has_bucket = false;
        let bucket = self.bucket(key);
        let is_there = |id: CallId| {
            let call = self.calls.get(id.number)?;
            let is_same = call.serial == id.serial && call.served.reports();
            (is_same && self.bucket(call.served.key) == bucket).then_some(id.number as u32)
        };
        // Without the call that it had come to, the visit begins anew.
        let mut number = match search.at.take().and_then(is_there) {
            Some(number) => number,
            None => {
                search.entered = self.entered;
                self.buckets[bucket]
            }
        };
        for _ in 0..SEARCHED_AT_ONCE {
            let Some(call) = self.calls.get(number as usize) else {
                search.has_bucket = search.entered == self.entered;
                return None;
            };
            if call.served.key == key {
                return Some(number as usize);
            }
            number = call.next;
        }
        let next = self.calls.get(number as usize);
        search.at = next.map(|call| call.id(number as usize));
        search.has_bucket = search.at.is_none() && search.entered == self.entered;
        None
    }

    /// Tests whether a search has visited all that there is.
    pub(super) fn has_ended(&self, search: &Search) -> bool {
        search.has_bucket && search.linked >= self.calls.capacity()
    }

    /// Finds a submission that waits behind another.
    ///
    /// Returns the call, and the place in its `rest`. Searches for bounded time, when the key's
    /// bucket has been visited.
    pub(super) fn find_linked(&self, key: u64, search: &mut Search) -> Option<(usize, usize)> {
        if !search.has_bucket {
            return None;
        }
        let from = &mut search.linked;
        if self.linked == 0 {
            *from = self.calls.capacity();
            return None;
        }
        let is_it = |linked: &Submission| linked.key == key && reports(linked);
        let mut budget = SEARCHED_AT_ONCE;
        while *from < self.calls.capacity() && budget > 0 {
            let number = *from;
            *from += 1;
            budget -= 1;
            let Some(rest) = self.calls.get(number).and_then(|call| call.rest.as_ref()) else {
                continue;
            };
            if let Some(index) = rest.left().iter().position(is_it) {
                return Some((number, rest.taken + index));
            }
            budget = budget.saturating_sub(rest.left().len());
        }
        None
    }

    /// Returns the bucket of a key.
    ///
    /// Keys are addresses or small numbers, and a multiplication spreads them. A program that
    /// chooses its keys so that they collide makes its own cancellations slow.
    fn bucket(&self, key: u64) -> usize {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        hash as usize & self.buckets.len().wrapping_sub(1)
    }

    /// Puts a call into its bucket, unless [`index_some`](Self::index_some) will do that.
    #[inline]
    pub(super) fn enter(&mut self, number: usize) {
        // Mostly nothing is indexed.
        if number < self.indexed {
            self.enter_bucket(number);
        }
    }

    #[inline(never)]
    fn enter_bucket(&mut self, number: usize) {
        let served = self.calls[number].served;
        if !served.reports() {
            return;
        }
        self.entered = self.entered.wrapping_add(1);
        let bucket = self.bucket(served.key);
        let next = core::mem::replace(&mut self.buckets[bucket], number as u32);
        let call = &mut self.calls[number];
        (call.previous, call.next) = (NONE, next);
        if let Some(next) = self.calls.get_mut(next as usize) {
            next.previous = number as u32;
        }
    }

    /// Takes a call out of its bucket, if there is such a call and it is in one.
    #[inline]
    pub(super) fn leave(&mut self, number: usize) {
        if number < self.indexed {
            self.leave_bucket(number);
        }
    }

    #[inline(never)]
    fn leave_bucket(&mut self, number: usize) {
        let Some(call) = self.calls.get(number).filter(|call| call.served.reports()) else {
            return;
        };
        let (previous, next, key) = (call.previous, call.next, call.served.key);
        match self.calls.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => {
                let bucket = self.bucket(key);
                self.buckets[bucket] = next;
            }
        }
        if let Some(next) = self.calls.get_mut(next as usize) {
            next.previous = previous;
        }
    }

    /// Puts a bounded number of calls into their buckets, which this account pays for.
    ///
    /// Returns whether all are there, and can be found.
    pub(super) fn index_some(&mut self, account: &Arc<Account>) -> bool {
        if self.indexed == ALL {
            return true;
        }
        if self.indexed == 0 && !self.make_some_buckets(account) {
            return false;
        }
        let from = self.indexed;
        let until = self.calls.capacity().min(from + INDEXED_AT_ONCE);
        self.indexed = until;
        for number in from..until {
            if self.calls.get(number).is_some() {
                self.enter(number);
            }
        }
        if until == self.calls.capacity() {
            self.indexed = ALL;
        }
        self.indexed == ALL
    }

    /// Makes a bounded number of empty buckets.
    ///
    /// Returns whether all are there. They are as many as there is room for calls, or as many as
    /// there is memory for, at least one. No fault is injected here, because nothing fails.
    fn make_some_buckets(&mut self, account: &Arc<Account>) -> bool {
        if self.buckets_wanted == 0 {
            self.buckets = Vec::new();
            self.buckets_charge = Charge::none();
            let mut count = self.calls.capacity().next_power_of_two();
            while count > 1 {
                if let Ok(charge) = account.charge(count * size_of::<u32>())
                    && account::make_room(&mut self.buckets, count).is_ok()
                {
                    self.buckets_charge = charge;
                    break;
                }
                count /= 2;
            }
            self.buckets_wanted = count;
        }
        let made = self.buckets.len() + BUCKETS_AT_ONCE;
        self.buckets.resize(made.min(self.buckets_wanted), NONE);
        self.buckets.len() == self.buckets_wanted
    }
}
