//! Reading from a connection, with the time at which Linux got the bytes.
//!
//! The client shares its computer with the machine. When both have much to do, an answer that has
//! come waits until the client's thread has a processor, for as long as Linux lets others run. That
//! is no property of the server. The time at which the last piece of the answer came from the
//! network makes both known.

use anyhow::{Context, Result, ensure};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use std::io::IoSliceMut;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime};

/// Room for the time, which comes beside the bytes.
#[derive(Debug)]
pub(crate) struct Room(Vec<u8>);

impl Room {
    /// Makes Linux report the time of what comes on `stream` from now on.
    pub(crate) fn new(stream: &TcpStream) -> Result<Self> {
        setsockopt(stream, sockopt::ReceiveTimestampns, &true)
            .context("Linux does not tell when something has come")?;
        Ok(Self(cmsg_space!(TimeSpec)))
    }

    /// Waits until something has come and reads as much of it as fits.
    ///
    /// Returns how many bytes came, and when the last of them came. The time is `None` if Linux did
    /// not say, as for the first ones of a connection.
    ///
    /// # Errors
    /// When the connection has ended or was broken off.
    pub(crate) fn read(
        &mut self,
        stream: &TcpStream,
        buffer: &mut [u8],
    ) -> Result<(usize, Option<SystemTime>)> {
        loop {
            let mut place = [IoSliceMut::new(buffer)];
            let read = recvmsg::<()>(
                stream.as_raw_fd(),
                &mut place,
                Some(&mut self.0),
                MsgFlags::empty(),
            );
            let read = match read {
                Err(Errno::EINTR) => continue,
                read => read.context("reading an answer")?,
            };
            ensure!(read.bytes > 0, "the connection has ended");
            let came = read.cmsgs()?.find_map(|message| match message {
                ControlMessageOwned::ScmTimestampns(time) => {
                    Some(SystemTime::UNIX_EPOCH + Duration::from(time))
                }
                _ => None,
            });
            return Ok((read.bytes, came));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener};
    use std::time::Instant;

    /// Time limit: longer than anything that works takes.
    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn the_time_is_that_of_the_last_byte() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut other = listener.accept().unwrap().0;
        let mut room = Room::new(&stream).unwrap();
        let mut buffer = [0; 4];
        let mut exchange = || {
            let before = SystemTime::now();
            other.write_all(b"abcd").unwrap();
            let (count, came) = room.read(&stream, &mut buffer).unwrap();
            assert_eq!(&buffer[..count], b"abcd");
            came.inspect(|came| assert!((before..=SystemTime::now()).contains(came)))
        };
        // Linux begins to stamp some time after the first request for it, so one exchange is the
        // first with a stamp.
        let start = Instant::now();
        while exchange().is_none() {
            assert!(start.elapsed() < LIMIT, "Linux takes no times");
        }
        drop(other);
        room.read(&stream, &mut buffer).unwrap_err();
    }
}
