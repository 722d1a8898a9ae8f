//! The interfaces as smoltcp sees them.
use super::classify::complete;
use crate::device::net::Card;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use smoltcp::phy::{
    Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken,
};
use smoltcp::time::Instant;

/// Bytes of the largest frame on an Ethernet, without its checksum.
const ETHERNET_FRAME: usize = 1514;
/// Bytes of the largest packet from this machine to itself.
const LOOPBACK_PACKET: usize = 4 << 10;
/// Packets from this machine to itself that can be in flight at once.
const LOOPBACK_QUEUE: usize = 256;

/// Where frames go.
pub(super) enum Link {
    /// Out of the machine.
    Card(&'static Card),
    /// Back, in the order in which they were sent.
    Loopback(VecDeque<Vec<u8>>),
}

impl Link {
    /// Tests whether a frame can be sent now.
    pub(super) fn can_send(&self) -> bool {
        match self {
            Link::Card(card) => card.can_send(),
            Link::Loopback(queue) => queue.len() < LOOPBACK_QUEUE,
        }
    }

    /// Returns what its frames begin with.
    pub(super) fn medium(&self) -> Medium {
        match self {
            Link::Card(_) => Medium::Ethernet,
            Link::Loopback(_) => Medium::Ip,
        }
    }
}

/// A link for one step of the stack, with the frame that has come, if the step is about one.
pub(super) struct Step<'a> {
    pub(super) link: &'a mut Link,
    pub(super) arriving: Option<&'a [u8]>,
    /// Frames that were sent are counted here.
    pub(super) sent: &'a mut u64,
}

pub(super) struct Arriving<'a>(&'a [u8]);

pub(super) struct Leaving<'a> {
    link: &'a mut Link,
    sent: &'a mut u64,
}

impl Device for Step<'_> {
    type RxToken<'t>
        = Arriving<'t>
    where
        Self: 't;
    type TxToken<'t>
        = Leaving<'t>
    where
        Self: 't;

    fn receive(&mut self, _: Instant) -> Option<(Arriving<'_>, Leaving<'_>)> {
        let frame = self.arriving.take()?;
        // An answer that finds no room is lost, as on any network.
        let leaving = Leaving {
            link: self.link,
            sent: self.sent,
        };
        Some((Arriving(frame), leaving))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        self.link.can_send().then_some(Leaving {
            link: self.link,
            sent: self.sent,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = self.link.medium();
        match self.link {
            Link::Card(_) => {
                capabilities.max_transmission_unit = ETHERNET_FRAME;
                // `classify` checks it when a frame comes, `complete` fills it in.
                capabilities.checksum.tcp = Checksum::None;
            }
            Link::Loopback(_) => {
                capabilities.max_transmission_unit = LOOPBACK_PACKET;
                capabilities.checksum = ChecksumCapabilities::ignored();
            }
        }
        capabilities
    }
}

impl RxToken for Arriving<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        *self.sent += 1;
        match self.link {
            Link::Card(card) => card.send(length, |frame| {
                let result = f(frame);
                complete(frame);
                result
            }),
            Link::Loopback(queue) => {
                let mut packet = Vec::new();
                if packet.try_reserve_exact(length).is_err() {
                    // Lost, as on any network that is short of memory.
                    return f(&mut [0; LOOPBACK_PACKET][..length]);
                }
                packet.resize(length, 0);
                let result = f(&mut packet);
                if queue.len() < LOOPBACK_QUEUE {
                    queue.push_back(packet);
                }
                result
            }
        }
    }
}
