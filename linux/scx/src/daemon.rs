//! The loop of the daemon: it accepts processes, gives them pages, and notices when they end.
//!
//! It never waits for a process. What a process can make it do is bounded by the number of
//! connections.

use crate::grants::{Asking, Grants};
use crate::kernel::Scheduler;
use anyhow::{Context, Result, bail};
use corank_scx::protocol::{self, Reply, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, chmod, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, connect, listen, recv, sendmsg, socket_with,
};
use std::collections::HashSet;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// How many connections there are at most, and of one user.
const CONNECTIONS: usize = 900;
const CONNECTIONS_OF_ONE: usize = 250;
/// How often it looks whether the kernel has ended the scheduler, in nanoseconds.
const CHECK: i64 = 200_000_000;

/// A connection to a process.
struct Link {
    socket: OwnedFd,
    process: u32,
    user: u32,
    /// Whether the process has its page.
    has_page: bool,
}

/// Serves processes until the kernel ends the scheduler.
///
/// # Errors
/// If the socket cannot be opened, and when the kernel has ended the scheduler.
pub(crate) fn run(mut scheduler: Scheduler, grants: &Grants, path: &Path) -> Result<()> {
    let listener = open(path).with_context(|| format!("no socket at {}", path.display()))?;
    eprintln!(
        "corank-scx: schedules; processes find it at {}",
        path.display()
    );
    let mut links: Vec<Link> = Vec::new();
    let mut holders = HashSet::new();
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: CHECK,
    };
    loop {
        let mut fds = vec![PollFd::new(&listener, PollFlags::IN)];
        fds.extend((links.iter()).map(|link| PollFd::new(&link.socket, PollFlags::IN)));
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let readable: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if let Some(reason) = scheduler.ended()? {
            bail!("the kernel has ended the scheduler: {reason}");
        }
        let mut readable = readable.into_iter();
        let has_arrived = readable.next() == Some(true);
        let mut left = Vec::new();
        for mut link in links {
            let is_readable = readable.next() == Some(true);
            if is_readable && !serve(&mut link, &mut scheduler, grants, &mut holders) {
                if link.has_page {
                    holders.remove(&link.process);
                    if let Err(error) = scheduler.remove(link.process) {
                        eprintln!("corank-scx: process {}: {error:#}", link.process);
                    }
                }
            } else {
                left.push(link);
            }
        }
        links = left;
        if has_arrived {
            accept(&listener, &mut links);
        }
    }
}

/// Opens the socket. The one of a daemon that has ended is replaced.
fn open(path: &Path) -> Result<OwnedFd> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let new = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let address = SocketAddrUnix::new(path)?;
    if connect(&new()?, &address) == Err(Errno::CONNREFUSED) {
        unlink(path)?;
    }
    let socket = new()?;
    bind(&socket, &address).context("is another daemon there?")?;
    // Every process may ask; the kernel says which one does.
    chmod(path, Mode::from_raw_mode(0o666))?;
    listen(&socket, 128)?;
    Ok(socket)
}

fn accept(listener: &OwnedFd, links: &mut Vec<Link>) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    while let Ok(socket) = accept_with(listener, flags) {
        let Ok(peer) = peer(&socket) else {
            continue;
        };
        let (user, process) = (peer.uid, peer.pid.unsigned_abs());
        if process == 0 {
            send(&socket, Status::Refused, 0, &[]);
            continue;
        }
        let of_user = links.iter().filter(|link| link.user == user).count();
        if links.len() >= CONNECTIONS || of_user >= CONNECTIONS_OF_ONE {
            send(&socket, Status::Full, 0, &[]);
            continue;
        }
        links.push(Link {
            socket,
            process,
            user,
            has_page: false,
        });
    }
}

/// Serves a request. Returns false if the connection has ended or is to be ended.
///
/// `holders` are the processes that have a page.
fn serve(
    link: &mut Link,
    scheduler: &mut Scheduler,
    grants: &Grants,
    holders: &mut HashSet<u32>,
) -> bool {
    let mut bytes = [0; protocol::REQUEST];
    let count = match recv(&link.socket, &mut bytes, RecvFlags::DONTWAIT) {
        Ok((count, _)) => count,
        Err(Errno::AGAIN | Errno::INTR) => return true,
        Err(_) => 0,
    };
    // A process with a page sends nothing more.
    if link.has_page {
        return false;
    }
    let status = match protocol::version_of(&bytes[..count]) {
        None => return false,
        Some(protocol::VERSION) => None,
        Some(_) => Some(Status::Version),
    };
    let granted = asking(link).map_or(0, |asking| grants.of(&asking));
    let status = match status {
        Some(status) => status,
        None if granted == 0 => Status::Refused,
        None if holders.contains(&link.process) => Status::Twice,
        None => Status::Granted,
    };
    if status != Status::Granted {
        send(&link.socket, status, 0, &[]);
        return false;
    }
    match scheduler
        .admit(link.process, granted)
        .and_then(|page| Ok((page, scheduler.board()?)))
    {
        Ok((page, board)) => {
            link.has_page = true;
            holders.insert(link.process);
            let files = [page.as_fd(), board.as_fd()];
            send(&link.socket, status, granted, &files)
        }
        Err(error) => {
            eprintln!(
                "corank-scx: no page for process {}: {error:#}",
                link.process
            );
            send(&link.socket, Status::System, 0, &[]);
            false
        }
    }
}

/// Returns the user and the groups at the other end, as they were when it connected.
fn asking(link: &Link) -> io::Result<Asking> {
    let peer = peer(&link.socket)?;
    // A process without supplementary groups, and one with more than fit, has its own group alone.
    let mut groups = option::<[u32; 256]>(&link.socket, libc::SO_PEERGROUPS)
        .map(|(groups, bytes)| groups[..bytes / size_of::<u32>()].to_vec())
        .unwrap_or_default();
    groups.push(peer.gid);
    Ok(Asking {
        user: peer.uid,
        groups,
    })
}

/// Returns the process at the other end. Its number is 0 if it is in a namespace that this one does
/// not see, which is no number for `rustix`.
fn peer(socket: &OwnedFd) -> io::Result<libc::ucred> {
    let (process, user, group) = option::<[u32; 3]>(socket, libc::SO_PEERCRED)?.0.into();
    Ok(libc::ucred {
        pid: process.cast_signed(),
        uid: user,
        gid: group,
    })
}

/// Reads an option of a socket that consists of numbers, and how many bytes it has.
fn option<T: Numbers>(socket: &OwnedFd, name: libc::c_int) -> io::Result<(T, usize)> {
    let mut value = T::ZEROS;
    let mut length = size_of::<T>() as libc::socklen_t;
    let (file, to) = (socket.as_raw_fd(), (&raw mut value).cast());
    // SAFETY: the kernel writes at most `length` bytes, and then how many they are. Any bits are
    // numbers.
    let result = unsafe { libc::getsockopt(file, libc::SOL_SOCKET, name, to, &mut length) };
    if result == 0 {
        Ok((value, length as usize))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// An array of numbers, whose bits may be any.
trait Numbers {
    const ZEROS: Self;
}

impl<const COUNT: usize> Numbers for [u32; COUNT] {
    const ZEROS: Self = [0; COUNT];
}

/// Sends a reply. Returns whether it was sent.
fn send(socket: &OwnedFd, status: Status, granted: u64, files: &[BorrowedFd<'_>]) -> bool {
    let bytes = Reply { status, granted }.to_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(files));
        debug_assert!(fits);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags).is_ok()
}
