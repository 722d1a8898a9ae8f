//! The messages between a process and the daemon, over a Unix socket of kind `SOCK_SEQPACKET`.
//!
//! A process sends one request and gets one reply. With a reply of status [`Status::Granted`] come
//! two file descriptors, of its page and of the board. The process has its page as long as it keeps
//! the connection. All numbers are in the machine's byte order.

/// Where the daemon listens.
pub const SOCKET: &str = "/run/corank/scx";
/// The version of the messages and of the memory.
pub const VERSION: u32 = 1;
const MAGIC: u64 = u64::from_le_bytes(*b"CORANKSX");

/// The number of bytes of a request.
pub const REQUEST: usize = 16;
/// The number of bytes of a reply.
pub const REPLY: usize = 24;

/// The daemon's answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The process gets a page.
    Granted = 0,
    /// The daemon speaks another version.
    Version = 1,
    /// No level was granted to the process's user or groups.
    Refused = 2,
    /// The process has a page already.
    Twice = 3,
    /// The daemon has as many processes as it takes, in all or of this user.
    Full = 4,
    /// The system refused; the daemon's log has the reason.
    System = 5,
}

impl Status {
    const ALL: [Self; 6] = [
        Self::Granted,
        Self::Version,
        Self::Refused,
        Self::Twice,
        Self::Full,
        Self::System,
    ];
}

/// The daemon's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What became of the request.
    pub status: Status,
    /// The levels that the process may show, one bit each.
    pub granted: u64,
}

/// Returns a request's bytes.
#[must_use]
pub fn request() -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
    bytes[8..12].copy_from_slice(&VERSION.to_ne_bytes());
    bytes
}

/// Returns the version of a request; `None` if it is no request.
#[must_use]
pub fn version_of(bytes: &[u8]) -> Option<u32> {
    (bytes.len() == REQUEST && number(bytes, 0) == MAGIC).then(|| half(bytes, 8))
}

impl Reply {
    /// Returns the reply's bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; REPLY] {
        let mut bytes = [0; REPLY];
        bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes[8..12].copy_from_slice(&VERSION.to_ne_bytes());
        bytes[12..16].copy_from_slice(&(self.status as u32).to_ne_bytes());
        bytes[16..].copy_from_slice(&self.granted.to_ne_bytes());
        bytes
    }

    /// Decodes a reply; `None` if it is none.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != REPLY || number(bytes, 0) != MAGIC {
            return None;
        }
        let status = half(bytes, 12) as usize;
        Some(Self {
            status: *Status::ALL.get(status)?,
            granted: number(bytes, 16),
        })
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_survives_its_bytes() {
        for status in Status::ALL {
            let reply = Reply {
                status,
                granted: 0xffff_ffff_0000_0001,
            };
            assert_eq!(Reply::from_bytes(&reply.to_bytes()), Some(reply));
        }
    }

    #[test]
    fn other_bytes_are_no_message() {
        assert_eq!(version_of(&request()), Some(VERSION));
        assert_eq!(version_of(b"GET / HTTP/1.1\r\n"), None);
        assert_eq!(Reply::from_bytes(&[0; REPLY]), None);
        let mut unknown = Reply {
            status: Status::System,
            granted: 0,
        }
        .to_bytes();
        unknown[12] = 6;
        assert_eq!(Reply::from_bytes(&unknown), None);
    }
}
