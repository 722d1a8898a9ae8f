//! Stresses the whole runtime for a given time: `cargo run --release -p corank-linux --example soak
//! -- 600` (seconds; the default is 10).
//!
//! Each round spawns coroutines on random levels: TCP connections, timers, time limits, channels,
//! cancellation, panics, blocking calls, and polls that block their worker. Each reports its
//! result. After each round nothing may be left: no coroutine, no descriptor, no memory that grows.
//! Otherwise the program ends with a message and exit code 1. `SOAK_SEED` repeats a run's random
//! numbers.

use std::error::Error;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use corank_linux::net::{TcpListener, TcpStream};
use corank_linux::time::{sleep_until, timeout};
use corank_linux::{Builder, JoinError, Priority, Runtime, reprioritize, spawn, spawn_blocking};
use futures::{AsyncReadExt, AsyncWriteExt};

/// Coroutines of a round.
const COROUTINES: u64 = 2000;
/// A round that takes longer has failed.
const HANGS: Duration = Duration::from_secs(120);
/// Rounds until memory, descriptors and threads are stable.
const WARM_UP: u64 = 5;
/// The tolerance for memory after that, in KiB: the allocator's arenas vary.
const SLACK: u64 = 32 * 1024;

type Failure = Box<dyn Error + Send + Sync>;

/// Pseudo-random numbers: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn level(&mut self) -> Priority {
        Priority::new(self.below(64) as u8).expect("below 64")
    }
}

/// Counts destructors.
struct Dropped(Arc<AtomicU64>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Does one coroutine's work; returns an error if the result is wrong.
async fn one(mut random: Random, echo: SocketAddr) -> Result<(), Failure> {
    match random.below(100) {
        0..10 => over_tcp(&mut random, echo).await,
        10..40 => {
            let due = Instant::now() + Duration::from_micros(random.below(20_000));
            sleep_until(due).await;
            expect(Instant::now() >= due, "a timer fired too early")
        }
        40..50 => {
            let limit = Duration::from_micros(random.below(5_000));
            expect(
                timeout(limit, pending::<()>()).await.is_err(),
                "a time limit gave a result",
            )
        }
        50..70 => {
            let (sender, receiver) = async_channel::bounded(1);
            let producer = spawn(random.level(), async move {
                for number in 0..20_u64 {
                    if sender.send(number).await.is_err() {
                        break;
                    }
                }
            })?;
            let mut sum = 0;
            while let Ok(number) = receiver.recv().await {
                sum += number;
            }
            producer.await?;
            expect(sum == 190, "a message was lost")
        }
        70..85 => {
            let drops = Arc::new(AtomicU64::new(0));
            let guard = Dropped(drops.clone());
            let victim = spawn(random.level(), async move {
                let _guard = guard;
                pending::<()>().await;
            })?;
            reprioritize(victim.id(), random.level());
            corank_linux::yield_now().await;
            victim.cancel();
            let cancelled = matches!(victim.await, Err(JoinError::Cancelled));
            expect(
                cancelled && drops.load(Ordering::Relaxed) == 1,
                "a cancelled coroutine was not dropped once",
            )
        }
        85..90 => {
            let panics = async { std::panic::resume_unwind(Box::new("on purpose")) };
            let result: Result<(), _> = spawn(random.level(), panics)?.await;
            expect(
                matches!(result, Err(JoinError::Panicked(_))),
                "a panic was lost",
            )
        }
        90..97 => {
            let number = random.below(1000);
            let doubled = spawn_blocking(move || 2 * number).await?;
            expect(doubled == 2 * number, "a blocking call lost its result")
        }
        _ => {
            // Blocks on purpose: no coroutine may depend on this worker meanwhile.
            std::thread::sleep(Duration::from_micros(random.below(3_000)));
            Ok(())
        }
    }
}

/// Sends bytes to the echo, and expects them back.
async fn over_tcp(random: &mut Random, echo: SocketAddr) -> Result<(), Failure> {
    let sent: Vec<u8> = (0..random.below(64 * 1024)).map(|at| at as u8).collect();
    let stream = TcpStream::connect(echo).await?;
    let (mut reader, mut writer) = stream.split();
    let outgoing = sent.clone();
    let write = spawn(random.level(), async move {
        writer.write_all(&outgoing).await?;
        writer.close().await
    })?;
    let mut received = Vec::new();
    reader.read_to_end(&mut received).await?;
    write.await??;
    expect(received == sent, "what came back was something else")
}

fn expect(holds: bool, otherwise: &str) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

async fn serve_echo(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let echo = async move {
            let (reader, mut writer) = stream.split();
            if futures::io::copy(reader, &mut writer).await.is_ok() {
                let _ = writer.close().await;
            }
        };
        if spawn(Priority::DEFAULT, echo).is_err() {
            break;
        }
    }
}

/// Returns the number of open descriptors, and the memory in KiB.
fn held() -> Result<(usize, u64), Failure> {
    let descriptors = std::fs::read_dir("/proc/self/fd")?.count();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let memory = (status.lines())
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .ok_or("no VmRSS in /proc/self/status")?;
    Ok((descriptors, memory.trim().parse()?))
}

fn round(runtime: &Runtime, mut random: Random, echo: SocketAddr) -> Result<(), Failure> {
    runtime.block_on(async move {
        let mut handles = Vec::new();
        for _ in 0..COROUTINES {
            let level = random.level();
            let own = Random(random.below(u64::MAX));
            handles.push(spawn(level, one(own, echo))?);
        }
        let all = async {
            for handle in handles {
                handle.await??;
            }
            Ok(())
        };
        timeout(HANGS, all).await.unwrap_or_else(|_| {
            let left = corank_linux::Handle::current().map_or(0, |handle| handle.live());
            Err(format!("a round hangs; {left} coroutines are left").into())
        })
    })
}

/// Waits until only the echo is left: its connections end a moment after the others.
fn wait_until_only_the_echo_is_left(runtime: &Runtime, descriptors: usize) -> Result<(), Failure> {
    let began = Instant::now();
    while runtime.handle().live() > 1 || descriptors > 0 && held()?.0 > descriptors {
        if began.elapsed() > HANGS {
            let (live, held) = (runtime.handle().live(), held()?.0);
            return Err(format!("{live} coroutines and {held} descriptors are left").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let seconds = std::env::args()
        .nth(1)
        .map_or(Ok(10), |text| text.parse())?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let seed = std::env::var("SOAK_SEED").map_or(Ok(now.as_nanos() as u64), |text| text.parse())?;
    println!("seed {seed}");
    let runtime = Builder::new().workers(4).build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let echo = listener.local_addr()?;
    drop(
        runtime
            .handle()
            .spawn(Priority::DEFAULT, serve_echo(listener)),
    );
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut random = Random(seed);
    let mut rounds = 0;
    let (mut descriptors, mut memory) = (0, 0);
    while Instant::now() < end || rounds <= WARM_UP {
        round(&runtime, Random(random.below(u64::MAX)), echo)?;
        wait_until_only_the_echo_is_left(&runtime, descriptors)?;
        rounds += 1;
        let now = held()?;
        if rounds == WARM_UP {
            (descriptors, memory) = now;
        }
        if rounds > WARM_UP && now.1 > memory + SLACK {
            let (kib, from) = (now.1, memory);
            return Err(format!("{kib} KiB of memory are in use, from {from} at first").into());
        }
        if rounds % 100 == 0 {
            println!("{rounds} rounds: {} descriptors, {} KiB", now.0, now.1);
        }
    }
    let (open, kib) = held()?;
    println!(
        "{rounds} rounds of {COROUTINES} coroutines: {open} descriptors, {kib} KiB, first {memory}"
    );
    // The echo is cancelled.
    match runtime.shutdown(Duration::from_millis(10)) {
        Err(unfinished) if unfinished.cancelled == 1 && unfinished.blocked.is_empty() => Ok(()),
        other => Err(format!("the runtime ended as it should not: {other:?}").into()),
    }
}
