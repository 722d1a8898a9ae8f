//! Runtimes whose workers share priorities in a domain.

#![cfg(all(feature = "domain", not(loom)))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use corank_linux::domain::Domain;
use corank_linux::net::UnixStream;
use corank_linux::{Builder, Priority, spawn, time, yield_now};
use futures::{AsyncReadExt, AsyncWriteExt};

/// Two runtimes of one domain finish all their work, also coroutines that wait for I/O and timers.
///
/// Each has two busy workers. One runtime is on the most and one on the least urgent level.
#[test]
fn two_runtimes_of_a_domain_do_all_their_work() {
    // Other users may not enter it.
    let mode = std::fs::Permissions::from_mode(0o700);
    let root = tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .unwrap();
    let runtime = || {
        let domain = Domain::named("test").root(root.path());
        Builder::new().workers(2).domain(domain).build().unwrap()
    };
    let (urgent, bulk) = (runtime(), runtime());
    let busy = |level: u8| async move {
        let level = Priority::new(level).unwrap();
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let echo = async move {
            let mut byte = [0];
            for _ in 0..200 {
                other.read_exact(&mut byte).await.unwrap();
                other.write_all(&byte).await.unwrap();
            }
        };
        let echo = spawn(level, echo).unwrap();
        let compute = async {
            for _ in 0..20_000 {
                yield_now().await;
            }
        };
        let compute = spawn(level, compute).unwrap();
        for number in 0..200 {
            one.write_all(&[number]).await.unwrap();
            let mut byte = [0];
            one.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte[0], number);
        }
        time::sleep(Duration::from_millis(1)).await;
        echo.await.unwrap();
        compute.await.unwrap();
        true
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| bulk.block_on_at(Priority::LEAST_URGENT, busy(60)));
        assert!(urgent.block_on_at(Priority::MOST_URGENT, busy(1)));
        assert!(other.join().unwrap());
    });
}

#[test]
fn a_domain_that_cannot_be_joined_is_an_error() {
    let shared = Domain::named("test").root("/proc");
    assert!(Builder::new().workers(1).domain(shared).build().is_err());
}
