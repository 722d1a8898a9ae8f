//! Tests of files that the file system extends, shortens and removes in steps.
use core::time::Duration;

use corank_abi::error::{BUSY, NOT_FOUND};
use corank_user::fs::{self, File, Options};
use corank_user::{Error, process, time};

use crate::files::{expect_error, in_directory, pattern};
use crate::support::{self, tests, without_sockets};

tests![
    // The first, when little is kept.
    the_disk_cache_does_not_grow,
    long_files_are_cut_off_in_steps,
    a_file_being_removed_refuses_other_operations,
];

/// A length above what one step of the file system cuts off, on the disk of the tests.
const LONG: u64 = 6 << 20;

fn long_files_are_cut_off_in_steps() {
    in_directory(|| {
        let free = || fs::space().expect("a disk").free;
        let before = free();
        let first = pattern(100_000);
        for _ in 0..2 {
            fs::write("long", &first).expect("room");
            let file = Options::read_write().open("long").expect("the file");
            for wanted in [LONG, 5 << 20, 70_001, LONG, 1, 0, LONG] {
                file.truncate(wanted).expect("room");
                assert_eq!(file.status().expect("it is open").size, wanted);
                let data = fs::read("long").expect("the file");
                let kept = data.len().min(70_001);
                assert_eq!(data.len() as u64, wanted);
                let zeros = data.iter().skip(kept).filter(|byte| **byte != 0).count();
                let is_first = wanted >= 5 << 20 && data[..100_000] == first;
                assert!(is_first || zeros == 0, "{wanted} bytes");
            }
            // The file is emptied when it is opened, then removed.
            drop(file);
            let file = Options::write().truncate().open("long").expect("the file");
            assert_eq!(file.status().expect("it is open").size, 0);
            file.truncate(LONG).expect("room");
            expect_error(fs::remove("long"), BUSY);
            assert_eq!(file.status().expect("it is open").size, LONG);
            drop(file);
            fs::remove("long").expect("it is closed");
            expect_error(fs::status("long"), NOT_FOUND);
            assert_eq!(free(), before);
        }
    });
}

/// Tests that nothing else is done with a file while a less urgent process removes it.
///
/// The kernel serves what this process asks meanwhile between two steps of the removal.
fn a_file_being_removed_refuses_other_operations() {
    // There are more steps than questions. At most one step is made between two questions.
    const VERY_LONG: u64 = 10 * (2 << 20);
    in_directory(|| {
        // On a fast disk the removal may be over before anything is asked.
        let is_seen = || {
            let file = File::create("long").expect("a file");
            file.truncate(VERY_LONG).expect("room");
            drop(file);
            fs::write("other", b"other").expect("room");
            let child = process::spawn(|| {
                support::be_at(63);
                fs::remove("long").expect("it is closed");
                0
            });
            let child = child.expect("a process");
            let seen = loop {
                match fs::status("long") {
                    Ok(status) if status.size == VERY_LONG => {
                        time::sleep(Duration::from_micros(100));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        assert_eq!(error.code(), NOT_FOUND);
                        break false;
                    }
                }
                let is_busy = |result: Result<(), Error>| matches!(result, Err(error) if error.code() == BUSY);
                let is_kept = is_busy(File::open("long").map(drop))
                    && is_busy(fs::remove("long"))
                    && is_busy(fs::rename("long", "short"));
                if is_kept {
                    let replaced = fs::rename("other", "long");
                    if replaced.is_ok() {
                        // The removal is over by now.
                        fs::rename("long", "other").expect("it has just been moved");
                    }
                    break is_busy(replaced);
                }
            };
            assert_eq!(process::wait(child).expect("the child").code, 0);
            seen
        };
        assert!((0..50).any(|_| is_seen()));
        expect_error(fs::status("long"), NOT_FOUND);
        fs::remove("other").expect("it has its name");
    });
}

/// Tests that sectors that were not read before take no more of the kernel's heap.
fn the_disk_cache_does_not_grow() {
    in_directory(|| {
        let used_behind = |length| {
            fs::write("long", &[]).expect("room");
            let file = Options::read_write().open("long").expect("the file");
            file.truncate(length).expect("room");
            drop(file);
            fs::remove("long").expect("it is closed");
            without_sockets().heap_used
        };
        // The first time, tables of the kernel grow.
        let _ = used_behind(1);
        let before = used_behind(1);
        let more = used_behind(LONG).saturating_sub(before);
        // The driver notes some positions in the file, but no sector.
        assert!(more < 512, "{more} bytes");
    });
}
