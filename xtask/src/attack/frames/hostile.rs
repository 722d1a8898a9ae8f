//! Hostile computers: they send frames of every kind, most of them damaged in a few places.
//!
//! Some of the frames belong to connections that the computers have.
//!
//! They do not pretend to be the good client: on a network without authentication, a computer that
//! does so takes the client's place.

use super::wire::{GOOD, HOSTILE};
use crate::os::lan::MACHINE;
use crate::os::network::CARD;
use fastrand::Rng;

/// The types in the Ethernet header, which say what follows it.
const ARP: [u8; 2] = [8, 6];
const IPV4: [u8; 2] = [8, 0];
/// Operations of ARP.
const REQUEST: u8 = 1;
const REPLY: u8 = 2;
/// Protocols of IP.
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// The flags RST and ACK.
const RESET: u8 = 0x14;
/// Bytes of the Ethernet and IP headers.
const ETHERNET: usize = 14;
const IP: usize = 20;
/// The echo server's port, which is attacked most.
const ECHO: u16 = 7;
/// The port that hostile computers leave alone, because an order that arrives there may end the
/// server.
const ORDERS: u16 = 9;
/// The number of ports that each hostile computer uses.
///
/// All of them together are fewer than the connections that the server lets wait.
const PORTS: u16 = 16;
const FIRST_PORT: u16 = 50_000;
/// The most connections that are remembered.
const MEMORY: usize = 1000;

/// The last segment that the machine has sent in a connection.
#[derive(Clone, Copy)]
struct Segment {
    /// The hostile computer's address, which damage may have made any.
    address: [u8; 4],
    here: u16,
    there: u16,
    /// The number that the machine expects next, and the one that it expects to be acknowledged.
    next: u32,
    acknowledge: u32,
}

impl Segment {
    /// Returns the header of an answer, up to its checksum, with room for `options` bytes of
    /// options.
    fn header(
        &self,
        flags: u8,
        next: u32,
        acknowledge: u32,
        window: u16,
        options: usize,
    ) -> Vec<u8> {
        let mut header = Vec::new();
        header.extend(self.here.to_be_bytes());
        header.extend(self.there.to_be_bytes());
        header.extend(next.to_be_bytes());
        header.extend(acknowledge.to_be_bytes());
        header.extend([(((20 + options) / 4) << 4) as u8, flags]);
        header.extend(window.to_be_bytes());
        header
    }

    /// Returns what identifies its connection.
    fn ends(&self) -> ([u8; 4], u16, u16) {
        (self.address, self.here, self.there)
    }
}

pub(super) struct Hostile {
    rng: Rng,
    received: Vec<Segment>,
    /// Hostile computers that the machine has asked for hardware addresses, by the last byte of the
    /// address.
    asked: Vec<u8>,
    /// The connection that was reset last.
    last_reset: usize,
    /// Whether the machine has answered the last [question](Hostile::question).
    is_answered: bool,
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl Hostile {
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            rng,
            received: Vec::new(),
            asked: Vec::new(),
            last_reset: 0,
            is_answered: false,
        }
    }

    /// Takes a frame that the machine has sent to a hostile computer.
    pub(super) fn receive(&mut self, frame: &[u8]) {
        if frame.get(12..14) == Some(&ARP) {
            if frame.get(21) == Some(&REPLY) {
                self.is_answered = true;
            } else {
                self.asked.extend(frame.get(41));
            }
        } else if let Some(segment) = segment(frame) {
            let is_same = |other: &Segment| other.ends() == segment.ends();
            match self.received.iter().position(is_same) {
                Some(at) => self.received[at] = segment,
                None if self.received.len() < MEMORY => self.received.push(segment),
                None => {}
            }
        }
    }

    /// Returns the frames that reset the next connection, and answers to the machine's ARP
    /// requests.
    ///
    /// It resets one connection after the other, again and again, as a computer does that has no
    /// such connection.
    pub(super) fn resets(&mut self) -> Vec<Vec<u8>> {
        let asked = std::mem::take(&mut self.asked);
        let mut frames: Vec<_> = asked
            .into_iter()
            .map(|computer| self.whole_arp(computer, REPLY))
            .collect();
        if !self.received.is_empty() {
            self.last_reset = (self.last_reset + 1) % self.received.len();
            let segment = self.received[self.last_reset];
            let mut payload = segment.header(RESET, segment.next, segment.acknowledge, 0, 0);
            payload.extend([0; 4]);
            let mut frame = self.packet(segment.address, TCP, payload, 0x4000);
            set_checksums(&mut frame);
            frames.push(frame);
        }
        frames
    }

    /// Returns a question that the machine answers after it has taken all earlier frames.
    pub(super) fn question(&mut self) -> Vec<u8> {
        self.is_answered = false;
        self.whole_arp(HOSTILE.start, REQUEST)
    }

    /// Tests whether the machine has answered the last question.
    pub(super) fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Returns another frame for the machine.
    pub(super) fn frame(&mut self) -> Vec<u8> {
        loop {
            let frame = self.any();
            let is_good = frame.windows(4).any(|bytes| bytes == GOOD);
            let is_order = word(&frame, ETHERNET + IP + 2) == Some(ORDERS);
            // QEMU takes an empty frame for the end of the wire.
            if !is_good && !is_order && !frame.is_empty() {
                return frame;
            }
        }
    }

    fn any(&mut self) -> Vec<u8> {
        if let Some(computer) = self.asked.pop() {
            return self.arp(computer, REPLY);
        }
        let computer = self.rng.u8(HOSTILE);
        match self.rng.u8(..16) {
            0 => {
                let length = self.rng.usize(..1600);
                (0..length).map(|_| self.rng.u8(..)).collect()
            }
            1 => {
                let operation = self.rng.u8(..4);
                self.arp(computer, operation)
            }
            2 => {
                let payload = self.bytes();
                self.ip(computer, ICMP, payload)
            }
            3..=4 => {
                let mut payload = self.bytes();
                self.set_ports(&mut payload);
                self.ip(computer, UDP, payload)
            }
            5 => {
                let payload = self.bytes();
                let protocol = self.rng.u8(..);
                self.ip(computer, protocol, payload)
            }
            6..=8 => self.tcp(None),
            _ => {
                let known = self.rng.choice(&self.received).copied();
                self.tcp(known)
            }
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let most = [16, 100, 1480][self.rng.usize(..3)];
        let length = self.rng.usize(..most);
        (0..length).map(|_| self.rng.u8(..)).collect()
    }

    fn set_ports(&mut self, payload: &mut [u8]) {
        let ports = [self.rng.u16(..), self.rng.u16(..16)];
        for (place, byte) in payload
            .iter_mut()
            .zip(ports.iter().flat_map(|port| port.to_be_bytes()))
        {
            *place = byte;
        }
        // The length that UDP expects, most of the time.
        if payload.len() >= 6 && self.rng.u8(..4) > 0 {
            let length = payload.len() as u16;
            payload[4..6].copy_from_slice(&length.to_be_bytes());
        }
    }

    fn ethernet(&self, computer: u8, kind: [u8; 2]) -> Vec<u8> {
        let mut frame = CARD.to_vec();
        frame.extend([0x52, 0x55, 10, 0, 2, computer]);
        frame.extend(kind);
        frame
    }

    fn arp(&mut self, computer: u8, operation: u8) -> Vec<u8> {
        let mut frame = self.whole_arp(computer, operation);
        self.damage(&mut frame, 8);
        frame
    }

    fn whole_arp(&self, computer: u8, operation: u8) -> Vec<u8> {
        let mut frame = self.ethernet(computer, ARP);
        frame.extend([0, 1, 8, 0, 6, 4, 0, operation]);
        frame.extend([0x52, 0x55, 10, 0, 2, computer, 10, 0, 2, computer]);
        frame.extend(CARD);
        frame.extend(MACHINE.octets());
        frame
    }

    /// Returns a frame with this payload.
    ///
    /// Its checksums are right most of the time, even after damage.
    fn ip(&mut self, computer: u8, protocol: u8, payload: Vec<u8>) -> Vec<u8> {
        let fragment = match self.rng.u8(..12) {
            0 => self.rng.u16(..),
            _ => 0x4000,
        };
        let mut frame = self.packet([10, 0, 2, computer], protocol, payload, fragment);
        self.damage(&mut frame, 4);
        if self.rng.u8(..16) > 0 {
            set_checksums(&mut frame);
        }
        self.damage(&mut frame, 40);
        frame
    }

    fn packet(
        &mut self,
        address: [u8; 4],
        protocol: u8,
        payload: Vec<u8>,
        fragment: u16,
    ) -> Vec<u8> {
        let mut frame = self.ethernet(address[3], IPV4);
        let length = (IP + payload.len()) as u16;
        frame.extend([0x45, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend(self.rng.u16(..).to_be_bytes());
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, protocol, 0, 0]);
        frame.extend(address);
        frame.extend(MACHINE.octets());
        frame.extend(payload);
        frame
    }

    /// Returns a frame with a TCP segment, of the connection `known` if there is one.
    fn tcp(&mut self, known: Option<Segment>) -> Vec<u8> {
        let segment = known.unwrap_or(Segment {
            address: [10, 0, 2, self.rng.u8(HOSTILE)],
            here: FIRST_PORT + self.rng.u16(..PORTS),
            there: if self.rng.u8(..8) == 0 {
                self.rng.u16(..)
            } else {
                ECHO
            },
            next: self.rng.u32(..),
            acknowledge: 0,
        });
        let flags = match (known, self.rng.u8(..8)) {
            (None, 0..=5) => 2,
            (_, 0..=4) => 0x10,
            (_, 5) => 0x11,
            (_, 6) => 0x18,
            _ => self.rng.u8(..),
        };
        let near = |rng: &mut Rng, number: u32| match rng.u8(..8) {
            0 => number.wrapping_add(rng.u32(..5000)).wrapping_sub(2500),
            1 => rng.u32(..),
            _ => number,
        };
        let [next, acknowledge] =
            [segment.next, segment.acknowledge].map(|number| near(&mut self.rng, number));
        let options = match self.rng.u8(..4) {
            0 => self.rng.usize(..11) * 4,
            _ => 0,
        };
        let window = match self.rng.u8(..4) {
            0 => 0,
            _ => self.rng.u16(..),
        };
        let mut payload = segment.header(flags, next, acknowledge, window, options);
        payload.extend([0; 4]);
        for _ in 0..options {
            // Small numbers are kinds and lengths of options.
            let byte = if self.rng.bool() {
                self.rng.u8(..10)
            } else {
                self.rng.u8(..)
            };
            payload.push(byte);
        }
        if self.rng.u8(..3) > 0 {
            let data = self.bytes();
            payload.extend(data.into_iter().take(1400));
        }
        self.ip(segment.address[3], TCP, payload)
    }

    /// Changes a few bytes, and the length, of one frame in `of`.
    fn damage(&mut self, frame: &mut Vec<u8>, of: u8) {
        if self.rng.u8(..of) > 0 || frame.is_empty() {
            return;
        }
        if self.rng.u8(..8) == 0 && frame.len() >= 6 {
            frame[..6].copy_from_slice(&[[0xff; 6], [1, 0, 0x5e, 0, 0, 1]][self.rng.usize(..2)]);
        }
        for _ in 0..self.rng.usize(1..5) {
            let most = frame.len().min(60);
            let at = self.rng.usize(..most);
            frame[at] = match self.rng.u8(..3) {
                0 => 0,
                1 => 0xff,
                _ => self.rng.u8(..),
            };
        }
        match self.rng.u8(..6) {
            0 => {
                let length = self.rng.usize(..frame.len());
                frame.truncate(length);
            }
            1 => frame.resize(frame.len() + self.rng.usize(..200), 0),
            _ => {}
        }
    }
}

/// Returns the segment of a connection that a frame of the machine carries.
fn segment(frame: &[u8]) -> Option<Segment> {
    let packet = frame.get(ETHERNET..)?;
    if frame.get(12..14)? != IPV4 || *packet.get(9)? != TCP {
        return None;
    }
    let header = usize::from(packet[0] & 15) * 4;
    let tcp = packet.get(header..)?;
    let total = usize::from(word(packet, 2)?);
    let data = total.checked_sub(header + usize::from(*tcp.get(12)? >> 4) * 4)?;
    // A SYN and a FIN count as one byte each.
    let flags = u32::from(*tcp.get(13)?);
    Some(Segment {
        address: packet.get(16..20)?.try_into().ok()?,
        here: word(tcp, 2)?,
        there: word(tcp, 0)?,
        next: long(tcp, 8)?,
        acknowledge: long(tcp, 4)?.wrapping_add(data as u32 + (flags & 1) + (flags >> 1 & 1)),
    })
}

/// Returns the Internet checksum of the parts.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u32::from(*byte));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Sets the checksums of IP and of its payload, as far as there is room for them.
fn set_checksums(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(ETHERNET..) else {
        return;
    };
    let header = usize::from(packet.first().map_or(0, |byte| byte & 15)) * 4;
    if header < IP || packet.len() < header {
        return;
    }
    packet[10..12].fill(0);
    let sum = checksum(&[&packet[..header]]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let (addresses, protocol) = (packet[12..20].to_vec(), packet[9]);
    let payload = &mut packet[header..];
    let (place, with_addresses) = match protocol {
        ICMP => (2, false),
        TCP => (16, true),
        UDP => (6, true),
        _ => return,
    };
    if payload.len() < place + 2 {
        return;
    }
    payload[place..place + 2].fill(0);
    let length = (payload.len() as u16).to_be_bytes();
    let sum = match with_addresses {
        true => checksum(&[&addresses, &[0, protocol], &length, payload]),
        false => checksum(&[payload]),
    };
    payload[place..place + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use smoltcp::wire::{EthernetFrame, IpAddress, Ipv4Packet, TcpPacket};

    #[test]
    fn the_same_seed_gives_the_same_frames() {
        let frames = |seed| {
            let mut hostile = Hostile::new(Rng::with_seed(seed));
            (0..1000).map(|_| hostile.frame()).collect::<Vec<_>>()
        };
        assert_eq!(frames(1), frames(1));
        assert_ne!(frames(1), frames(2));
    }

    #[test]
    fn no_frame_pretends_to_be_the_good_client_or_gives_orders() {
        let mut hostile = Hostile::new(Rng::with_seed(1));
        for _ in 0..10_000 {
            let frame = hostile.frame();
            assert!(!frame.windows(4).any(|bytes| bytes == GOOD));
            assert_ne!(word(&frame, ETHERNET + IP + 2), Some(ORDERS));
        }
    }

    #[test]
    fn many_segments_are_sound_and_many_are_not() {
        let mut hostile = Hostile::new(Rng::with_seed(1));
        let is_sound = |frame: &[u8]| {
            let packet =
                Ipv4Packet::new_checked(EthernetFrame::new_checked(frame).ok()?.payload()).ok()?;
            let segment = TcpPacket::new_checked(packet.payload()).ok()?;
            let [from, to] = [packet.src_addr(), packet.dst_addr()].map(IpAddress::Ipv4);
            (packet.verify_checksum() && segment.verify_checksum(&from, &to)).then_some(())
        };
        let sound = (0..1000)
            .filter(|_| is_sound(&hostile.tcp(None)).is_some())
            .count();
        assert!((400..950).contains(&sound), "{sound} of 1000 are sound");
    }

    #[test]
    fn an_answer_is_understood() {
        let mut hostile = Hostile::new(Rng::with_seed(3));
        let segment = Segment {
            address: [10, 0, 2, HOSTILE.start],
            here: 7,
            there: 50_001,
            next: 100,
            acknowledge: 200,
        };
        let received = (0..100).find_map(|_| {
            let frame = hostile.tcp(Some(segment));
            super::segment(&frame).filter(|received| received.next == 200)
        });
        let received = received.expect("one of a hundred is not damaged");
        assert_eq!((received.here, received.there), (50_001, 7));
    }
}
