//! Tests of several harts at once.
//!
//! They cover threads of one process, processes that reach each other, and memory that is taken
//! away while another hart uses it. On one hart the same tests run by turns.
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hint::spin_loop;
use core::ptr::{read_volatile, without_provenance_mut, write_volatile};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use corank_abi::call::{EXEC, FAILED, SBRK};
use corank_user::page::{self, PAGE_SIZE};
use corank_user::process::{self, Fork, Pid};
use corank_user::runtime::{self, Global};
use corank_user::thread;

use crate::support::{
    self, BAD_ADDRESS, at_level, be_at, call, exit_code, kill_and_wait, pipe, spin_for_ticks, tests,
};

tests![
    threads_run_on_all_harts_at_once,
    an_idle_hart_takes_what_is_less_urgent,
    strict_work_ends_less_urgent_work_on_another_hart,
    the_system_bitmap_is_what_no_hart_serves,
    a_group_that_forks_is_ended_whole,
    any_number_of_harts_may_sleep,
    floating_point_follows_its_thread,
    pipes_pass_a_token_across_harts,
    pipes_carry_everything_in_order,
    the_end_of_a_pipe_follows_its_bytes,
    kill_ends_threads_on_every_hart,
    a_kill_at_any_moment_leaves_nothing,
    a_deep_tree_of_forks_ends_whole,
    exec_is_refused_while_threads_run,
    shrinking_the_heap_reaches_every_hart,
];

/// Lets `count` threads of one process wait for each other, so that none goes on before all have
/// come.
fn wait_for_each_other(count: usize) {
    let here = Arc::new(AtomicUsize::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let (here, over) = (here.clone(), over.clone());
            thread::spawn(move || {
                here.fetch_add(1, Ordering::SeqCst);
                // This makes no system call. The others come on another hart, or when a tick takes
                // this one away.
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

fn threads_run_on_all_harts_at_once() {
    wait_for_each_other(process::harts());
    wait_for_each_other(4 * process::harts());
}

fn spin_for_ever() {
    loop {
        spin_loop();
    }
}

/// Tests that an idle hart runs less urgent work beside an urgent process that never stops.
///
/// That process is at the most urgent level. On one hart it would keep the other from running.
fn an_idle_hart_takes_what_is_less_urgent() {
    if process::harts() == 1 {
        return;
    }
    be_at(0);
    let other = process::spawn(|| {
        be_at(63);
        spin_for_ticks(3);
        0
    })
    .expect("a process");
    while process::try_wait(other).expect("the child").is_none() {
        spin_loop();
    }
}

/// Tests that work that becomes ready runs at once where the least urgent strict process computes.
///
/// This needs no tick and no kernel entry on that hart.
fn strict_work_ends_less_urgent_work_on_another_hart() {
    if process::harts() == 1 {
        return;
    }
    let ticks = || page::system().ticks.load(Ordering::Relaxed);
    be_at(5);
    let (gate, gatekeeper) = pipe();
    runtime::set_global(Global::Strict);
    let spinners: Vec<_> = (0..process::harts())
        .map(|_| at_level(60, spin_for_ever))
        .collect();
    // If ticks ended computations, too, one would come in between sooner or later.
    loop {
        let woken = at_level(10, || {
            let _ = gate.read(&mut [0]);
        });
        // The process at level 10 waits by now. This process has a hart of its own, and each other
        // hart has a spinner.
        spin_for_ticks(2);
        let before = ticks();
        gatekeeper.write(&[0]).expect("room");
        while process::try_wait(woken).expect("the child").is_none() {
            spin_loop();
        }
        if ticks() == before {
            break;
        }
    }
    spinners.into_iter().for_each(kill_and_wait);
}

/// Tests that a level is in the system's bitmap while something waits there for a hart.
///
/// It is not in the bitmap while a hart serves it.
fn the_system_bitmap_is_what_no_hart_serves() {
    if process::harts() == 1 {
        return;
    }
    be_at(5);
    let shown = || page::system().ready.load(Ordering::Relaxed) & 1 << 40 != 0;
    let served = at_level(40, spin_for_ever);
    // At a tick the process waits for a moment.
    while shown() {
        spin_loop();
    }
    let others: Vec<_> = (0..process::harts())
        .map(|_| at_level(20, spin_for_ever))
        .collect();
    while !shown() {
        spin_loop();
    }
    others.into_iter().for_each(kill_and_wait);
    kill_and_wait(served);
}

/// Tests that a group of processes that fork on all harts is ended whole.
///
/// No process is left out, however late it was made.
fn a_group_that_forks_is_ended_whole() {
    for round in 0..10 {
        let (begun, begins) = pipe();
        let leader = process::spawn(|| {
            process::set_group(0, 0).expect("itself");
            loop {
                let _ = begins.write(&[0]);
                match process::fork() {
                    // A chain rather than a tree, so that memory lasts.
                    Ok(Fork::Parent(_)) => loop {
                        corank_user::time::sleep(core::time::Duration::from_secs(1000));
                    },
                    Ok(Fork::Child) => {}
                    Err(_) => spin_for_ever(),
                }
            }
        })
        .expect("a process");
        for _ in 0..2 + round {
            assert_eq!(begun.read(&mut [0]), Ok(1));
        }
        process::kill_group(leader, support::KILL).expect("the group is there");
        process::wait(leader).expect("the child");
        drop(begins);
        // The pipe is at its end when no process is left that could write.
        while begun.read(&mut [0; 64]) == Ok(64) {}
    }
}

/// Tests that any number of harts can sleep while the others do the work.
///
/// Nothing is lost between one hart and the next.
fn any_number_of_harts_may_sleep() {
    let all = process::harts();
    let (reader, writer) = pipe();
    let busy = process::spawn(|| {
        for round in 0..=u8::MAX {
            writer.write(&[round]).expect("room");
            thread::yield_now();
        }
        0
    })
    .expect("a process");
    for round in 0..=u8::MAX {
        let serving = 1 + usize::from(round) % all;
        process::limit_harts(serving).expect("all levels are granted");
        assert_eq!(process::harts(), serving);
        let mut byte = [0];
        assert_eq!((reader.read(&mut byte), byte), (Ok(1), [round]));
    }
    process::limit_harts(all).expect("all levels are granted");
    assert_eq!(process::wait(busy).expect("the child").code, 0);
    let refused = exit_code(|| {
        process::grant(process::id(), !1).expect("itself");
        i32::from(process::limit_harts(1).is_err())
    });
    assert_eq!(refused, 1, "only the process that was granted all levels");
}

/// Tests that a thread that moves from hart to hart computes with its own registers.
///
/// Each hart keeps the registers of the thread before.
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

/// Passes a token round through processes, each on whatever hart is free.
fn pipes_pass_a_token_across_harts() {
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

/// Tests that nothing is lost, doubled or torn apart with writers and readers on several harts.
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

/// Tests that a read finds what was written if it checks just when the writer closes.
///
/// The writer is on another hart.
fn the_end_of_a_pipe_follows_its_bytes() {
    const ROUNDS: u16 = 1000;
    for round in 0..ROUNDS {
        let (reader, writer) = pipe();
        let other = thread::spawn(move || {
            writer.write(&[1]).expect("room");
            drop(writer);
        });
        let mut bytes = [0; 2];
        assert_eq!(reader.read(&mut bytes), Ok(1), "round {round}");
        other.expect("a thread").join().expect("it ends");
    }
}

/// Tests that a process with a thread on every hart is gone as soon as it is killed.
///
/// None of the threads enters the kernel by itself.
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

/// Kills processes that fork, write, map and end, at any moment and from another hart.
fn a_kill_at_any_moment_leaves_nothing() {
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

/// Forks in every process until the tree is three levels deep.
///
/// Each process is waited for by its parent.
fn a_deep_tree_of_forks_ends_whole() {
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

/// Tests that memory that one thread gives back is gone for a thread that uses it on another hart.
///
/// The next access ends the process, and never reads what the frame is used for next.
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
                    // SAFETY: a volatile read of plain memory; when it is gone, the kernel ends the
                    // process.
                    let value = unsafe { read_volatile(place) };
                    if value != MINE {
                        finds.write(&[1]).expect("room");
                    }
                    begins.store(true, Ordering::SeqCst);
                }
            });
            drop(watcher.expect("a thread"));
            // From here on nothing else moves the end of the heap. There are two pages, so that a
            // whole one is among them.
            let end = call(SBRK, [2 * PAGE_SIZE, 0, 0]) as usize;
            let page = end.next_multiple_of(PAGE_SIZE);
            // SAFETY: the page has just been mapped, and no other code knows its address.
            unsafe { write_volatile(without_provenance_mut(page), MINE) };
            place.store(page, Ordering::SeqCst);
            while !begun.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            call(SBRK, [(2 * PAGE_SIZE).wrapping_neg(), 0, 0]);
            // The frame that came back is the first to be used again, by the bytes in this pipe.
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
