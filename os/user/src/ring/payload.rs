//! What a call works on, and its result.
use alloc::vec::Vec;

use corank_abi::call::{CLOSE, CONDVAR_SIGNAL, MUTEX_UNLOCK};

use super::Transferred;
use super::call::Ended;
use crate::raw::{Error, check, number_call};

/// The memory that an asynchronous call works on.
///
/// It belongs to the call until that is over. A borrowed buffer can't be lent to the kernel
/// soundly, because a future may be leaked, and then no destructor runs that could take the buffer
/// back.
///
/// # Safety
/// The memory that [`place`](Self::place) names is the value's own, and good for what the call does
/// with it until the value is moved or dropped.
pub unsafe trait Payload: Sized {
    /// The output of the call.
    type Output;

    /// Puts the memory's address and length into the call's arguments.
    fn place(&mut self, _arguments: &mut [usize; 3]) {}

    /// Returns the output of a call with this result.
    fn finish(self, result: isize) -> Self::Output;

    /// Undoes the effect of a call that ended so, and whose result is not used.
    fn undo(self, _arguments: &[usize; 3], _ended: Ended) {}
}

/// No memory at all.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

// SAFETY: no memory is named.
unsafe impl Payload for Plain {
    type Output = Result<usize, Error>;

    fn finish(self, result: isize) -> Self::Output {
        check(result)
    }
}

/// No memory, and an effect that can be taken back: by the call `CALL` with the argument number
/// `ARGUMENT`.
#[derive(Clone, Copy, Debug)]
pub struct Undo<const CALL: usize, const ARGUMENT: usize>;

// SAFETY: no memory is named.
unsafe impl<const CALL: usize, const ARGUMENT: usize> Payload for Undo<CALL, ARGUMENT> {
    type Output = Result<usize, Error>;

    fn finish(self, result: isize) -> Self::Output {
        check(result)
    }

    fn undo(self, arguments: &[usize; 3], ended: Ended) {
        if matches!(ended, Ended::Completed(0..)) {
            let _ = number_call(CALL, [arguments[ARGUMENT], 0, 0]);
        }
    }
}

/// No memory, and a file that the call opens: it is closed if the result is not seen.
#[derive(Clone, Copy, Debug)]
pub struct Opened;

// SAFETY: no memory is named.
unsafe impl Payload for Opened {
    type Output = Result<usize, Error>;

    fn finish(self, result: isize) -> Self::Output {
        check(result)
    }

    fn undo(self, _: &[usize; 3], ended: Ended) {
        if let Ended::Completed(file @ 0..) = ended {
            let _ = number_call(CLOSE, [file as usize, 0, 0]);
        }
    }
}

/// No memory: a wait for a signal of a condition variable, under a mutex that is held before and
/// after.
#[derive(Clone, Copy, Debug)]
pub struct Signal;

// SAFETY: no memory is named.
unsafe impl Payload for Signal {
    type Output = Result<usize, Error>;

    fn finish(self, result: isize) -> Self::Output {
        check(result)
    }

    /// Unlocks the mutex if the call has locked it, and passes a signal that came to another
    /// waiter.
    fn undo(self, &[condition, mutex, _]: &[usize; 3], ended: Ended) {
        if matches!(ended, Ended::Completed(0..)) {
            let _ = number_call(CONDVAR_SIGNAL, [condition, 0, 0]);
        }
        if matches!(ended, Ended::Completed(0..) | Ended::Unseen) {
            let _ = number_call(MUTEX_UNLOCK, [mutex, 0, 0]);
        }
    }
}

/// A buffer that the call fills.
#[derive(Debug)]
pub struct Fill(Vec<u8>);

impl Fill {
    /// Fills `buffer` from its start and up to its capacity.
    pub(crate) fn new(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self(buffer)
    }
}

// SAFETY: the vector's memory is its own, up to its capacity.
unsafe impl Payload for Fill {
    type Output = Transferred;

    fn place(&mut self, arguments: &mut [usize; 3]) {
        arguments[1] = self.0.as_mut_ptr().expose_provenance();
        arguments[2] = self.0.capacity();
    }

    fn finish(mut self, result: isize) -> Transferred {
        let result = check(result);
        // SAFETY: the kernel has written so many bytes, and never more than the capacity that the
        // request named.
        unsafe { self.0.set_len(result.unwrap_or(0)) };
        (result, self.0)
    }
}

/// Bytes that the call takes.
#[derive(Debug)]
pub struct Data(Vec<u8>);

impl Data {
    /// Returns a payload with all that is in `data`.
    pub(crate) fn new(data: Vec<u8>) -> Self {
        Self(data)
    }
}

// SAFETY: the vector's memory is its own; the kernel only reads it.
unsafe impl Payload for Data {
    type Output = Transferred;

    fn place(&mut self, arguments: &mut [usize; 3]) {
        arguments[1] = self.0.as_ptr().expose_provenance();
        arguments[2] = self.0.len();
    }

    fn finish(self, result: isize) -> Transferred {
        (check(result), self.0)
    }
}

/// Room for the exit code of a process.
#[derive(Debug)]
pub struct Code(i32);

impl Code {
    /// Returns room for a code.
    pub(crate) fn new() -> Self {
        Self(0)
    }
}

// SAFETY: the field is the value's own.
unsafe impl Payload for Code {
    /// What the call returned, and the code.
    type Output = Result<(usize, i32), Error>;

    fn place(&mut self, arguments: &mut [usize; 3]) {
        arguments[1] = (&raw mut self.0).expose_provenance();
    }

    fn finish(self, result: isize) -> Self::Output {
        check(result).map(|number| (number, self.0))
    }
}

/// Room for the numbers of pipes, each pair written by a call of its own.
#[derive(Debug)]
pub(super) struct Ends(pub(super) Vec<[usize; 2]>);

// SAFETY: the vector's memory is its own; each call writes one pair, and there are as many calls as
// pairs.
unsafe impl Payload for Ends {
    type Output = (Result<usize, Error>, Vec<[usize; 2]>);

    fn place(&mut self, arguments: &mut [usize; 3]) {
        arguments[0] = self.0.as_mut_ptr().expose_provenance();
    }

    fn finish(self, result: isize) -> Self::Output {
        (check(result), self.0)
    }
}
