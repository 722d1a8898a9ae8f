//! Exhausted descriptors and threads: the call that needs one fails, nothing is lost, and
//! everything continues once there are some again. One test, because the limit holds for the whole
//! process.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;
#[path = "../examples/echo.rs"]
#[allow(dead_code, reason = "its `main`")]
mod echo;

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use corank_linux::net::{TcpListener, TcpStream, UnixStream};
use corank_linux::process::{Command, Stdio};
use corank_linux::signal::{Signal, Signals};
use corank_linux::{Builder, Priority, Runtime, fs, pipe, spawn, spawn_blocking, yield_now};
use futures::{AsyncReadExt, AsyncWriteExt};
use rustix::process::{Resource, WaitId, WaitIdOptions, getrlimit, setrlimit, waitid};

/// Few enough to be used up at once.
const LIMIT: u64 = 64;
/// The pause of `accept` after a shortage.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// The system's error if no descriptor is left.
const NONE_LEFT: i32 = 24;

/// Takes all descriptors that are left.
fn take_all() -> Vec<File> {
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    taken
}

fn assert_none_left<T>(result: io::Result<T>) {
    let error = result.err().expect("there is no descriptor");
    assert_eq!(error.raw_os_error(), Some(NONE_LEFT), "{error}");
}

/// Gives `make` one more descriptor each time until it succeeds. Every failure names the shortage,
/// and leaks no descriptor.
async fn with_ever_more(make: impl AsyncFn() -> io::Result<()>) {
    let mut taken = take_all();
    for given_back in 0.. {
        let result = make().await;
        let left = take_all();
        assert_eq!(left.len(), given_back, "descriptors leaked");
        drop(left);
        if result.is_ok() {
            assert!(given_back > 0);
            return;
        }
        assert_none_left(result);
        taken.pop();
    }
}

/// Limits the address space so that another thread's stack has no room, but everything else has.
fn leave_no_room_for_a_stack() {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let mut limit = getrlimit(Resource::As);
    limit.current = Some(pages * 4096 + (1 << 20));
    setrlimit(Resource::As, limit).unwrap();
}

/// Runs before there is any thread for blocking calls.
fn blocking_calls_fail_without_threads() {
    // One worker, which has run: no other thread is still taking address space, or releasing it.
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.block_on(async { vec![0; 100] });
    let room = getrlimit(Resource::As);
    leave_no_room_for_a_stack();
    let refused = runtime.block_on(async { spawn_blocking(|| 1).await.unwrap_err().to_string() });
    let refused_too = runtime.block_on(fs::read("/proc/self/status")).unwrap_err();
    setrlimit(Resource::As, room).unwrap();
    for refused in [refused, refused_too.to_string()] {
        assert!(
            refused.contains("no thread for blocking calls"),
            "{refused}"
        );
    }
    assert_eq!(
        runtime.block_on(async { spawn_blocking(|| 1).await.unwrap() }),
        1
    );
}

/// The server of the README has no descriptor for a connection. It serves that once there is one.
fn the_echo_server_goes_on(runtime: &Runtime) {
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();
        let taken = take_all();
        let server = spawn(Priority::DEFAULT, echo::serve(listener, Priority::DEFAULT)).unwrap();
        // It finds the shortage, more than once.
        corank_linux::time::sleep(3 * ACCEPT_PAUSE).await;
        assert!(!server.has_exited(), "the server has ended");
        drop(taken);
        client.write_all(b"there").await.unwrap();
        let mut word = [0; 5];
        client.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"there");
        drop(client);
        server.cancel();
        // Both coroutines of the server close their descriptors on any worker.
        while runtime.handle().live() > 1 {
            yield_now().await;
        }
    });
}

#[test]
fn exhausted_descriptors_are_errors_and_lose_nothing() {
    blocking_calls_fail_without_threads();
    let runtime = Builder::new().workers(2).build().unwrap();
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(LIMIT);
    setrlimit(Resource::Nofile, limit).unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();

        let mut taken = take_all();
        assert_none_left(Runtime::new());
        assert_none_left(TcpStream::connect(address).await);
        assert_none_left(TcpListener::bind("127.0.0.1:0").await);
        assert_none_left(pipe::pipe());
        // The connection waits to be accepted; each call reports the shortage.
        for _ in 0..3 {
            assert_none_left(listener.accept().await);
        }
        // A loop that only repeats the call does not spin: there are as many attempts as pauses.
        let (began, mut attempts) = (Instant::now(), 0);
        while began.elapsed() < 20 * ACCEPT_PAUSE {
            assert_none_left(listener.accept().await);
            attempts += 1;
        }
        let pauses = began.elapsed().as_nanos() / ACCEPT_PAUSE.as_nanos();
        assert!(attempts <= pauses + 2, "{attempts} in {pauses} pauses");
        // Open connections continue.
        one.write_all(b"still").await.unwrap();
        let mut word = [0; 5];
        other.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"still");
        let spawned = spawn(Priority::DEFAULT, async { 7 }).unwrap();
        assert_eq!(spawned.await.unwrap(), 7);

        taken.pop();
        let (mut server, _) = listener.accept().await.unwrap();
        client.write_all(b"there").await.unwrap();
        server.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"there");
        drop(server);

        // Nothing has leaked: as many descriptors can be taken again as were released.
        let given_back = taken.len() + 1;
        drop(taken);
        assert_eq!(take_all().len(), given_back);
        drop((one, other, client, listener));
    });
    the_echo_server_goes_on(&runtime);
    runtime.block_on(async {
        with_ever_more(async || Signals::new([Signal::USR1, Signal::USR2]).map(drop)).await;
        with_ever_more(async || {
            let mut entries = fs::read_dir("/proc/self").await?;
            let first = entries.next_entry().await?.expect("there are some");
            fs::metadata(first.path()).await?;
            fs::File::open("/dev/null").await.map(drop)
        })
        .await;
        // The thread for the process's orphans exists before.
        Command::new("true").status().await.unwrap();
        with_ever_more(async || {
            let mut command = Command::new("cat");
            let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let status = command.stderr(Stdio::piped()).spawn()?.wait().await?;
            assert!(status.success());
            Ok(())
        })
        .await;
        with_ever_more(async || {
            let status = Command::new("true").status().await?;
            assert!(status.success());
            Ok(())
        })
        .await;
        // Children that began without a descriptor to watch them are gone too.
        let any = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        assert_eq!(any.unwrap_err(), rustix::io::Errno::CHILD);
    });
}
