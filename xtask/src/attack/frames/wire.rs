//! The wire: frames as datagrams between two Unix sockets.

use anyhow::{Context as _, Result};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest frame.
const LONGEST: usize = 1514;
/// The number of attempts to send a frame to a full wire.
const ATTEMPTS: usize = 40;
/// The good client's address.
pub(super) const GOOD: [u8; 4] = [10, 0, 2, 2];
/// The last byte of the addresses 10.0.2.x of hostile computers.
pub(super) const HOSTILE: std::ops::Range<u8> = 100..104;

/// This program's end of the wire.
pub(super) struct Wire {
    socket: UnixDatagram,
    machine: PathBuf,
    /// Frames for other computers than the good client.
    foreign: Vec<Vec<u8>>,
}

impl Wire {
    /// Makes a wire from `here` to `machine`, a socket that QEMU makes.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub(super) fn new(here: &Path, machine: &Path) -> Result<Self> {
        let socket = UnixDatagram::bind(here).context("no socket for the wire")?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            machine: machine.to_path_buf(),
            foreign: Vec::new(),
        })
    }

    /// Sends a frame.
    ///
    /// A wire that stays full loses the frame, as real wires do.
    pub(super) fn send(&self, frame: &[u8]) {
        for _ in 0..ATTEMPTS {
            match self.socket.send_to(frame, &self.machine) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.rest(),
                _ => return,
            }
        }
    }

    /// Takes the frames that came for hostile computers.
    pub(super) fn foreign(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.foreign)
    }

    /// Sleeps for a moment.
    pub(super) fn rest(&self) {
        std::thread::sleep(Duration::from_micros(500));
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let mut frame = vec![0; 4 * LONGEST];
        loop {
            let length = self.socket.recv(&mut frame).ok()?;
            if !is_for_hostile(&frame[..length]) {
                frame.truncate(length);
                return Some(frame);
            }
            self.foreign.push(frame[..length].to_vec());
        }
    }
}

/// Tests whether a frame of the machine, ARP or IPv4, goes to another computer than the good
/// client.
///
/// Hostile frames name many addresses as their own.
fn is_for_hostile(frame: &[u8]) -> bool {
    let target = match frame.get(12..14) {
        Some([8, 0]) => frame.get(30..34),
        Some([8, 6]) => frame.get(38..42),
        _ => None,
    };
    target.is_some_and(|target| target != GOOD)
}

impl Device for Wire {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sender<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sender<'_>)> {
        let frame = self.take()?;
        Some((Received(frame), Sender(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sender<'_>> {
        Some(Sender(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = LONGEST;
        capabilities
    }
}

/// A frame from the machine.
pub(super) struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, use_frame: F) -> R {
        use_frame(&self.0)
    }
}

/// Room for a frame to the machine.
pub(super) struct Sender<'a>(&'a Wire);

impl TxToken for Sender<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let mut frame = vec![0; length];
        let result = fill(&mut frame);
        self.0.send(&frame);
        result
    }
}
