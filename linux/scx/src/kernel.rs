//! The scheduler inside the kernel, as the daemon sees it.

use anyhow::{Context, Result, anyhow, ensure};
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, ProgramInput};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// The compiled program; empty if there was no compiler.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/scheduler.bpf.o"));

/// `BPF_F_MMAPABLE`.
const MMAPABLE: u32 = 1 << 10;
const PAGE: u32 = size_of::<corank_scx::page::Page>() as u32;

/// The loaded scheduler. The kernel's own one takes over when this is dropped or the process ends.
pub(crate) struct Scheduler {
    object: Object,
    processes: u64,
    _link: Link,
}

impl Scheduler {
    /// Loads the scheduler and starts it. The thread `forgotten` never runs again, if it is not 0.
    pub(crate) fn load(forgotten: u32) -> Result<Self> {
        ensure!(
            !OBJECT.is_empty(),
            "this program was built without its scheduler; install clang and build it again"
        );
        // A copy of its own, because libelf reads words at their alignment.
        let program = OBJECT.to_vec();
        let mut open = ObjectBuilder::default()
            .name("corank")?
            .open_memory(&program)?;
        let mut settings = (open.maps_mut())
            .find(|map| map.name() == ".rodata.settings")
            .context("the program has no settings")?;
        let value = settings.initial_value_mut().context("they have no value")?;
        value[..4].copy_from_slice(&forgotten.to_ne_bytes());
        let mut object = open.load().context(
            "the kernel does not load the scheduler: it takes Linux 6.13 with \
             CONFIG_SCHED_CLASS_EXT and CONFIG_DEBUG_INFO_BTF, and root",
        )?;
        let board = (object.maps())
            .find(|map| map.name() == "board")
            .context("the program has no board")?;
        // From here on no process can write it, whatever it does with the descriptor.
        MapHandle::try_from(&board)?.freeze()?;
        let link = (object.maps_mut())
            .find(|map| map.name() == "corank")
            .context("the program has no scheduler")?
            .attach_struct_ops()
            .context(
                "the scheduler does not start; /sys/kernel/sched_ext has whether another runs",
            )?;
        Ok(Self {
            object,
            processes: 0,
            _link: link,
        })
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>> {
        let mut maps = self.object.maps();
        maps.find(|map| map.name() == name)
            .ok_or_else(|| anyhow!("the program has no map {name}"))
    }

    /// Gives a process a page, and returns it. The process may show the levels of `granted`.
    pub(crate) fn admit(&mut self, process: u32, granted: u64) -> Result<MapHandle> {
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as _,
            map_flags: MMAPABLE,
            ..Default::default()
        };
        let page = MapHandle::create(MapType::Array, Some("corank_page"), 4, PAGE, 1, &options)?;
        let key = process.to_ne_bytes();
        let file = page.as_fd().as_raw_fd().to_ne_bytes();
        self.map("pages")?.update(&key, &file, MapFlags::ANY)?;
        // From here on the scheduler reads the page.
        let grants = self.map("grants")?;
        grants.update(&key, &granted.to_ne_bytes(), MapFlags::ANY)?;
        self.processes += 1;
        self.show_processes()?;
        if self.processes == 1 {
            let begin = (self.object.progs_mut())
                .find(|program| program.name() == "begin")
                .context("the program does not begin")?;
            begin.test_run(ProgramInput::default())?;
        }
        Ok(page)
    }

    /// Takes a process's page away.
    pub(crate) fn remove(&mut self, process: u32) -> Result<()> {
        let key = process.to_ne_bytes();
        // The process has ended, so the scheduler may have removed it.
        let _ = self.map("grants")?.delete(&key);
        self.map("pages")?.delete(&key)?;
        self.processes -= 1;
        self.show_processes()
    }

    fn show_processes(&self) -> Result<()> {
        let value = self.processes.to_ne_bytes();
        let control = self.map(".data.control")?;
        Ok(control.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)?)
    }

    /// Returns a descriptor of the board, which can only be read.
    pub(crate) fn board(&self) -> Result<OwnedFd> {
        Ok(self.map("board")?.as_fd().try_clone_to_owned()?)
    }

    /// Returns why the kernel has ended the scheduler; `None` while it runs.
    pub(crate) fn ended(&self) -> Result<Option<String>> {
        let state = self.map(".data.state")?;
        let value = state.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?;
        let value = value.context("the scheduler shows no state")?;
        let (kind, text) = value.split_at_checked(8).context("its state is cut")?;
        if kind.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let (reason, message) = text.split_at_checked(128).context("its state is cut")?;
        let [reason, message] = [reason, message].map(|text| {
            let end = text.iter().position(|&byte| byte == 0);
            String::from_utf8_lossy(&text[..end.unwrap_or(text.len())]).into_owned()
        });
        Ok(Some(format!("{reason} ({message})")))
    }
}
