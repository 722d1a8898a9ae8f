//! Static memory for the tasks of one function, sized by the compiler without naming the future's
//! type. The attribute `task` writes what is used here.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use corank::SpawnError;

use crate::task::TaskStorage;
use crate::token::Token;

/// A function with any arguments that returns a future: `async fn`.
///
/// It is a way to name that future's type.
pub trait TaskFn<Arguments>: Copy {
    /// The future.
    type Future: Future + 'static;
}

macro_rules! task_fn {
    ($($argument:ident)*) => {
        impl<F, Fut, $($argument),*> TaskFn<($($argument,)*)> for F
        where
            F: Copy + FnOnce($($argument),*) -> Fut,
            Fut: Future + 'static,
        {
            type Future = Fut;
        }
    };
}

task_fn!();
task_fn!(A);
task_fn!(A B);
task_fn!(A B C);
task_fn!(A B C D);
task_fn!(A B C D E);
task_fn!(A B C D E G);
task_fn!(A B C D E G H);
task_fn!(A B C D E G H I);
task_fn!(A B C D E G H I J);
task_fn!(A B C D E G H I J K);
task_fn!(A B C D E G H I J K L);
task_fn!(A B C D E G H I J K L M);

/// The memory of `N` tasks.
#[repr(transparent)]
struct Tasks<F: Future + 'static, const N: usize>([TaskStorage<F>; N]);

/// Returns how many bytes `N` tasks of this function take.
pub const fn size<F, Arguments, const N: usize>(_: F) -> usize
where
    F: TaskFn<Arguments>,
{
    size_of::<Tasks<F::Future, N>>()
}

/// Returns the alignment of the tasks of this function.
pub const fn align<F, Arguments>(_: F) -> usize
where
    F: TaskFn<Arguments>,
{
    align_of::<TaskStorage<F::Future>>()
}

/// Zeroed memory of this size and alignment.
#[repr(C)]
pub struct Memory<const SIZE: usize, const ALIGN: usize>
where
    Align<ALIGN>: Alignment,
{
    align: [<Align<ALIGN> as Alignment>::Type; 0],
    bytes: UnsafeCell<MaybeUninit<[u8; SIZE]>>,
}

// SAFETY: it is used as an array of `TaskStorage`, which is `Sync`.
unsafe impl<const SIZE: usize, const ALIGN: usize> Sync for Memory<SIZE, ALIGN> where
    Align<ALIGN>: Alignment
{
}

impl<const SIZE: usize, const ALIGN: usize> Default for Memory<SIZE, ALIGN>
where
    Align<ALIGN>: Alignment,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<const SIZE: usize, const ALIGN: usize> core::fmt::Debug for Memory<SIZE, ALIGN>
where
    Align<ALIGN>: Alignment,
{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl<const SIZE: usize, const ALIGN: usize> Memory<SIZE, ALIGN>
where
    Align<ALIGN>: Alignment,
{
    /// Creates memory for free tasks: zeros.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            align: [],
            bytes: UnsafeCell::new(MaybeUninit::zeroed()),
        }
    }

    /// Takes the memory of the first free one of `N` tasks of `function`.
    ///
    /// # Errors
    /// As [`TaskStorage::claim`], if none is free.
    ///
    /// # Safety
    /// Size and alignment are those of [`size`] and [`align`] for this function and `N`, and all
    /// calls for this memory name the same function.
    pub unsafe fn claim<F, Arguments, const N: usize>(
        &'static self,
        _: F,
        make: impl FnOnce() -> F::Future,
    ) -> Result<Token<F::Future>, SpawnError>
    where
        F: TaskFn<Arguments>,
    {
        // SAFETY: the caller's promise, and zeros are free tasks.
        let tasks = unsafe { &*self.bytes.get().cast::<Tasks<F::Future, N>>() };
        let free = tasks.0.iter().find(|task| task.reserve());
        Ok(free.ok_or(SpawnError::TableFull)?.fill(make))
    }
}

/// An alignment as a type.
pub struct Align<const N: usize>(PhantomData<()>);

/// The alignments that a future may have.
pub trait Alignment {
    /// A type with this alignment.
    type Type;
}

macro_rules! alignments {
    ($($name:ident $bytes:literal),*) => {$(
        #[doc(hidden)]
        #[repr(align($bytes))]
        pub struct $name;
        impl Alignment for Align<$bytes> {
            type Type = $name;
        }
    )*};
}

alignments!(Align1 1, Align2 2, Align4 4, Align8 8, Align16 16, Align32 32, Align64 64, Align128 128);
