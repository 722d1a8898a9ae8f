//! Which socket a frame is for.
//!
//! The checksums of TCP segments are checked and filled in here, not in the stack. See
//! [`corank_checksum`].
use super::table::Key;
use smoltcp::phy::Medium;
use smoltcp::wire::{
    ArpOperation, ArpPacket, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, TcpPacket,
    UdpPacket,
};

/// What a frame is about.
///
/// Only these numbers are taken from it. The stack checks all of it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// It belongs to a connection; `opens` if it may begin one.
    Tcp { key: Key, opens: bool },
    /// It goes to this UDP port.
    Udp(u16),
    /// It tells where a neighbour is found.
    Neighbour,
    /// A TCP segment that is not what was sent.
    Damaged,
    /// Something else.
    Other,
}

/// Finds out what a frame is about.
pub(super) fn classify(medium: Medium, frame: &[u8]) -> Frame {
    let packet = match medium {
        Medium::Ip => Some(frame),
        Medium::Ethernet => match EthernetFrame::new_checked(frame) {
            Ok(ethernet) if ethernet.ethertype() == EthernetProtocol::Arp => {
                let is_answer = ArpPacket::new_checked(ethernet.payload())
                    .is_ok_and(|arp| arp.operation() == ArpOperation::Reply);
                return if is_answer {
                    Frame::Neighbour
                } else {
                    Frame::Other
                };
            }
            Ok(ethernet) if ethernet.ethertype() == EthernetProtocol::Ipv4 => {
                Some(ethernet.payload())
            }
            _ => None,
        },
    };
    packet
        .and_then(|packet| classify_packet(medium, packet))
        .unwrap_or(Frame::Other)
}

fn classify_packet(medium: Medium, packet: &[u8]) -> Option<Frame> {
    let packet = Ipv4Packet::new_checked(packet).ok()?;
    let remote = packet.src_addr();
    match packet.next_header() {
        IpProtocol::Tcp => {
            let tcp = TcpPacket::new_checked(packet.payload()).ok()?;
            // Nothing damages what never leaves the machine.
            let is_whole = || {
                let sum = corank_checksum::sum(remote, packet.dst_addr(), packet.payload());
                sum == corank_checksum::WHOLE
            };
            if medium == Medium::Ethernet && !is_whole() {
                return Some(Frame::Damaged);
            }
            Some(Frame::Tcp {
                key: Key {
                    local_port: tcp.dst_port(),
                    remote,
                    remote_port: tcp.src_port(),
                },
                opens: tcp.syn() && !tcp.ack() && !tcp.rst(),
            })
        }
        IpProtocol::Udp => {
            let udp = UdpPacket::new_checked(packet.payload()).ok()?;
            Some(Frame::Udp(udp.dst_port()))
        }
        _ => None,
    }
}

/// Fills in the checksum of the TCP segment in a frame that the stack has made.
///
/// Does nothing if there is no segment in it.
pub(super) fn complete(frame: &mut [u8]) {
    let mut frame = EthernetFrame::new_unchecked(frame);
    if frame.ethertype() != EthernetProtocol::Ipv4 {
        return;
    }
    let mut packet = Ipv4Packet::new_unchecked(frame.payload_mut());
    if packet.next_header() != IpProtocol::Tcp {
        return;
    }
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    let segment = packet.payload_mut();
    // The stack has left a 0 there.
    let checksum = corank_checksum::checksum(corank_checksum::sum(from, to, segment));
    TcpPacket::new_unchecked(segment).set_checksum(checksum);
}
