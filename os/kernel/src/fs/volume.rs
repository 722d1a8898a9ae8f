//! The operations on a mounted volume.
use super::blocks::Blocks;
use super::path::split;
use super::{Contents, DiskFile, Extension, Opening, Operation, Removal, Reply, Step};
use crate::device::calendar;
use crate::device::disk::{Disk, DiskError};
use crate::failure::{Failure, Result};
use crate::memory::account::{self, Account, Charge};
use crate::memory::{OutOfMemory, bulk};
use crate::pace::checkpoint;
use alloc::boxed::Box;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use corank_abi::error::{BUSY, EXISTS, INVALID, IS_A_DIRECTORY, NO_MEMORY};
use corank_abi::file::{DIRECTORY, DirectoryEntry, FILE, FileStatus, NAME_SIZE, Space};
use hadris_fat::CacheOptions;
use hadris_fat::async_::FatFs;
use hadris_fs::{
    Clock, DateTime, DirCursor, ErrorKind, Metadata, MountOptions, Name, NoClock, NodeId, OpenMode,
    RenameMode, Resolve, SetAttr,
};
use hadris_io::Error;

/// How many bytes of zeros a step writes.
const EXTENDED_AT_ONCE: u64 = 32 << 10;
/// How many bytes of a whole file a step reads.
const READ_AT_ONCE: usize = 64 << 10;
/// How many clusters a step releases at least.
///
/// A step of a long file releases an eighth of it. To find a file's end the driver walks its chain,
/// so small steps of a long file would take most of their time for that.
const RELEASED_AT_ONCE: u64 = 1024;
/// Places in the chains of files that are remembered.
const KEPT_PLACES: usize = 256;

/// A mounted volume.
///
/// The driver keeps the size of a file that is being written in memory until the file is closed,
/// and marks the volume as dirty from the first change on. So when no file is open for writing any
/// more, everything is written. Then the volume is whole on the disk, whatever happens to the
/// machine.
pub(super) struct Volume {
    fat: FatFs<Blocks>,
    /// How many files are open for writing.
    writers: usize,
    /// Something has changed since the volume was written.
    changed: bool,
    /// How often a file is open, of those that are.
    open: BTreeMap<NodeId, usize>,
    /// Files that are being removed, in steps.
    ///
    /// Nothing else is done with them.
    removing: BTreeSet<NodeId>,
}

impl From<Error<DiskError>> for Failure {
    fn from(error: Error<DiskError>) -> Failure {
        match error.device_error() {
            Some(DiskError::NoMemory) => Failure(NO_MEMORY),
            _ => Failure(-(error.kind().errno().linux() as isize)),
        }
    }
}

/// Stamps what changes with the date.
struct Calendar;

impl Clock for Calendar {
    fn now(&self) -> DateTime {
        calendar::seconds()
            .and_then(|seconds| DateTime::from_unix_seconds(seconds.try_into().ok()?).ok())
            .unwrap_or(NoClock::TIME)
    }
}

impl Volume {
    /// Mounts what is on the disk.
    ///
    /// Says so and returns `None` if that is no FAT file system.
    pub(super) async fn mount(disk: &'static Disk) -> Option<Volume> {
        let options = MountOptions::new().with_clock(&Calendar);
        match FatFs::mount(Blocks::new(disk), options).await {
            Ok(fat) => {
                // The driver's value is large, and is moved some times.
                checkpoint().await;
                let cache = CacheOptions::new()
                    .with_blocks(0)
                    .with_chain_positions(KEPT_PLACES);
                Some(Volume {
                    fat: fat.with_cache(cache),
                    writers: 0,
                    changed: false,
                    open: BTreeMap::new(),
                    removing: BTreeSet::new(),
                })
            }
            Err(error) => {
                crate::println!("corank: no file system on the disk: {}", error.error());
                None
            }
        }
    }

    /// Performs one step of an operation, then writes the volume if no file is open for writing.
    ///
    /// # Errors
    /// What the driver says. The volume is then as before, as far as the disk allows.
    pub(super) async fn perform(&mut self, operation: Operation) -> Result<Step> {
        let before = core::mem::replace(&mut self.changed, false);
        let step = self.perform_only(operation).await;
        let now = core::mem::replace(&mut self.changed, true);
        if self.writers == 0 && (now || before) {
            let synced = self.sync().await;
            // An earlier change that still cannot be written is no failure of an operation that
            // only reads.
            if now {
                synced?;
            }
        } else {
            self.changed = now || before;
        }
        step
    }

    async fn perform_only(&mut self, operation: Operation) -> Result<Step> {
        match operation {
            Operation::Open(path, how, charge) => {
                let file = self.open(&path, how, charge).await?;
                if how.truncate {
                    return self.empty(file).await;
                }
                Ok(Step::Done(Reply::File(file)))
            }
            Operation::Empty(file) => self.empty(file).await,
            Operation::Truncate(file, wanted) => self.truncate(file, wanted).await,
            Operation::Write(file, data) => self.write(file, data).await,
            Operation::Extend(extension) => self.extend(extension).await,
            Operation::ReadAll(path, limit, account) => {
                let node = self.find(&path).await?;
                let begun = self.begin_contents(node, limit, &account).await;
                self.forget_if_failed(node, begun)
            }
            Operation::ReadMore(contents) => {
                let node = contents.node;
                let read = self.read_more(contents).await;
                self.forget_if_failed(node, read)
            }
            Operation::Remove(path, directory) => self.remove(&path, directory).await,
            Operation::RemoveMore(removal) => self.remove_more(removal).await,
            operation => self.perform_whole(operation).await.map(Step::Done),
        }
    }

    /// Forgets a node that a step needs no more, since it has failed.
    fn forget_if_failed(&mut self, node: NodeId, step: Result<Step>) -> Result<Step> {
        if step.is_err() {
            self.fat.forget(node, 1);
        }
        step
    }

    /// Cuts a file off or extends it, in steps if that is long.
    async fn truncate(&mut self, file: Arc<DiskFile>, wanted: u64) -> Result<Step> {
        let length = self.fat.stat(file.node).await?.len();
        if self.is_long(length, wanted).await? {
            return self
                .extend(Extension {
                    file,
                    before: length,
                    length,
                    wanted,
                    data: None,
                })
                .await;
        }
        self.changed = true;
        let next = self.next_length(length, wanted);
        self.fat.truncate(file.node, next).await?;
        Ok(if next == wanted {
            Step::Done(Reply::Done)
        } else {
            Step::More(Operation::Truncate(file, wanted))
        })
    }

    /// Returns how long a file is after the next step towards a length.
    ///
    /// It is shortened from its end, so that what is left is a file at each moment. The file's
    /// chain is then as long as its entry says.
    fn next_length(&self, length: u64, wanted: u64) -> u64 {
        let least = RELEASED_AT_ONCE * u64::from(self.fat.info().cluster_size());
        wanted.max(length.saturating_sub(least.max(length / 8)))
    }

    /// Makes a file empty that has just been opened, in steps if it is long.
    async fn empty(&mut self, file: DiskFile) -> Result<Step> {
        self.changed = true;
        let length = self.fat.stat(file.node).await?.len();
        let next = self.next_length(length, 0);
        self.fat.truncate(file.node, next).await?;
        Ok(if next == 0 {
            Step::Done(Reply::File(file))
        } else {
            Step::More(Operation::Empty(file))
        })
    }

    /// Tests whether a file that is extended so is extended in steps.
    ///
    /// One for which there is no room is refused by the driver, at once.
    async fn is_long(&mut self, length: u64, wanted: u64) -> Result<bool> {
        if wanted <= length + EXTENDED_AT_ONCE || wanted > u32::MAX.into() {
            return Ok(false);
        }
        let space = self.fat.statfs().await?;
        let free = space.free_blocks() * u64::from(space.block_size());
        Ok(wanted - length <= free)
    }

    /// Extends a file by one step.
    ///
    /// When there is no room, the file is as long as before in the end, unless others have extended
    /// it.
    async fn extend(&mut self, mut extension: Extension) -> Result<Step> {
        self.changed = true;
        let node = extension.file.node;
        let length = self.fat.stat(node).await?.len();
        if length < extension.wanted {
            let next = extension.wanted.min(length + EXTENDED_AT_ONCE);
            if let Err(error) = self.fat.truncate(node, next).await {
                if length == extension.length {
                    self.fat.truncate(node, extension.before).await?;
                }
                return Err(error.into());
            }
            extension.length = next;
            if next < extension.wanted {
                return Ok(Step::More(Operation::Extend(extension)));
            }
        }
        Ok(match extension.data {
            Some(data) => Step::More(Operation::Write(extension.file, data)),
            None => Step::Done(Reply::Done),
        })
    }

    async fn perform_whole(&mut self, operation: Operation) -> Result<Reply> {
        match operation {
            Operation::Read(file, length) => self.read(&file, length).await.map(Reply::Data),
            Operation::Status(path) => {
                let node = self.find(&path).await?;
                let status = self.status(node).await;
                self.fat.forget(node, 1);
                status
            }
            Operation::StatusOf(file) => self.status(file.node).await,
            Operation::Entry(path, place) => {
                let directory = self.find(&path).await?;
                let entry = self.entry(directory, place).await;
                self.fat.forget(directory, 1);
                entry.map(Reply::Entry)
            }
            Operation::MakeDirectory(path) => {
                self.changed = true;
                let (parent, name) = self.parent(&path, EXISTS).await?;
                let made = self.fat.mkdir(parent, name, &SetAttr::new()).await;
                self.fat.forget(parent, 1);
                self.fat.forget(made?, 1);
                Ok(Reply::Done)
            }
            Operation::Rename(from, to) => self.rename(&from, &to).await,
            Operation::Close(node, was_written) => {
                let closed = self.fat.close(node).await;
                self.fat.forget(node, 1);
                self.note_closed(node);
                self.writers -= usize::from(was_written);
                self.changed |= was_written;
                closed?;
                Ok(Reply::Done)
            }
            Operation::Sync => {
                self.sync().await?;
                Ok(Reply::Done)
            }
            Operation::Space => {
                let space = self.fat.statfs().await?;
                Ok(Reply::Space(Space {
                    block_size: space.block_size().into(),
                    blocks: space.total_blocks(),
                    free: space.free_blocks(),
                }))
            }
            // Performed in steps.
            _ => Err(Failure(INVALID)),
        }
    }

    fn note_closed(&mut self, node: NodeId) {
        if let Entry::Occupied(mut times) = self.open.entry(node) {
            *times.get_mut() -= 1;
            if *times.get() == 0 {
                times.remove();
            }
        }
    }

    /// Fails for a file that is being removed.
    fn check_is_free(&self, node: NodeId) -> Result<()> {
        if self.removing.contains(&node) {
            return Err(Failure(BUSY));
        }
        Ok(())
    }

    async fn sync(&mut self) -> Result<()> {
        self.fat.sync().await?;
        self.changed = false;
        Ok(())
    }

    /// Returns the node of a path, which the caller has to forget.
    async fn find(&mut self, path: &str) -> Result<NodeId> {
        Ok(self.fat.resolve(path.as_bytes(), Resolve::Lexical).await?)
    }

    /// Returns the node of the directory that the path lies in, and the name there.
    ///
    /// The caller has to forget the node. The root lies nowhere and gives `root` as the error.
    async fn parent<'p>(&mut self, path: &'p str, root: isize) -> Result<(NodeId, &'p Name)> {
        let (directory, name) = split(path).ok_or(Failure(root))?;
        Ok((self.find(directory).await?, Name::new(name)))
    }

    async fn open(&mut self, path: &str, how: Opening, charge: Charge) -> Result<DiskFile> {
        let (parent, name) = self.parent(path, IS_A_DIRECTORY).await?;
        let node = self.find_or_create(parent, name, how).await;
        self.fat.forget(parent, 1);
        let node = node?;
        let mode = if how.write {
            OpenMode::Write
        } else {
            OpenMode::Read
        };
        let mut opened = self.check_is_free(node);
        if opened.is_ok() {
            opened = self.fat.open(node, mode).await.map_err(Failure::from);
        }
        if let Err(failure) = opened {
            self.fat.forget(node, 1);
            return Err(failure);
        }
        *self.open.entry(node).or_default() += 1;
        self.writers += usize::from(how.write);
        Ok(DiskFile::new(node, how, charge))
    }

    async fn find_or_create(
        &mut self,
        parent: NodeId,
        name: &Name,
        how: Opening,
    ) -> Result<NodeId> {
        match self.fat.lookup(parent, name).await {
            Ok(node) if how.create && how.exclusive => {
                self.fat.forget(node, 1);
                Err(Failure(EXISTS))
            }
            Ok(node) => Ok(node),
            Err(error) if error.kind() == ErrorKind::NotFound && how.create => {
                self.changed = true;
                Ok(self.fat.create(parent, name, &SetAttr::new()).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn read(&mut self, file: &DiskFile, length: usize) -> Result<Vec<u8>> {
        let at = *file.position.lock();
        let data = self.read_at(file.node, at, length).await?;
        *file.position.lock() = at + data.len() as u64;
        Ok(data)
    }

    async fn read_at(&mut self, node: NodeId, at: u64, length: usize) -> Result<Vec<u8>> {
        let mut data = account::buffer(length).map_err(|_| Failure(NO_MEMORY))?;
        let count = self.fat.read(node, at, &mut data).await?;
        data.truncate(count);
        Ok(data)
    }

    /// Begins to read a whole file of at most `limit` bytes.
    ///
    /// Reserves them, and reads the first piece.
    async fn begin_contents(
        &mut self,
        node: NodeId,
        limit: usize,
        account: &Arc<Account>,
    ) -> Result<Step> {
        self.check_is_free(node)?;
        let length = self.fat.stat(node).await?.len();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > limit {
            return Err(Failure(NO_MEMORY));
        }
        let no_memory = |OutOfMemory| Failure(NO_MEMORY);
        let charge = account::charge(account, length).map_err(no_memory)?;
        let mut data = Vec::new();
        account::make_room(&mut data, length).map_err(no_memory)?;
        self.read_more(Contents {
            node,
            length,
            data,
            charge,
        })
        .await
    }

    /// Reads the next piece of a whole file.
    ///
    /// What the driver and the disk need beside the file's own bytes does not grow with it. A file
    /// that others write to meanwhile may come in parts of different ages.
    async fn read_more(&mut self, mut contents: Contents) -> Result<Step> {
        let Contents { node, length, .. } = contents;
        let before = contents.data.len();
        let piece = READ_AT_ONCE.min(length - before);
        bulk::append_zeros(&mut contents.data, piece);
        let count = self
            .fat
            .read(node, before as u64, &mut contents.data[before..])
            .await?;
        contents.data.truncate(before + count);
        if count == piece && before + count < length {
            return Ok(Step::More(Operation::ReadMore(contents)));
        }
        self.fat.forget(node, 1);
        Ok(Step::Done(Reply::Contents(contents.data, contents.charge)))
    }

    /// Writes at the file's position.
    ///
    /// A gap in front of that is filled with zeros first, in steps if it is long.
    async fn write(&mut self, file: Arc<DiskFile>, data: Vec<u8>) -> Result<Step> {
        let length = self.fat.stat(file.node).await?.len();
        let at = if file.append {
            length
        } else {
            *file.position.lock()
        };
        if self.is_long(length, at).await? {
            return self
                .extend(Extension {
                    file,
                    before: length,
                    length,
                    wanted: at,
                    data: Some(data),
                })
                .await;
        }
        self.changed = true;
        let count = self.fat.write(file.node, at, &data).await?;
        *file.position.lock() = at + count as u64;
        Ok(Step::Done(Reply::Count(count)))
    }

    /// Removes a file or an empty directory.
    ///
    /// A long file is removed in steps.
    async fn remove(&mut self, path: &str, directory: bool) -> Result<Step> {
        self.changed = true;
        let (parent, name) = self.parent(path, INVALID).await?;
        let long = if directory {
            let removed = self.fat.rmdir(parent, name).await;
            removed.map(|()| None).map_err(Failure::from)
        } else {
            self.remove_if_short(parent, name).await
        };
        match long {
            Ok(Some(node)) => {
                // So the driver puts no other file in its place.
                self.fat.open(node, OpenMode::Write).await?;
                self.removing.insert(node);
                let name = name.as_bytes().to_vec();
                self.remove_more(Removal { parent, name, node }).await
            }
            other => {
                self.fat.forget(parent, 1);
                other.map(|_| Step::Done(Reply::Done))
            }
        }
    }

    /// Removes a file, unless it is long.
    ///
    /// Returns the node of a long file.
    async fn remove_if_short(&mut self, parent: NodeId, name: &Name) -> Result<Option<NodeId>> {
        let node = self.fat.lookup(parent, name).await?;
        let long = self.is_removed_in_steps(node).await;
        if long == Ok(true) {
            return Ok(Some(node));
        }
        self.fat.forget(node, 1);
        long?;
        self.fat.unlink(parent, name).await?;
        Ok(None)
    }

    /// Tests whether a node is removed in steps.
    ///
    /// What must not be removed is left to the driver, which says why.
    async fn is_removed_in_steps(&mut self, node: NodeId) -> Result<bool> {
        self.check_is_free(node)?;
        let known = self.fat.stat(node).await?;
        Ok(!known.file_type().is_dir()
            && !self.open.contains_key(&node)
            && self.next_length(known.len(), 0) > 0)
    }

    /// Makes a file shorter that is being removed, or removes what is left of it.
    ///
    /// If the power fails between two steps, the file is there and shorter, and the volume is
    /// whole, with no cluster lost. Within a step what holds is what the driver says: clusters that
    /// nothing refers to any more may be lost, those of this step alone.
    async fn remove_more(&mut self, removal: Removal) -> Result<Step> {
        self.changed = true;
        let is_removed = self.shorten_or_unlink(&removal).await;
        if is_removed == Ok(false) {
            return Ok(Step::More(Operation::RemoveMore(removal)));
        }
        self.fat.forget(removal.parent, 1);
        is_removed.map(|_| Step::Done(Reply::Done))
    }

    /// Returns whether nothing is left of the file.
    async fn shorten_or_unlink(&mut self, removal: &Removal) -> Result<bool> {
        let shortened = self.shorten(removal.node).await;
        if shortened == Ok(true) {
            return Ok(false);
        }
        self.removing.remove(&removal.node);
        let closed = self.fat.close(removal.node).await;
        self.fat.forget(removal.node, 1);
        shortened?;
        closed?;
        let name = Name::new(&removal.name);
        self.fat.unlink(removal.parent, name).await?;
        Ok(true)
    }

    /// Makes a file shorter by a step.
    ///
    /// Returns false, and does nothing, if no more is left of it than a step takes.
    async fn shorten(&mut self, node: NodeId) -> Result<bool> {
        let length = self.fat.stat(node).await?.len();
        let next = self.next_length(length, 0);
        if next > 0 {
            self.fat.truncate(node, next).await?;
        }
        Ok(next > 0)
    }

    async fn status(&mut self, node: NodeId) -> Result<Reply> {
        let metadata = self.fat.stat(node).await?;
        Ok(Reply::Status(status(node, &metadata)))
    }

    async fn entry(
        &mut self,
        directory: NodeId,
        place: u64,
    ) -> Result<Option<Box<DirectoryEntry>>> {
        let cursor = DirCursor::from_raw(place);
        let Some(found) = self.fat.readdir(directory, cursor).await? else {
            return Ok(None);
        };
        let mut entry = Box::new(DirectoryEntry {
            next: found.next_cursor().into_raw(),
            status: status(found.node(), found.metadata()),
            name_length: 0,
            name: [0; NAME_SIZE],
        });
        let name = found.name().as_bytes();
        entry.name[..name.len()].copy_from_slice(name);
        entry.name_length = name.len() as u64;
        Ok(Some(entry))
    }

    async fn rename(&mut self, from: &str, to: &str) -> Result<Reply> {
        self.changed = true;
        if !self.removing.is_empty() {
            let node = self.find(from).await?;
            self.fat.forget(node, 1);
            self.check_is_free(node)?;
        }
        let (from_parent, from_name) = self.parent(from, INVALID).await?;
        let to_parent = self.parent(to, INVALID).await;
        let renamed = match to_parent {
            Ok((to_parent, to_name)) => {
                let renamed = self
                    .fat
                    .rename(
                        from_parent,
                        from_name,
                        to_parent,
                        to_name,
                        RenameMode::Replace,
                    )
                    .await;
                self.fat.forget(to_parent, 1);
                renamed.map_err(Failure::from)
            }
            Err(failure) => Err(failure),
        };
        self.fat.forget(from_parent, 1);
        renamed.map(|()| Reply::Done)
    }
}

fn status(node: NodeId, metadata: &Metadata) -> FileStatus {
    FileStatus {
        number: node.get(),
        size: metadata.len(),
        modified: metadata.modified().map_or(0, |time| time.unix_seconds()),
        kind: if metadata.file_type().is_dir() {
            DIRECTORY
        } else {
            FILE
        },
    }
}
