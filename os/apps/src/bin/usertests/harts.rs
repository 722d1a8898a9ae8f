//! Several harts at once: threads of one process, processes that reach each other, and memory that is taken away while another
//! hart uses it. On one hart the same tests hold by turns.
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hint::spin_loop;
use core::ptr::{read_volatile, without_provenance_mut, write_volatile};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use corank_abi::call::{EXEC, FAILED, SBRK};
use corank_user::page::PAGE_SIZE;
use corank_user::process::{self, Fork, Pid};
use corank_user::thread;

use crate::support::{BAD_ADDRESS, call, exit_code, kill_and_wait, pipe, tests};

tests![
    threads_meet,
    floating_point_follows_its_thread,
    pipes_across_harts,
    pipes_carry_everything_in_order,
    kill_ends_threads_on_every_hart,
    kill_during_everything,
    fork_storm,
    exec_is_refused_while_threads_run,
    shrinking_the_heap_reaches_every_hart,
];

/// Lets `count` threads of one process meet: none goes on before all have come.
fn meet(count: usize) {
    let here = Arc::new(AtomicUsize::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let (here, over) = (here.clone(), over.clone());
            thread::spawn(move || {
                here.fetch_add(1, Ordering::SeqCst);
                // Without a system call: the others come on another hart, or when a tick takes this one away.
                while !over.load(Ordering::SeqCst) {
                    spin_loop();
                }
            })
            .expect("a thread")
        })
        .collect();
    while here.load(Ordering::SeqCst) < count {
        thread::yield_now();
    }
    over.store(true, Ordering::SeqCst);
    for thread in threads {
        thread.join().expect("it ends");
    }
}

fn threads_meet() {
    meet(process::harts());
    meet(4 * process::harts());
}

/// A thread that moves from hart to hart computes with its own registers, though each hart keeps those of the thread before.
fn floating_point_follows_its_thread() {
    let threads: Vec<_> = (0..2 * process::harts() + 1)
        .map(|number| {
            thread::spawn(move || {
                let step = (number + 1) as f64;
                let mut sum = 0.0;
                for _ in 0..300 {
                    sum += step;
                    thread::yield_now();
                }
                assert_eq!(sum, 300.0 * step);
            })
            .expect("a thread")
        })
        .collect();
    for thread in threads {
        thread.join().expect("it computed right");
    }
}

/// A token goes round through processes, each on whatever hart is free.
fn pipes_across_harts() {
    const ROUNDS: u8 = 200;
    let (mut from, first) = pipe();
    let mut children = Vec::new();
    for _ in 0..process::harts() + 1 {
        let (next, to) = pipe();
        let pid = process::spawn(|| {
            let mut token = [0];
            for _ in 0..ROUNDS {
                assert_eq!(from.read(&mut token), Ok(1));
                assert_eq!(to.write(&[token[0].wrapping_add(1)]), Ok(1));
            }
            0
        });
        children.push(pid.expect("a process"));
        from = next;
    }
    let hops = children.len() as u8;
    for round in 0..ROUNDS {
        assert_eq!(first.write(&[round]), Ok(1));
        let mut token = [0];
        assert_eq!(from.read(&mut token), Ok(1));
        assert_eq!(token[0], round.wrapping_add(hops));
    }
    for pid in children {
        assert_eq!(process::wait(pid).expect("the child").code, 0);
    }
}

/// Writers and readers on several harts: nothing is lost, doubled or torn apart.
fn pipes_carry_everything_in_order() {
    const EACH: usize = 40;
    const SIZE: usize = 3000;
    let (reader, writer) = pipe();
    let writers: Vec<Pid> = (0..3_u8)
        .map(|number| {
            let pid = process::spawn(|| {
                let block = [number; SIZE];
                for _ in 0..EACH {
                    assert_eq!(writer.write(&block), Ok(SIZE));
                }
                0
            });
            pid.expect("a process")
        })
        .collect();
    drop(writer);
    let mut counts = [0; 3];
    let mut buffer = [0; 1000];
    loop {
        let count = reader.read(&mut buffer).expect("it can be read");
        for &byte in &buffer[..count] {
            counts[usize::from(byte)] += 1;
        }
        if count < buffer.len() {
            break;
        }
    }
    assert_eq!(counts, [EACH * SIZE; 3]);
    for pid in writers {
        assert_eq!(process::wait(pid).expect("the child").code, 0);
    }
}

/// A process with a thread on every hart, none of which enters the kernel by itself, is gone as soon as it is killed.
fn kill_ends_threads_on_every_hart() {
    for _ in 0..10 {
        let (begun, begins) = pipe();
        let pid = process::spawn(|| {
            for _ in 0..process::harts() {
                let begins = begins.duplicate().expect("a descriptor");
                let spin = move || {
                    begins.write(&[0]).expect("room");
                    loop {
                        spin_loop();
                    }
                };
                drop(thread::spawn(spin).expect("a thread"));
            }
            loop {
                spin_loop();
            }
        })
        .expect("a process");
        for _ in 0..process::harts() {
            assert_eq!(begun.read(&mut [0]), Ok(1));
        }
        kill_and_wait(pid);
    }
}

/// Processes that fork, write, map and end are killed at any moment, from another hart.
fn kill_during_everything() {
    for delay in 0..40 {
        let pid = process::spawn(|| {
            let (reader, writer) = pipe();
            let noise = thread::spawn(move || {
                loop {
                    call(SBRK, [PAGE_SIZE, 0, 0]);
                    call(SBRK, [PAGE_SIZE.wrapping_neg(), 0, 0]);
                }
            });
            drop(noise.expect("a thread"));
            loop {
                writer.write(&[1; 100]).expect("room");
                reader.read(&mut [0; 100]).expect("bytes");
                let _ = thread::spawn(|| ()).map(thread::JoinHandle::join);
            }
        })
        .expect("a process");
        for _ in 0..delay * 500 {
            spin_loop();
        }
        kill_and_wait(pid);
    }
}

/// Every process forks until the tree is three levels deep; each of them is waited for by its parent.
fn fork_storm() {
    fn grow(depth: usize) -> i32 {
        if depth == 0 {
            return 1;
        }
        let mut children = Vec::new();
        for _ in 0..4 {
            match process::fork().expect("memory for a child") {
                Fork::Child => process::exit(grow(depth - 1)),
                Fork::Parent(pid) => children.push(pid),
            }
        }
        let codes = children
            .into_iter()
            .map(|pid| process::wait(pid).expect("the child").code);
        1 + codes.sum::<i32>()
    }
    assert_eq!(exit_code(|| grow(3)), 1 + 4 + 16 + 64);
}

fn exec_is_refused_while_threads_run() {
    let over = Arc::new(AtomicBool::new(false));
    let seen = over.clone();
    let other = thread::spawn(move || {
        while !seen.load(Ordering::SeqCst) {
            spin_loop();
        }
    });
    let name = c"hello";
    assert_eq!(
        call(EXEC, [name.as_ptr().expose_provenance(), 0, 0]),
        FAILED
    );
    over.store(true, Ordering::SeqCst);
    other.expect("a thread").join().expect("it ends");
}

/// Memory that one thread gives back is gone for a thread that uses it on another hart at that moment: the next access ends the
/// process, and never reads what the frame is used for next.
fn shrinking_the_heap_reaches_every_hart() {
    const MINE: usize = 0x5555;
    for _ in 0..8 {
        let (found, finds) = pipe();
        let pid = process::spawn(|| {
            let (reader, writer) = pipe();
            let place = Arc::new(AtomicUsize::new(0));
            let begun = Arc::new(AtomicBool::new(false));
            let (shown, begins) = (place.clone(), begun.clone());
            let watcher = thread::spawn(move || {
                while shown.load(Ordering::SeqCst) == 0 {
                    spin_loop();
                }
                let place: *const usize = without_provenance_mut(shown.load(Ordering::SeqCst));
                loop {
                    // SAFETY: a volatile read of plain memory; when it is gone, the kernel ends the process.
                    let value = unsafe { read_volatile(place) };
                    if value != MINE {
                        finds.write(&[1]).expect("room");
                    }
                    begins.store(true, Ordering::SeqCst);
                }
            });
            drop(watcher.expect("a thread"));
            // From here on nothing else moves the end of the heap. Two pages, so that a whole one is among them.
            let end = call(SBRK, [2 * PAGE_SIZE, 0, 0]) as usize;
            let page = end.next_multiple_of(PAGE_SIZE);
            // SAFETY: the page has just been mapped, and nobody else knows of it.
            unsafe { write_volatile(without_provenance_mut(page), MINE) };
            place.store(page, Ordering::SeqCst);
            while !begun.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            call(SBRK, [(2 * PAGE_SIZE).wrapping_neg(), 0, 0]);
            // The frame that came back is the first to be used again: by the bytes in this pipe.
            loop {
                writer.write(&[1; PAGE_SIZE]).expect("room");
                reader.read(&mut [0; PAGE_SIZE]).expect("bytes");
            }
        })
        .expect("a process");
        assert_eq!(process::wait(pid).expect("the child").code, BAD_ADDRESS);
        assert_eq!(
            found.read(&mut [0]),
            Ok(0),
            "the watcher read something else"
        );
    }
}
