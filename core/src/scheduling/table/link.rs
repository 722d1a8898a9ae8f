//! How blocks of one table refer to each other.

use crate::scheduling::table::block::BlockRef;

/// A block, or none, in 32 bits on every target.
///
/// It is the index or, where a pointer is no wider, the pointer, which spares the look-up in the
/// directory.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Link(Target);

#[cfg(target_pointer_width = "64")]
type Target = u32;
#[cfg(not(target_pointer_width = "64"))]
type Target = Option<BlockRef>;

#[cfg(target_pointer_width = "64")]
impl Link {
    pub(crate) const NONE: Self = Self(crate::scheduling::table::block::NONE);

    #[inline]
    pub(crate) fn to(block: BlockRef) -> Self {
        Self(block.index())
    }

    /// Returns the block; `find` looks indices up.
    ///
    /// The result is meaningless for [`NONE`](Self::NONE).
    #[inline]
    pub(crate) fn follow(self, find: impl FnOnce(u32) -> BlockRef) -> BlockRef {
        find(self.0)
    }
}

#[cfg(not(target_pointer_width = "64"))]
impl Link {
    pub(crate) const NONE: Self = Self(None);

    #[inline]
    pub(crate) fn to(block: BlockRef) -> Self {
        Self(Some(block))
    }

    /// Returns the block; `find` looks indices up.
    ///
    /// Not for [`NONE`](Self::NONE).
    #[inline]
    pub(crate) fn follow(self, _find: impl FnOnce(u32) -> BlockRef) -> BlockRef {
        match self.0 {
            Some(block) => block,
            None => unreachable!("a link that leads nowhere was followed"),
        }
    }
}
