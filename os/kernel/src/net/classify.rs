//! Which socket a frame is for.
use super::table::Key;
use smoltcp::phy::Medium;
use smoltcp::wire::{
    ArpOperation, ArpPacket, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, TcpPacket,
    UdpPacket,
};

/// What a frame is about. Nothing is believed of it but these numbers: the stack looks at all of it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// It belongs to a connection; `opens` if it may begin one.
    Tcp { key: Key, opens: bool },
    /// It goes to this UDP port.
    Udp(u16),
    /// It tells where somebody is found.
    Neighbour,
    /// Something else.
    Other,
}

/// Looks at a frame.
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
    packet.and_then(classify_packet).unwrap_or(Frame::Other)
}

fn classify_packet(packet: &[u8]) -> Option<Frame> {
    let packet = Ipv4Packet::new_checked(packet).ok()?;
    let remote = packet.src_addr();
    match packet.next_header() {
        IpProtocol::Tcp => {
            let tcp = TcpPacket::new_checked(packet.payload()).ok()?;
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
