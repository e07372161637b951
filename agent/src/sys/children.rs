// SPDX-License-Identifier: Apache-2.0
//! Starts processes, passes descriptors to them, and waits for them.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

/// What a finished child used, including the descendants that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_us: u64,
    /// Largest resident set, in bytes.
    pub max_rss_bytes: u64,
    /// Page faults that needed no disk read.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Context switches because the process waited.
    pub voluntary_switches: u64,
    /// Context switches because its time was up or another process took precedence.
    pub involuntary_switches: u64,
}

/// Waits for the child `pid` to end and reaps it. Returns how it ended and what it used.
///
/// # Errors
///
/// There is no such child.
pub fn wait4(pid: u32) -> io::Result<(ExitStatus, Usage)> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ECHILD))?;
    let mut status = 0;
    // SAFETY: rusage consists of integers, for which all zeroes is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live values of the types that wait4 fills.
        let ended = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        if ended == pid {
            return Ok((ExitStatus::from_raw(status), usage_of(&usage)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

pub(super) fn usage_of(usage: &libc::rusage) -> Usage {
    // The kernel's counts are never negative.
    let count = |value: libc::c_long| u64::try_from(value).unwrap_or_default();
    let time = |value: libc::timeval| {
        let (seconds, rest) = (u64::try_from(value.tv_sec), u64::try_from(value.tv_usec));
        seconds.unwrap_or_default() * 1_000_000 + rest.unwrap_or_default()
    };
    Usage {
        user_us: time(usage.ru_utime),
        system_us: time(usage.ru_stime),
        max_rss_bytes: count(usage.ru_maxrss) * 1024,
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
    }
}

/// Runs `work` in a forked process. The process exits with status 0 if `work` returns true, and is
/// killed when the calling thread ends. `work` may only make system calls: at the fork another
/// thread may have held any lock, even the allocator's.
///
/// # Errors
///
/// No more processes may be created.
pub fn fork(work: impl FnOnce() -> bool) -> io::Result<u32> {
    /// Exits whatever happens, even in a panic.
    struct End(libc::c_int);
    impl Drop for End {
        fn drop(&mut self) {
            // SAFETY: it ends the process without running any code of the parent's.
            unsafe { libc::_exit(self.0) };
        }
    }
    // SAFETY: neither call takes a pointer; the documentation above limits what the child runs.
    let (parent, forked) = unsafe { (libc::getpid(), libc::fork()) };
    if forked != 0 {
        return u32::try_from(forked).map_err(|_| io::Error::last_os_error());
    }
    let mut end = End(1);
    // SAFETY: the call takes only numbers. The parent may have ended before it.
    let has_parent = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) == 0 && libc::getppid() == parent
    };
    if has_parent && work() {
        end.0 = 0;
    }
    drop(end);
    Ok(0)
}

/// What a child does between fork and exec.
#[derive(Debug)]
pub struct Preparation {
    /// The open `cgroup.procs` of the group to enter.
    pub cgroup: Option<File>,
    /// The CPUs to run on.
    pub cpus: Option<Vec<u32>>,
    /// Where the child writes a byte for the step that failed.
    pub report: OwnedFd,
}

/// The byte that reports that the group could not be entered.
pub const CGROUP_FAILED: u8 = b'g';
/// The byte that reports that the CPUs could not be set.
pub const CPUS_FAILED: u8 = b'c';

/// Makes the child of `command` carry out a preparation. The group comes first, because entering
/// one resets the CPUs.
pub fn prepare(command: &mut Command, preparation: Preparation) {
    let Preparation { cgroup, cpus, report } = preparation;
    let mask = cpus.map(|cpus| cpu_mask(&cpus));
    let step = move || {
        if let Some(group) = &cgroup {
            // SAFETY: the buffer is one byte long and outlives the call.
            let written = unsafe { libc::write(group.as_raw_fd(), b"0".as_ptr().cast(), 1) };
            if written != 1 {
                return fail(&report, CGROUP_FAILED);
            }
        }
        if let Some(mask) = &mask {
            let bytes = std::mem::size_of_val(mask.as_slice());
            // SAFETY: the pointer is to `bytes` bytes of a live slice that the kernel only reads.
            let set = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, mask.as_ptr()) };
            if set != 0 {
                return fail(&report, CPUS_FAILED);
            }
        }
        Ok(())
    };
    // SAFETY: the closure runs in the forked child and only makes system calls on descriptors and
    // memory created before the fork; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(step) };
}

fn fail(report: &OwnedFd, step: u8) -> io::Result<()> {
    let error = io::Error::last_os_error();
    // SAFETY: the buffer is one byte long and outlives the call. The report is optional, so its
    // loss is not an error.
    let _: isize = unsafe { libc::write(report.as_raw_fd(), (&raw const step).cast(), 1) };
    Err(error)
}

/// Converts CPUs to a kernel CPU mask: one bit per CPU, in words.
fn cpu_mask(cpus: &[u32]) -> Vec<libc::c_ulong> {
    let bits = libc::c_ulong::BITS;
    let words = cpus.iter().max().map_or(1, |last| last / bits + 1);
    let mut mask = vec![0; words as usize];
    for cpu in cpus {
        mask[(cpu / bits) as usize] |= 1 << (cpu % bits);
    }
    mask
}

/// Passes a descriptor to the program that `command` starts, under the same number; [`handed_down`]
/// takes it there.
pub fn hand_down(command: &mut Command, descriptor: OwnedFd) {
    // SAFETY: the closure runs in the forked child and makes one system call on a descriptor that
    // it owns.
    let keep = move || match unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: as above; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(keep) };
}

/// Takes a descriptor that this process was started with, and keeps it from programs that this one
/// starts.
///
/// # Errors
///
/// There is no such descriptor.
pub fn handed_down(number: i32) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the call changes a flag of a descriptor, and fails if there is none.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and only the caller knows its number and takes it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Makes the kernel kill the child of `command` when the calling thread ends.
pub fn end_with_parent(command: &mut Command) {
    // SAFETY: the closure runs in the forked child and makes one system call without pointers.
    let bind = || match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: as above; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(bind) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_grow_with_the_highest_cpu() {
        assert_eq!(cpu_mask(&[0, 2]), [0b101]);
        assert_eq!(cpu_mask(&[65]), [0, 0b10]);
    }

    #[test]
    fn a_process_that_is_no_child_cannot_be_waited_for() {
        assert_eq!(wait4(1).unwrap_err().raw_os_error(), Some(libc::ECHILD));
        assert!(wait4(u32::MAX).is_err());
    }
}
