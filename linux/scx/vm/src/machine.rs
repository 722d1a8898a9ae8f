//! What the first process does for its machine.

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};
use std::fs;

/// Mounts what the tests read.
pub(crate) fn prepare() -> Result<()> {
    for (kind, folder) in [("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/run")] {
        fs::create_dir_all(folder)?;
        mount(kind, folder, kind, MountFlags::empty(), c"")
            .with_context(|| format!("{folder} cannot be mounted"))?;
    }
    Ok(())
}

/// Ends the machine.
pub(crate) fn end() -> ! {
    // QEMU ends instead of starting the machine again.
    let result = reboot(RebootCommand::Restart);
    panic!("the machine goes on: {result:?}");
}
