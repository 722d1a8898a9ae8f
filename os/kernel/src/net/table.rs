//! All sockets, by what distinguishes their frames.
use super::listener::Listener;
use super::socket::Endpoint;
use crate::failure::Failure;
use crate::lock::Mutex;
use crate::pace::checkpoint;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::{Arc, Weak};
use corank_abi::error::{NO_SOCKETS, PORT_IN_USE};
use core::net::Ipv4Addr;

/// How many connections and UDP sockets there can be.
pub(super) const MOST: usize = 4096;

/// Ports that are given to sockets that do not ask for one.
const FREE_PORTS: core::ops::RangeInclusive<u16> = 49152..=65535;

/// How many ports one piece of a search for a free one visits.
///
/// [`SEARCHES`] pieces visit each port once.
const PORTS: usize = 64;

/// How many pieces a search for a free port has at most.
const SEARCHES: usize = (*FREE_PORTS.end() - *FREE_PORTS.start()) as usize / PORTS + 1;

/// Calls `search` for piece after piece of the free ports, with a [`checkpoint`] behind each, until
/// it finds something.
///
/// # Errors
/// As `search`; and when no port is free.
pub(super) async fn find_port<T>(
    mut search: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    for _ in 0..SEARCHES {
        if let Some(found) = search()? {
            return Ok(found);
        }
        checkpoint().await;
    }
    Err(Failure(PORT_IN_USE))
}

/// What distinguishes the frames of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub local_port: u16,
    pub remote: Ipv4Addr,
    pub remote_port: u16,
}

impl Key {
    /// Returns the key as one number, because the table compares several for each frame.
    fn bits(self) -> u64 {
        let address = u64::from(self.remote.to_bits());
        address << 32 | u64::from(self.remote_port) << 16 | u64::from(self.local_port)
    }
}

/// How many sockets are visited in one piece of work.
pub(super) const SOME: usize = 16;

/// A place among all sockets.
///
/// It is the first key that has not been visited.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cursor {
    Connections(u64),
    Datagrams(u16),
}

impl Default for Cursor {
    fn default() -> Cursor {
        Cursor::Connections(0)
    }
}

#[derive(Debug)]
pub(super) struct Table {
    /// By [`Key::bits`].
    connections: BTreeMap<u64, Arc<Endpoint>>,
    datagrams: BTreeMap<u16, Arc<Endpoint>>,
    listeners: BTreeMap<u16, Weak<Listener>>,
    /// Connections that only wait for old frames to die out, by the order in which that began.
    ///
    /// What an entry costs is part of the socket's charge.
    fading: BTreeMap<u64, Arc<Endpoint>>,
    /// The number of the next entry in `fading`.
    next_fading: u64,
    next_port: u16,
}

pub(super) static TABLE: Mutex<Table> = Mutex::new(Table {
    connections: BTreeMap::new(),
    datagrams: BTreeMap::new(),
    listeners: BTreeMap::new(),
    fading: BTreeMap::new(),
    next_fading: 0,
    next_port: *FREE_PORTS.start(),
});

impl Table {
    /// Returns how many sockets there are, listeners not counted.
    pub(super) fn length(&self) -> usize {
        self.connections.len() + self.datagrams.len()
    }

    /// Tests whether there is room for another socket.
    pub(super) fn has_room(&self) -> bool {
        self.length() < MOST
    }

    /// Adds a connection that only waits for old frames from now on.
    ///
    /// Returns the number under which it is removed.
    pub(super) fn add_fading(&mut self, socket: Arc<Endpoint>) -> u64 {
        let number = self.next_fading;
        self.next_fading += 1;
        self.fading.insert(number, socket);
        number
    }

    /// Removes the connection that was added under this number.
    pub(super) fn remove_fading(&mut self, number: u64) -> Option<Arc<Endpoint>> {
        self.fading.remove(&number)
    }

    /// Returns the connection that has waited for old frames longest.
    pub(super) fn oldest_fading(&self) -> Option<Arc<Endpoint>> {
        let (_, socket) = self.fading.first_key_value()?;
        Some(socket.clone())
    }

    /// Returns some sockets from a place on, and where to go on.
    ///
    /// The place is `None` behind the last. A socket that is there all the time comes once.
    pub(super) fn some_from(
        &self,
        from: Cursor,
    ) -> (heapless::Vec<Arc<Endpoint>, SOME>, Option<Cursor>) {
        let mut some = heapless::Vec::new();
        let mut datagrams = 0;
        if let Cursor::Connections(first) = from {
            for (key, socket) in self.connections.range(first..) {
                if some.push(socket.clone()).is_err() {
                    return (some, Some(Cursor::Connections(*key)));
                }
            }
        } else if let Cursor::Datagrams(first) = from {
            datagrams = first;
        }
        for (port, socket) in self.datagrams.range(datagrams..) {
            if some.push(socket.clone()).is_err() {
                return (some, Some(Cursor::Datagrams(*port)));
            }
        }
        (some, None)
    }

    /// Returns the socket of a connection.
    pub(super) fn connection(&self, key: &Key) -> Option<Arc<Endpoint>> {
        self.connections.get(&key.bits()).cloned()
    }

    /// Returns the UDP socket at a port.
    pub(super) fn datagrams(&self, port: u16) -> Option<Arc<Endpoint>> {
        self.datagrams.get(&port).cloned()
    }

    /// Returns the listener at a port.
    pub(super) fn listener(&self, port: u16) -> Option<Arc<Listener>> {
        self.listeners.get(&port)?.upgrade()
    }

    /// Enters a connection, with a key that no other connection has.
    pub(super) fn add_connection(&mut self, key: Key, socket: Arc<Endpoint>) {
        self.connections.insert(key.bits(), socket);
    }

    /// Forgets a connection.
    pub(super) fn remove_connection(&mut self, key: &Key) -> Option<Arc<Endpoint>> {
        self.connections.remove(&key.bits())
    }

    /// Returns a key for a connection from here, or `None` if the next [`PORTS`] ports are taken.
    ///
    /// # Errors
    /// If there are too many sockets.
    pub(super) fn free_key(
        &mut self,
        remote: Ipv4Addr,
        remote_port: u16,
    ) -> Result<Option<Key>, Failure> {
        if !self.has_room() {
            return Err(Failure(NO_SOCKETS));
        }
        let key = |local_port| Key {
            local_port,
            remote,
            remote_port,
        };
        let port = self.free_port(|table, port| {
            !table.connections.contains_key(&key(port).bits())
                && !table.listeners.contains_key(&port)
        });
        Ok(port.map(key))
    }

    /// Enters a UDP socket.
    ///
    /// # Errors
    /// If another one has the port, or there are too many.
    pub(super) fn add_datagrams(
        &mut self,
        port: u16,
        socket: Arc<Endpoint>,
    ) -> Result<(), Failure> {
        if !self.has_room() {
            return Err(Failure(NO_SOCKETS));
        }
        match self.datagrams.entry(port) {
            Entry::Occupied(_) => Err(Failure(PORT_IN_USE)),
            Entry::Vacant(place) => {
                place.insert(socket);
                Ok(())
            }
        }
    }

    /// Forgets a UDP socket.
    pub(super) fn remove_datagrams(&mut self, port: u16) -> Option<Arc<Endpoint>> {
        self.datagrams.remove(&port)
    }

    /// Enters a listener that `make` makes for its port.
    ///
    /// A port of 0 is any that is free. Returns `None` if the next [`PORTS`] ports are taken.
    ///
    /// # Errors
    /// If another one has the port.
    pub(super) fn listen(
        &mut self,
        port: u16,
        make: impl FnOnce(u16) -> Listener,
    ) -> Result<Option<Arc<Listener>>, Failure> {
        let is_free = |table: &Table, port| !table.listeners.contains_key(&port);
        let port = match port {
            0 => match self.free_port(is_free) {
                Some(port) => port,
                None => return Ok(None),
            },
            port if is_free(self, port) => port,
            _ => return Err(Failure(PORT_IN_USE)),
        };
        let listener = Arc::new(make(port));
        self.listeners.insert(port, Arc::downgrade(&listener));
        Ok(Some(listener))
    }

    /// Forgets a listener.
    pub(super) fn remove_listener(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Returns the first of the next [`PORTS`] ports that is free.
    ///
    /// The next search begins behind it.
    fn free_port(&mut self, is_free: impl Fn(&Table, u16) -> bool) -> Option<u16> {
        for _ in 0..PORTS {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(*FREE_PORTS.start());
            if is_free(self, port) {
                return Some(port);
            }
        }
        None
    }
}
