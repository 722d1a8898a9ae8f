//! An urgent process that works beside the attackers.
//!
//! It checks its memory, a file and a pipe, and reports the result.

use alloc::vec;
use alloc::vec::Vec;

use core::sync::atomic::Ordering;

use corank_user::fs::{File, From, Options};
use corank_user::io::{OwnedFd, Pipe};
use corank_user::process::{self, Pid};
use corank_user::{page, thread};

/// Its file; attackers have no name for it.
const FILE: &str = "/of the victim";
/// Bytes of its memory and of its file.
const MEMORY: usize = 64 << 10;
const CONTENT: usize = 3000;
/// Orders to the victim: another check, or its end.
const CHECK: u8 = 1;
const END: u8 = 2;

/// The other end of a victim.
pub(crate) struct Victim {
    pid: Pid,
    orders: OwnedFd,
    answers: OwnedFd,
}

impl Victim {
    /// Starts the victim at level 0, at which this process runs from now on too.
    ///
    /// The victim has a file if there is a disk, and one to rely on.
    pub(crate) fn start(with_file: bool) -> Self {
        let page = page::process();
        page.executors.store(1, Ordering::Relaxed);
        page.ready.store(1, Ordering::Release);
        thread::yield_now();
        let [orders, answers] = [(); 2].map(|()| Pipe::new().expect("a pipe"));
        let pid = process::spawn(|| {
            live(&orders.reader, &answers.writer, with_file);
            0
        });
        let mut victim = Self {
            pid: pid.expect("a process"),
            orders: orders.writer,
            answers: answers.reader,
        };
        // From here on it has all that it needs.
        victim.answers();
        victim
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits until the victim has checked once more all that it has.
    ///
    /// # Panics
    /// If it has ended.
    pub(crate) fn answers(&mut self) {
        let asked = self.orders.write(&[CHECK]);
        let answered = self.answers.read(&mut [0]);
        assert_eq!((asked, answered), (Ok(1), Ok(1)), "the victim has ended");
    }

    /// Ends it.
    ///
    /// # Panics
    /// If it was harmed.
    pub(crate) fn end(self) {
        let _ = self.orders.write(&[END]);
        let ended = process::wait(self.pid).expect("the child");
        assert_eq!(ended.code, 0, "the victim's exit code");
        let _ = corank_user::fs::remove(FILE);
    }
}

/// Returns byte number `at` in round `round`.
fn byte(at: usize, round: usize) -> u8 {
    (at.wrapping_mul(31) ^ at >> 8 ^ round) as u8
}

fn live(orders: &OwnedFd, answers: &OwnedFd, with_file: bool) {
    let mut memory = vec![0_u8; MEMORY];
    let mut content = vec![0_u8; CONTENT];
    let own = Pipe::new().expect("a pipe");
    let file = if with_file { open() } else { None };
    let mut order = [0];
    let mut round = 0;
    fill(&mut memory, round);
    while orders.read(&mut order) == Ok(1) && order == [CHECK] {
        check(&memory, round, "memory");
        round += 1;
        fill(&mut memory, round);
        if let Some(file) = &file {
            fill(&mut content, round);
            file.seek(From::Start(0)).expect("a file");
            file.write_all(&content).expect("room that it had");
            content.fill(0);
            file.seek(From::Start(0)).expect("a file");
            assert_eq!(file.read(&mut content), Ok(CONTENT));
            check(&content, round, "file");
        }
        fill(&mut content, round);
        assert_eq!(own.writer.write(&content), Ok(CONTENT));
        content.fill(0);
        assert_eq!(own.reader.read(&mut content), Ok(CONTENT));
        check(&content, round, "pipe");
        assert_eq!(answers.write(&[CHECK]), Ok(1));
    }
}

/// Opens its file with all the room that it needs; returns `None` without a disk.
fn open() -> Option<File> {
    let file = Options::read_write().create().open(FILE).ok()?;
    file.write_all(&Vec::from([0; CONTENT])).ok()?;
    Some(file)
}

fn fill(memory: &mut [u8], round: usize) {
    for (at, place) in memory.iter_mut().enumerate() {
        *place = byte(at, round);
    }
}

fn check(memory: &[u8], round: usize, what: &str) {
    let changed = (0..)
        .zip(memory)
        .find(|(at, found)| **found != byte(*at, round));
    assert_eq!(changed, None, "the victim's {what} has changed");
}
