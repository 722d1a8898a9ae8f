//! Wakers that a scheduler keeps: of waiters, of timers, of workers and of the platform.
//!
//! Where engine and clients are built together, a stored waker is a [`Waker`]. Through the shared
//! image (see [`crate::scheduling::image`]) it is the waker's two pointers, and a table of
//! functions of the client that made it. A `Waker`'s own layout and calls are Rust's, and may be
//! others on the other side.

#[cfg(not(feature = "image"))]
mod plain {
    use core::cell::UnsafeCell;
    use core::task::Waker;

    /// A waker that a scheduler keeps, where engine and clients are built together.
    #[derive(Debug)]
    pub(crate) struct StoredWaker(Waker);

    impl StoredWaker {
        #[inline]
        pub(crate) fn new(waker: Waker) -> Self {
            Self(waker)
        }

        #[inline]
        pub(crate) fn wake(self) {
            self.0.wake();
        }

        #[inline]
        pub(crate) fn wake_by_ref(&self) {
            self.0.wake_by_ref();
        }
    }

    /// Room for a waker. Belongs to a scheduler's owner.
    pub(crate) struct WakerCell(UnsafeCell<Option<StoredWaker>>);

    impl WakerCell {
        pub(crate) const fn new() -> Self {
            Self(UnsafeCell::new(None))
        }

        fn get(&self) -> Option<&StoredWaker> {
            // SAFETY: only the owner calls this, and nothing runs during the borrows that would
            // replace the waker.
            unsafe { (*self.0.get()).as_ref() }
        }

        #[inline]
        pub(crate) fn is_empty(&self) -> bool {
            self.get().is_none()
        }

        #[inline]
        pub(crate) fn will_wake(&self, waker: &Waker) -> bool {
            self.get().is_some_and(|kept| kept.0.will_wake(waker))
        }

        /// Replaces the waker, and returns the old one for the caller to drop: that may run any
        /// code.
        #[inline]
        #[must_use]
        pub(crate) fn replace(&self, waker: Option<StoredWaker>) -> Option<StoredWaker> {
            // SAFETY: as in `get`.
            unsafe { core::mem::replace(&mut *self.0.get(), waker) }
        }
    }
}

#[cfg(feature = "image")]
mod by_pointers {
    use core::cell::Cell;
    use core::mem::ManuallyDrop;
    use core::ptr;
    use core::task::{RawWaker, RawWakerVTable, Waker};

    /// The operations on the wakers of one client. Each function takes a waker's two pointers.
    #[repr(C)]
    #[derive(Debug)]
    pub(crate) struct Calls {
        wake: unsafe extern "C" fn(*const (), *const ()),
        wake_by_ref: unsafe extern "C" fn(*const (), *const ()),
        drop: unsafe extern "C" fn(*const (), *const ()),
    }

    static CALLS: Calls = Calls {
        wake,
        wake_by_ref,
        drop: drop_waker,
    };

    /// Makes the waker of the two pointers again.
    ///
    /// # Safety
    /// The pointers are those of a waker of this client, which is owned by the caller and not used
    /// again.
    unsafe fn waker(data: *const (), vtable: *const ()) -> Waker {
        // SAFETY: the caller's promise; `StoredWaker::new` took them from a waker.
        unsafe { Waker::from_raw(RawWaker::new(data, &*vtable.cast::<RawWakerVTable>())) }
    }

    /// Wakes by the waker, and drops it.
    ///
    /// # Safety
    /// As for [`waker`].
    unsafe extern "C" fn wake(data: *const (), vtable: *const ()) {
        // SAFETY: the caller's promise.
        unsafe { waker(data, vtable) }.wake();
    }

    /// Wakes by the waker, and keeps it.
    ///
    /// # Safety
    /// As for [`waker`], but the waker stays the caller's.
    unsafe extern "C" fn wake_by_ref(data: *const (), vtable: *const ()) {
        // SAFETY: the caller's promise; the waker is not dropped.
        ManuallyDrop::new(unsafe { waker(data, vtable) }).wake_by_ref();
    }

    /// Drops the waker.
    ///
    /// # Safety
    /// As for [`waker`].
    unsafe extern "C" fn drop_waker(data: *const (), vtable: *const ()) {
        // SAFETY: the caller's promise.
        drop(unsafe { waker(data, vtable) });
    }

    /// A waker that a scheduler keeps, as the two pointers of a waker of the client that `calls`
    /// belongs to.
    #[repr(C)]
    #[derive(Debug)]
    pub(crate) struct StoredWaker {
        data: *const (),
        vtable: *const (),
        calls: &'static Calls,
    }

    impl StoredWaker {
        pub(crate) fn new(waker: Waker) -> Self {
            let waker = ManuallyDrop::new(waker);
            Self {
                data: waker.data(),
                vtable: ptr::from_ref(waker.vtable()).cast(),
                calls: &CALLS,
            }
        }

        pub(crate) fn wake(self) {
            let this = ManuallyDrop::new(self);
            // SAFETY: the type's invariant, and the waker is not used again.
            unsafe { (this.calls.wake)(this.data, this.vtable) }
        }

        pub(crate) fn wake_by_ref(&self) {
            // SAFETY: the type's invariant.
            unsafe { (self.calls.wake_by_ref)(self.data, self.vtable) }
        }
    }

    impl Drop for StoredWaker {
        fn drop(&mut self) {
            // SAFETY: the type's invariant, and the waker is not used again.
            unsafe { (self.calls.drop)(self.data, self.vtable) }
        }
    }

    /// Room for a waker: a [`StoredWaker`], or `calls` is null. Belongs to a scheduler's owner.
    #[repr(C)]
    pub(crate) struct WakerCell {
        data: Cell<*const ()>,
        vtable: Cell<*const ()>,
        calls: Cell<Option<&'static Calls>>,
    }

    impl WakerCell {
        pub(crate) const fn new() -> Self {
            Self {
                data: Cell::new(ptr::null()),
                vtable: Cell::new(ptr::null()),
                calls: Cell::new(None),
            }
        }

        #[inline]
        pub(crate) fn is_empty(&self) -> bool {
            self.calls.get().is_none()
        }

        #[inline]
        pub(crate) fn will_wake(&self, waker: &Waker) -> bool {
            self.calls.get().is_some()
                && ptr::eq(self.data.get(), waker.data())
                && ptr::eq(self.vtable.get(), ptr::from_ref(waker.vtable()).cast())
        }

        /// Replaces the waker, and returns the old one for the caller to drop: that may run any
        /// code.
        #[inline]
        #[must_use]
        pub(crate) fn replace(&self, waker: Option<StoredWaker>) -> Option<StoredWaker> {
            let old = self.calls.take().map(|calls| StoredWaker {
                data: self.data.get(),
                vtable: self.vtable.get(),
                calls,
            });
            if let Some(waker) = waker {
                let waker = ManuallyDrop::new(waker);
                self.data.set(waker.data);
                self.vtable.set(waker.vtable);
                self.calls.set(Some(waker.calls));
            }
            old
        }
    }

    impl Drop for WakerCell {
        fn drop(&mut self) {
            drop(self.replace(None));
        }
    }
}

#[cfg(feature = "image")]
pub(crate) use by_pointers::{StoredWaker, WakerCell};
#[cfg(not(feature = "image"))]
pub(crate) use plain::{StoredWaker, WakerCell};
