//! Tests of processes that must not take part: other versions, other users, and processes that are
//! no participants. Each is refused, with a warning that gives the reason.

use std::fmt::Debug;
use std::fs::{Permissions, set_permissions};
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::handshake::{self, Files, MAGIC, Refusal};
use crate::memory::{Mapping, Writers};
use crate::page::{Doorbells, Page};
use crate::rendezvous::{Name, Rendezvous};
use crate::{ClassPolicy, Domain, Participant};

/// A time far beyond all bounds. A test that waits for that long waits for ever.
const LONG: Duration = Duration::from_secs(60);

/// The warnings in this program of tests.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Collects;

impl Visit for Collects {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            WARNINGS.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Collects {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().starts_with("corank_domain")
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Collects);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Collects warnings from now on. It is called before there are any.
pub(crate) fn collect_warnings() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Collects).unwrap());
}

/// Returns how many of this kind there were.
pub(crate) fn warnings(of: &str) -> usize {
    let warnings = WARNINGS.lock().unwrap();
    warnings.iter().filter(|text| text.contains(of)).count()
}

pub(crate) fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::yield_now();
    }
}

pub(crate) fn private_folder() -> tempfile::TempDir {
    tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .unwrap()
}

/// Makes a participant in a folder of its own.
fn participant(root: &Path) -> (Participant, Rendezvous) {
    collect_warnings();
    let domain = Domain::named("strangers")
        .root(root)
        .class_policy(ClassPolicy::Silent);
    let rendezvous = Rendezvous {
        name: Name::new("strangers").unwrap(),
        root: Some(root.to_path_buf()),
    };
    (domain.join().unwrap(), rendezvous)
}

/// Connects to the only participant.
fn connect_to_only(rendezvous: &Rendezvous) -> OwnedFd {
    let folder = &rendezvous.folders().unwrap()[0];
    let id = folder.participants().unwrap()[0];
    folder.connect(id).unwrap().unwrap()
}

#[test]
fn strangers_are_ignored_with_a_warning() {
    let root = private_folder();
    let (participant, rendezvous) = participant(root.path());
    let version = |version: u32| [&MAGIC[..], &version.to_le_bytes(), &[0; 4]].concat();
    for (handshake, warning) in [
        (
            version(7_000_001),
            "it speaks version 7000001 of the domain's protocol",
        ),
        // A later version may send more.
        (
            [version(7_000_002), vec![1; 90]].concat(),
            "it speaks version 7000002 of the domain's protocol",
        ),
        (
            b"GET / HTTP/1.1".to_vec(),
            "its handshake is not that of a participant",
        ),
    ] {
        let socket = connect_to_only(&rendezvous);
        rustix::io::write(&socket, &handshake).unwrap();
        until(warning, || warnings(warning) == 1);
        // What they received gives the reason on their side, if they use an older version. It
        // begins as every handshake does.
        let mut told = [0; 32];
        let (count, _) =
            rustix::net::recv(&socket, &mut told, rustix::net::RecvFlags::empty()).unwrap();
        assert_eq!(told[..count.min(8)], MAGIC);
    }
    // Its handshake is valid, but its page is not one.
    let (_, page) = Mapping::<Page>::create("page", Writers::Owner).unwrap();
    let (_, doorbells) = Mapping::<Doorbells>::create("doorbells", Writers::All).unwrap();
    let socket = connect_to_only(&rendezvous);
    handshake::send(&socket, Some(&Files { page, doorbells })).unwrap();
    let warning = "its page does not begin as a page does";
    until(warning, || warnings(warning) == 1);
    assert_eq!(participant.others(), 0);
}

/// Tests with another user, which need privileges.
///
/// Without privileges they test nothing. Stage `domain` of the tests runs this with those that
/// there are.
mod with_privileges {
    use super::*;

    /// The user `nobody`.
    const OTHER: u32 = 65_534;

    /// Lets another user's process do something and stay for a while.
    ///
    /// Returns `None` without privileges.
    fn as_another_user(
        act: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
    ) -> Option<io::Result<std::process::Child>> {
        let mut command = Command::new("cat");
        command
            .uid(OTHER)
            .gid(OTHER)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        match command.spawn() {
            Ok(mut child) => {
                drop(child.stdin.take());
                child.wait().unwrap();
            }
            Err(_) => return None,
        }
        // SAFETY: what is done is system calls alone.
        unsafe { command.pre_exec(act) };
        Some(command.spawn())
    }

    /// It cannot enter the folder.
    #[test]
    fn another_user_finds_no_socket() {
        let root = private_folder();
        let (participant, _) = participant(root.path());
        let path = root.path().join("corank/strangers");
        let enters = as_another_user(move || {
            let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY;
            rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).map(drop)?;
            Ok(())
        });
        let Some(entered) = enters else { return };
        assert_eq!(entered.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(participant.others(), 0);
    }

    /// If it reaches a socket nevertheless, it isn't let in, because Linux reports its user.
    #[test]
    fn another_user_is_refused_at_the_socket() {
        let open = tempfile::tempdir().unwrap();
        set_permissions(open.path(), Permissions::from_mode(0o777)).unwrap();
        let path = open.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        let address = SocketAddrUnix::new(&path).unwrap();
        let comes = as_another_user(move || {
            let socket = socket_with(
                AddressFamily::UNIX,
                SocketType::STREAM,
                SocketFlags::empty(),
                None,
            )?;
            connect(&socket, &address)?;
            // It stays open in the program that is run.
            let _ = socket.into_raw_fd();
            Ok(())
        });
        let Some(child) = comes else { return };
        let mut child = child.unwrap();
        let (socket, _) = listener.accept().unwrap();
        assert!(matches!(
            handshake::process_of(&socket),
            Err(Refusal::User(OTHER))
        ));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
