//! The machine's network: QEMU's user network, with ports of this computer that lead into the
//! machine, or a separate network.

use super::lan::{DEVICE, Lan, MACHINE};
use anyhow::{Context, Result, bail, ensure};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// Returns the name that QEMU and the command line use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// A port of this computer that leads to one of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forward {
    pub(crate) protocol: Protocol,
    /// The port of this computer.
    ///
    /// 0 is any that is free.
    pub(crate) host: u16,
    /// The port of the machine.
    pub(crate) guest: u16,
}

impl FromStr for Forward {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (protocol, ports) = match text.split_once(':') {
            Some(("tcp", ports)) => (Protocol::Tcp, ports),
            Some(("udp", ports)) => (Protocol::Udp, ports),
            _ => (Protocol::Tcp, text),
        };
        let (host, guest) = ports.split_once(':').context(
            "two ports with a colon between them are expected, like 8080:80 or udp:5353:53",
        )?;
        let port = |text: &str| text.parse().with_context(|| format!("`{text}` is no port"));
        let forward = Self {
            protocol,
            host: port(host)?,
            guest: port(guest)?,
        };
        ensure!(forward.guest > 0, "0 is no port of the machine");
        Ok(forward)
    }
}

impl Forward {
    /// Forwards any free port of this computer to this TCP port of the machine.
    pub(crate) fn to(guest: u16) -> Self {
        Self {
            protocol: Protocol::Tcp,
            host: 0,
            guest,
        }
    }

    fn is_same_here(&self, other: &Self) -> bool {
        (self.protocol, self.host) == (other.protocol, other.host)
    }
}

/// The holder of a port of this computer, so that the port is not chosen twice.
enum Holder {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Holder {
    /// Takes any port that is free.
    fn any(protocol: Protocol) -> std::io::Result<Self> {
        let any = (Ipv4Addr::LOCALHOST, 0);
        match protocol {
            Protocol::Tcp => TcpListener::bind(any).map(Self::Tcp),
            Protocol::Udp => UdpSocket::bind(any).map(Self::Udp),
        }
    }

    fn port(&self) -> std::io::Result<u16> {
        let address = match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
        };
        Ok(address?.port())
    }
}

/// The network of one run of the machine.
#[derive(Debug)]
pub(crate) enum Network {
    /// QEMU's user network, and the ports that lead into it.
    User(Vec<Forward>),
    /// A network for the machine and the programs of this computer that [enter](Network::enter) it.
    Lan(Lan),
    /// A wire.
    ///
    /// Each frame is a datagram between two Unix sockets, and this program is the whole network.
    Wire {
        /// The machine's socket, which QEMU makes.
        machine: PathBuf,
        /// The other socket, which is there already.
        here: PathBuf,
    },
}

/// The hardware address that QEMU gives the machine's card.
pub(crate) const CARD: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];

impl Network {
    /// Returns QEMU's user network with these ports.
    ///
    /// If one is to be any that is free, it is chosen now: see [`Network::host_port`].
    ///
    /// # Errors
    /// When no port is free, or two of the forwards have the same port here.
    pub(crate) fn with(forwards: &[Forward]) -> Result<Self> {
        // All ports are held until the last one is chosen, so that they differ.
        let mut held = Vec::new();
        let mut chosen: Vec<Forward> = Vec::new();
        for forward in forwards {
            let mut forward = *forward;
            if forward.host == 0 {
                let holder =
                    Holder::any(forward.protocol).context("no port of this computer is free")?;
                forward.host = holder.port()?;
                held.push(holder);
            }
            if chosen.iter().any(|other| other.is_same_here(&forward)) {
                bail!("port {} of this computer is forwarded twice", forward.host);
            }
            chosen.push(forward);
        }
        Ok(Self::User(chosen))
    }

    /// Returns a separate network, if this computer allows it.
    pub(crate) fn lan() -> Option<Self> {
        Lan::new().map(Self::Lan)
    }

    /// Returns the ports that lead into the machine.
    ///
    /// There are none in networks where programs reach the machine itself.
    pub(crate) fn forwards(&self) -> &[Forward] {
        match self {
            Self::User(forwards) => forwards,
            Self::Lan(_) | Self::Wire { .. } => &[],
        }
    }

    /// Returns the TCP port of this computer that leads to this one of the machine.
    ///
    /// There is none in networks where programs reach the machine itself.
    pub(crate) fn host_port(&self, guest: u16) -> Option<u16> {
        let found = self
            .forwards()
            .iter()
            .find(|forward| forward.protocol == Protocol::Tcp && forward.guest == guest);
        found.map(|forward| forward.host)
    }

    /// Returns the address of the machine's port for programs of this computer.
    ///
    /// It is valid for programs that have [entered](Network::enter) the network.
    pub(crate) fn server(&self, guest: u16) -> Option<SocketAddrV4> {
        match self {
            Self::User(_) => Some(SocketAddrV4::new(
                Ipv4Addr::LOCALHOST,
                self.host_port(guest)?,
            )),
            Self::Lan(_) | Self::Wire { .. } => Some(SocketAddrV4::new(MACHINE, guest)),
        }
    }

    /// Returns the same command, run where it can reach the machine.
    pub(crate) fn enter(&self, command: Command) -> Command {
        match self {
            Self::User(_) | Self::Wire { .. } => command,
            Self::Lan(lan) => lan.enter(&command),
        }
    }

    /// Returns the arguments of QEMU that attach it.
    ///
    /// Only programs of this computer reach the machine.
    pub(super) fn arguments(&self) -> [String; 4] {
        let device = match self {
            Self::User(forwards) => {
                let leads = |forward: &Forward| {
                    let Forward { host, guest, .. } = forward;
                    format!(
                        ",hostfwd={}:127.0.0.1:{host}-:{guest}",
                        forward.protocol.name()
                    )
                };
                let forwards: String = forwards.iter().map(leads).collect();
                format!("user,id=net{forwards}")
            }
            Self::Lan(_) => format!("tap,id=net,ifname={DEVICE},script=no,downscript=no"),
            Self::Wire { machine, here } => {
                let end = |name: &str, path: &Path| {
                    let path = path.display().to_string().replace(',', ",,");
                    format!(",{name}.type=unix,{name}.path={path}")
                };
                format!(
                    "dgram,id=net{}{}",
                    end("local", machine),
                    end("remote", here)
                )
            }
        };
        [
            "-netdev".to_string(),
            device,
            "-device".to_string(),
            "virtio-net-device,netdev=net".to_string(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_two_ports() {
        let forward: Forward = "8080:80".parse().unwrap();
        assert_eq!((forward.host, forward.guest), (8080, 80));
        for wrong in [
            "80",
            "a:80",
            "80:",
            "1:0",
            "70000:1",
            "udp:80",
            "sctp:1:2",
            "tcp:1:2:3",
        ] {
            assert!(wrong.parse::<Forward>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_forward_names_its_protocol_or_is_of_tcp() {
        let forward: Forward = "8080:80".parse().unwrap();
        assert_eq!(forward.protocol, Protocol::Tcp);
        assert_eq!("tcp:8080:80".parse::<Forward>().unwrap(), forward);
        let datagrams: Forward = "udp:0:53".parse().unwrap();
        assert_eq!(
            (datagrams.protocol, datagrams.host, datagrams.guest),
            (Protocol::Udp, 0, 53)
        );
        // The port of this computer may be the same: the protocols differ.
        let network = Network::with(&[forward, "udp:8080:80".parse().unwrap()]).unwrap();
        assert_eq!(
            network.arguments()[1],
            "user,id=net,hostfwd=tcp:127.0.0.1:8080-:80,hostfwd=udp:127.0.0.1:8080-:80"
        );
        let network = Network::with(&[datagrams]).unwrap();
        let chosen = network.forwards()[0];
        assert!(chosen.host > 0 && chosen.protocol == Protocol::Udp);
        assert_eq!(network.host_port(53), None);
    }

    #[test]
    fn a_network_of_its_own_has_the_machine_at_its_address() {
        let Some(network) = Network::lan() else {
            eprintln!("this computer allows no network of its own");
            return;
        };
        let mut command = Command::new("ip");
        command.args(["route", "get", "10.0.2.15"]);
        let said = network.enter(command).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(said.contains("dev corank"), "{said}");
        let machine = network.server(1001).unwrap();
        assert_eq!(machine.to_string(), "10.0.2.15:1001");
    }

    #[test]
    fn free_ports_are_chosen() {
        let forward = |host, guest| Forward {
            host,
            ..Forward::to(guest)
        };
        let network = Network::with(&[forward(0, 7), forward(0, 9)]).unwrap();
        let [first, second] = [7, 9].map(|guest| network.host_port(guest).unwrap());
        assert!(first != 0 && second != 0 && first != second);
        assert_eq!(network.host_port(8), None);
        assert!(network.arguments()[1].contains(&format!("hostfwd=tcp:127.0.0.1:{first}-:7")));
        assert!(Network::with(&[forward(5000, 1), forward(5000, 2)]).is_err());
    }
}
