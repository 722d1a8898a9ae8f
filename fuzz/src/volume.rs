//! The kernel's access to a disk (`fs/blocks.rs`, `fs/sectors.rs`), and the FAT driver above it.
//!
//! An input changes bytes of a small volume, and then works with what is left as the kernel's file
//! system does. The driver may refuse; it must not panic, and must not work on for ever. A volume
//! that was not changed must have what was written to it.

#[path = "../../os/kernel/src/fs/blocks.rs"]
#[allow(clippy::all, reason = "it is checked where it is")]
mod blocks;
#[path = "../../os/kernel/src/fs/sectors.rs"]
#[allow(clippy::all, reason = "it is checked where it is")]
mod sectors;

use crate::device::disk::{Disk, DiskError, SECTOR};
use arbitrary::{Arbitrary, Unstructured};
use blocks::Blocks;
use hadris_fat::async_::{FatFs, format};
use hadris_fat::{CacheOptions, FatOptions};
use hadris_fs::{DirCursor, MountOptions, Name, NodeId, OpenMode, RenameMode, Resolve, SetAttr};
use hadris_io::Error;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

const SECTORS: usize = 256;
/// The most entries of a directory that are read: a chain that ends in itself has no last one.
const MOST_ENTRIES: usize = 10_000;
const NAMES: [&str; 6] = [
    "a",
    "b.txt",
    "a long name of a file",
    "dir",
    "dir/c",
    "dir/deep/d",
];

/// What is done to the volume.
#[derive(Arbitrary, Debug)]
enum Operation {
    Make(u8),
    Create(u8),
    Write(u8, u16, u8, u8),
    Read(u8, u16, u16),
    Truncate(u8, u16),
    Remove(u8),
    RemoveDirectory(u8),
    Rename(u8, u8),
    List(u8),
    Space,
    Sync,
}

#[derive(Arbitrary, Debug)]
struct Input {
    /// Places and their new bytes.
    changes: Vec<(u16, u8, u8)>,
    /// The requests to the disk before one fails, if one does.
    fails: Option<u8>,
    operations: Vec<Operation>,
}

/// Changes a volume by the input, and works with it.
///
/// # Panics
/// Panics if a volume that was not changed loses what was written.
pub fn run(data: &[u8]) {
    let Ok(input) = Input::arbitrary_take_rest(Unstructured::new(data)) else {
        return;
    };
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    let image = IMAGE.get_or_init(|| {
        on_disk(vec![0; SECTORS * SECTOR], |disk| {
            wait(format(&mut Blocks::new(disk), &FatOptions::new())).expect("it is large enough");
            disk.contents()
        })
    });
    let mut image = image.clone();
    for &(place, part, byte) in &input.changes {
        // Most of what matters lies in the first sectors.
        let place = usize::from(place) * (1 + usize::from(part & 1));
        let end = image.len();
        image[place % end] = byte;
    }
    on_disk(image, |disk| {
        disk.left
            .set(input.fails.map_or(u32::MAX, |it| u32::from(it) + 20));
        wait(work(disk, &input));
    });
}

/// Calls `act` with a disk that has these bytes.
fn on_disk<R>(image: Vec<u8>, act: impl FnOnce(&'static Disk) -> R) -> R {
    let disk = Box::into_raw(Box::new(Disk::new(image)));
    // SAFETY: the kernel's disk stays; this one stays as long as `act` uses it.
    let result = act(unsafe { &*disk });
    // SAFETY: `act` has dropped what refers to it, and was given it by this function alone.
    drop(unsafe { Box::from_raw(disk) });
    result
}

/// Polls a future that waits for nothing until it is ready.
fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        let polled = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(output) = polled {
            return output;
        }
    }
}

type Outcome<T> = Result<T, Error<DiskError>>;

struct Work {
    fat: FatFs<Blocks>,
    /// Whether what is written must be there afterwards.
    is_whole: bool,
}

async fn work(disk: &'static Disk, input: &Input) {
    let Ok(fat) = FatFs::mount(Blocks::new(disk), MountOptions::new()).await else {
        return;
    };
    let cache = CacheOptions::new().with_blocks(0).with_chain_positions(256);
    let mut work = Work {
        fat: fat.with_cache(cache),
        is_whole: input.changes.is_empty() && input.fails.is_none(),
    };
    for operation in &input.operations {
        let _ = work.perform(operation).await;
    }
    let _ = work.fat.sync().await;
}

fn name(number: u8) -> &'static str {
    NAMES[usize::from(number) % NAMES.len()]
}

impl Work {
    async fn parent(&mut self, path: &'static str) -> Outcome<(NodeId, &'static Name)> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = format!("/{folder}");
        let parent = self
            .fat
            .resolve(folder.as_bytes(), Resolve::Lexical)
            .await?;
        Ok((parent, Name::new(name)))
    }

    async fn perform(&mut self, operation: &Operation) -> Outcome<()> {
        match *operation {
            Operation::Make(path) => {
                let (parent, name) = self.parent(name(path)).await?;
                let made = self.fat.mkdir(parent, name, &SetAttr::new()).await;
                self.fat.forget(parent, 1);
                self.fat.forget(made?, 1);
            }
            Operation::Create(path) => {
                let (parent, name) = self.parent(name(path)).await?;
                let made = self.fat.create(parent, name, &SetAttr::new()).await;
                self.fat.forget(parent, 1);
                self.fat.forget(made?, 1);
            }
            Operation::Write(path, at, length, byte) => {
                let node = self.open(path, OpenMode::Write).await?;
                let data = vec![byte; usize::from(length) * 8];
                let written = self.write(node, u64::from(at), &data).await;
                self.close(node).await?;
                written?;
            }
            Operation::Read(path, at, length) => {
                let node = self.open(path, OpenMode::Read).await?;
                let mut data = vec![0xaa; usize::from(length)];
                let read = self.fat.read(node, u64::from(at), &mut data).await;
                self.close(node).await?;
                let read = read?;
                assert!(read <= data.len());
            }
            Operation::Truncate(path, length) => {
                let node = self.open(path, OpenMode::Write).await?;
                let done = self.fat.truncate(node, u64::from(length)).await;
                self.close(node).await?;
                done?;
            }
            Operation::Remove(path) => {
                let (parent, name) = self.parent(name(path)).await?;
                let removed = self.fat.unlink(parent, name).await;
                self.fat.forget(parent, 1);
                removed?;
            }
            Operation::RemoveDirectory(path) => {
                let (parent, name) = self.parent(name(path)).await?;
                let removed = self.fat.rmdir(parent, name).await;
                self.fat.forget(parent, 1);
                removed?;
            }
            Operation::Rename(from, to) => {
                let (from_parent, from) = self.parent(name(from)).await?;
                if let Ok((to_parent, to)) = self.parent(name(to)).await {
                    let mode = RenameMode::Replace;
                    let _ = self
                        .fat
                        .rename(from_parent, from, to_parent, to, mode)
                        .await;
                    self.fat.forget(to_parent, 1);
                }
                self.fat.forget(from_parent, 1);
            }
            Operation::List(path) => {
                let path = format!("/{}", name(path));
                let folder = self.fat.resolve(path.as_bytes(), Resolve::Lexical).await?;
                let listed = self.list(folder).await;
                self.fat.forget(folder, 1);
                listed?;
            }
            Operation::Space => {
                let space = self.fat.statfs().await?;
                assert!(space.free_blocks() <= space.total_blocks());
            }
            Operation::Sync => self.fat.sync().await?,
        }
        Ok(())
    }

    async fn write(&mut self, node: NodeId, at: u64, data: &[u8]) -> Outcome<()> {
        let written = self.fat.write(node, at, data).await?;
        let mut again = vec![0; written];
        let read = self.fat.read(node, at, &mut again).await?;
        assert!(!self.is_whole || again[..read] == data[..written]);
        Ok(())
    }

    async fn open(&mut self, path: u8, mode: OpenMode) -> Outcome<NodeId> {
        let path = format!("/{}", name(path));
        let node = self.fat.resolve(path.as_bytes(), Resolve::Lexical).await?;
        if let Err(error) = self.fat.open(node, mode).await {
            self.fat.forget(node, 1);
            return Err(error);
        }
        Ok(node)
    }

    async fn close(&mut self, node: NodeId) -> Outcome<()> {
        let closed = self.fat.close(node).await;
        self.fat.forget(node, 1);
        closed
    }

    async fn list(&mut self, folder: NodeId) -> Outcome<()> {
        let mut cursor = DirCursor::from_raw(0);
        for _ in 0..MOST_ENTRIES {
            let Some(entry) = self.fat.readdir(folder, cursor).await? else {
                break;
            };
            cursor = entry.next_cursor();
        }
        Ok(())
    }
}
