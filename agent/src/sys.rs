// SPDX-License-Identifier: Apache-2.0
//! System calls without a safe wrapper: the only module with unsafe code.
#![allow(
    unsafe_code,
    reason = "everything here calls into the kernel; each block says why it is sound"
)]

mod children;
mod memory;
mod nvme;

use std::io;
use std::os::fd::AsRawFd;

pub use children::{
    end_with_parent, fork, hand_down, handed_down, prepare, wait4, Preparation, Usage, CGROUP_FAILED,
    CPUS_FAILED,
};
pub use memory::{page_bytes, thread_faults, HugePages, Mapping};
pub use nvme::{nvme_autonomous_transitions, nvme_identify_controller, IDENTIFY_BYTES};

/// Reads the kernel's log, as far as this session may.
///
/// # Errors
///
/// The session may not read it.
pub fn kernel_log() -> io::Result<String> {
    const READ_ALL: libc::c_int = 3;
    const BUFFER_BYTES: usize = 4 << 20;
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    let length = libc::c_int::try_from(buffer.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the buffer is `length` bytes long and outlives the call.
    let read = unsafe { libc::klogctl(READ_ALL, buffer.as_mut_ptr().cast(), length) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    buffer.truncate(read);
    Ok(String::from_utf8_lossy(&buffer).into_owned())
}

/// Signals by which a terminal, a session or a person asks a process to end.
const ENDING: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Blocks the signals that would end this process until it is dropped; a pending one then takes
/// effect. Programs started meanwhile begin with no signal blocked.
#[derive(Debug)]
pub struct Uninterrupted {
    before: libc::sigset_t,
}

impl Uninterrupted {
    /// Begins to block them, in this thread.
    #[must_use]
    pub fn begin() -> Self {
        // SAFETY: a signal set consists of integers, for which all zeroes is valid; sigemptyset
        // initialises it.
        let (mut held, mut before) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: both sets outlive the calls, and the numbers are signals.
        unsafe {
            libc::sigemptyset(&raw mut held);
            for signal in ENDING {
                libc::sigaddset(&raw mut held, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held, &raw mut before);
        }
        Self { before }
    }
}

impl Drop for Uninterrupted {
    fn drop(&mut self) {
        // SAFETY: the same call filled `before`; a null pointer means that the old set is not
        // needed.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Lets this process survive its terminal and Ctrl-C: it ends with its input.
pub fn outlive_terminal() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: SIG_IGN is not a handler; no code of this process runs at the signal.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Marks every open file of this process to be closed at exec, except for the standard streams and
/// `kept`.
///
/// # Errors
///
/// Without `/proc` the open files are unknown.
pub fn close_at_exec(kept: &impl AsRawFd) -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let flags = if number == kept.as_raw_fd() {
            0
        } else {
            libc::FD_CLOEXEC
        };
        if number > libc::STDERR_FILENO {
            // SAFETY: the call changes a flag of a descriptor, or nothing if there is none.
            unsafe { libc::fcntl(number, libc::F_SETFD, flags) };
        }
    }
    Ok(())
}

/// Returns the name by which a hypervisor identifies itself through CPUID. Call it only if the
/// processor's flags show a hypervisor.
#[must_use]
pub fn hypervisor_signature() -> Option<[u8; 12]> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction, which changes only registers.
        #[allow(unused_unsafe, reason = "safe from Rust 1.94 on, unsafe before")]
        let leaf = unsafe { core::arch::x86_64::__cpuid(0x4000_0000) };
        let mut signature = [0; 12];
        for (at, word) in [leaf.ebx, leaf.ecx, leaf.edx].into_iter().enumerate() {
            signature[at * 4..at * 4 + 4].copy_from_slice(&word.to_le_bytes());
        }
        Some(signature)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Class and level of I/O priorities, as packed in `linux/ioprio.h`.
const BEST_EFFORT: libc::c_int = 2 << 13;
const ONE_THREAD: libc::c_int = 1;

/// Sets the level in the class best-effort for the I/O of the calling thread and its children.
///
/// # Errors
///
/// The kernel has no I/O priorities.
pub fn set_io_priority(level: u8) -> io::Result<()> {
    let priority = BEST_EFFORT | libc::c_int::from(level);
    // SAFETY: the call takes integers; 0 is the calling thread.
    if unsafe { libc::syscall(libc::SYS_ioprio_set, ONE_THREAD, 0, priority) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Moves the calling process, which must be single-threaded, into an empty network, optionally with
/// a user namespace.
///
/// # Errors
///
/// It is not allowed, or the kernel lacks such namespaces.
pub fn unshare_network(with_user: bool) -> io::Result<()> {
    let user = if with_user { libc::CLONE_NEWUSER } else { 0 };
    // SAFETY: neither flag changes which memory or descriptors the process shares.
    match unsafe { libc::unshare(libc::CLONE_NEWNET | user) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns how many segments a connection has retransmitted.
///
/// # Errors
///
/// It is not a TCP socket.
pub fn tcp_retransmits(socket: &impl AsRawFd) -> io::Result<u32> {
    /// Offset of `tcpi_total_retrans` in `linux/tcp.h`, in words of four bytes.
    const TOTAL: usize = 25;
    let mut words = [0_u32; TOTAL + 1];
    let wanted = std::mem::size_of_val(&words);
    let mut length = libc::socklen_t::try_from(wanted).unwrap_or_default();
    // SAFETY: the kernel writes at most `length` bytes to the live array, and their number to
    // `length`.
    let asked = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if asked != 0 {
        return Err(io::Error::last_os_error());
    }
    if length as usize != wanted {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(words[TOTAL])
}

/// Runs a test of root as a user who owns nothing.
#[cfg(test)]
pub(crate) fn as_nobody<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let as_user = || {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
            run()
        };
        scope.spawn(as_user).join().unwrap()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_io_priority_that_it_was_given() {
        // SAFETY: the call takes integers; 0 is the calling thread.
        let read = || unsafe { libc::syscall(libc::SYS_ioprio_get, ONE_THREAD, 0) };
        let before = read();
        let own = std::thread::spawn(move || set_io_priority(3).map(|()| read()));
        assert_eq!(own.join().unwrap().unwrap(), libc::c_long::from(BEST_EFFORT | 3));
        assert_eq!(read(), before);
    }

    #[test]
    fn signals_are_held_back_for_a_while_only() {
        let mask = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("SigBlk:"))
                .unwrap()
                .trim()
                .to_owned();
            u64::from_str_radix(&line, 16).unwrap()
        };
        let before = mask();
        let guard = Uninterrupted::begin();
        assert!(ENDING.iter().all(|signal| mask() >> (signal - 1) & 1 == 1));
        drop(guard);
        assert_eq!(mask(), before);
    }

    #[test]
    fn a_file_is_no_nvme_controller() {
        assert!(nvme_identify_controller(&std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
