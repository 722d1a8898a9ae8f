//! Moving and clearing memory in large pieces.
//!
//! The `memcpy` and `memset` that come with the compiler take five instructions for each word. Pages are what the kernel copies and
//! clears most: these take little more than two. The accesses are volatile, or the compiler would turn the loops into calls of
//! those two functions.

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

/// Sets a whole page, or any other number of lines, to zero.
pub(crate) fn clear(lines: &mut [Line]) {
    for line in lines {
        for word in line {
            // SAFETY: the word is borrowed exclusively.
            unsafe { core::ptr::from_mut(word).write_volatile(0) };
        }
    }
}
