//! The rendezvous directory, where the participants of a domain find each other: a folder that only
//! their user can enter.
//!
//! The candidates are, in order: `/run/user/UID`, `$XDG_RUNTIME_DIR`, and else a folder
//! `/dev/shm/corank-UID-LOT`. The last has a random name, because `/dev/shm` belongs to all users.
//! Another user may take any name beforehand, but cannot make a folder that belongs to us. A
//! participant listens in the first that exists, and searches all of them for others. So two that
//! began differently still find each other.

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fstat, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The limit of letters of a domain's name.
const LONGEST_NAME: usize = 64;
/// The limit of files of a folder that are examined.
const MOST_FILES: usize = 4096;
/// The folder in which all users may make folders.
const SHARED: &str = "/dev/shm";
/// The limit of files there that are examined.
///
/// Other users may make many, so that the folders of this user are hard to find.
const MOST_SHARED_FILES: usize = 1 << 16;
/// The limit of folders of this user there that are used.
///
/// There is more than one only where two processes began at the same moment.
const MOST_SHARED_FOLDERS: usize = 8;
/// The number of processes that may connect before the agent accepts: as many as it keeps.
const BACKLOG: i32 = 128;

/// The name of a domain.
///
/// It is 1 to 64 of ASCII letters, digits, `-`, `_` and `.`, the last not at the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(String);

impl Name {
    pub(crate) fn new(name: &str) -> Option<Self> {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let good = (1..=LONGEST_NAME).contains(&name.len())
            && name.chars().all(fits)
            && !name.starts_with('.');
        good.then(|| Self(name.to_string()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The place where a domain is to be found.
#[derive(Clone, Debug)]
pub(crate) struct Rendezvous {
    pub(crate) name: Name,
    /// The folder to use instead of the user's own folders.
    pub(crate) root: Option<PathBuf>,
}

impl Rendezvous {
    /// Returns the folder to listen in, and then all others where participants may be.
    ///
    /// Makes one in `/dev/shm` if there is none at all.
    pub(crate) fn folders(&self) -> io::Result<Vec<Folder>> {
        let mut roots = self.roots()?;
        if roots.is_empty() {
            roots.push(make_shared_folder(Path::new(SHARED))?);
        }
        self.within(&roots)
    }

    /// Returns the same as [`folders`](Self::folders), but makes none.
    ///
    /// It is for each further scan. Otherwise another user could cause one more folder to be made
    /// each time.
    pub(crate) fn known_folders(&self) -> io::Result<Vec<Folder>> {
        self.within(&self.roots()?)
    }

    fn roots(&self) -> io::Result<Vec<OwnedFd>> {
        if let Some(root) = &self.root {
            return Ok(vec![own_folder(CWD, root)?]);
        }
        let by_login = PathBuf::from(format!("/run/user/{}", user()));
        let by_variable = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let mut roots: Vec<OwnedFd> = [Some(by_login), by_variable]
            .into_iter()
            .flatten()
            .filter_map(|path| own_folder(CWD, &path).ok())
            .collect();
        roots.extend(own_shared_folders(Path::new(SHARED)));
        Ok(roots)
    }

    /// Returns the domain's folder in each of these.
    fn within(&self, roots: &[OwnedFd]) -> io::Result<Vec<Folder>> {
        roots
            .iter()
            .map(|root| {
                let corank = make_folder(root.as_fd(), Path::new("corank"))?;
                Ok(Folder(make_folder(
                    corank.as_fd(),
                    Path::new(&self.name.0),
                )?))
            })
            .collect()
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Opens a folder that belongs to this user, and that no other user can enter.
fn own_folder(parent: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let folder = openat(parent, path, flags, Mode::empty())?;
    let stat = fstat(&folder)?;
    if stat.st_uid != user() || stat.st_mode & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{} is not a folder of this user's alone (mode 0700)",
                path.display()
            ),
        ));
    }
    Ok(folder)
}

fn make_folder(parent: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    match mkdirat(parent, path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => own_folder(parent, path),
        Err(error) => Err(error.into()),
    }
}

fn shared_prefix() -> String {
    format!("corank-{}-", user())
}

/// Returns the folders in `/dev/shm` whose names begin as ours do and that belong to us.
///
/// They are sorted, so that all processes prefer the same.
fn own_shared_folders(shared: &Path) -> Vec<OwnedFd> {
    let Ok(entries) = std::fs::read_dir(shared) else {
        return Vec::new();
    };
    let prefix = shared_prefix();
    let mut names: Vec<_> = (entries.take(MOST_SHARED_FILES))
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(&prefix))
        .collect();
    names.sort();
    (names.iter())
        .filter_map(|name| own_folder(CWD, &shared.join(name)).ok())
        .take(MOST_SHARED_FOLDERS)
        .collect()
}

fn make_shared_folder(shared: &Path) -> io::Result<OwnedFd> {
    let path = shared.join(format!("{}{:016x}", shared_prefix(), random_number()?));
    mkdirat(CWD, &path, Mode::RWXU)?;
    own_folder(CWD, &path)
}

/// Returns a new participant's number: the process's own, and above it 32 random bits.
///
/// So no process can take the number of another's participant, because Linux reports which process
/// is at the other end of a connection.
pub(crate) fn new_id() -> io::Result<u64> {
    Ok(random_number()? << 32 | u64::from(std::process::id()))
}

/// Returns the process that a participant's number belongs to.
pub(crate) fn process_of(id: u64) -> u32 {
    id as u32
}

/// Returns a random number that cannot be guessed.
pub(crate) fn random_number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// A domain's folder, with a socket for each participant.
pub(crate) struct Folder(OwnedFd);

impl Folder {
    /// Listens in this folder. Others may connect from now on.
    pub(crate) fn listen(&self, id: u64) -> io::Result<Listener> {
        let socket = new_socket()?;
        let hidden = format!(".{id:016x}");
        let name = socket_name(id);
        bind(&socket, &self.address(&hidden)?)?;
        // A socket at which no process listens is taken for one that was left behind. So it gets
        // its name after it listens.
        let opened =
            listen(&socket, BACKLOG).and_then(|()| renameat(&self.0, &hidden, &self.0, &name));
        if let Err(error) = opened {
            let _ = unlinkat(&self.0, &hidden, AtFlags::empty());
            return Err(error.into());
        }
        Ok(Listener {
            socket,
            folder: self.0.try_clone()?,
            name,
        })
    }

    /// Returns the numbers of the participants that have a socket here.
    pub(crate) fn participants(&self) -> io::Result<Vec<u64>> {
        let mut ids = Vec::new();
        for entry in Dir::read_from(&self.0)?.take(MOST_FILES) {
            let entry = entry?;
            if let Ok(name) = entry.file_name().to_str()
                && let Ok(id) = u64::from_str_radix(name, 16)
                && name == socket_name(id)
            {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    /// Connects to a participant's socket. Returns `None` if no process listens there.
    ///
    /// Then a process that was killed has left it behind, and it is removed.
    pub(crate) fn connect(&self, id: u64) -> io::Result<Option<OwnedFd>> {
        let socket = new_socket()?;
        match connect(&socket, &self.address(&socket_name(id))?) {
            Ok(()) => Ok(Some(socket)),
            Err(Errno::CONNREFUSED) => {
                // No process ever listens at it again, because each participant makes a socket of
                // its own.
                unlinkat(&self.0, socket_name(id), AtFlags::empty())?;
                Ok(None)
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the address of a file in this folder.
    ///
    /// An address holds 107 bytes of a path, which is too few for some folders. So the path goes
    /// through the open folder.
    fn address(&self, name: &str) -> io::Result<SocketAddrUnix> {
        let path = format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd());
        Ok(SocketAddrUnix::new(path)?)
    }
}

fn socket_name(id: u64) -> String {
    format!("{id:016x}")
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    Ok(socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

/// The socket at which a participant listens. Its file is removed when it is dropped.
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    folder: OwnedFd,
    name: String,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn private_folder() -> tempfile::TempDir {
        let mode = std::fs::Permissions::from_mode(0o700);
        tempfile::Builder::new()
            .permissions(mode)
            .tempdir()
            .unwrap()
    }

    fn rendezvous(root: &Path) -> Rendezvous {
        Rendezvous {
            name: Name::new("test").unwrap(),
            root: Some(root.to_path_buf()),
        }
    }

    #[test]
    fn names_are_plain() {
        for good in ["default", "a", "my-domain_2.0"] {
            assert!(Name::new(good).is_some(), "{good}");
        }
        for bad in ["", ".", "..", ".x", "a/b", "a b", "ä", &"x".repeat(65)] {
            assert_eq!(Name::new(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let root = private_folder();
        assert_eq!(rendezvous(root.path()).folders().unwrap().len(), 1);
        std::fs::set_permissions(root.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let error = rendezvous(root.path()).folders().err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_link_is_not_followed() {
        let root = private_folder();
        let elsewhere = private_folder();
        std::os::unix::fs::symlink(elsewhere.path(), root.path().join("corank")).unwrap();
        assert!(rendezvous(root.path()).folders().is_err());
    }

    #[test]
    fn in_a_shared_folder_only_our_files_count() {
        let shared = private_folder();
        assert!(own_shared_folders(shared.path()).is_empty());
        // A file that another user may have put there.
        let squatted = shared.path().join(format!("{}0", shared_prefix()));
        std::fs::create_dir(&squatted).unwrap();
        std::fs::set_permissions(&squatted, PermissionsExt::from_mode(0o777)).unwrap();
        std::fs::write(shared.path().join(format!("{}1", shared_prefix())), "").unwrap();
        assert!(own_shared_folders(shared.path()).is_empty());
        make_shared_folder(shared.path()).unwrap();
        make_shared_folder(shared.path()).unwrap();
        assert_eq!(own_shared_folders(shared.path()).len(), 2);
    }

    #[test]
    fn files_of_others_do_not_hide_our_folder() {
        // The newest come first there.
        let shared = tempfile::tempdir_in(SHARED).unwrap();
        make_shared_folder(shared.path()).unwrap();
        for number in 0..2 * MOST_FILES {
            std::fs::write(shared.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(own_shared_folders(shared.path()).len(), 1);
    }

    #[test]
    fn a_socket_is_found_while_its_process_listens() {
        let root = private_folder();
        let folder = &rendezvous(root.path()).folders().unwrap()[0];
        let listener = folder.listen(7).unwrap();
        assert_eq!(folder.participants().unwrap(), [7]);
        assert!(folder.connect(7).unwrap().is_some());
        drop(listener);
        assert!(folder.participants().unwrap().is_empty());
        assert!(folder.connect(7).unwrap().is_none());
    }

    #[test]
    fn a_socket_left_behind_is_removed() {
        let root = private_folder();
        let folder = &rendezvous(root.path()).folders().unwrap()[0];
        let mut listener = folder.listen(7).unwrap();
        // As after `kill -9`: the socket is closed and the file stays.
        listener.name = "kept".to_string();
        drop(listener);
        assert_eq!(folder.participants().unwrap(), [7]);
        assert!(folder.connect(7).unwrap().is_none());
        assert!(folder.participants().unwrap().is_empty());
    }
}
