//! What the kernel says of itself and of the processes, and which group the console belongs to.
use super::Result;
use crate::device::disk;
use crate::group::Group;
use crate::memory::{frame, heap, stack};
use crate::pace::{Pace, checkpoint};
use crate::pending_read::PendingRead;
use crate::process::{self, MemberSearch, Process};
use crate::{clock, console, executor, hart};
use alloc::sync::Arc;
use corank_abi::call::FAILED;
use corank_abi::information::SystemStatus;
use corank_abi::rights::CONSOLE;

/// Copies a value of the interface to the program.
pub(super) fn write<T: Copy>(process: &Process, address: usize, value: &T) -> Result {
    // SAFETY: the values of `corank_abi` that are copied have a C layout without padding.
    let bytes = unsafe {
        core::slice::from_raw_parts(core::ptr::from_ref(value).cast::<u8>(), size_of::<T>())
    };
    process.with_memory(|space| space.write(address, bytes), Ok(()))?;
    Ok(0)
}

pub(super) async fn process_list(process: &Process, address: usize, room: usize) -> Result {
    let Ok(records) = process::records(&process.memory.account).await else {
        return Ok(FAILED);
    };
    let mut pace = Pace::default();
    for (number, record) in records.iter().take(room).enumerate() {
        pace.step().await;
        write(
            process,
            address.wrapping_add(number * size_of_val(record)),
            record,
        )?;
    }
    Ok(records.len() as isize)
}

#[inline(never)]
pub(super) fn system_status(process: &Process, address: usize) -> Result {
    let disk = disk::get().map(disk::Disk::totals).unwrap_or_default();
    let (heap, heap_used) = heap::used();
    let executor = executor::executor();
    write(
        process,
        address,
        &SystemStatus {
            uptime: clock::milliseconds(),
            processes: process::count() as u64,
            coroutines: executor.live() as u64,
            ready: executor.published().ready().bits(),
            stacks: (hart::count() + stack::in_use()) as u64,
            frames: frame::all() as u64,
            frames_free: frame::free() as u64,
            heap: heap as u64,
            heap_used: heap_used as u64,
            disk_requests: disk.requests,
            disk_most_under_way: disk.most_under_way,
            waiting_read: size_of::<PendingRead>() as u64,
        },
    )
}

/// Puts a process into a group if that is one piece of work.
///
/// Returns `None` if [`set_group`] has to do it.
#[inline(never)]
pub(super) fn set_group_at_once(process: &Process, pid: usize, group: usize) -> Option<isize> {
    let Some(member) = named(process, pid) else {
        return Some(FAILED);
    };
    let may = process.may_act_on_at_once(&member)?;
    Some(put_if(may, process, &member, group))
}

/// Puts a process into a group.
pub(super) async fn set_group(process: &Process, pid: usize, group: usize) -> isize {
    let Some(member) = named(process, pid) else {
        return FAILED;
    };
    let may = process.may_act_on(&member).await;
    put_if(may, process, &member, group)
}

/// Returns the process with this number.
///
/// 0 is the calling process.
fn named(process: &Process, pid: usize) -> Option<Arc<Process>> {
    process::find(if pid == 0 { process.pid } else { pid })
}

fn put_if(may: bool, process: &Process, member: &Process, group: usize) -> isize {
    let group = if group == 0 { member.pid } else { group };
    if may && process.put_in_group(member, group) {
        0
    } else {
        FAILED
    }
}

/// Gives the console to a group if that is one piece of work.
///
/// Returns `None` if [`set_foreground`] has to do it.
#[inline(never)]
pub(super) fn set_foreground_at_once(process: &Process, group: usize) -> Option<isize> {
    if !process.has_right(CONSOLE) {
        return Some(FAILED);
    }
    let search = foreground(process, group).map(MemberSearch::new);
    let has_member = search.map_or(Some(true), |mut search| search.step())?;
    Some(give_if(has_member, process, group))
}

/// Gives the console to a group.
pub(super) async fn set_foreground(process: &Process, group: usize) -> isize {
    let has_member = match foreground(process, group).map(MemberSearch::new) {
        Some(mut search) => loop {
            if let Some(known) = search.step() {
                break known;
            }
            checkpoint().await;
        },
        None => true,
    };
    give_if(has_member, process, group)
}

/// Returns the group with this number.
///
/// 0 is no group.
fn foreground(process: &Process, group: usize) -> Option<Group> {
    (group != 0).then(|| process.named_group(group))
}

/// Gives the console to a group that has a member.
///
/// Without a member nothing would end what runs in front.
fn give_if(has_member: bool, process: &Process, group: usize) -> isize {
    if !has_member || !process.has_right(CONSOLE) {
        return FAILED;
    }
    console::set_foreground(foreground(process, group));
    0
}
