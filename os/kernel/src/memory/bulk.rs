//! Moving and clearing memory in large pieces.
//!
//! The `memcpy` and `memset` that come with the compiler take five instructions for each word.
//! Pages are what the kernel copies and clears most, and these functions take little more than two.
//! The accesses are volatile, or the compiler would turn the loops into calls of those two
//! functions.

use alloc::vec::Vec;

/// Eight words: what one round of a loop moves.
type Line = [u64; 8];

const LINE: usize = size_of::<Line>();

/// Copies `length` bytes.
///
/// # Safety
/// As [`core::ptr::copy_nonoverlapping`].
pub(crate) unsafe fn copy(source: *const u8, target: *mut u8, length: usize) {
    let aligned = (source.addr() | target.addr()).is_multiple_of(align_of::<Line>());
    let lines = if aligned { length / LINE } else { 0 };
    for line in 0..lines {
        // SAFETY: the line lies inside both ranges, which are aligned.
        unsafe {
            let words = source.cast::<Line>().add(line);
            let [a, b, c, d, e, f, g, h] =
                core::array::from_fn(|word| words.cast::<u64>().add(word).read_volatile());
            let words = target.cast::<Line>().add(line).cast::<u64>();
            words.write_volatile(a);
            words.add(1).write_volatile(b);
            words.add(2).write_volatile(c);
            words.add(3).write_volatile(d);
            words.add(4).write_volatile(e);
            words.add(5).write_volatile(f);
            words.add(6).write_volatile(g);
            words.add(7).write_volatile(h);
        }
    }
    let done = lines * LINE;
    // SAFETY: what is left lies inside both ranges.
    unsafe {
        target
            .add(done)
            .copy_from_nonoverlapping(source.add(done), length - done)
    };
}

/// Copies all of `source` to `target`.
///
/// # Panics
/// When they differ in length.
pub(crate) fn copy_all(source: &[u8], target: &mut [u8]) {
    assert_eq!(source.len(), target.len());
    // SAFETY: both ranges are there, and a range that is borrowed exclusively overlaps no other
    // one.
    unsafe { copy(source.as_ptr(), target.as_mut_ptr(), source.len()) };
}

/// Adds `data` to a buffer, which has room for it or grows.
pub(crate) fn append(bytes: &mut Vec<u8>, data: &[u8]) {
    bytes.reserve(data.len());
    let target = bytes.spare_capacity_mut().as_mut_ptr().cast();
    // SAFETY: there is room for so many bytes behind those of the buffer, and nothing else refers
    // to that.
    unsafe {
        copy(data.as_ptr(), target, data.len());
        bytes.set_len(bytes.len() + data.len());
    }
}

/// Adds so many zeros to a buffer, which has room for them or grows.
pub(crate) fn append_zeros(bytes: &mut Vec<u8>, count: usize) {
    bytes.reserve(count);
    let target = bytes.spare_capacity_mut().as_mut_ptr().cast::<u8>();
    let lines = if target.cast::<Line>().is_aligned() {
        count / LINE
    } else {
        0
    };
    // SAFETY: there is room for so many bytes behind those of the buffer, nothing else refers to
    // that, and zeros are valid lines. They are written before they count as the buffer's.
    unsafe {
        clear_at(target.cast::<Line>(), lines);
        let done = lines * LINE;
        target.add(done).write_bytes(0, count - done);
        bytes.set_len(bytes.len() + count);
    }
}

/// Sets so many lines to zero, whatever is there.
///
/// # Safety
/// As [`core::ptr::write_bytes`].
unsafe fn clear_at(lines: *mut Line, count: usize) {
    for line in 0..count {
        for word in 0..LINE / size_of::<u64>() {
            // SAFETY: the word lies inside the lines.
            unsafe { lines.add(line).cast::<u64>().add(word).write_volatile(0) };
        }
    }
}

/// Sets a whole page, or any other number of lines, to zero.
pub(crate) fn clear(lines: &mut [Line]) {
    // SAFETY: the lines are borrowed exclusively.
    unsafe { clear_at(lines.as_mut_ptr(), lines.len()) };
}
