//! The first message that two participants send each other: their identities, and the file
//! descriptors by which their memory is mapped.

use crate::memory::{Mapping, Unsuitable, Writers};
use crate::page::{Doorbells, Foreign, Identity, Page, VERSION};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The bytes that begin every handshake, in all versions. The version follows in four bytes.
pub(crate) const MAGIC: [u8; 8] = *b"CORANK\0G";
/// The number of bytes of a handshake of this version.
const LENGTH: usize = 16;
/// The limit of descriptors that a message is received with.
const MOST_FILES: usize = 8;

/// The role of a process that connects: it takes part or watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has a page and doorbells.
    Participant,
    /// It has neither.
    Watcher,
}

/// The memory that goes with a handshake.
pub(crate) struct Files {
    pub(crate) page: OwnedFd,
    pub(crate) doorbells: OwnedFd,
}

/// Sends a handshake without waiting. Without files it is that of a watcher.
pub(crate) fn send(socket: impl AsFd, files: Option<&Files>) -> io::Result<()> {
    let role: u32 = files.is_none().into();
    let mut words = [0; LENGTH];
    words[..8].copy_from_slice(&MAGIC);
    words[8..12].copy_from_slice(&VERSION.to_le_bytes());
    words[12..].copy_from_slice(&role.to_le_bytes());
    let both: Vec<BorrowedFd<'_>> = (files.iter())
        .flat_map(|files| [files.page.as_fd(), files.doorbells.as_fd()])
        .collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !both.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&both));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&words)], &mut control, flags)?;
    Ok(())
}

/// A participant as its handshake introduced it.
pub(crate) struct Introduced {
    pub(crate) identity: Identity,
    pub(crate) page: Mapping<Page>,
    pub(crate) doorbells: Mapping<Doorbells>,
}

/// The reason why a process is not let in.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It has closed the connection, which is not worth a warning.
    Gone,
    /// It belongs to another user.
    User(u32),
    /// It uses another version.
    Version(u32),
    /// What it sent is no handshake.
    Nonsense,
    /// Its memory is not fit to be mapped.
    Memory(Unsuitable),
    /// Its page is not one.
    Page(Foreign),
    /// The limit of connections is reached, that of one process or that of all.
    TooManyConnections {
        /// Of that process alone.
        of_one: bool,
    },
    /// Its socket has the number of another process.
    Socket(u32),
    /// The system refused: descriptors or memory have run out.
    System(io::Error),
}

impl Refusal {
    /// Tests whether the same process would be refused again.
    pub(crate) fn is_for_good(&self) -> bool {
        match self {
            Self::User(_) | Self::Version(_) | Self::Nonsense | Self::Page(_) | Self::Socket(_) => {
                true
            }
            Self::Memory(unsuitable) => !matches!(unsuitable, Unsuitable::System(_)),
            Self::Gone | Self::TooManyConnections { .. } | Self::System(_) => false,
        }
    }
}

impl From<Unsuitable> for Refusal {
    fn from(unsuitable: Unsuitable) -> Self {
        Self::Memory(unsuitable)
    }
}

impl From<rustix::io::Errno> for Refusal {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("it has gone"),
            Self::User(user) => write!(f, "it belongs to user {user}"),
            Self::Version(version) | Self::Page(Foreign::Version(version)) => write!(
                f,
                "it speaks version {version} of the domain's protocol, and this process version {VERSION}: \
                 build both with the same corank-domain"
            ),
            Self::Nonsense => f.write_str("its handshake is not that of a participant"),
            Self::Memory(unsuitable) => unsuitable.fmt(f),
            Self::Page(Foreign::NoPage) => f.write_str("its page does not begin as a page does"),
            Self::Page(Foreign::Process(process)) => {
                write!(f, "its page claims to be that of process {process}")
            }
            Self::TooManyConnections { of_one: true } => {
                f.write_str("it has too many connections to this one")
            }
            Self::TooManyConnections { of_one: false } => f.write_str(
                "the domain has more connections than are kept: some processes are not seen",
            ),
            Self::Socket(process) => write!(f, "process {process} listens in the name of another"),
            Self::System(error) => error.fmt(f),
        }
    }
}

/// Returns the process at the other end, as Linux reports it.
pub(crate) fn process_of(socket: impl AsFd) -> Result<u32, Refusal> {
    let peer = sockopt::socket_peercred(socket)?;
    let own = rustix::process::geteuid();
    if peer.uid != own {
        return Err(Refusal::User(peer.uid.as_raw()));
    }
    Ok(peer.pid.as_raw_nonzero().get().unsigned_abs())
}

/// Receives a handshake that has come, without waiting. Returns `None` if it is a watcher's.
pub(crate) fn receive(socket: impl AsFd, process: u32) -> Result<Option<Introduced>, Refusal> {
    // One byte more than there should be, to notice.
    let mut words = [0; LENGTH + 1];
    // Room for more than there should be, so that surplus descriptors are closed and not left in
    // the process.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut words)],
        &mut control,
        flags,
    )?;
    let mut files: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            files.extend(some);
        }
    }
    if received.bytes == 0 {
        return Err(Refusal::Gone);
    }
    if received.flags.contains(ReturnFlags::CTRUNC) && files.len() < MOST_FILES {
        // Descriptors ran out while they were received. The sender is not at fault.
        return Err(Errno::MFILE.into());
    }
    let words = &words[..received.bytes.min(words.len())];
    let role = understand(words)?;
    match (role, files.as_slice()) {
        (Role::Watcher, []) => Ok(None),
        (Role::Participant, [page, doorbells]) => {
            let page = Mapping::<Page>::open(page, Writers::Owner)?;
            let doorbells = Mapping::<Doorbells>::open(doorbells, Writers::All)?;
            let identity = page.identity(process).map_err(Refusal::Page)?;
            Ok(Some(Introduced {
                identity,
                page,
                doorbells,
            }))
        }
        _ => Err(Refusal::Nonsense),
    }
}

fn understand(words: &[u8]) -> Result<Role, Refusal> {
    let word = |at: usize| -> Option<u32> {
        let bytes = words.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    if words.get(..8) != Some(&MAGIC) {
        return Err(Refusal::Nonsense);
    }
    match word(8) {
        Some(VERSION) => {}
        Some(other) => return Err(Refusal::Version(other)),
        None => return Err(Refusal::Nonsense),
    }
    match (word(12), words.len()) {
        (Some(0), LENGTH) => Ok(Role::Participant),
        (Some(1), LENGTH) => Ok(Role::Watcher),
        _ => Err(Refusal::Nonsense),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    fn files(process: u32) -> Files {
        let (own, page) = Mapping::<Page>::create("page", Writers::Owner).unwrap();
        own.introduce(&Identity {
            id: u64::from(process),
            process,
            strict: true,
            processors: [1; 16],
            name: "test".into(),
        });
        let (_, doorbells) = Mapping::<Doorbells>::create("doorbells", Writers::All).unwrap();
        Files { page, doorbells }
    }

    #[test]
    fn a_participant_sends_its_identity() {
        let (a, b) = pair();
        send(&a, Some(&files(9))).unwrap();
        let introduced = receive(&b, 9).unwrap().unwrap();
        assert_eq!(introduced.identity.name, "test");
        assert_eq!(process_of(&a).unwrap(), std::process::id());
    }

    #[test]
    fn a_watcher_has_no_page() {
        let (a, b) = pair();
        send(&a, None).unwrap();
        assert!(receive(&b, 9).unwrap().is_none());
        drop(a);
        assert!(matches!(receive(&b, 9).err(), Some(Refusal::Gone)));
    }

    #[test]
    fn a_page_of_another_process_is_refused() {
        let (a, b) = pair();
        send(&a, Some(&files(10))).unwrap();
        let refusal = receive(&b, 9).err().unwrap();
        assert!(matches!(refusal, Refusal::Page(Foreign::Process(10))));
    }

    #[test]
    fn swapped_memory_is_refused() {
        let (a, b) = pair();
        let Files { page, doorbells } = files(9);
        let swapped = Files {
            page: doorbells,
            doorbells: page,
        };
        send(&a, Some(&swapped)).unwrap();
        assert!(matches!(receive(&b, 9).err(), Some(Refusal::Memory(_))));
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let mut words = [0; LENGTH];
        words[..8].copy_from_slice(&MAGIC);
        words[8] = 200;
        // A later version may send more.
        for words in [&words[..], &[&words[..], &[1; 40]].concat()] {
            let refusal = understand(words).unwrap_err();
            assert!(matches!(refusal, Refusal::Version(200)));
            assert!(refusal.to_string().contains("version 200"), "{refusal}");
        }
    }

    proptest! {
        #[test]
        fn no_message_is_taken_for_a_participant_without_files(bytes in proptest::collection::vec(any::<u8>(), 1..100), prefix: bool) {
            let (a, b) = pair();
            let message = if prefix { [&MAGIC[..], &bytes].concat() } else { bytes };
            rustix::io::write(&a, &message).unwrap();
            prop_assert!(!matches!(receive(&b, 9), Ok(Some(_))));
        }
    }
}
