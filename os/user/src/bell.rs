//! How another thread reaches an executor that waits in the kernel.
//!
//! The executor keeps an asynchronous read of one byte under way while it waits; whoever wakes one of its coroutines from
//! another thread writes that byte. A process with one thread never makes the pipe.
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::cell::{OnceCell, RefCell};
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Context, Waker};

use crate::calls;
use crate::io::{Fd, OwnedFd, Pipe};
use crate::ring::{AsyncCall, Fill};

/// The executor's side.
#[derive(Debug)]
pub(crate) struct Bell {
    button: Arc<Button>,
    reader: OnceCell<OwnedFd>,
    /// The read that is under way, if any.
    read: RefCell<Option<Pin<Box<AsyncCall<Fill>>>>>,
}

/// The side of the other threads.
#[derive(Debug)]
struct Button {
    /// The executor waits or is about to, and nobody has rung yet.
    armed: AtomicBool,
    /// Number of the pipe's write end, or [`NO_PIPE`]. The button owns it, so that it stays open while anyone may ring.
    writer: AtomicUsize,
}

const NO_PIPE: usize = usize::MAX;

impl Drop for Button {
    fn drop(&mut self) {
        let writer = *self.writer.get_mut();
        if writer != NO_PIPE {
            drop(OwnedFd::from_number(writer));
        }
    }
}

impl Wake for Button {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.armed.swap(false, Ordering::AcqRel) {
            // If the executor is gone nobody reads the byte, and nobody needs it.
            let _ = Fd::new(self.writer.load(Ordering::Relaxed)).write(&[1]);
        }
    }
}

impl Bell {
    pub(crate) fn new() -> Self {
        let button = Button {
            armed: AtomicBool::new(false),
            writer: AtomicUsize::new(NO_PIPE),
        };
        Self {
            button: Arc::new(button),
            reader: OnceCell::new(),
            read: RefCell::new(None),
        }
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.button))
    }

    /// Makes sure that a wake from now on ends the executor's wait. False if it didn't until now: then the caller must look once
    /// more whether something has become ready.
    #[cold]
    pub(crate) fn arm(&self) -> bool {
        if self.button.armed.load(Ordering::Acquire) {
            return true;
        }
        let reader = self.reader.get_or_init(|| {
            let Pipe { reader, writer } = Pipe::new().expect("a pipe for wakes from other threads");
            self.button
                .writer
                .store(writer.into_number(), Ordering::Relaxed);
            reader
        });
        let mut read = self.read.borrow_mut();
        let mut context = Context::from_waker(Waker::noop());
        if read
            .as_mut()
            .is_none_or(|read| read.as_mut().poll(&mut context).is_ready())
        {
            let byte = calls::read_async(reader.number(), Vec::with_capacity(1));
            let read = read.insert(Box::pin(byte));
            let submitted = read.as_mut().poll(&mut context);
            debug_assert!(submitted.is_pending(), "the first poll submits");
        }
        self.button.armed.store(true, Ordering::Release);
        false
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // From here on nobody rings: the pipe goes.
        self.button.armed.store(false, Ordering::Release);
    }
}
