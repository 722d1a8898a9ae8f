//! Tests of a participant with a valid handshake, which then writes anything anywhere in its page.
//! Other tests are of processes that send anything to the socket.
//!
//! `CORANK_SECONDS=N` makes each test go on for N seconds. `CORANK_SEED` repeats a run's random
//! numbers:
//!
//! ```sh
//! CORANK_SECONDS=600 CORANK_SEED=1 cargo test --release -p corank-domain --lib hostile_tests
//! ```

use crate::domain::Domain;
use crate::handshake::{self, Files};
use crate::memory::{Mapping, Shareable, Writers};
use crate::page::{Doorbells, Identity, Page};
use crate::rendezvous::{Name, Rendezvous};
use crate::scarcity_tests::alone;
use crate::stranger_tests::{collect_warnings, until, warnings};
use crate::{ClassPolicy, Worker};
use corank::{Config, Executor, Priority, Step, yield_now};
use rustix::fs::{MemfdFlags, memfd_create};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WORDS: usize = size_of::<Page>() / 8;

/// A page as plain words, to be written without regard to its layout.
#[repr(C, align(4096))]
struct Raw([AtomicU64; WORDS]);

// SAFETY: atomics alone.
unsafe impl Shareable for Raw {}

struct Hostile {
    page: Mapping<Raw>,
    _connection: OwnedFd,
}

impl Hostile {
    fn join(rendezvous: &Rendezvous) -> Self {
        let (page, page_file) = Mapping::<Raw>::create("page", Writers::Owner).unwrap();
        let (_, doorbells) = Mapping::<Doorbells>::create("doorbells", Writers::All).unwrap();
        // The beginning of a page does not depend on its writer.
        let (good, _) = Mapping::<Page>::create("page", Writers::Owner).unwrap();
        good.introduce(&Identity {
            id: crate::rendezvous::new_id().unwrap(),
            process: std::process::id(),
            strict: true,
            processors: [u64::MAX; 16],
            name: "hostile".into(),
        });
        good.use_workers(64);
        for (at, word) in page.0.iter().enumerate() {
            word.store(read_word(&good, at), Ordering::Relaxed);
        }
        let folder = &rendezvous.folders().unwrap()[0];
        let id = folder.participants().unwrap()[0];
        let connection = folder.connect(id).unwrap().unwrap();
        let files = Files {
            page: page_file,
            doorbells,
        };
        handshake::send(&connection, Some(&files)).unwrap();
        Self {
            page,
            _connection: connection,
        }
    }
}

fn read_word(page: &Mapping<Page>, at: usize) -> u64 {
    let start: *const Page = &raw const **page;
    // SAFETY: `at` is below the number of words in a page, which is aligned and consists of
    // atomics. No other thread has this one.
    unsafe { (*start.cast::<AtomicU64>().add(at)).load(Ordering::Relaxed) }
}

/// A random generator of Marsaglia's. The seed determines all numbers.
struct Lots(u64);

impl Lots {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs the usual number of rounds, or as many as fit into the requested time.
///
/// Each has a seed of its own.
fn rounds(usual: u64, mut round: impl FnMut(u64)) {
    let seed = number("CORANK_SEED").unwrap_or_else(|| crate::rendezvous::random_number().unwrap());
    println!("CORANK_SEED={seed}");
    let began = Instant::now();
    let wanted = number("CORANK_SECONDS").map(Duration::from_secs);
    for at in 0.. {
        if wanted.map_or(at >= usual, |wanted| began.elapsed() >= wanted) {
            break;
        }
        round(seed.wrapping_add(at));
    }
}

fn run(executor: &Executor, worker: &Worker, hostile: &Hostile, seed: u64, writes: usize) {
    let bulk = executor
        .spawn(Priority::LEAST_URGENT, async {
            for _ in 0..1000 {
                yield_now().await;
            }
        })
        .unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut lots = Lots(seed | 1);
            for _ in 0..writes {
                let (at, kind, value) =
                    (lots.next() as usize % WORDS, lots.next() % 4, lots.next());
                let now = crate::clock::now();
                // Half of it resembles claims and times.
                let value = match kind {
                    0 => now,
                    1 => ((now / 1024) << 16) | value & 0x073f,
                    _ => value,
                };
                hostile.page.0[at].store(value, Ordering::Relaxed);
            }
            stop.store(true, Ordering::Release);
        });
        while !stop.load(Ordering::Acquire) {
            if executor.step_under(worker) == Step::Elsewhere {
                worker.step_aside(Duration::from_micros(50));
            }
        }
    });
    // Its claims are arbitrary, but none is damaged. The worker goes on when the claims are old.
    let began = Instant::now();
    while executor.live() > 0 {
        if executor.step_under(worker) == Step::Elsewhere {
            worker.step_aside(Duration::from_millis(1));
        }
        assert!(began.elapsed() < Duration::from_secs(60), "seed {seed}");
    }
    bulk.try_join().unwrap().unwrap();
}

#[test]
fn a_page_that_is_written_at_random_does_no_harm() {
    let mode = std::fs::Permissions::from_mode(0o700);
    let root = tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .unwrap();
    collect_warnings();
    let domain = Domain::named("test")
        .root(root.path())
        .class_policy(ClassPolicy::Silent);
    let participant = domain.tick(Duration::from_millis(1)).join().unwrap();
    let rendezvous = Rendezvous {
        name: Name::new("test").unwrap(),
        root: Some(root.path().to_path_buf()),
    };
    let hostile = Hostile::join(&rendezvous);
    let began = Instant::now();
    while participant.others() == 0 {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "they do not see each other"
        );
        std::thread::yield_now();
    }
    let published = participant.publish().unwrap();
    let executor = Executor::with(Config::new().publish_to(published));
    let worker = participant.worker(published).unwrap();
    rounds(10, |seed| run(&executor, &worker, &hostile, seed, 20_000));
    let began = Instant::now();
    // There was one warning of it.
    until("a damaged page is warned of", || {
        warnings("is damaged") == 1
    });
    drop(hostile);
    while participant.others() > 0 {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "it is not let go"
        );
        std::thread::yield_now();
    }
}

/// Returns a descriptor of any kind, which may be fit for a handshake.
fn any_file(lots: &mut Lots) -> OwnedFd {
    match lots.next() % 6 {
        0 => Mapping::<Page>::create("page", Writers::Owner).unwrap().1,
        1 => {
            Mapping::<Doorbells>::create("doorbells", Writers::All)
                .unwrap()
                .1
        }
        2 => memfd_create("empty", MemfdFlags::ALLOW_SEALING).unwrap(),
        3 => tempfile::tempfile().unwrap().into(),
        4 => std::io::pipe().unwrap().0.into(),
        _ => good_page().1.page,
    }
}

/// Returns what a participant of this process would send, and its page.
fn good_page() -> (Mapping<Page>, Files) {
    let (own, page) = Mapping::<Page>::create("page", Writers::Owner).unwrap();
    own.introduce(&Identity {
        id: crate::rendezvous::new_id().unwrap(),
        process: std::process::id(),
        strict: true,
        processors: [u64::MAX; 16],
        name: "any".into(),
    });
    let (_, doorbells) = Mapping::<Doorbells>::create("doorbells", Writers::All).unwrap();
    (own, Files { page, doorbells })
}

/// Sends one message with any number of descriptors.
///
/// It is any bytes, or a handshake with something wrong.
fn say_anything(socket: &OwnedFd, lots: &mut Lots) {
    let mut bytes = vec![0; lots.next() as usize % 40];
    for byte in &mut bytes {
        *byte = lots.next() as u8;
    }
    if !lots.next().is_multiple_of(4) {
        let handshake = [
            &handshake::MAGIC[..],
            &crate::page::VERSION.to_le_bytes(),
            &[(lots.next() % 3) as u8, 0, 0, 0],
        ];
        bytes = handshake.concat();
        if lots.next().is_multiple_of(4) {
            let at = lots.next() as usize % bytes.len();
            bytes[at] ^= 1 << (lots.next() % 8);
        }
    }
    let files: Vec<OwnedFd> = (0..lots.next() % 12).map(|_| any_file(lots)).collect();
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(12))];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(rustix::net::SendAncillaryMessage::ScmRights(&files));
    }
    let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
    let parts = [std::io::IoSlice::new(&bytes)];
    // It may have been refused already.
    let _ = rustix::net::sendmsg(socket, &parts, &mut control, flags);
}

#[test]
fn participants_find_each_other_despite_hostile_handshakes() {
    // Other tests count warnings.
    let test = "hostile_tests::participants_find_each_other_despite_hostile_handshakes";
    alone(test, say_anything_at_the_door);
}

fn say_anything_at_the_door(root: &Path) {
    let domain = || {
        Domain::named("test")
            .root(root)
            .class_policy(ClassPolicy::Silent)
    };
    let participant = domain().join().unwrap();
    let rendezvous = Rendezvous {
        name: Name::new("test").unwrap(),
        root: Some(root.to_path_buf()),
    };
    let folder = rendezvous.folders().unwrap().remove(0);
    let id = folder.participants().unwrap()[0];
    rounds(20, |seed| {
        let mut lots = Lots(seed | 1);
        let mut open: Vec<OwnedFd> = Vec::new();
        for _ in 0..100 {
            match lots.next() % 4 {
                // An error says that too many wait to be accepted.
                0 | 1 => open.extend(folder.connect(id).ok().flatten()),
                2 if !open.is_empty() => {
                    let at = lots.next() as usize % open.len();
                    say_anything(&open[at], &mut lots);
                }
                3 if !open.is_empty() => {
                    let at = lots.next() as usize % open.len();
                    drop(open.swap_remove(at));
                }
                _ => {}
            }
        }
        drop(open);
        until("those that have left are forgotten", || {
            participant.others() == 0
        });
        let other = domain().join().unwrap();
        until("they see each other", || {
            participant.others() == 1 && other.others() == 1
        });
    });
}
