// SPDX-License-Identifier: Apache-2.0
//! System calls that no safe wrapper offers: the only module with unsafe code.
#![allow(
    unsafe_code,
    reason = "everything here is a call into the kernel; each block says why it is sound"
)]

mod nvme;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

pub use nvme::{nvme_autonomous_transitions, nvme_identify_controller};

/// What a finished child used, itself and the descendants that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in user mode, in microseconds.
    pub user_us: u64,
    /// Processor time in the kernel, in microseconds.
    pub system_us: u64,
    /// Largest resident set, in bytes.
    pub max_rss_bytes: u64,
    /// Page faults served without reading from a disk.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Switches because the process waited.
    pub voluntary_switches: u64,
    /// Switches because its time was up or another one came first.
    pub involuntary_switches: u64,
}

/// Waits for the child `pid` to end, reaps it, and says how it ended and what it used.
///
/// # Errors
/// There is no such child.
pub fn wait4(pid: u32) -> io::Result<(ExitStatus, Usage)> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ECHILD))?;
    let mut status = 0;
    // SAFETY: rusage is made of integers; all zeroes is a value of it.
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

fn usage_of(usage: &libc::rusage) -> Usage {
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

/// Starts a process of its own for `work`; it ends with status 0 when that says true, and is killed when the calling thread
/// ends. `work` may make system calls and nothing else: at the fork another thread may have held any lock, the
/// allocator's too.
///
/// # Errors
/// There may be no more processes.
pub fn fork(work: impl FnOnce() -> bool) -> io::Result<u32> {
    /// Ends the process whatever happens, a panic too.
    struct End(libc::c_int);
    impl Drop for End {
        fn drop(&mut self) {
            // SAFETY: it ends the process without running anything of the parent's.
            unsafe { libc::_exit(self.0) };
        }
    }
    // SAFETY: neither call takes a pointer; what the child runs is bound as told above.
    let (parent, forked) = unsafe { (libc::getpid(), libc::fork()) };
    if forked != 0 {
        return u32::try_from(forked).map_err(|_| io::Error::last_os_error());
    }
    let mut end = End(1);
    // SAFETY: the call takes numbers alone. The parent may have ended before it.
    let has_parent = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) == 0 && libc::getppid() == parent
    };
    if has_parent && work() {
        end.0 = 0;
    }
    drop(end);
    Ok(0)
}

/// What a child does to itself between fork and exec.
#[derive(Debug)]
pub struct Preparation {
    /// The open `cgroup.procs` of the group to enter.
    pub cgroup: Option<File>,
    /// The CPUs to run on.
    pub cpus: Option<Vec<u32>>,
    /// Where the child writes the byte of the step that failed.
    pub report: OwnedFd,
}

/// The byte in a preparation's report when the group could not be entered.
pub const CGROUP_FAILED: u8 = b'g';
/// The byte in a preparation's report when the CPUs could not be set.
pub const CPUS_FAILED: u8 = b'c';

/// Makes `command` carry out a preparation in the child. The group comes first: entering one sets the CPUs anew.
pub fn prepare(command: &mut Command, preparation: Preparation) {
    let Preparation { cgroup, cpus, report } = preparation;
    let mask = cpus.map(|cpus| cpu_mask(&cpus));
    let step = move || {
        if let Some(group) = &cgroup {
            // SAFETY: the buffer is one byte long and lives through the call.
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
    // SAFETY: the closure runs in the forked child and only makes system calls on descriptors and memory that were
    // made before the fork; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(step) };
}

fn fail(report: &OwnedFd, step: u8) -> io::Result<()> {
    let error = io::Error::last_os_error();
    // SAFETY: the buffer is one byte long and lives through the call. The report is an extra: its loss is no failure.
    let _: isize = unsafe { libc::write(report.as_raw_fd(), (&raw const step).cast(), 1) };
    Err(error)
}

/// A kernel CPU mask: one bit per CPU, in words.
fn cpu_mask(cpus: &[u32]) -> Vec<libc::c_ulong> {
    let bits = libc::c_ulong::BITS;
    let words = cpus.iter().max().map_or(1, |last| last / bits + 1);
    let mut mask = vec![0; words as usize];
    for cpu in cpus {
        mask[(cpu / bits) as usize] |= 1 << (cpu % bits);
    }
    mask
}

/// The kernel's log, as far as this session may read it.
///
/// # Errors
/// The session may not read it.
pub fn kernel_log() -> io::Result<String> {
    const READ_ALL: libc::c_int = 3;
    const BUFFER_BYTES: usize = 4 << 20;
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    let length = libc::c_int::try_from(buffer.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the buffer is `length` bytes long and lives through the call.
    let read = unsafe { libc::klogctl(READ_ALL, buffer.as_mut_ptr().cast(), length) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    buffer.truncate(read);
    Ok(String::from_utf8_lossy(&buffer).into_owned())
}

/// Signals of a terminal, a session or a person that ask a process to end.
const ENDING: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Holds the signals that would end this process back until it is dropped; one that came meanwhile takes effect then.
/// Programs that are started meanwhile begin without anything held back.
#[derive(Debug)]
pub struct Uninterrupted {
    before: libc::sigset_t,
}

impl Uninterrupted {
    /// Begins holding them back, in this thread.
    #[must_use]
    pub fn begin() -> Self {
        // SAFETY: a signal set is made of integers; all zeroes is a value of it, and sigemptyset makes it a proper one.
        let (mut held, mut before) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: both sets live through the calls, and the numbers are those of signals.
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
        // SAFETY: `before` was filled by the same call; a null pointer asks for nothing back.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Makes this process outlive its terminal and Ctrl-C: it ends with its input.
pub fn outlive_terminal() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: SIG_IGN is no handler; no code of this process runs at the signal.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// The name that a hypervisor gives itself through the processor. To be asked only where the processor's flags show one.
#[must_use]
pub fn hypervisor_signature() -> Option<[u8; 12]> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction, and it changes nothing but registers.
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

/// Size of a page of memory, in bytes.
#[must_use]
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Page faults of the calling thread since it began, with and without reading from a disk.
///
/// # Errors
/// The kernel does not count by thread.
pub fn thread_faults() -> io::Result<u64> {
    // SAFETY: rusage is made of integers; all zeroes is a value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live value of the type that getrusage fills.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let usage = usage_of(&usage);
    Ok(usage.minor_faults + usage.major_faults)
}

/// Class and level of I/O priorities, as `linux/ioprio.h` packs them.
const BEST_EFFORT: libc::c_int = 2 << 13;
const ONE_THREAD: libc::c_int = 1;

/// Gives the reads and writes of the calling thread, and of those that it starts, a level of the class best-effort.
///
/// # Errors
/// The kernel has no I/O priorities.
pub fn set_io_priority(level: u8) -> io::Result<()> {
    let priority = BEST_EFFORT | libc::c_int::from(level);
    // SAFETY: the call takes integers; 0 is the calling thread.
    if unsafe { libc::syscall(libc::SYS_ioprio_set, ONE_THREAD, 0, priority) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// What is asked of the kernel about huge pages in a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugePages {
    /// To use them.
    Wanted,
    /// Not to use them.
    Declined,
}

/// Mapped memory; it is unmapped with the value.
#[derive(Debug)]
pub struct Mapping {
    address: std::ptr::NonNull<u8>,
    bytes: usize,
    writable: bool,
}

// SAFETY: the value owns its memory alone; nothing about it belongs to the thread that mapped it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Memory of no file, not there until it is touched.
    ///
    /// # Errors
    /// There is not enough, or the kernel has no huge pages to be asked about.
    pub fn anonymous(bytes: usize, huge: Option<HugePages>) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mapping = Self::map(bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1)?;
        match huge {
            Some(huge) => mapping.advise(huge, bytes).map(|()| mapping),
            None => Ok(mapping),
        }
    }

    /// Asks for huge pages in the first `bytes`, or declines them.
    ///
    /// # Errors
    /// The kernel has no huge pages to be asked about.
    ///
    /// # Panics
    /// The mapping is shorter.
    pub fn advise(&self, huge: HugePages, bytes: usize) -> io::Result<()> {
        assert!(bytes <= self.bytes, "no {bytes} bytes in {self:?}");
        let advice = match huge {
            HugePages::Wanted => libc::MADV_HUGEPAGE,
            HugePages::Declined => libc::MADV_NOHUGEPAGE,
        };
        // SAFETY: the range is the mapping's own; the advice changes no content.
        if unsafe { libc::madvise(self.address.as_ptr().cast(), bytes, advice) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // A kernel without huge pages does not know the advice, and declines them anyway.
        if huge == HugePages::Declined && error.raw_os_error() == Some(libc::EINVAL) {
            return Ok(());
        }
        Err(error)
    }

    /// The first `bytes` of a file, to be read. The file must be as long, and stay so.
    ///
    /// # Errors
    /// The file is shorter, or cannot be mapped.
    pub fn of_file(file: &File, bytes: usize) -> io::Result<Self> {
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::map(bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map(bytes: usize, protection: libc::c_int, flags: libc::c_int, fd: libc::c_int) -> io::Result<Self> {
        // SAFETY: the kernel chooses the place, so that no memory in use is touched.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = std::ptr::NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let writable = protection & libc::PROT_WRITE != 0;
        Ok(Self {
            address,
            bytes,
            writable,
        })
    }

    /// Writes a byte.
    ///
    /// # Panics
    /// The offset is outside the mapping, or it cannot be written to.
    pub fn write(&mut self, offset: usize, byte: u8) {
        assert!(
            offset < self.bytes && self.writable,
            "no byte {offset} to write in {self:?}"
        );
        // SAFETY: the offset was checked, the memory is writable and belongs to this value alone.
        unsafe { self.address.as_ptr().add(offset).write_volatile(byte) };
    }

    /// Reads a byte and drops it.
    ///
    /// # Panics
    /// The offset is outside the mapping.
    pub fn read(&self, offset: usize) {
        assert!(offset < self.bytes, "no byte {offset} in {self:?}");
        // SAFETY: the offset was checked, and all of the mapping is readable.
        let _: u8 = unsafe { self.address.as_ptr().add(offset).read_volatile() };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping's own, and nothing refers to it any more.
        let _: libc::c_int = unsafe { libc::munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}

/// Gives the calling process, which has one thread, an empty network; with a user namespace of its own when asked for.
///
/// # Errors
/// Not allowed, or the kernel has no such namespaces.
pub fn unshare_network(with_user: bool) -> io::Result<()> {
    let user = if with_user { libc::CLONE_NEWUSER } else { 0 };
    // SAFETY: neither flag changes what memory or descriptors the process shares.
    match unsafe { libc::unshare(libc::CLONE_NEWNET | user) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the program that `command` starts have a descriptor under the same number; [`handed_down`] takes it there.
pub fn hand_down(command: &mut Command, descriptor: OwnedFd) {
    // SAFETY: the closure runs in the forked child and makes one system call on a descriptor that it owns.
    let keep = move || match unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: as above; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(keep) };
}

/// Takes the descriptor that this process was started with; no program that it starts gets it.
///
/// # Errors
/// There is no such descriptor.
pub fn handed_down(number: i32) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the call changes a flag of a descriptor, and fails when there is none.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and only the caller, who was told its number, takes it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Has what `command` starts killed when the calling thread ends.
pub fn end_with_parent(command: &mut Command) {
    // SAFETY: the closure runs in the forked child and makes one system call without pointers.
    let bind = || match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: as above; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(bind) };
}

/// Segments that a connection has sent again since it began.
///
/// # Errors
/// Not a TCP socket.
pub fn tcp_retransmits(socket: &impl AsRawFd) -> io::Result<u32> {
    /// Where `linux/tcp.h` has `tcpi_total_retrans`, counted in words of four bytes.
    const TOTAL: usize = 25;
    let mut words = [0_u32; TOTAL + 1];
    let wanted = std::mem::size_of_val(&words);
    let mut length = libc::socklen_t::try_from(wanted).unwrap_or_default();
    // SAFETY: the kernel writes at most `length` bytes to the live array, and the length of what it wrote.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_a_mapping_costs_a_fault_per_page() {
        const PAGES: usize = 64;
        let mut mapping = Mapping::anonymous(PAGES * page_bytes(), Some(HugePages::Declined)).unwrap();
        let before = thread_faults().unwrap();
        for page in 0..PAGES {
            mapping.write(page * page_bytes(), 1);
        }
        let faults = thread_faults().unwrap() - before;
        assert!((PAGES as u64..2 * PAGES as u64).contains(&faults), "{faults}");
    }

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
    fn a_mapping_has_bounds() {
        let file = tempfile::tempfile().unwrap();
        assert!(Mapping::of_file(&file, 1).is_err());
        file.set_len(10).unwrap();
        let mapping = Mapping::of_file(&file, 10).unwrap();
        mapping.read(9);
        assert!(std::panic::catch_unwind(|| mapping.read(10)).is_err());
        assert!(Mapping::anonymous(usize::MAX, None).is_err());
        let small = Mapping::anonymous(page_bytes(), None).unwrap();
        assert!(std::panic::catch_unwind(|| small.advise(HugePages::Declined, page_bytes() + 1)).is_err());
    }

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
        assert!(nvme_identify_controller(&File::open("/dev/null").unwrap()).is_err());
    }
}
