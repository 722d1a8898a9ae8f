//! A participant that greets as it should and then writes anything anywhere in its page.

use crate::domain::{Domain, Participant};
use crate::greeting::{self, Files};
use crate::memory::{Mapping, Shareable, Writers};
use crate::page::{Bells, Identity, Page};
use crate::place::{Name, Place};
use crate::stranger_tests::{collect_warnings, until, warnings};
use crate::{Mix, Worker};
use corank::{Config, Executor, Priority, Step, yield_now};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WORDS: usize = size_of::<Page>() / 8;

/// A page, to whoever writes it without knowing what it is.
#[repr(C, align(4096))]
struct Raw([AtomicU64; WORDS]);

// SAFETY: atomics alone.
unsafe impl Shareable for Raw {}

struct Hostile {
    page: Mapping<Raw>,
    _connection: OwnedFd,
}

impl Hostile {
    fn join(place: &Place) -> Self {
        let (page, page_file) = Mapping::<Raw>::create("page", Writers::Owner).unwrap();
        let (_, bells) = Mapping::<Bells>::create("bells", Writers::All).unwrap();
        // What a page begins with is the same whoever writes it.
        let (good, _) = Mapping::<Page>::create("page", Writers::Owner).unwrap();
        good.introduce(&Identity {
            id: 1,
            process: std::process::id(),
            strict: true,
            processors: [u64::MAX; 16],
            name: "hostile".into(),
        });
        good.use_workers(64);
        for (at, word) in page.0.iter().enumerate() {
            word.store(read_word(&good, at), Ordering::Relaxed);
        }
        let folder = &place.folders().unwrap()[0];
        let door = folder.doors().unwrap()[0];
        let connection = folder.knock(door).unwrap().unwrap();
        let files = Files {
            page: page_file,
            bells,
        };
        greeting::send(&connection, Some(&files)).unwrap();
        Self {
            page,
            _connection: connection,
        }
    }
}

fn read_word(page: &Mapping<Page>, at: usize) -> u64 {
    let start: *const Page = &raw const **page;
    // SAFETY: `at` is below the number of words in a page, which is aligned and consists of atomics; nobody else has this one.
    unsafe { (*start.cast::<AtomicU64>().add(at)).load(Ordering::Relaxed) }
}

/// A generator of Marsaglia's: the seed says all.
struct Lots(u64);

impl Lots {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn run(participant: &Participant, hostile: &Hostile, seed: u64, writes: usize) {
    let published = participant.publish().unwrap();
    let executor = Executor::with(Config::new().publish_to(published));
    let worker: Pin<Box<Worker>> = participant.worker(published).unwrap();
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
                // Half of it looks like claims and times.
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
            if executor.step_under(&*worker) == Step::Elsewhere {
                worker.step_aside(Duration::from_micros(50));
            }
        }
    });
    // It claims what it likes, but nothing is damaged: the worker goes on when the claims are old.
    let began = Instant::now();
    while executor.live() > 0 {
        if executor.step_under(&*worker) == Step::Elsewhere {
            worker.step_aside(Duration::from_millis(1));
        }
        assert!(began.elapsed() < Duration::from_secs(60), "seed {seed}");
    }
    bulk.try_join().unwrap().unwrap();
}

#[test]
fn a_page_that_is_written_at_random_harms_nobody() {
    let mode = std::fs::Permissions::from_mode(0o700);
    let root = tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .unwrap();
    collect_warnings();
    let domain = Domain::named("test").root(root.path()).mix(Mix::Silent);
    let participant = domain.tick(Duration::from_millis(1)).join().unwrap();
    let place = Place {
        name: Name::new("test").unwrap(),
        root: Some(root.path().to_path_buf()),
    };
    let hostile = Hostile::join(&place);
    let began = Instant::now();
    while participant.others() == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "they don't meet");
        std::thread::yield_now();
    }
    let seed = crate::place::lot().unwrap();
    println!("seed {seed}");
    for round in 0..10 {
        run(&participant, &hostile, seed.wrapping_add(round), 20_000);
    }
    // It was warned of, once.
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
