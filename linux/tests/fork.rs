//! A child process that was forked from a program with a runtime: it leaves the parent's alone.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::io::Write;
use std::os::unix::net::UnixStream as Blocking;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use corank_linux::net::UnixStream;
use corank_linux::time::timeout;
use corank_linux::{Async, Builder, Priority, SpawnError, spawn};
use futures::AsyncReadExt;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, alarm, fork};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

/// Runs `child` in a forked process, which ends after it; returns how it ended.
///
/// A child that hangs is ended by a signal.
fn in_child(child: impl FnOnce()) -> WaitStatus {
    // SAFETY: the C library makes its own locks usable in the child, and the child uses no other
    // one that a thread of the parent may hold.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            alarm::set(u32::try_from(LONG.as_secs()).unwrap());
            let code = i32::from(catch_unwind(AssertUnwindSafe(child)).is_err());
            // SAFETY: it ends the process without the parent's destructors.
            unsafe { nix::libc::_exit(code) }
        }
        ForkResult::Parent { child } => waitpid(child, None).unwrap(),
    }
}

fn assert_succeeded(status: WaitStatus) {
    assert!(
        matches!(status, WaitStatus::Exited(_, 0)),
        "the child: {status:?}"
    );
}

/// In the child, a socket is dropped, then work is refused, and then the runtime is dropped. The
/// parent's socket still reports events, and its runtime still runs coroutines.
#[test]
fn a_forked_child_leaves_the_runtime_of_its_parent_alone() {
    let mut runtime = Some(Builder::new().workers(2).build().unwrap());
    let here = runtime.as_ref().unwrap();
    let (mut peer, socket) = Blocking::pair().unwrap();
    let mut socket = Some(
        here.block_on(async { UnixStream::from_std(socket) })
            .unwrap(),
    );
    // It waits for an event when the child ends the registration.
    let mut other = here
        .block_on(async { UnixStream::pair() })
        .map(|(one, _other)| one)
        .unwrap();
    let reads = spawn_in(here, async move { other.read(&mut [0]).await });

    assert_succeeded(in_child(|| {
        drop(socket.take());
        let child = runtime.take().unwrap();
        assert_eq!(
            child.handle().spawn(Priority::DEFAULT, async {}).err(),
            Some(SpawnError::Closed)
        );
        let entered = child.enter();
        assert!(Async::new(Blocking::pair().unwrap().0).is_err());
        drop(entered);
        drop(child);
    }));
    assert_succeeded(in_child(|| {
        let child = runtime.take().unwrap();
        assert_eq!(child.shutdown(LONG), Ok(()));
    }));

    let runtime = runtime.unwrap();
    let mut socket = socket.unwrap();
    let (answer, ()) = runtime.block_on(async {
        let read = async {
            let mut byte = [0];
            timeout(LONG / 6, socket.read_exact(&mut byte))
                .await
                .expect("an event")?;
            Ok::<_, std::io::Error>(byte[0])
        };
        futures::join!(read, async {
            // The read waits.
            corank_linux::yield_now().await;
            peer.write_all(b"!").unwrap();
        })
    });
    assert_eq!(answer.unwrap(), b'!');
    assert_eq!(runtime.block_on(reads).unwrap().unwrap(), 0);
    let sum = runtime.block_on(async {
        spawn(Priority::DEFAULT, async { 40 + 2 })?
            .await
            .map_err(std::io::Error::from)
    });
    assert_eq!(sum.unwrap(), 42);
}

fn spawn_in<F>(runtime: &corank_linux::Runtime, future: F) -> corank_linux::JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    runtime.handle().spawn(Priority::DEFAULT, future).unwrap()
}
