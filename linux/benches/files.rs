//! Compares three ways to read files. The first uses threads for blocking calls. The second reads
//! from the cache and only then on threads, as `corank_linux::fs` does. The third uses io_uring.
//!
//! `cargo bench -p corank-linux --bench files` prints nanoseconds for each 4 KiB read at a random
//! offset of a file of 64 MiB. One coroutine reads, and then 64 at once. The three ways take turns.
//! The output is the median of the rounds, the smallest and the largest.

use std::fs::OpenOptions;
use std::future::poll_fn;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Instant;

use corank_linux::{Async, Builder, JoinHandle, Priority, fs, spawn, spawn_blocking};
use io_uring::{IoUring, opcode, types};
use rustix::fs::{Advice, fadvise};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 16 * 1024;
const ROUNDS: usize = 7;

fn main() {
    // `cargo test --benches` only builds it.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let folder = tempfile::tempdir_in(".").expect("a folder on a disk");
    let path = folder.path().join("blocks");
    std::fs::write(&path, vec![7; BLOCK * BLOCKS as usize]).expect("64 MiB of disk");
    let file = OpenOptions::new()
        .read(true)
        .open(&path)
        .expect("it is there");
    file.sync_all().expect("a disk that works");
    let runtime = Builder::new().workers(1).build().expect("a thread");
    println!(
        "{:8} {:>8}  {:>24} {:>24} {:>24}",
        "", "at once", "threads", "cache, then threads", "io_uring"
    );
    for cached in [true, false] {
        for coroutines in [1, 64] {
            let reads = if cached { 40_000 } else { 2_000 };
            let mut times: [Vec<u64>; 3] = Default::default();
            for _ in 0..ROUNDS {
                for (way, times) in times.iter_mut().enumerate() {
                    prepare(&file, cached);
                    let path = path.clone();
                    let round = round(path, way, coroutines, reads);
                    let round = runtime.handle().spawn(Priority::DEFAULT, round);
                    let time = runtime.block_on(round.expect("memory"));
                    times.push(time.expect("no panic"));
                }
            }
            let columns = times.map(|mut times| {
                times.sort_unstable();
                format!("{} ({}-{})", times[ROUNDS / 2], times[0], times[ROUNDS - 1])
            });
            let place = if cached { "cached" } else { "on disk" };
            let [one, two, three] = columns;
            println!("{place:8} {coroutines:8}  {one:>24} {two:>24} {three:>24}");
        }
    }
}

/// Reads the file into the cache, or evicts it.
fn prepare(file: &std::fs::File, cached: bool) {
    fadvise(file, 0, None, Advice::Random).expect("advice");
    if cached {
        let mut block = vec![0; 1 << 20];
        let mut at = 0;
        while let Ok(count @ 1..) = file.read_at(&mut block, at) {
            at += count as u64;
        }
    } else {
        fadvise(file, 0, None, Advice::DontNeed).expect("advice");
    }
}

/// Returns nanoseconds for each read.
async fn round(path: std::path::PathBuf, way: usize, coroutines: u64, reads: u64) -> u64 {
    let open = || std::fs::File::open(&path).expect("it is there");
    let std = Arc::new(open());
    fadvise(&std, 0, None, Advice::Random).expect("advice");
    let shared =
        Arc::new(fs::File::from_std(std.try_clone().expect("a descriptor")).expect("a file"));
    let ring = (way == 2).then(Ring::start);
    let begin = Instant::now();
    let all: Vec<_> = (0..coroutines)
        .map(|number| {
            let (std, shared) = (std.clone(), shared.clone());
            let ring = ring.as_ref().map(|(ring, _)| ring.clone());
            let work = async move {
                let mut lots = number * 0x9e37_79b9_7f4a_7c15 + 88_172_645_463_325_252;
                let mut buffer = vec![0; BLOCK];
                for _ in 0..reads / coroutines {
                    lots ^= lots << 13;
                    lots ^= lots >> 7;
                    lots ^= lots << 17;
                    let at = lots % BLOCKS * BLOCK as u64;
                    let count = match &ring {
                        Some(ring) => ring.read(&std, &mut buffer, at).await,
                        None if way == 1 => shared.read_at(&mut buffer, at).await.expect("a block"),
                        None => {
                            let std = std.clone();
                            let read = spawn_blocking(move || {
                                let mut bytes = vec![0; BLOCK];
                                std.read_at(&mut bytes, at).map(|count| (count, bytes))
                            });
                            let (count, bytes) = read.await.expect("no panic").expect("a block");
                            buffer.copy_from_slice(&bytes);
                            count
                        }
                    };
                    assert!(count == BLOCK && buffer[0] == 7);
                }
            };
            spawn(Priority::DEFAULT, work).expect("memory")
        })
        .collect();
    for one in all {
        one.await.expect("no panic");
    }
    let took = begin.elapsed();
    if let Some((_, drain)) = ring {
        drain.cancel();
    }
    took.as_nanos() as u64 / reads
}

/// Uses io_uring from coroutines in the simplest way, with one entry and one system call for each
/// read.
///
/// The reactor reports completions.
struct Ring {
    uring: Mutex<IoUring>,
}

/// A pending read: its result, or its waker.
#[derive(Default)]
struct Read(Mutex<(Option<i32>, Option<Waker>)>);

impl Ring {
    fn start() -> (Arc<Self>, JoinHandle<()>) {
        let uring = IoUring::new(256).expect("io_uring is allowed here");
        // SAFETY: open while it is duplicated.
        let descriptor = unsafe { BorrowedFd::borrow_raw(uring.as_raw_fd()) };
        let descriptor: OwnedFd = descriptor.try_clone_to_owned().expect("a descriptor");
        let ring = Arc::new(Self {
            uring: Mutex::new(uring),
        });
        let drained = ring.clone();
        let drain = async move {
            let descriptor = Async::new(descriptor).expect("it can be waited for");
            loop {
                let drained = descriptor.read_with(|_| match drained.drain() {
                    0 => Err(std::io::ErrorKind::WouldBlock.into()),
                    count => Ok(count),
                });
                drained.await.expect("no other error");
            }
        };
        let drain = spawn(Priority::MOST_URGENT, drain).expect("memory");
        (ring, drain)
    }

    fn drain(&self) -> usize {
        let mut uring = self.uring.lock().expect("no code panics under this lock");
        let mut count = 0;
        for entry in uring.completion() {
            // SAFETY: created by `into_raw` for this entry, which comes once.
            let read = unsafe { Arc::from_raw(entry.user_data() as *const Read) };
            let mut state = read.0.lock().expect("no code panics under this lock");
            state.0 = Some(entry.result());
            if let Some(waker) = state.1.take() {
                waker.wake();
            }
            count += 1;
        }
        count
    }

    /// Reads at an offset. Never cancelled here, so the buffer stays.
    async fn read(&self, file: &std::fs::File, buffer: &mut [u8], at: u64) -> usize {
        let read = Arc::new(Read::default());
        let entry = opcode::Read::new(
            types::Fd(file.as_raw_fd()),
            buffer.as_mut_ptr(),
            buffer.len() as u32,
        )
        .offset(at)
        .build()
        .user_data(Arc::into_raw(read.clone()) as u64);
        {
            let mut uring = self.uring.lock().expect("no code panics under this lock");
            // SAFETY: file and buffer stay until the completion, which is waited for below.
            unsafe {
                uring
                    .submission()
                    .push(&entry)
                    .expect("room for each coroutine")
            };
            uring.submit().expect("a kernel that takes it");
        }
        // A cached read has completed already.
        self.drain();
        let result = poll_fn(|cx| {
            let mut state = read.0.lock().expect("no code panics under this lock");
            match state.0 {
                Some(result) => Poll::Ready(result),
                None => {
                    state.1 = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        });
        usize::try_from(result.await).expect("a block")
    }
}
