//! Accounts of the memory that a kernel takes on behalf of its processes.
//!
//! ```text
//!   root (what the heap can serve) ◀── limited account ◀── account of a process ◀── charges of its objects
//!                                  ◀── account of a process ◀── …
//! ```
//! A [`Charge`] reserves bytes in an [`Account`] and in all accounts above it, and gives them back
//! when it is dropped. So an object that carries its charge can be made only while there is memory
//! for it, and gives that back however it ends. The sum of all charges never exceeds the limit of
//! the root.
//!
//! A new account lies below the nearest account that has a limit of its own, because accounts
//! without one between the two would add nothing but time. So a charge takes time in proportion to
//! the number of limits above it, at most [`MOST_LIMITS`], and not to the number of generations of
//! processes. An account lives as long as a charge or an account below refers to it.
#![no_std]

extern crate alloc;

use alloc::sync::Arc;
use core::fmt;
#[cfg(not(loom))]
use core::sync::atomic::{AtomicUsize, Ordering};
#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};

/// The limit of an account that has none of its own.
const UNLIMITED: usize = usize::MAX;

/// The number of limits that can apply to an account beside its own.
pub const MOST_LIMITS: usize = 16;

/// Nothing is left of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory")
    }
}

impl core::error::Error for OutOfMemory {}

/// There are [`MOST_LIMITS`] limits above the account already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyLimits;

/// Counts the bytes that are charged to it and to the accounts below it, up to a limit.
#[derive(Debug)]
pub struct Account {
    used: AtomicUsize,
    limit: AtomicUsize,
    parent: Option<Arc<Account>>,
    /// The number of accounts above it.
    depth: usize,
}

impl Account {
    /// Returns an account without a parent, with a limit in bytes.
    #[must_use]
    pub fn root(limit: usize) -> Arc<Account> {
        Arc::new(Account {
            used: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
            parent: None,
            depth: 0,
        })
    }

    /// Returns an account for a child of the process that has this one: without a limit of its own,
    /// below this account if this has one, else beside it.
    ///
    /// One allocation.
    #[must_use]
    pub fn child(self: &Arc<Account>) -> Arc<Account> {
        let above = match &self.parent {
            Some(parent) if self.limit() == UNLIMITED => parent,
            _ => self,
        };
        Arc::new(Account {
            used: AtomicUsize::new(0),
            limit: AtomicUsize::new(UNLIMITED),
            parent: Some(above.clone()),
            depth: above.depth + 1,
        })
    }

    /// Returns the bytes that are charged to it and to the accounts below it.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns its limit in bytes, `usize::MAX` if it has none of its own.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Lowers its limit to so many bytes; a limit that is lower already stays.
    ///
    /// Returns the limit from now on. What is charged above the limit stays charged, and further
    /// charges fail until enough of it was given back.
    ///
    /// # Errors
    /// [`TooManyLimits`] if it has no limit yet and there are [`MOST_LIMITS`] above it.
    pub fn lower(&self, limit: usize) -> Result<usize, TooManyLimits> {
        if limit != UNLIMITED && self.limit() == UNLIMITED && self.depth >= MOST_LIMITS {
            return Err(TooManyLimits);
        }
        Ok(self.limit.fetch_min(limit, Ordering::Relaxed).min(limit))
    }

    /// Reserves so many bytes, here and in the accounts above.
    ///
    /// # Errors
    /// [`OutOfMemory`] if one of them would exceed its limit. Nothing is charged then.
    pub fn charge(self: &Arc<Account>, bytes: usize) -> Result<Charge, OutOfMemory> {
        self.reserve(bytes)?;
        Ok(Charge {
            account: Some(self.clone()),
            bytes,
        })
    }

    fn above(&self) -> impl Iterator<Item = &Account> {
        core::iter::successors(Some(self), |account| account.parent.as_deref())
    }

    fn reserve(&self, bytes: usize) -> Result<(), OutOfMemory> {
        for (done, account) in self.above().enumerate() {
            if !account.take(bytes) {
                for account in self.above().take(done) {
                    account.give(bytes);
                }
                return Err(OutOfMemory);
            }
        }
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        for account in self.above() {
            account.give(bytes);
        }
    }

    /// Takes so many bytes, or refuses them.
    ///
    /// What it refuses it has counted for a moment, so that a charge on another hart may be refused
    /// as well. The order of these operations among others does not matter: they count, and publish
    /// nothing.
    #[inline]
    fn take(&self, bytes: usize) -> bool {
        let limit = self.limit();
        let fits = bytes <= limit && self.used.fetch_add(bytes, Ordering::Relaxed) <= limit - bytes;
        if !fits && bytes <= limit {
            self.give(bytes);
        }
        fits
    }

    #[inline]
    fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that are reserved in an account.
///
/// Dropped, it gives them back.
#[derive(Debug, Default)]
#[must_use = "a charge that is dropped is given back"]
pub struct Charge {
    account: Option<Arc<Account>>,
    bytes: usize,
}

impl Charge {
    /// Returns a charge of nothing, to no account.
    pub const fn none() -> Charge {
        Charge {
            account: None,
            bytes: 0,
        }
    }

    /// Returns the account that it is charged to; `None` for a charge of nothing.
    #[must_use]
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }

    /// Returns how many bytes it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves so many bytes more, in the same account.
    ///
    /// # Errors
    /// As [`Account::charge`]; the charge then stays as it was. A charge to no account cannot grow.
    pub fn grow(&mut self, more: usize) -> Result<(), OutOfMemory> {
        self.account.as_deref().ok_or(OutOfMemory)?.reserve(more)?;
        self.bytes += more;
        Ok(())
    }

    /// Gives so many bytes back, at most all of them.
    pub fn shrink(&mut self, less: usize) {
        let less = less.min(self.bytes);
        if let Some(account) = &self.account {
            account.give_back(less);
        }
        self.bytes -= less;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}
