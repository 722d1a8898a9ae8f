//! The operations on a mounted volume.
use super::blocks::Blocks;
use super::path::split;
use super::{Extension, Failure, Opening, Operation, Reply, Result, Step};
use crate::device::calendar;
use crate::device::disk::{Disk, DiskError};
use crate::file::disk::{DiskFile, LARGEST};
use crate::memory::OutOfMemory;
use crate::memory::account::{self, Account, Charge};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use corank_abi::error::{EXISTS, INVALID, IS_A_DIRECTORY, NO_MEMORY};
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
/// Sectors of tables and directories that are kept in memory.
const KEPT_SECTORS: usize = 256;
/// Places in the chains of files that are remembered.
const KEPT_PLACES: usize = 256;

/// A mounted volume.
///
/// The driver keeps the size of a file that is being written in memory until the file is closed, and marks the volume as dirty from
/// the first change on. So when no file is open for writing any more, everything is written: then the volume is whole on the
/// disk, whatever happens to the machine.
pub(super) struct Volume {
    fat: FatFs<Blocks>,
    /// How many files are open for writing.
    writers: usize,
    /// Something has changed since the volume was written.
    changed: bool,
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
    /// Mounts what is on the disk; says so and gives `None` if that is no FAT file system.
    pub(super) async fn mount(disk: &'static Disk) -> Option<Volume> {
        let options = MountOptions::new().with_clock(&Calendar);
        match FatFs::mount(Blocks(disk), options).await {
            Ok(fat) => {
                let cache = CacheOptions::new()
                    .with_blocks(KEPT_SECTORS)
                    .with_chain_positions(KEPT_PLACES);
                Some(Volume {
                    fat: fat.with_cache(cache),
                    writers: 0,
                    changed: false,
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
            // An earlier change that still cannot be written is no failure of an operation that only reads.
            if now {
                synced?;
            }
        } else {
            self.changed = now || before;
        }
        step
    }

    async fn perform_only(&mut self, operation: Operation) -> Result<Step> {
        let operation = match operation {
            Operation::Truncate(file, wanted) => {
                let length = self.fat.stat(file.node).await?.len();
                if !self.is_long(length, wanted).await? {
                    self.changed = true;
                    self.fat.truncate(file.node, wanted).await?;
                    return Ok(Step::Done(Reply::Done));
                }
                Operation::Extend(Extension {
                    file,
                    before: length,
                    length,
                    wanted,
                    data: None,
                })
            }
            Operation::Write(file, data) if !file.append => {
                let length = self.fat.stat(file.node).await?.len();
                let at = *file.position.lock();
                // The driver fills a gap with zeros.
                if self.is_long(length, at).await? {
                    Operation::Extend(Extension {
                        file,
                        before: length,
                        length,
                        wanted: at,
                        data: Some(data),
                    })
                } else {
                    Operation::Write(file, data)
                }
            }
            operation => operation,
        };
        match operation {
            Operation::Extend(extension) => self.extend(extension).await,
            operation => self.perform_whole(operation).await.map(Step::Done),
        }
    }

    /// Whether a file that is extended so is extended in steps. One for which there is no room is refused by the driver, at once.
    async fn is_long(&mut self, length: u64, wanted: u64) -> Result<bool> {
        if wanted <= length + EXTENDED_AT_ONCE || wanted > u32::MAX.into() {
            return Ok(false);
        }
        let space = self.fat.statfs().await?;
        let free = space.free_blocks() * u64::from(space.block_size());
        Ok(wanted - length <= free)
    }

    /// Extends a file by one step. When there is no room, the file is as long as before in the end, unless others have extended it.
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
            Operation::Open(path, how, charge) => {
                let opened = self.open(&path, how, charge).await;
                opened.map(Reply::File)
            }
            Operation::Read(file, length) => self.read(&file, length).await.map(Reply::Data),
            Operation::Write(file, data) => self.write(&file, &data).await.map(Reply::Count),
            Operation::Truncate(..) | Operation::Extend(_) => Err(Failure(INVALID)),
            Operation::Status(path) => {
                let node = self.find(&path).await?;
                let status = self.status(node).await;
                self.fat.forget(node, 1);
                status
            }
            Operation::StatusOf(file) => self.status(file.node).await,
            Operation::ReadAll(path, limit, account) => {
                let node = self.find(&path).await?;
                let contents = self.read_all(node, limit, &account).await;
                self.fat.forget(node, 1);
                let (data, charge) = contents?;
                Ok(Reply::Contents(data, charge))
            }
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
            Operation::Remove(path, directory) => {
                self.changed = true;
                let (parent, name) = self.parent(&path, INVALID).await?;
                let removed = if directory {
                    self.fat.rmdir(parent, name).await
                } else {
                    self.fat.unlink(parent, name).await
                };
                self.fat.forget(parent, 1);
                removed?;
                Ok(Reply::Done)
            }
            Operation::Rename(from, to) => self.rename(&from, &to).await,
            Operation::Close(node, was_written) => {
                let closed = self.fat.close(node).await;
                self.fat.forget(node, 1);
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
        }
    }

    async fn sync(&mut self) -> Result<()> {
        self.fat.sync().await?;
        self.changed = false;
        Ok(())
    }

    /// The node of a path, which the caller has to forget.
    async fn find(&mut self, path: &str) -> Result<NodeId> {
        Ok(self.fat.resolve(path.as_bytes(), Resolve::Lexical).await?)
    }

    /// The node of the directory that the path lies in, which the caller has to forget, and the name there. The root lies nowhere
    /// and gives `root` as the error.
    async fn parent<'p>(&mut self, path: &'p str, root: isize) -> Result<(NodeId, &'p Name)> {
        let (directory, name) = split(path).ok_or(Failure(root))?;
        Ok((self.find(directory).await?, Name::new(name)))
    }

    async fn open(&mut self, path: &str, how: Opening, charge: Charge) -> Result<DiskFile> {
        let (parent, name) = self.parent(path, IS_A_DIRECTORY).await?;
        let node = self.find_or_create(parent, name, how).await;
        self.fat.forget(parent, 1);
        let node = node?;
        if let Err(failure) = self.open_node(node, how).await {
            self.fat.forget(node, 1);
            return Err(failure);
        }
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

    async fn open_node(&mut self, node: NodeId, how: Opening) -> Result<()> {
        let mode = if how.write {
            OpenMode::Write
        } else {
            OpenMode::Read
        };
        self.fat.open(node, mode).await?;
        if how.truncate {
            self.changed = true;
            if let Err(error) = self.fat.truncate(node, 0).await {
                self.fat.close(node).await?;
                return Err(error.into());
            }
        }
        Ok(())
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

    /// Reads a file of at most `limit` bytes, a piece at a time: what the driver and the disk need beside the file's own bytes does not
    /// grow with it.
    async fn read_all(
        &mut self,
        node: NodeId,
        limit: usize,
        account: &Arc<Account>,
    ) -> Result<(Vec<u8>, Charge)> {
        let length = self.fat.stat(node).await?.len();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > limit {
            return Err(Failure(NO_MEMORY));
        }
        let no_memory = |OutOfMemory| Failure(NO_MEMORY);
        let charge = account::charge(account, length).map_err(no_memory)?;
        let mut data = account::buffer(length).map_err(no_memory)?;
        let mut read = 0;
        for piece in data.chunks_mut(LARGEST) {
            let count = self.fat.read(node, read as u64, piece).await?;
            read += count;
            if count < piece.len() {
                break;
            }
        }
        data.truncate(read);
        Ok((data, charge))
    }

    async fn write(&mut self, file: &DiskFile, data: &[u8]) -> Result<usize> {
        self.changed = true;
        let at = if file.append {
            self.fat.stat(file.node).await?.len()
        } else {
            *file.position.lock()
        };
        let count = self.fat.write(file.node, at, data).await?;
        *file.position.lock() = at + count as u64;
        Ok(count)
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
