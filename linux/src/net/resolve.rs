//! Resolves names to addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use crate::blocking::{into_io, spawn_blocking};

/// Gives the address to which a socket is bound or connected: an address, or a host's name with a
/// port, as `"localhost:80"`.
///
/// An address needs no resolver. The system's resolver blocks, so it runs on a thread for blocking
/// calls.
pub trait Address {
    /// Returns the address if no name has to be resolved.
    fn known(&self) -> Option<SocketAddr>;

    /// Returns the name to resolve.
    fn name(self) -> String;
}

impl Address for SocketAddr {
    fn known(&self) -> Option<SocketAddr> {
        Some(*self)
    }

    fn name(self) -> String {
        self.to_string()
    }
}

impl Address for &str {
    fn known(&self) -> Option<SocketAddr> {
        self.parse().ok()
    }

    fn name(self) -> String {
        self.to_string()
    }
}

impl Address for String {
    fn known(&self) -> Option<SocketAddr> {
        self.parse().ok()
    }

    fn name(self) -> String {
        self
    }
}

impl Address for (&str, u16) {
    fn known(&self) -> Option<SocketAddr> {
        let host: IpAddr = self.0.parse().ok()?;
        Some((host, self.1).into())
    }

    fn name(self) -> String {
        format!("{}:{}", self.0, self.1)
    }
}

macro_rules! with_port {
    ($($host:ty),*) => {$(
        impl Address for ($host, u16) {
            fn known(&self) -> Option<SocketAddr> {
                Some((*self).into())
            }

            fn name(self) -> String {
                SocketAddr::from(self).to_string()
            }
        }
    )*};
}

with_port!(IpAddr, Ipv4Addr, Ipv6Addr);

/// Tries the addresses of a name one after the other; returns the first success, or the last error.
pub(super) async fn first<T, F>(
    address: impl Address,
    mut attempt: impl FnMut(SocketAddr) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    if let Some(known) = address.known() {
        return attempt(known).await;
    }
    let name = address.name();
    let mut last = io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("`{name}` stands for no address"),
    );
    let resolve = spawn_blocking(move || {
        let addresses = name.to_socket_addrs();
        addresses.map(Iterator::collect::<Vec<_>>)
    });
    let resolved = resolve.await;
    for address in resolved.map_err(into_io)?? {
        match attempt(address).await {
            Ok(made) => return Ok(made),
            Err(error) => last = error,
        }
    }
    Err(last)
}
