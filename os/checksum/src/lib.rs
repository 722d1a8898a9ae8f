//! The Internet checksum (RFC 1071) of TCP segments over IPv4, by machine words.
//!
//! The stack's own checksum takes two bytes at a time, and on a machine that loads no word from an
//! odd address one byte at a time. With the longest frames that costs more than all else that the
//! stack does. The sum does not depend on where the bytes lie in memory. Whole words are added
//! where they are aligned, and a sum that began at an odd place is the same with its two bytes
//! exchanged (RFC 1071, section 2 B).
#![no_std]

use core::net::Ipv4Addr;

/// The [`sum`] of a segment that has the right checksum.
pub const WHOLE: u16 = 0xffff;

/// Number of TCP in an IPv4 header.
const TCP: u16 = 6;
/// Words that are added in one round of the loop.
const ROUND: usize = 8;

/// Returns the sum that a segment's checksum field has to make up for: of its bytes, as they are,
/// and of the pseudo header (RFC 9293, section 3.1).
///
/// With the right checksum in its field it is [`WHOLE`]. With a 0 there, the right one is what
/// [`checksum`] makes of it.
///
/// # Panics
/// If the segment has 64 KiB or more, which no packet has room for.
#[must_use]
pub fn sum(source: Ipv4Addr, destination: Ipv4Addr, segment: &[u8]) -> u16 {
    let length = u16::try_from(segment.len()).expect("a segment fits into a packet");
    let addresses = pairs(&source.octets()) + pairs(&destination.octets());
    let others = [TCP, length].map(|number| u64::from(number.to_be()));
    let header = addresses + others[0] + others[1];
    u16::from_be(fold(header + u64::from(bytes(segment))))
}

/// Returns the checksum of a segment with this [`sum`].
#[must_use]
pub const fn checksum(sum: u16) -> u16 {
    !sum
}

/// Returns the sum of the bytes as 16-bit numbers of the machine's own byte order, the first of
/// which begins with the first byte.
fn bytes(data: &[u8]) -> u16 {
    // SAFETY: any eight bytes are a `u64`.
    let (head, words, tail) = unsafe { data.align_to::<u64>() };
    let rest = fold(u64::from(self::words(words)) + pairs(tail));
    let rest = if head.len().is_multiple_of(2) {
        rest
    } else {
        rest.swap_bytes()
    };
    fold(pairs(head) + u64::from(rest))
}

fn words(words: &[u64]) -> u16 {
    // What is carried out of a word counts 2⁶⁴, which is 1 modulo 2¹⁶ - 1.
    let add = |sum: u64, word: &u64| {
        let (sum, carried) = sum.overflowing_add(*word);
        sum + u64::from(carried)
    };
    let (rounds, rest) = words.as_chunks::<ROUND>();
    let sum = rounds
        .iter()
        .fold(0, |sum, round| round.iter().fold(sum, add));
    fold(rest.iter().fold(sum, add))
}

/// Returns the sum of a few bytes, two at a time; behind an odd one stands a 0.
fn pairs(data: &[u8]) -> u64 {
    let (pairs, last) = data.as_chunks::<2>();
    let last = last
        .first()
        .map_or(0, |last| u16::from_ne_bytes([*last, 0]));
    let pairs = pairs
        .iter()
        .map(|pair| u64::from(u16::from_ne_bytes(*pair)));
    pairs.sum::<u64>() + u64::from(last)
}

/// Returns the same number modulo 2¹⁶ - 1 in 16 bits, 0 only if it is 0.
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}
