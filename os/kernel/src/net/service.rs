//! The coroutine that owns the interfaces.
//!
//! It is woken by the card's interrupt, by what marks a socket, and by the first of the sockets'
//! timers. It polls nothing.
use super::classify::{Frame, classify};
use super::link::{Link, Step};
use super::listener::Listener;
use super::socket::{Endpoint, Kind, State, Way};
use super::table::{Cursor, Key, MOST, TABLE};
use super::work::WORK;
use super::{tcp, udp};
use crate::clock::{self, Sleep, sleep_until};
use crate::device::net as card;
use crate::executor::{executor, has_more_urgent_work};
use crate::fault;
use crate::pace::checkpoint;
use crate::pending_read::EndedRead;
use crate::stretch::{self, Work};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use corank::Priority;
use corank_abi::error::TIMED_OUT;
use corank_abi::net::NetworkStatus;
use core::future::poll_fn;
use core::net::Ipv4Addr;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::socket::tcp::State as Phase;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};

/// Frames that are received, and sockets that are served, before the executor picks again.
///
/// There are fewer if something more urgent is ready.
pub(super) const BURST: usize = 16;

/// Sockets' timers are due at whole multiples of so many microseconds.
///
/// So those of one moment wake the service once. What TCP waits for is ten times as long and more.
const TIMER_GRAIN: u64 = 1000;

/// Our address in QEMU's user network, how many bits of it are the network's, and the router to all
/// other networks.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
const NETWORK_BITS: u8 = 24;
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

static RECEIVED: AtomicU64 = AtomicU64::new(0);
static SENT: AtomicU64 = AtomicU64::new(0);
static POLLS: AtomicU64 = AtomicU64::new(0);

/// Why the service turns to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A frame has come for it.
    Frame,
    /// It has something to send, or its time has come.
    Time,
}

/// Starts the service.
///
/// # Panics
/// When there is no memory for it.
pub(crate) fn init() {
    let stack = Stack::new();
    let service = executor()
        .spawn(Priority::MOST_URGENT, serve(stack))
        .expect("there is memory for the network");
    WORK.lock().service = Some(service.remote());
}

/// Tests whether frames can be sent this way.
pub(super) fn leads(way: Way) -> bool {
    way == Way::Loopback || card::get().is_some()
}

/// Returns what is known of the network.
pub(crate) async fn status() -> NetworkStatus {
    let (mut sockets, mut orphans, mut fading) = (0, 0, 0);
    let mut next = Some(Cursor::default());
    while let Some(from) = next {
        let (some, behind) = TABLE.lock().some_from(from);
        for socket in &some {
            sockets += 1;
            orphans += u64::from(socket.state.lock().orphan);
            fading += u64::from(tcp::is_fading(socket));
        }
        next = behind;
        checkpoint().await;
    }
    NetworkStatus {
        card: u64::from(card::get().is_some()),
        orphans: orphans.saturating_sub(fading),
        fading,
        sockets,
        most_sockets: MOST as u64,
        received: RECEIVED.load(Ordering::Relaxed),
        sent: SENT.load(Ordering::Relaxed),
        polls: POLLS.load(Ordering::Relaxed),
    }
}

/// Tests whether the card, if there is one, has room for a frame.
fn can_send() -> bool {
    card::get().is_none_or(card::Card::can_send)
}

async fn serve(mut stack: Stack) {
    poll_fn(|context| {
        stretch::works_on(Work::Service("net"));
        POLLS.fetch_add(1, Ordering::Relaxed);
        stack.work();
        if stack.has_more(context) {
            // A more urgent coroutine goes first.
            context.waker().wake_by_ref();
        }
        Poll::<()>::Pending
    })
    .await;
}

/// An interface, and where its frames go.
struct Port {
    interface: Interface,
    link: Link,
}

struct Stack {
    /// By [`Way`].
    ports: [Option<Port>; 2],
    /// Sockets by the microsecond in which they are checked again.
    timers: BTreeMap<(u64, u64), Arc<Endpoint>>,
    /// Sockets that have something to send when the card has room.
    stalled: VecDeque<Arc<Endpoint>>,
    /// The place from which on all sockets get a turn.
    ///
    /// An address has come for which some of them may wait.
    resumed: Option<Cursor>,
    /// Another address has come meanwhile.
    resumes_again: bool,
    /// The sleep until the first timer.
    sleep: Option<(u64, Sleep)>,
    /// Listeners that were notified of a connection.
    ///
    /// They are dropped when no socket is locked.
    used: Vec<Arc<Listener>>,
    /// Pending reads that have ended.
    ///
    /// They are finished when no socket is locked.
    served: Vec<EndedRead>,
}

fn instant(microseconds: u64) -> Instant {
    Instant::from_micros(microseconds as i64)
}

impl Port {
    fn new(mut link: Link, address: HardwareAddress, network: IpCidr) -> Port {
        let mut config = Config::new(address);
        // The numbers that connections begin with need not be secret from the machine's own owner,
        // but differ from boot to boot.
        config.random_seed = clock::now() ^ crate::device::calendar::seconds().unwrap_or(0) << 32;
        let mut step = Step {
            link: &mut link,
            arriving: None,
            sent: &mut 0,
        };
        let mut interface = Interface::new(config, &mut step, instant(clock::microseconds()));
        interface.update_ip_addrs(|addresses| {
            addresses.push(network).expect("there is room for one");
        });
        Port { interface, link }
    }

    /// Gives a frame to the stack.
    ///
    /// `sockets` has the one that it is for, or none.
    fn receive(&mut self, now: u64, frame: &[u8], sockets: &mut SocketSet<'static>) {
        let mut sent = 0;
        let mut step = Step {
            link: &mut self.link,
            arriving: Some(frame),
            sent: &mut sent,
        };
        self.interface
            .poll_ingress_single(instant(now), &mut step, sockets);
        SENT.fetch_add(sent, Ordering::Relaxed);
    }

    /// Sends one frame of a socket that has something to send.
    fn send(&mut self, now: u64, sockets: &mut SocketSet<'static>) {
        let mut sent = 0;
        let mut step = Step {
            link: &mut self.link,
            arriving: None,
            sent: &mut sent,
        };
        self.interface.poll_egress(instant(now), &mut step, sockets);
        SENT.fetch_add(sent, Ordering::Relaxed);
    }

    /// Returns the microsecond in which the stack wants to check a socket again.
    ///
    /// One that is past means now.
    fn due(&mut self, now: u64, sockets: &SocketSet<'static>) -> Option<u64> {
        let due = self.interface.poll_at(instant(now), sockets)?;
        Some(due.total_micros().max(0) as u64)
    }
}

impl Stack {
    fn new() -> Stack {
        let out = card::get().map(|card| {
            let address = HardwareAddress::Ethernet(EthernetAddress(card.address));
            let network = IpCidr::new(ADDRESS.into(), NETWORK_BITS);
            let mut port = Port::new(Link::Card(card), address, network);
            port.interface
                .routes_mut()
                .add_default_ipv4_route(GATEWAY)
                .expect("there is room for one");
            port
        });
        let back = Port::new(
            Link::Loopback(VecDeque::new()),
            HardwareAddress::Ip,
            IpCidr::new(Ipv4Addr::LOCALHOST.into(), 8),
        );
        Stack {
            ports: [out, Some(back)],
            timers: BTreeMap::new(),
            stalled: VecDeque::new(),
            resumed: None,
            resumes_again: false,
            sleep: None,
            used: Vec::new(),
            // A frame and a marked socket at a time.
            served: Vec::with_capacity(2),
        }
    }

    /// Does what there is to do, within bounds.
    ///
    /// Frames and sockets take turns, so that neither keeps the other waiting for ever. The sockets
    /// that are as urgent as the service is have their turn, and at the end one more.
    fn work(&mut self) {
        let now = clock::microseconds();
        self.take_due(now);
        self.take_stalled();
        self.take_abandoned();
        self.resume();
        for _ in 0..BURST {
            let had_frame = self.take_frame(now);
            let marked = WORK.lock().pop_urgent();
            let had_socket = marked.is_some();
            if let Some(socket) = marked {
                self.serve(now, &socket);
            }
            self.finish_served();
            stretch::check();
            if !had_frame && !had_socket || has_more_urgent_work() {
                break;
            }
        }
        let reserved = WORK.lock().pop_reserved();
        if let Some(socket) = reserved {
            self.serve(now, &socket);
            self.finish_served();
        }
        if let Some(card) = card::get() {
            card.notify();
        }
        self.used.clear();
    }

    /// Marks some of the sockets that waited for room in the card, if there is room.
    fn take_stalled(&mut self) {
        if !can_send() {
            return;
        }
        for _ in 0..BURST {
            let Some(socket) = self.stalled.pop_front() else {
                // What a socket is charged for its place is that of one.
                self.stalled = VecDeque::new();
                break;
            };
            socket.mark(&mut socket.state.lock());
        }
    }

    /// Resets some of the connections whose listeners are gone.
    fn take_abandoned(&mut self) {
        for _ in 0..BURST {
            let Some(connection) = WORK.lock().pop_abandoned() else {
                break;
            };
            connection.close_by_reset();
        }
    }

    /// Marks some of the sockets that may wait for an address that has come.
    fn resume(&mut self) {
        let Some(from) = self.resumed else { return };
        let (sockets, next) = TABLE.lock().some_from(from);
        for socket in &sockets {
            socket.mark(&mut socket.state.lock());
        }
        let again = || core::mem::take(&mut self.resumes_again).then(Cursor::default);
        self.resumed = next.or_else(again);
    }

    fn finish_served(&mut self) {
        for read in self.served.drain(..) {
            EndedRead::finish(Some(read));
        }
    }

    /// Tests whether there is more to do now.
    ///
    /// If not, what has something for the service to do wakes it.
    fn has_more(&mut self, context: &mut Context<'_>) -> bool {
        let has_marked = WORK.lock().prepare_to_wait(context.waker());
        let has_packets = self
            .ports
            .iter()
            .flatten()
            .any(|port| matches!(&port.link, Link::Loopback(queue) if !queue.is_empty()));
        // After that, because an interrupt from now on finds what to wake.
        let has_frames = card::get().is_some_and(card::Card::listen);
        if has_frames {
            super::interrupt();
        }
        let is_due = self.sleep_until_due(context);
        let has_stalled = !self.stalled.is_empty() && can_send();
        has_marked || has_packets || has_frames || is_due || has_stalled || self.resumed.is_some()
    }

    /// Waits for the first timer, and returns whether its time has come.
    fn sleep_until_due(&mut self, context: &mut Context<'_>) -> bool {
        let Some(&(first, _)) = self.timers.keys().next() else {
            self.sleep = None;
            return false;
        };
        if self.sleep.as_ref().is_none_or(|(until, _)| *until != first) {
            self.sleep = Some((first, sleep_until(clock::at_microseconds(first))));
        }
        self.sleep
            .as_mut()
            .is_some_and(|(_, sleep)| Pin::new(sleep).poll(context).is_ready())
    }

    /// Marks some of the sockets whose time has come.
    fn take_due(&mut self, now: u64) {
        for _ in 0..BURST {
            let Some(first) = self
                .timers
                .first_entry()
                .filter(|first| first.key().0 <= now)
            else {
                break;
            };
            let socket = first.remove();
            let mut state = socket.state.lock();
            state.timer = None;
            match state.due {
                Some(due) if due > now => self.set_timer(&socket, &mut state),
                Some(_) => socket.mark(&mut state),
                None => {}
            }
        }
    }

    /// Makes sure that a socket's timer is there when its time comes.
    ///
    /// Nearly every frame puts that time off, so a timer that is too early stays, and is set again
    /// when it is due.
    fn set_timer(&mut self, socket: &Arc<Endpoint>, state: &mut State) {
        let Some(due) = state.due else { return };
        if state.timer.is_some_and(|timer| timer <= due) {
            return;
        }
        if let Some(late) = state.timer.replace(due) {
            self.timers.remove(&(late, socket.id));
        }
        self.timers.insert((due, socket.id), socket.clone());
    }

    /// Receives the next frame, if there is one.
    fn take_frame(&mut self, now: u64) -> bool {
        if let Some(Port {
            link: Link::Loopback(queue),
            ..
        }) = &mut self.ports[Way::Loopback as usize]
            && let Some(packet) = queue.pop_front()
        {
            self.dispatch(now, Way::Loopback, &packet);
            return true;
        }
        let Some(card) = card::get() else {
            return false;
        };
        let Some(received) = card.receive() else {
            return false;
        };
        self.dispatch(now, Way::Card, received.frame());
        card.recycle(received);
        true
    }

    /// Gives a frame to the socket that it is for.
    fn dispatch(&mut self, now: u64, way: Way, frame: &[u8]) {
        RECEIVED.fetch_add(1, Ordering::Relaxed);
        let Some(port) = &mut self.ports[way as usize] else {
            return;
        };
        let socket = match classify(port.link.medium(), frame) {
            Frame::Tcp { key, .. } if fault::loses_segment([key.local_port, key.remote_port]) => {
                return;
            }
            Frame::Tcp { key, opens } => match connection(way, key, opens) {
                Ok(socket) => socket,
                // It comes again.
                Err(NoRoom) => return,
            },
            Frame::Udp(local) => TABLE.lock().datagrams(local),
            Frame::Neighbour => {
                port.receive(now, frame, &mut SocketSet::new(Vec::new()));
                // Some sockets may have waited for this.
                if self.resumed.is_some() {
                    self.resumes_again = true;
                } else {
                    self.resumed = Some(Cursor::default());
                }
                return;
            }
            // It comes again.
            Frame::Damaged => return,
            Frame::Other => None,
        };
        match socket {
            Some(socket) if socket.way == way => {
                let mut state = socket.state.lock();
                let before = phase(&socket, &mut state);
                port.receive(now, frame, &mut state.sockets);
                self.handle_event(now, &socket, &mut state, before, Cause::Frame);
            }
            // It belongs to no socket, so the stack answers it.
            _ => port.receive(now, frame, &mut SocketSet::new(Vec::new())),
        }
    }

    /// Sends a frame of a socket that has something to send.
    ///
    /// If it has more, its next turn comes behind those of its level.
    fn serve(&mut self, now: u64, socket: &Arc<Endpoint>) {
        let mut state = socket.state.lock();
        state.marked = false;
        let Some(port) = &mut self.ports[socket.way as usize] else {
            return;
        };
        let before = phase(socket, &mut state);
        if state.deadline.is_some_and(|deadline| deadline <= now) {
            state.deadline = None;
            state.failure.get_or_insert(TIMED_OUT);
            state.tcp().abort();
        }
        if let Kind::Tcp { key, .. } = &socket.kind {
            tcp::prepare(key, &mut state, port.interface.context());
        }
        if !port.link.can_send() {
            match port.link {
                Link::Card(_) => self.stalled.push_back(socket.clone()),
                // This very burst makes room.
                Link::Loopback(_) => socket.mark(&mut state),
            }
            return;
        }
        port.send(now, &mut state.sockets);
        self.handle_event(now, socket, &mut state, before, Cause::Time);
    }

    /// Handles what has happened to a socket.
    ///
    /// Wakes what waits for it, and makes sure that the socket is checked again.
    fn handle_event(
        &mut self,
        now: u64,
        socket: &Arc<Endpoint>,
        state: &mut State,
        before: Phase,
        cause: Cause,
    ) {
        let is_over = match &socket.kind {
            Kind::Tcp { listener, .. } => {
                let is_over = tcp::notify_waiters(
                    socket,
                    listener.as_ref(),
                    state,
                    before,
                    cause,
                    &mut self.used,
                    &mut self.served,
                );
                if is_over {
                    socket.forget();
                }
                is_over
            }
            Kind::Udp => {
                udp::notify_waiters(socket, state);
                false
            }
        };
        let due = match &mut self.ports[socket.way as usize] {
            Some(port) if !is_over => {
                let due = port.due(now, &state.sockets);
                due.into_iter().chain(state.deadline).min()
            }
            _ => None,
        };
        let is_now = due.is_some_and(|due| due <= now);
        state.due = due
            .filter(|_| !is_now)
            .map(|due| due.next_multiple_of(TIMER_GRAIN));
        self.set_timer(socket, state);
        if is_over && let Some(timer) = state.timer.take() {
            self.timers.remove(&(timer, socket.id));
        }
        if is_now {
            socket.mark(state);
        }
    }
}

/// The error that there is no room for another connection.
struct NoRoom;

/// Returns the socket of a connection.
///
/// It is a new one if the frame begins one and a listener has the port.
fn connection(way: Way, key: Key, opens: bool) -> Result<Option<Arc<Endpoint>>, NoRoom> {
    let (known, listener) = {
        let table = TABLE.lock();
        let listener = opens.then(|| table.listener(key.local_port)).flatten();
        (table.connection(&key), listener)
    };
    let Some(listener) = listener else {
        return Ok(known);
    };
    if let Some(known) = known {
        if !tcp::is_fading(&known) {
            return Ok(Some(known));
        }
        // The old connection is over, and this is a new one between the same ports.
        tcp::end_fading(&known);
        known.forget();
    }
    tcp::make_room(listener.account(), listener.buffer());
    if !TABLE.lock().has_room() || !listener.begin() {
        return Err(NoRoom);
    }
    let Ok(socket) = tcp::answer(way, key, &listener) else {
        listener.lose();
        return Err(NoRoom);
    };
    TABLE.lock().add_connection(key, socket.clone());
    Ok(Some(socket))
}

/// Returns the phase of a connection, and any phase for another socket.
fn phase(socket: &Endpoint, state: &mut State) -> Phase {
    match socket.kind {
        Kind::Tcp { .. } => state.tcp().state(),
        Kind::Udp => Phase::Closed,
    }
}
