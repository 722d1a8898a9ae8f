//! Tests of the heap and the frames behind it.
use alloc::vec::Vec;

use corank_abi::call::{FAILED, SBRK};
use corank_user::page::PAGE_SIZE;
use corank_user::process;

use crate::support::{BAD_ADDRESS, call, exit_code, expect_end, frames_free, pipe, tests};

tests![
    the_heap_grows_and_shrinks,
    fresh_memory_is_zero,
    memory_beyond_the_heap_is_a_fault,
    the_allocator_continues_behind_an_sbrk,
    sbrk_out_of_range_is_refused,
    many_small_boxes_keep_their_contents,
    large_and_small_allocations_keep_their_contents,
    memory_is_exhausted_and_comes_back,
    exec_gives_memory_back,
    a_process_without_memory_can_print,
];

fn sbrk(bytes: isize) -> isize {
    call(SBRK, [bytes as usize, 0, 0])
}

fn the_heap_grows_and_shrinks() {
    let old = sbrk(0);
    let before = frames_free();
    assert_eq!(sbrk(10 * PAGE_SIZE as isize), old);
    assert!(frames_free() <= before - 10);
    assert_eq!(sbrk(0), old + 10 * PAGE_SIZE as isize);
    assert_eq!(
        sbrk(-10 * PAGE_SIZE as isize),
        old + 10 * PAGE_SIZE as isize
    );
    assert_eq!(sbrk(0), old);
    assert!(frames_free() >= before - 1, "a page table may stay");
}

/// Reads and writes a byte of memory that `sbrk` gave.
fn touch(address: usize) -> u8 {
    let byte: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: no other code uses what `sbrk` gave. Where it gave nothing, the access is meant to
    // fault.
    unsafe {
        let old = byte.read_volatile();
        byte.write_volatile(1);
        old
    }
}

fn fresh_memory_is_zero() {
    for _ in 0..3 {
        let start = sbrk(20 * PAGE_SIZE as isize) as usize;
        for page in 0..20 {
            assert_eq!(touch(start + page * PAGE_SIZE + 123), 0);
        }
        sbrk(-20 * PAGE_SIZE as isize);
    }
}

fn memory_beyond_the_heap_is_a_fault() {
    let end = sbrk(PAGE_SIZE as isize) as usize + PAGE_SIZE;
    touch(end - 1);
    expect_end(BAD_ADDRESS, || {
        touch(end.next_multiple_of(PAGE_SIZE));
    });
    sbrk(-(PAGE_SIZE as isize));
    expect_end(BAD_ADDRESS, || {
        touch(end - 1);
    });
}

/// Tests that the allocator's heap goes on behind a hole.
fn the_allocator_continues_behind_an_sbrk() {
    let mut parts = Vec::new();
    for part in 0..20_u8 {
        parts.push(alloc::vec![part; 50_000]);
        let ours = sbrk(100) as usize;
        touch(ours);
    }
    for (part, bytes) in (0..).zip(&parts) {
        assert!(bytes.iter().all(|byte| *byte == part));
    }
}

fn sbrk_out_of_range_is_refused() {
    let old = sbrk(0);
    for bytes in [isize::MIN, isize::MAX, -old, -(1 << 30), 1 << 40] {
        assert_eq!(sbrk(bytes), FAILED, "{bytes} bytes");
        assert_eq!(sbrk(0), old);
    }
}

fn many_small_boxes_keep_their_contents() {
    let mut boxes: Vec<_> = (0..50_000_u64).map(alloc::boxed::Box::new).collect();
    // Every other box is freed and made again.
    for _ in 0..3 {
        let mut index = 0;
        boxes.retain(|_| {
            index += 1;
            index % 2 == 0
        });
        let missing = 50_000 - boxes.len() as u64;
        boxes.extend((0..missing).map(alloc::boxed::Box::new));
    }
    assert_eq!(boxes.len(), 50_000);
}

fn large_and_small_allocations_keep_their_contents() {
    let mut kept = Vec::new();
    for round in 1..50_usize {
        kept.push(alloc::vec![round as u8; round]);
        let large = alloc::vec![1_u8; 10_000 * round];
        assert_eq!(large.len(), 10_000 * round);
    }
    for (round, part) in (1..).zip(&kept) {
        assert!(part.len() == round && part.iter().all(|byte| *byte == round as u8));
    }
}

fn memory_is_exhausted_and_comes_back() {
    let before = frames_free();
    let code = exit_code(|| {
        let mut taken = 0;
        while sbrk(1 << 20) != FAILED {
            taken += 1;
        }
        assert!(taken >= 8, "only {taken} MiB");
        assert!(
            Vec::<u8>::new().try_reserve_exact(64 << 20).is_err(),
            "the allocator says so as well"
        );
        0
    });
    assert_eq!(code, 0);
    assert_eq!(frames_free(), before);
}

fn exec_gives_memory_back() {
    let before = frames_free();
    let code = exit_code(|| {
        sbrk(1 << 20);
        process::exec("hello", &["hello"]);
        1
    });
    assert_eq!(code, 0);
    assert_eq!(frames_free(), before);
}

/// Tests that a process that learns that memory has ended can say so.
///
/// Pipes have a reserve of frames that no program's memory gets.
fn a_process_without_memory_can_print() {
    const PAGE: isize = PAGE_SIZE as isize;
    let (reader, writer) = pipe();
    let (_other_reader, other_writer) = pipe();
    let code = exit_code(|| {
        // Otherwise the pages that a write touches would be copied when there is no frame for that.
        assert_eq!(other_writer.write(&[1]), Ok(1));
        // Large steps come first, because each page by itself takes a call.
        for step in [1024, 32, 1] {
            while sbrk(step * PAGE) != FAILED {}
        }
        (writer.write(&[2]) != Ok(1)).into()
    });
    assert_eq!(code, 0);
    let mut byte = [0];
    assert_eq!(reader.read(&mut byte), Ok(1));
    assert_eq!(byte, [2]);
}
