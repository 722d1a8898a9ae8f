//! Signals: none is lost, however many listeners there are and however many signals come. Each test
//! has its own kinds, because a signal reaches all listeners of the process.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corank_linux::signal::{Signal, Signals};
use corank_linux::time::timeout;
use corank_linux::{Builder, Runtime, spawn_blocking, yield_now};
use futures::StreamExt;

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

fn workers(workers: usize) -> Runtime {
    Builder::new().workers(workers).build().unwrap()
}

/// Sends a signal to this thread: its handler has run when this returns.
fn raise(signal: Signal) {
    signal_hook::low_level::raise(signal.as_raw()).unwrap();
}

async fn received(signals: &mut Signals) -> Signal {
    timeout(LONG, signals.recv()).await.expect("it is not lost")
}

#[test]
fn each_kind_is_received_and_coalesces() {
    workers(1).block_on(async {
        let mut signals = Signals::new([Signal::HUP, Signal::TERM]).unwrap();
        assert!(futures::poll!(Box::pin(signals.recv())).is_pending());
        for _ in 0..1000 {
            raise(Signal::HUP);
        }
        raise(Signal::TERM);
        assert_eq!(received(&mut signals).await, Signal::HUP);
        assert_eq!(signals.next().await, Some(Signal::TERM));
        assert!(futures::poll!(Box::pin(signals.recv())).is_pending());
        // A wait that was dropped has taken nothing.
        raise(Signal::HUP);
        assert_eq!(received(&mut signals).await, Signal::HUP);
    });
}

/// Sends signals from another thread while they are received: a receiver that counts them sees the
/// last.
#[test]
fn the_last_of_many_signals_is_received() {
    const COUNT: u64 = 20_000;
    workers(2).block_on(async {
        let mut signals = Signals::new([Signal::USR1]).unwrap();
        let sent = Arc::new(AtomicU64::new(0));
        let count = sent.clone();
        let storm = spawn_blocking(move || {
            for _ in 0..COUNT {
                count.fetch_add(1, Ordering::SeqCst);
                raise(Signal::USR1);
            }
        });
        while sent.load(Ordering::SeqCst) < COUNT {
            assert_eq!(received(&mut signals).await, Signal::USR1);
        }
        storm.await.unwrap();
    });
}

#[test]
fn many_signals_of_one_kind_hide_no_other() {
    workers(1).block_on(async {
        let mut signals = Signals::new([Signal::ALARM, Signal::USR2, Signal::QUIT]).unwrap();
        raise(Signal::QUIT);
        let mut received = Vec::new();
        for _ in 0..3 {
            raise(Signal::ALARM);
            raise(Signal::USR2);
            received.push(signals.recv().await);
        }
        assert_eq!(received, [Signal::ALARM, Signal::USR2, Signal::QUIT]);
    });
}

/// Each listener receives each signal, with several runtimes in one process, some of which end.
#[test]
fn every_runtime_receives_a_signal() {
    let runtimes: Vec<_> = (1..4).map(workers).collect();
    let mut listeners: Vec<_> = (runtimes.iter())
        .map(|runtime| {
            let _entered = runtime.enter();
            Signals::new([Signal::WINCH]).unwrap()
        })
        .collect();
    raise(Signal::WINCH);
    for (runtime, mut signals) in runtimes.iter().zip(listeners.drain(1..).rev()) {
        // Also on another runtime than the one that created it.
        let kind = runtime.block_on(async move { received(&mut signals).await });
        assert_eq!(kind, Signal::WINCH);
    }
    let mut first = listeners.pop().unwrap();
    assert_eq!(
        runtimes[2].block_on(async move { received(&mut first).await }),
        Signal::WINCH
    );
    drop(runtimes);
    raise(Signal::WINCH);
}

#[test]
fn forbidden_signals_are_refused() {
    workers(1).block_on(async {
        for kind in [Signal::KILL, Signal::STOP, Signal::SEGV] {
            let refused = Signals::new([Signal::CONT, kind]).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
        let mut none = Signals::new([]).unwrap();
        for _ in 0..3 {
            assert!(futures::poll!(Box::pin(none.recv())).is_pending());
            yield_now().await;
        }
    });
    assert!(
        Signals::new([Signal::CONT]).is_err(),
        "no runtime runs here"
    );
}

#[test]
fn ctrl_c_is_sigint() {
    workers(1).block_on(async {
        let mut waits = Box::pin(corank_linux::signal::ctrl_c());
        assert!(futures::poll!(&mut waits).is_pending());
        raise(Signal::INT);
        timeout(LONG, waits).await.unwrap().unwrap();
    });
}
