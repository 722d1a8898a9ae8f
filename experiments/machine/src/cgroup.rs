//! Two control groups with weights in the group of this process, if it may create them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One group for the urgent process, and one for the bulk processes.
///
/// They are removed when dropped, after their processes.
pub(crate) struct Groups {
    urgent: PathBuf,
    bulk: PathBuf,
}

impl Groups {
    /// Creates the groups; the error says why there are none.
    pub(crate) fn new() -> io::Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for line in own.lines() {
            // "number:controllers:path"; number 0 and no controllers for version 2.
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
                continue;
            };
            let path = path.trim_start_matches('/');
            // Weights are relative to 100 in version 2, and to 1024 in version 1.
            let attempt = match controllers {
                "" => Self::in_folder(
                    &Path::new("/sys/fs/cgroup").join(path),
                    "cpu.weight",
                    ["10000", "100"],
                ),
                _ if controllers.split(',').any(|controller| controller == "cpu") => {
                    Self::in_folder(
                        &Path::new("/sys/fs/cgroup/cpu").join(path),
                        "cpu.shares",
                        ["102400", "1024"],
                    )
                }
                _ => continue,
            };
            match attempt {
                Ok(groups) => return Ok(groups),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn in_folder(root: &Path, file: &str, weights: [&str; 2]) -> io::Result<Self> {
        let own = std::process::id();
        let groups = Self {
            urgent: root.join(format!("corank-urgent-{own}")),
            bulk: root.join(format!("corank-bulk-{own}")),
        };
        for (group, weight) in [&groups.urgent, &groups.bulk].into_iter().zip(weights) {
            fs::create_dir(group)?;
            fs::write(group.join(file), weight)?;
        }
        Ok(groups)
    }

    pub(crate) fn add(&self, process: u32, is_urgent: bool) -> io::Result<()> {
        let group = if is_urgent { &self.urgent } else { &self.bulk };
        fs::write(group.join("cgroup.procs"), process.to_string())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for group in [&self.urgent, &self.bulk] {
            // It may not exist at all.
            let _ = fs::remove_dir(group);
        }
    }
}
