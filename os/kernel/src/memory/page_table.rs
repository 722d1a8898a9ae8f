//! Sv39 page tables: three levels, 512 entries each.
use super::frame::Frame;
use super::{OutOfMemory, PAGE_SIZE};
use bitflags::bitflags;
use core::cell::Cell;
use core::convert::Infallible;
use core::ops::Range;

bitflags! {
    /// The low bits of a page-table entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Flags: usize {
        /// The entry means something.
        const VALID = 1 << 0;
        /// May be read.
        const READ = 1 << 1;
        /// May be written.
        const WRITE = 1 << 2;
        /// May be executed.
        const EXECUTE = 1 << 3;
        /// Belongs to user mode.
        const USER = 1 << 4;
        /// In every address space.
        const GLOBAL = 1 << 5;
        /// Set beforehand, so that hardware that does not set them need not trap.
        const ACCESSED_DIRTY = 1 << 6 | 1 << 7;
        /// Software: the frame belongs to this page table and is released with it.
        const OWNED = 1 << 8;
        /// Software: copies of the address space have the same frame.
        const SHARED = 1 << 9;
    }
}

impl Flags {
    const LEAF: Flags = Flags::READ.union(Flags::WRITE).union(Flags::EXECUTE);
}

/// One entry of a page table.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Entry(usize);

impl Entry {
    fn new(address: usize, flags: Flags) -> Entry {
        Entry(address >> 12 << 10 | (flags | Flags::VALID).bits())
    }

    /// Returns the physical address of the page or of the next table.
    pub(crate) fn address(self) -> usize {
        self.0 >> 10 << 12 & ((1 << 56) - 1)
    }

    /// Returns the low bits.
    pub(crate) fn flags(self) -> Flags {
        Flags::from_bits_truncate(self.0)
    }

    fn is_valid(self) -> bool {
        self.flags().contains(Flags::VALID)
    }

    fn is_leaf(self) -> bool {
        self.flags().intersects(Flags::LEAF)
    }
}

type Table = [Entry; 512];

/// A page table.
///
/// The tables below the root and the frames marked [`Flags::OWNED`] in the lower half belong to it.
#[derive(Debug)]
pub(crate) struct PageTable {
    root: Frame,
    /// The lowest table that was found last, and the addresses divided by 2 MiB that it is for.
    ///
    /// Tables stay until the whole goes. A walk saved is two translations fewer that the hart has
    /// to find, right after a trap emptied its buffers.
    recent: Cell<(usize, *mut Table)>,
}

// SAFETY: the pointer is to a table that belongs to the page table, and is used by the holder of
// that.
unsafe impl Send for PageTable {}
// SAFETY: shared between harts only where nothing is looked up (the kernel's) or under a lock.
unsafe impl Sync for PageTable {}

const fn index(address: usize, level: usize) -> usize {
    address >> (12 + 9 * level) & 511
}

/// Half of the root's entries, because the lower half of the address space belongs to user mode.
const USER_ENTRIES: usize = 256;

impl PageTable {
    /// Makes an empty table.
    ///
    /// # Errors
    /// When no frame is free.
    pub(crate) fn new() -> Result<PageTable, OutOfMemory> {
        Ok(PageTable {
            root: Frame::zeroed()?,
            recent: Cell::new((usize::MAX, core::ptr::null_mut())),
        })
    }

    /// Returns the physical address of the root.
    pub(crate) fn root(&self) -> usize {
        self.root.address()
    }

    fn table(&self, address: usize) -> *mut Table {
        address as *mut Table
    }

    /// Returns the entry of `address` at `level`, with the tables above it.
    ///
    /// Returns `None` where a table is missing or a large page lies.
    fn find(&self, address: usize, level: usize) -> Option<*mut Entry> {
        let region = address >> 21;
        if level == 0 && self.recent.get().0 == region {
            // SAFETY: the table has been found for this region, and stays.
            return Some(unsafe { &raw mut (*self.recent.get().1)[index(address, 0)] });
        }
        let mut table = self.table(self.root.address());
        for above in (level + 1..3).rev() {
            // SAFETY: `table` is the root or came from a valid entry of this page table.
            let entry = unsafe { (*table)[index(address, above)] };
            if !entry.is_valid() || entry.is_leaf() {
                return None;
            }
            table = self.table(entry.address());
        }
        if level == 0 {
            self.recent.set((region, table));
        }
        // SAFETY: as above.
        Some(unsafe { &raw mut (*table)[index(address, level)] })
    }

    fn find_or_create(&mut self, address: usize, level: usize) -> Result<*mut Entry, OutOfMemory> {
        let mut table = self.table(self.root.address());
        for above in (level + 1..3).rev() {
            // SAFETY: `table` is the root or came from a valid entry of this page table, borrowed
            // exclusively.
            let entry = unsafe { &mut (*table)[index(address, above)] };
            if !entry.is_valid() {
                *entry = Entry::new(Frame::zeroed()?.into_address(), Flags::empty());
            }
            assert!(!entry.is_leaf(), "a large page lies at {address:#x}");
            table = self.table(entry.address());
        }
        // SAFETY: as above.
        Ok(unsafe { &raw mut (*table)[index(address, level)] })
    }

    /// Returns the entry of the 4 KiB page of `address`, if one is mapped there.
    pub(crate) fn lookup(&self, address: usize) -> Option<Entry> {
        // SAFETY: `find` returns places inside tables of this page table.
        let entry = unsafe { *self.find(address, 0)? };
        entry.is_valid().then_some(entry)
    }

    /// Maps the 4 KiB page `page` to `frame`.
    ///
    /// # Errors
    /// When no frame is left for a table.
    ///
    /// # Panics
    /// When something is mapped there already.
    pub(crate) fn map(
        &mut self,
        page: usize,
        frame: usize,
        flags: Flags,
    ) -> Result<(), OutOfMemory> {
        self.map_large(page, frame, flags, 0)
    }

    fn map_large(
        &mut self,
        page: usize,
        frame: usize,
        flags: Flags,
        level: usize,
    ) -> Result<(), OutOfMemory> {
        let entry = self.find_or_create(page, level)?;
        // SAFETY: `find_or_create` returns places inside tables of this page table, borrowed
        // exclusively.
        unsafe {
            assert!(
                !(*entry).is_valid(),
                "a page is mapped at {page:#x} already"
            );
            *entry = Entry::new(frame, flags | Flags::ACCESSED_DIRTY);
        }
        Ok(())
    }

    /// Maps every page of `range` at its own address, with the largest pages that fit.
    ///
    /// # Errors
    /// When no frame is left for a table.
    pub(crate) fn map_identity(
        &mut self,
        range: Range<usize>,
        flags: Flags,
    ) -> Result<(), OutOfMemory> {
        let mut address = range.start;
        while address < range.end {
            let fits = |level: &usize| {
                let size = PAGE_SIZE << (9 * level);
                address.is_multiple_of(size) && address + size <= range.end
            };
            let level = [2, 1, 0].into_iter().find(fits).unwrap_or(0);
            self.map_large(address, address, flags, level)?;
            address += PAGE_SIZE << (9 * level);
        }
        Ok(())
    }

    /// Takes away the page at `page`, if there is one.
    pub(crate) fn unmap(&mut self, page: usize) -> Option<Unmapped> {
        let place = self.find(page, 0)?;
        // SAFETY: `find` returns places inside tables of this page table, borrowed exclusively.
        let entry = unsafe { place.replace(Entry(0)) };
        entry.is_valid().then_some(Unmapped(entry))
    }

    /// Makes the root's last entry, under which the trampoline lies, the same as `other`'s.
    ///
    /// It does not belong to `self`.
    pub(crate) fn share_top(&mut self, other: &PageTable) {
        self.share(other, usize::MAX);
    }

    /// Makes all tables for `range`, so that mapping something there needs no frame for one.
    ///
    /// # Errors
    /// When no frame is left.
    pub(crate) fn prepare(&mut self, range: Range<usize>) -> Result<(), OutOfMemory> {
        for page in range.step_by(PAGE_SIZE << 9) {
            self.find_or_create(page, 0)?;
        }
        Ok(())
    }

    /// Makes the gigabyte at `start` the same as `other`'s.
    ///
    /// What is mapped there in one from now on is there in both. Its tables stay for ever.
    pub(crate) fn share(&mut self, other: &PageTable, start: usize) {
        let at = index(start, 2);
        // SAFETY: both roots are frames of their page tables; `self` is borrowed exclusively.
        unsafe { (*self.table(self.root()))[at] = (*other.table(other.root()))[at] };
    }

    /// Calls `visit` for each 4 KiB page of user mode from `start` on with its address, until the
    /// budget is used up.
    ///
    /// Each page and each table takes one of the budget, which is 3 at least. Returns where to go
    /// on, or `None` behind the last page.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub(crate) fn visit_pages<E>(
        &self,
        start: usize,
        mut budget: usize,
        mut visit: impl FnMut(usize, Entry) -> Result<(), E>,
    ) -> Result<Option<usize>, E> {
        // SAFETY: the root belongs to this page table, and so does each table that a valid entry
        // points to.
        let table = |address: usize| unsafe { &*self.table(address) };
        let mut spend = |at: usize| {
            budget = budget.checked_sub(1).ok_or(Stop::At(at.max(start)))?;
            Ok(())
        };
        let visited = for_each_table(&table(self.root())[..USER_ENTRIES], |upper, middle| {
            let upper = upper << 30;
            if upper + (1 << 30) <= start {
                return Ok(());
            }
            spend(upper)?;
            for_each_table(table(middle), |middle, lower| {
                let middle = upper | middle << 21;
                if middle + (1 << 21) <= start {
                    return Ok(());
                }
                spend(middle)?;
                for_each_valid(table(lower), |lower, entry| {
                    let page = middle | lower << 12;
                    if page < start {
                        return Ok(());
                    }
                    spend(page)?;
                    visit(page, entry).map_err(Stop::Failed)
                })
            })
        });
        match visited {
            Ok(()) => Ok(None),
            Err(Stop::At(page)) => Ok(Some(page)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Releases a bounded part of what user mode's half has: tables and the frames that belong to
    /// them.
    ///
    /// Returns whether there may be more. Nothing is looked up in this page table any more.
    pub(crate) fn release_some(&mut self) -> bool {
        self.recent.set((usize::MAX, core::ptr::null_mut()));
        let mut left = TABLES_AT_ONCE;
        let root = self.table(self.root());
        let mut upper = 0;
        // SAFETY: all tables belong to this page table, which is borrowed exclusively; a reference
        // ends before its table is written.
        unsafe {
            while let Some(at) = next_valid(&(&*root)[..USER_ENTRIES], upper) {
                let middle = self.table((*root)[at].address());
                let mut from = 0;
                while let Some(at) = next_valid(&*middle, from) {
                    if left == 0 {
                        return true;
                    }
                    left -= 1;
                    let entry = core::mem::replace(&mut (*middle)[at], Entry(0));
                    if entry.is_leaf() {
                        release(entry);
                    } else {
                        release_table(entry.address(), 0);
                    }
                    from = at + 1;
                }
                (*root)[at] = Entry(0);
                drop(Frame::from_address(middle as usize));
                upper = at + 1;
            }
        }
        false
    }
}

/// Why a visit of pages ends early.
enum Stop<E> {
    /// The budget is used up; this page is next.
    At(usize),
    Failed(E),
}

/// How many of the lowest tables [`PageTable::release_some`] releases, with up to 512 frames each.
const TABLES_AT_ONCE: usize = 6;

/// Returns the index of the first valid entry from `from` on.
fn next_valid(entries: &[Entry], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(entry) = entries.get(at) {
        if entry.is_valid() {
            return Some(at);
        }
        at += 1;
        while at.is_multiple_of(LINE)
            && let Some(line) = entries.get(at..at + LINE)
            && line.iter().fold(0, |all, entry| all | entry.0) == 0
        {
            at += LINE;
        }
    }
    None
}

/// How many entries are checked together.
///
/// Most tables are nearly empty.
const LINE: usize = 8;

/// Calls `visit` for each valid entry with its index.
///
/// Takes about two instructions for an entry that is empty.
///
/// # Errors
/// The first error of `visit`.
#[inline]
fn for_each_valid<E>(
    entries: &[Entry],
    mut visit: impl FnMut(usize, Entry) -> Result<(), E>,
) -> Result<(), E> {
    let (lines, _) = entries.as_chunks::<LINE>();
    for (line, entries) in lines.iter().enumerate() {
        if entries.iter().fold(0, |all, entry| all | entry.0) == 0 {
            continue;
        }
        for (place, entry) in entries.iter().enumerate() {
            if entry.is_valid() {
                visit(line * LINE + place, *entry)?;
            }
        }
    }
    Ok(())
}

/// Calls `visit` for each entry that points to a table with its index and the table's address.
///
/// # Errors
/// The first error of `visit`.
#[inline]
fn for_each_table<E>(
    entries: &[Entry],
    mut visit: impl FnMut(usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    for_each_valid(entries, |place, entry| {
        if entry.is_leaf() {
            return Ok(());
        }
        visit(place, entry.address())
    })
}

/// What was mapped at a page.
///
/// Its frame, if it belonged to the page table, is released when this is dropped. That is when no
/// hart remembers the translation any more.
#[must_use = "harts may still remember the translation"]
pub(crate) struct Unmapped(Entry);

impl Unmapped {
    /// Tests whether its frame belonged to the page table.
    pub(crate) fn is_owned(&self) -> bool {
        self.0.flags().contains(Flags::OWNED)
    }
}

impl Drop for Unmapped {
    fn drop(&mut self) {
        release(self.0);
    }
}

/// Releases the frame of a leaf if it belongs to the page table.
fn release(entry: Entry) {
    if entry.flags().contains(Flags::VALID | Flags::OWNED) {
        // SAFETY: frames marked so were put here by `into_address`, and the entry is gone or goes
        // now.
        drop(unsafe { Frame::from_address(entry.address()) });
    }
}

/// Releases the table at `address`, all below it, and the frames that belong to it.
fn release_table(address: usize, level: usize) {
    // SAFETY: the table belongs to the page table that is being dropped; nothing else has it.
    let table = unsafe { Frame::from_address(address) };
    // SAFETY: a table is a frame full of entries.
    release_entries(unsafe { &*(table.address() as *const Table) }, level);
}

/// Releases what the entries of a table of this level point to.
fn release_entries(entries: &[Entry], level: usize) {
    let released: Result<(), Infallible> = for_each_valid(entries, |_, entry| {
        if level == 0 || entry.is_leaf() {
            release(entry);
        } else {
            release_table(entry.address(), level - 1);
        }
        Ok(())
    });
    let Ok(()) = released;
}

impl Drop for PageTable {
    fn drop(&mut self) {
        // SAFETY: the root is a frame full of entries.
        release_entries(
            unsafe { &(&*(self.root() as *const Table))[..USER_ENTRIES] },
            2,
        );
    }
}
