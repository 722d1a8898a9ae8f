//! A separate network for one machine and the programs of this computer that talk to it: a network
//! namespace of Linux with a tap device.
//!
//! QEMU's user network is a TCP stack inside QEMU, which asks Linux about each of its connections
//! whenever anything happens. With many connections that takes more time than the server. Here QEMU
//! only passes frames on, and Linux's own TCP is at the other end. This network needs the right to
//! make namespaces, as root or through user namespaces, and to open `/dev/net/tun`.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

/// The machine's address, the same as in QEMU's user network.
pub(crate) const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
/// The name of the tap device in its namespace.
pub(super) const DEVICE: &str = "corank";

/// The script that makes the device with this computer's address, which is the machine's gateway.
///
/// It then says so, and stays until its input ends.
const HOLD: &str = "ip link set lo up && ip tuntap add dev corank mode tap \
    && ip address add 10.0.2.2/24 dev corank && ip link set corank up && echo ready && exec cat";

/// The namespace.
///
/// It is removed, with its device, when this is dropped and the programs in it have ended.
#[derive(Debug)]
pub(crate) struct Lan {
    /// A program that holds the namespace up to the end of its input.
    ///
    /// So the namespace is removed even if this program is killed.
    holder: Child,
    /// Whether it belongs to a user namespace.
    of_user: bool,
}

impl Lan {
    /// Makes a namespace.
    ///
    /// Returns `None` if this is not allowed, or if a tool for it is missing.
    pub(super) fn new() -> Option<Self> {
        Self::hold(false).or_else(|| Self::hold(true))
    }

    fn hold(of_user: bool) -> Option<Self> {
        let mut command = Command::new("unshare");
        if of_user {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--net", "sh", "-c", HOLD]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::null());
        let mut lan = Self {
            holder: command.spawn().ok()?,
            of_user,
        };
        let mut said = String::new();
        let output = lan.holder.stdout.take()?;
        BufReader::new(output).read_line(&mut said).ok()?;
        (said == "ready\n").then_some(lan)
    }

    /// Returns the same command, run inside the namespace.
    pub(super) fn enter(&self, command: &Command) -> Command {
        let holder = self.holder.id();
        let mut inside = Command::new("nsenter");
        inside.arg(format!("--net=/proc/{holder}/ns/net"));
        if self.of_user {
            inside.arg(format!("--user=/proc/{holder}/ns/user"));
            inside.arg("--preserve-credentials");
        }
        inside.arg("--").arg(command.get_program());
        let arguments: Vec<OsString> = command.get_args().map(OsString::from).collect();
        inside.args(arguments);
        inside
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}
