//! The network card: a virtio network device.
//!
//! Frames that have come lie in buffers of the device's receive queue until [`Card::receive`] takes
//! them out. Those that are sent belong to the device until it has read them. Its interrupt only
//! wakes the network's coroutine, and does not come again until that one has found nothing more to
//! do (see [`Card::listen`]). The device is notified of frames and buffers many at a time (see
//! [`Card::notify`]).
//!
//! The queues are virtio-drivers'. Its driver for network cards is not used, because it notifies
//! the device of each buffer, and can't keep sent frames from causing interrupts.
use super::plic;
use super::virtio::{self, Dma};
use crate::fault;
use crate::lock::Mutex;
use crate::machine::Machine;
use alloc::vec::Vec;
use bitflags::bitflags;
use core::sync::atomic::{Ordering, fence};
use spin::Once;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::mmio::MmioTransport;
use virtio_drivers::transport::{DeviceType, Transport};

/// Buffers of each queue.
///
/// As many frames can have come before they are taken out. More are lost, as on any network.
const BUFFERS: usize = 64;
/// Bytes of a buffer: the device's header and the largest frame, wherever in it they
/// [begin](start).
const BUFFER_SIZE: usize = 1600;
/// Bytes of the headers in front of what most frames are about: Ethernet's, and IPv4's and TCP's
/// without options.
const HEADERS: usize = 14 + 20 + 20;
/// Bytes of the device's header in front of each frame, as virtio 1 has it and as it was before.
const HEADER: usize = 12;
const LEGACY_HEADER: usize = 10;
/// The numbers of the queues.
const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;

bitflags! {
    /// What the driver supports of what a device may offer (virtio 1.2, sections 5.1.3 and 6).
    ///
    /// The queues' event indices are left out. With them a driver can't say that it wants no
    /// interrupts at all.
    #[derive(Clone, Copy, Debug)]
    struct Features: u64 {
        /// The device has an address.
        const MAC = 1 << 5;
        /// It is one of virtio 1, not an older one.
        const VERSION_1 = 1 << 32;
    }
}

/// A network card.
pub(crate) struct Card {
    /// Its address on the network.
    pub address: [u8; 6],
    /// Bytes of the device's header in front of each frame.
    header: usize,
    state: Mutex<State>,
}

struct State {
    /// It lies in front of the queues because it is dropped first.
    ///
    /// Dropped, it resets the device, which does not reach the queues any more then.
    transport: MmioTransport<'static>,
    receive: VirtQueue<Dma, BUFFERS>,
    transmit: VirtQueue<Dma, BUFFERS>,
    /// Queues that were given buffers since the device was last notified, one bit for each number.
    to_notify: u16,
    /// Bytes of the device's header in front of each frame.
    header: usize,
    /// The buffers in the receive queue, by their token.
    receiving: [Option<Vec<u8>>; BUFFERS],
    /// The frames in the transmit queue, by their token: the buffer, and where in it the frame
    /// ends.
    sending: [Option<(Vec<u8>, usize)>; BUFFERS],
    /// Buffers for frames that are to be sent.
    spare: Vec<Vec<u8>>,
}

// SAFETY: the registers and queues are reached through this value alone, which its lock gives to
// one hart at a time.
unsafe impl Send for State {}

/// A frame that has come, with the device's header in front.
///
/// It is to be given back by [`Card::recycle`].
pub(crate) struct Received {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Received {
    /// Returns the frame.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }
}

static CARD: Once<Card> = Once::new();

/// Returns the network card, if the machine has one.
pub(crate) fn get() -> Option<&'static Card> {
    CARD.get()
}

/// What is called at each interrupt of the card.
static LISTENER: Once<fn()> = Once::new();

/// Finds the first network card among the machine's virtio devices and switches its interrupt on.
///
/// `listener` is called at each interrupt.
pub(crate) fn init(machine: &Machine, listener: fn()) {
    LISTENER.call_once(|| listener);
    for (transport, interrupt) in virtio::devices(machine, DeviceType::Network) {
        match Card::new(transport) {
            Ok(card) => {
                CARD.call_once(|| card);
                plic::enable(interrupt, self::interrupt);
                return;
            }
            Err(error) => crate::println!("corank: the network card cannot be used: {error}"),
        }
    }
}

/// Serves the card's interrupt.
fn interrupt() {
    if let Some(card) = CARD.get() {
        let mut state = card.state.lock();
        state.transport.ack_interrupt();
        state.receive.set_dev_notify(false);
        state.transmit.set_dev_notify(false);
        drop(state);
        if let Some(listener) = LISTENER.get() {
            listener();
        }
    }
}

impl Card {
    fn new(mut transport: MmioTransport<'static>) -> virtio_drivers::Result<Card> {
        let features = transport.begin_init(Features::all());
        let address = transport.read_consistent(|| transport.read_config_space(0))?;
        let receive = VirtQueue::new(&mut transport, RECEIVE, false, false)?;
        let transmit = VirtQueue::new(&mut transport, TRANSMIT, false, false)?;
        transport.finish_init();
        let header = if features.contains(Features::VERSION_1) {
            HEADER
        } else {
            LEGACY_HEADER
        };
        let mut state = State {
            transport,
            receive,
            transmit,
            to_notify: 0,
            header,
            receiving: [const { None }; BUFFERS],
            sending: [const { None }; BUFFERS],
            spare: Vec::new(),
        };
        state.transmit.set_dev_notify(false);
        for _ in 0..BUFFERS {
            state.receive_into(alloc::vec![0; BUFFER_SIZE])?;
        }
        state.notify();
        Ok(Card {
            address,
            header,
            state: Mutex::new(state),
        })
    }

    /// Returns the next frame that has come.
    pub(crate) fn receive(&self) -> Option<Received> {
        let mut state = self.state.lock();
        let token = state.receive.peek_used()?;
        let Some(mut buffer) = state.receiving[usize::from(token)].take() else {
            panic!("the network card has filled a buffer that it was not given");
        };
        let start = start(&buffer, state.header);
        // SAFETY: this is what `receive_into` has added under this token.
        let length = unsafe {
            let filled = &mut [&mut buffer[start..]];
            state.receive.pop_used(token, &[], filled)
        };
        let length = length.expect("the buffer has just been found in the queue") as usize;
        let (start, end) = (start + state.header, (start + length).min(buffer.len()));
        let start = start.min(end);
        if fault::damages_frame(end - start) {
            buffer[end - 1] ^= 1;
        }
        Some(Received { buffer, start, end })
    }

    /// Lets the card fill a frame's buffer again.
    ///
    /// [`notify`](Card::notify) is to follow.
    pub(crate) fn recycle(&self, received: Received) {
        let again = self.state.lock().receive_into(received.buffer);
        again.expect("there is room for a buffer that was taken out");
    }

    /// Tests whether a frame can be sent.
    ///
    /// If not, the interrupt comes when one can.
    pub(crate) fn can_send(&self) -> bool {
        let mut state = self.state.lock();
        if state.has_room() {
            return true;
        }
        state.transmit.set_dev_notify(true);
        // The interrupt may not come for those that were sent by now.
        fence(Ordering::SeqCst);
        state.has_room()
    }

    /// Sends a frame of `length` bytes that `fill` writes, all of them.
    ///
    /// What lies there before is what another frame had. The frame is lost if the queue is full.
    /// [`notify`](Card::notify) is to follow.
    ///
    /// # Panics
    /// If there is no room for so many bytes.
    pub(crate) fn send<T>(&self, length: usize, fill: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut state = self.state.lock();
        let spare = state.spare.pop();
        drop(state);
        let mut buffer = spare.unwrap_or_else(|| alloc::vec![0; BUFFER_SIZE]);
        let start = start(&buffer, self.header);
        let frame = start + self.header;
        let end = frame + length;
        buffer[start..frame].fill(0);
        let filled = fill(&mut buffer[frame..end]);
        state = self.state.lock();
        state.reclaim();
        // SAFETY: the buffer stays in `sending`, untouched, until `reclaim` has taken it out of the
        // queue.
        match unsafe { state.transmit.add(&[&buffer[start..end]], &mut []) } {
            Ok(token) => {
                state.sending[usize::from(token)] = Some((buffer, end));
                state.to_notify |= 1 << TRANSMIT;
            }
            Err(_) => state.spare.push(buffer),
        }
        filled
    }

    /// Notifies the card of the frames and buffers that it was given.
    ///
    /// Does nothing if the card is at its queues and finds them itself. It is called once for all
    /// of a burst, because each time stops the machine's processor, if that is emulated.
    pub(crate) fn notify(&self) {
        self.state.lock().notify();
    }

    /// Switches the interrupt on, and returns whether frames have come by then.
    ///
    /// The interrupt may not come for them.
    pub(crate) fn listen(&self) -> bool {
        let mut state = self.state.lock();
        state.receive.set_dev_notify(true);
        fence(Ordering::SeqCst);
        state.receive.can_pop()
    }
}

impl State {
    fn receive_into(&mut self, mut buffer: Vec<u8>) -> virtio_drivers::Result {
        let start = start(&buffer, self.header);
        // SAFETY: the buffer stays in `receiving`, untouched, until `receive` has taken it out of
        // the queue.
        let token = unsafe { self.receive.add(&[], &mut [&mut buffer[start..]]) }?;
        self.receiving[usize::from(token)] = Some(buffer);
        self.to_notify |= 1 << RECEIVE;
        Ok(())
    }

    fn notify(&mut self) {
        let to_notify = core::mem::take(&mut self.to_notify);
        // Either the device sees what was added, or it is seen here that it is to be notified.
        fence(Ordering::SeqCst);
        for (number, queue) in [(RECEIVE, &self.receive), (TRANSMIT, &self.transmit)] {
            if to_notify >> number & 1 != 0 && queue.should_notify() {
                self.transport.notify(number);
            }
        }
    }

    fn has_room(&mut self) -> bool {
        self.reclaim();
        self.transmit.available_desc() > 0
    }

    /// Takes back what the device has sent.
    fn reclaim(&mut self) {
        while let Some(token) = self.transmit.peek_used() {
            let Some((buffer, end)) = self.sending[usize::from(token)].take() else {
                panic!("the network card has sent a frame that it was not given");
            };
            let start = start(&buffer, self.header);
            // SAFETY: this is what `send` has added under this token.
            let sent = unsafe {
                let frame = &[&buffer[start..end]];
                self.transmit.pop_used(token, frame, &mut [])
            };
            sent.expect("the frame has just been found in the queue");
            self.spare.push(buffer);
        }
    }
}

/// Returns where in a buffer the device's header begins.
///
/// It begins so that what most frames are about lies at a whole word, because that is then copied
/// by words.
fn start(buffer: &[u8], header: usize) -> usize {
    let about = buffer.as_ptr().addr() + header + HEADERS;
    about.next_multiple_of(size_of::<u64>()) - about
}
