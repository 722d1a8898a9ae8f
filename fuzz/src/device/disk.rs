//! A disk in memory.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

pub(crate) const SECTOR: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    Flush,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskError {
    Failed,
    NoMemory,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for DiskError {}

/// The future answer to a request: its data.
pub(crate) struct Answer(Option<Result<Vec<u8>, DiskError>>);

impl Future for Answer {
    type Output = Result<Vec<u8>, DiskError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.take().map_or(Poll::Pending, Poll::Ready)
    }
}

pub(crate) struct Disk {
    pub(crate) sectors: u64,
    pub(crate) writable: bool,
    data: RefCell<Vec<u8>>,
    /// The requests that succeed before one fails.
    pub(crate) left: std::cell::Cell<u32>,
}

impl Disk {
    pub(crate) fn new(data: Vec<u8>) -> Self {
        Self {
            sectors: (data.len() / SECTOR) as u64,
            writable: true,
            data: RefCell::new(data),
            left: std::cell::Cell::new(u32::MAX),
        }
    }

    pub(crate) fn contents(&self) -> Vec<u8> {
        self.data.borrow().clone()
    }

    pub(crate) fn submit(&self, operation: Operation, sector: u64, mut data: Vec<u8>) -> Answer {
        let left = self.left.replace(self.left.get().saturating_sub(1));
        if left == 0 {
            self.left.set(u32::MAX);
            return Answer(Some(Err(DiskError::Failed)));
        }
        let served = self.serve(operation, sector, &mut data);
        Answer(Some(served.map(|()| data)))
    }

    fn serve(&self, operation: Operation, sector: u64, data: &mut [u8]) -> Result<(), DiskError> {
        assert!(data.len().is_multiple_of(SECTOR));
        if operation == Operation::Flush {
            return Ok(());
        }
        let first = usize::try_from(sector).map_err(|_| DiskError::Failed)?;
        let first = first.checked_mul(SECTOR).ok_or(DiskError::Failed)?;
        let end = first.checked_add(data.len()).ok_or(DiskError::Failed)?;
        let mut all = self.data.borrow_mut();
        let part = all.get_mut(first..end).ok_or(DiskError::Failed)?;
        match operation {
            Operation::Read => data.copy_from_slice(part),
            _ => part.copy_from_slice(data),
        }
        Ok(())
    }
}
