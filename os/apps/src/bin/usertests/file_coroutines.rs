//! Tests of files and directories as coroutines use them, with all calls through the ring.
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;

use corank_abi::error::{IS_A_DIRECTORY, NOT_FOUND};
use corank_user::corank::time;
use corank_user::fs::{self, From, Options, asynchronous};
use corank_user::process;
use corank_user::{Error, Priority, block_on, ring, spawn};

use crate::files::{in_directory, pattern, remove_all};
use crate::support::{exit_code, record, tests};

tests![
    many_coroutines_write_at_once,
    coroutines_use_the_file_system,
    a_cancelled_open_leaves_nothing_open,
];

/// Tests that each coroutine makes, writes, reads and closes a file of its own.
///
/// All calls go through the ring.
fn many_coroutines_write_at_once() {
    const FILES: usize = 40;
    in_directory(|| {
        let code = exit_code(|| {
            block_on(async {
                let files: Vec<_> = (0..FILES)
                    .map(|number| {
                        let level = Priority::new((number % 64) as u8).expect("a level");
                        spawn(level, write_one(number)).expect("memory")
                    })
                    .collect();
                for file in files {
                    file.await.expect("it ends");
                }
            });
            0
        });
        assert_eq!(code, 0);
        for number in 0..FILES {
            let name = alloc::format!("file{number}");
            assert!(fs::read(&name).expect("the file") == pattern(1000 * number));
            fs::remove(&name).expect("the file");
        }
    });
}

async fn write_one(number: usize) {
    let name = alloc::format!("file{number}");
    let file = Options::read_write()
        .create()
        .open(&name)
        .expect("room")
        .into_fd();
    for piece in pattern(1000 * number).chunks(7000) {
        let (count, _) = ring::write(&file, piece.to_vec()).await;
        assert_eq!(count, Ok(piece.len()));
    }
    ring::close(file);
}

/// Returns the names in a directory, as coroutines read them.
async fn names(path: &str) -> Result<Vec<String>, Error> {
    let mut entries = asynchronous::Entries::of(path)?;
    let mut names = Vec::new();
    while let Some(entry) = entries.next().await? {
        names.push(entry.name);
    }
    names.sort();
    Ok(names)
}

fn coroutines_use_the_file_system() {
    in_directory(|| {
        fs::make_directory("d").expect("a directory");
        for name in ["d/a", "d/b"] {
            fs::write(name, b"0123456789").expect("room");
        }
        block_on(async {
            let file = asynchronous::open("d/a", Options::read()).await;
            let file = file.expect("it is there");
            let status = asynchronous::status_of(&file).await.expect("it is open");
            assert_eq!(Ok(status), asynchronous::status("d/a").await);
            assert_eq!(status.size, 10);
            assert_eq!(asynchronous::seek(&file, From::End(-6)).await, Ok(4));
            let (count, data) = ring::read(&file, Vec::with_capacity(20)).await;
            assert_eq!((count, data.as_slice()), (Ok(6), &b"456789"[..]));
            assert!(asynchronous::seek(&file, From::Start(0)).await.is_ok());
            asynchronous::close(file).await.expect("it was only read");
            let code = |error: Error| error.code();
            let missing = asynchronous::open("d/c", Options::read()).await;
            assert_eq!(missing.map(drop).map_err(code), Err(NOT_FOUND));
            let directory = asynchronous::open("d", Options::read()).await;
            assert_eq!(directory.map(drop).map_err(code), Err(IS_A_DIRECTORY));
            let missing = asynchronous::status("d/c").await;
            assert_eq!(missing.map_err(code), Err(NOT_FOUND));
            assert_eq!(names("d/c").await.map_err(code), Err(NOT_FOUND));
            let found = names("d").await.expect("it is a directory");
            assert!(
                found
                    .iter()
                    .filter(|name| !name.starts_with('.'))
                    .eq(["a", "b"])
            );
        });
        remove_all("d");
    });
}

/// Returns how many files this process has open.
fn open_files() -> u64 {
    record(process::id()).files
}

fn a_cancelled_open_leaves_nothing_open() {
    in_directory(|| {
        fs::write("a", b"x").expect("room");
        block_on(async {
            let before = open_files();
            // The first time before the kernel has seen the call, the second time after it has
            // served it.
            for is_seen in [false, true] {
                let mut opening = Box::pin(asynchronous::open("a", Options::read()));
                let first = poll_fn(|context| Poll::Ready(opening.as_mut().poll(context))).await;
                assert!(first.is_pending());
                if is_seen {
                    while open_files() == before {
                        time::sleep(Duration::from_millis(1)).await;
                    }
                }
                drop(opening);
                assert_eq!(open_files(), before);
            }
        });
        fs::remove("a").expect("it is not open");
    });
}
