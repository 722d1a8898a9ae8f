//! `ps` and `top`: processes, levels, bitmaps, coroutines.
//!
//! A bitmap is shown as the levels that are set in it: `3,32`. `a-b` are all from a to b.
use crate::{Arguments, Trouble};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use corank_user::corank::time;
use corank_user::information::{self, ENDED, ENDING, ProcessRecord, SystemStatus};
use corank_user::io::OwnedFd;
use corank_user::{Error, block_on, page, print, process, ring};
use core::fmt::Write;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

/// Period at which `top` shows the system.
const PERIOD: Duration = Duration::from_secs(1);

/// Formats the levels in a bitmap.
fn levels(bitmap: u64) -> String {
    let mut text = String::new();
    let mut level = 0;
    while level < 64 {
        if bitmap >> level & 1 == 0 {
            level += 1;
            continue;
        }
        let last = level + (!(bitmap >> level)).trailing_zeros() - 1;
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = match last - level {
            0 => write!(text, "{comma}{level}"),
            1 => write!(text, "{comma}{level},{last}"),
            _ => write!(text, "{comma}{level}-{last}"),
        };
        level = last + 1;
    }
    if text.is_empty() {
        text.push('-');
    }
    text
}

fn state(record: &ProcessRecord) -> &'static str {
    match record.state {
        ENDED => "ended",
        ENDING => "ending",
        // Without an executor the process says nothing of what its threads do.
        _ if record.executors == 0 => "live",
        _ if record.running != 0 => "runs",
        _ if record.ready | record.arriving != 0 => "ready",
        _ => "waits",
    }
}

/// Formats the table, one line for each process.
fn table(records: &[ProcessRecord]) -> String {
    let mut text = String::from(
        "  PID PARENT STATE  LEVEL RUNNING READY      ARRIVING  THREADS COROUTINES STACKS CALLS FILES    KiB       MS NAME\n",
    );
    for record in records {
        let _ = writeln!(
            text,
            "{:>5} {:>6} {:<6} {:>5} {:<7} {:<10} {:<9} {:>7} {:>10} {:>6} {:>5} {:>5} {:>6} {:>8} {}",
            record.pid,
            record.parent,
            state(record),
            record.level,
            levels(record.running),
            levels(record.ready),
            levels(record.arriving),
            record.threads,
            record.coroutines,
            record.stacks,
            record.calls,
            record.files,
            record.pages * page::PAGE_SIZE as u64 / 1024,
            record.time / 1000,
            information::name(record),
        );
    }
    text
}

fn totals(system: &SystemStatus) -> String {
    let mebibytes = |frames: u64| (frames * page::PAGE_SIZE as u64) >> 20;
    let published = page::system()
        .ready
        .load(core::sync::atomic::Ordering::Relaxed);
    format!(
        "up {}.{:03} s, {} processes; levels ready in the system: {}, in the kernel: {}\n\
         kernel: {} coroutines on {} stack{}, heap {} of {} KiB; memory free: {} of {} MiB\n\
         disk: {} requests, at most {} at once\n",
        system.uptime / 1000,
        system.uptime % 1000,
        system.processes,
        levels(published),
        levels(system.ready),
        system.coroutines,
        system.stacks,
        if system.stacks == 1 { "" } else { "s" },
        system.heap_used / 1024,
        system.heap / 1024,
        mebibytes(system.frames_free),
        mebibytes(system.frames),
        system.disk_requests,
        system.disk_most_under_way,
    )
}

/// Shows the processes.
pub(crate) fn ps(arguments: &Arguments) -> Result<(), Trouble> {
    if !arguments.is_empty() {
        return Err(Trouble::Usage);
    }
    print!("{}", table(&information::processes()?));
    Ok(())
}

fn view() -> Result<String, Error> {
    let system = information::system()?;
    let mut records = information::processes()?;
    // The most urgent first; those that have ended last.
    records.sort_by_key(|record| (record.state == ENDED, record.level, record.pid));
    Ok(totals(&system) + &table(&records))
}

/// Shows the system again and again, until `q` is typed or it has been shown this many times.
pub(crate) fn top(arguments: &Arguments) -> Result<(), Trouble> {
    let mut times = u64::MAX;
    let mut period = PERIOD;
    for option in arguments.chunks(2) {
        match option {
            ["-n", number] => times = number.parse().map_err(|_| Trouble::Usage)?,
            ["-s", seconds] => {
                let seconds = seconds.parse().map_err(|_| Trouble::Usage)?;
                period = Duration::try_from_secs_f64(seconds).map_err(|_| Trouble::Usage)?;
            }
            _ => return Err(Trouble::Usage),
        }
    }
    if times == 1 {
        print!("{}", view()?);
        return Ok(());
    }
    // Each key as it is typed, and Ctrl-C too.
    let _ = process::set_foreground(0);
    Ok(block_on(watch(times, period))?)
}

async fn watch(mut times: u64, period: Duration) -> Result<(), Error> {
    // Kept for all turns, so that a byte that is typed while the screen is drawn is not lost.
    let input = OwnedFd::from_number(0);
    let mut key = pin!(typed_quit(&input));
    loop {
        let view = view()?;
        // The cursor at the top left, each line cleared to its end, and what is below cleared.
        print!("\x1b[H{}\x1b[J", view.replace('\n', "\x1b[K\n"));
        times -= 1;
        if times == 0 {
            return Ok(());
        }
        let mut pause = pin!(time::sleep(period));
        let quit = core::future::poll_fn(|context| {
            if key.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            pause.as_mut().poll(context).map(|()| false)
        });
        if quit.await {
            return Ok(());
        }
    }
}

/// Bytes that end `top`: `q` and Ctrl-C.
const QUIT: [u8; 2] = [b'q', 3];

/// Waits until one of [`QUIT`] is typed or the input ends.
async fn typed_quit(input: &OwnedFd) {
    loop {
        let (count, bytes) = ring::read(input, Vec::with_capacity(16)).await;
        if bytes.iter().any(|byte| QUIT.contains(byte)) || !matches!(count, Ok(1..)) {
            return;
        }
    }
}
