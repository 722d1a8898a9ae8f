//! Segments of all lengths, at all addresses, with any bytes: as the stack's own checksum has it.
use corank_checksum::{WHOLE, checksum, sum};
use proptest::prelude::*;
use smoltcp::wire::TcpPacket;
use std::net::Ipv4Addr;

/// Source and destination.
type Sides = [Ipv4Addr; 2];

const SIDES: Sides = [Ipv4Addr::new(10, 0, 2, 2), Ipv4Addr::new(10, 0, 2, 15)];
/// Bytes of a header without options.
const HEADER: usize = 20;

/// Returns the checksum that the stack would fill in.
fn expected([from, to]: Sides, segment: &[u8]) -> u16 {
    let mut packet = TcpPacket::new_unchecked(segment.to_vec());
    packet.fill_checksum(&from.into(), &to.into());
    packet.checksum()
}

fn check([from, to]: Sides, segment: &mut [u8]) {
    segment[16..18].fill(0);
    let found = checksum(sum(from, to, segment));
    assert_eq!(found, expected([from, to], segment), "{segment:?}");
    segment[16..18].copy_from_slice(&found.to_be_bytes());
    assert_eq!(sum(from, to, segment), WHOLE);
    let packet = TcpPacket::new_unchecked(&*segment);
    assert!(packet.verify_checksum(&from.into(), &to.into()));
}

#[test]
fn every_length_at_every_address() {
    // A multiple of the words of a round is among the lengths, and every rest.
    let mut room: Vec<u8> = (0..400_u32).map(|at| (at * 151 % 256) as u8).collect();
    for start in 0..16 {
        for length in HEADER..HEADER + 200 {
            check(SIDES, &mut room[start..start + length]);
        }
    }
}

#[test]
fn carries_are_added() {
    for byte in [0, 1, 0x7f, 0x80, 0xfe, 0xff] {
        for length in [HEADER, HEADER + 1, 1460, 1501, 65_535] {
            let mut room = vec![byte; length + 1];
            check([Ipv4Addr::from([byte; 4]); 2], &mut room[..length]);
            check([Ipv4Addr::from([byte; 4]); 2], &mut room[1..]);
        }
    }
}

#[test]
#[should_panic(expected = "fits into a packet")]
fn overlong_segments_are_refused() {
    let _ = sum(SIDES[0], SIDES[1], &[0; 1 << 16]);
}

proptest! {
    #[test]
    fn any_bytes_match_the_definition(
        sides: [[u8; 4]; 2],
        mut room in prop::collection::vec(any::<u8>(), HEADER + 8..2000),
        start in 0_usize..8,
    ) {
        check(sides.map(Ipv4Addr::from), &mut room[start..]);
    }

    /// A changed bit is found.
    #[test]
    fn a_flipped_bit_is_found(
        mut segment in prop::collection::vec(any::<u8>(), HEADER..2000),
        at: prop::sample::Index,
        bit in 0_u32..8,
    ) {
        check(SIDES, &mut segment);
        let at = at.index(segment.len());
        segment[at] ^= 1_u8 << bit;
        prop_assert_ne!(sum(SIDES[0], SIDES[1], &segment), WHOLE);
    }
}
