// SPDX-License-Identifier: Apache-2.0
//! The few programs that a plan may run as root, and how each is undone.

use crate::facts::unescape;
use crate::oom;
use crate::root::Root;
use crate::transact::machine::{Outcome, Refusal};
use crate::transact::services;
use rustix::io::Errno;
use rustix::process::{kill_process_group, Pid, Signal};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Folders to search, in order; `PATH` is ignored.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The time limit of a program: rewriting a boot loader's files takes minutes on slow disks.
const LIMIT: Duration = Duration::from_secs(300);

/// Bytes of a program's output to quote in a message.
const TALK_BYTES: usize = 400;

/// Links that are followed, as the kernel does.
const MOST_LINKS: usize = 40;

/// A program and a check of its arguments.
struct Program {
    name: &'static str,
    fits: fn(&[&str]) -> bool,
}

/// Everything that the agent may run: steps of plans (see [`check`]), the set-up of zram, and undo
/// commands in journals of older versions, whose steps could do more.
const PROGRAMS: [Program; 10] = [
    Program {
        name: "mkswap",
        fits: |arguments| matches!(arguments, [device] if is_zram(device)),
    },
    Program {
        name: "swapon",
        fits: |arguments| match arguments {
            [area] => is_swap_area(area),
            ["-p", priority, area] => priority.parse::<u16>().is_ok() && is_swap_area(area),
            _ => false,
        },
    },
    Program {
        name: "swapoff",
        fits: |arguments| matches!(arguments, [area] if is_plain_path(area)),
    },
    Program {
        name: "modprobe",
        fits: |arguments| matches!(arguments, [module] | ["-r", module] if is_module(module)),
    },
    Program {
        name: "systemctl",
        fits: |arguments| match arguments {
            ["daemon-reload"]
            | ["--no-block", "reboot" | "kexec"]
            | ["list-units", "--failed" | "--state=active", "--plain", "--no-legend"]
            | ["list-jobs", "--plain", "--no-legend"] => true,
            ["show", "--property=ActiveState", "--value" | "--property=Job", unit]
            | ["start" | "stop" | "restart" | "reload" | "try-restart" | "enable" | "disable" | "mask"
            | "unmask", unit] => is_unit(unit),
            _ => false,
        },
    },
    Program {
        name: "kexec",
        fits: |arguments| match arguments {
            ["--unload"] => true,
            ["--kexec-syscall-auto", "--load", kernel, rest @ ..] => {
                let (line, initrds) = rest.split_last().unwrap_or((&"", &[]));
                let is_initrd = |word: &&str| word.strip_prefix("--initrd=").is_some_and(is_plain_path);
                is_plain_path(kernel)
                    && line.starts_with("--command-line=")
                    && initrds.len() < 2
                    && initrds.iter().all(is_initrd)
            }
            _ => false,
        },
    },
    Program {
        name: "bootctl",
        fits: |arguments| matches!(arguments, ["set-oneshot", entry] if entry.is_empty() || is_own_entry(entry)),
    },
    Program {
        name: "journalctl",
        fits: |arguments| match arguments {
            ["--no-pager", "--output=short-monotonic", "--dmesg" | "--all", "--lines", count, "--boot", id] => {
                count.parse::<u16>().is_ok()
                    && id.len() == 32
                    && id.bytes().all(|byte| byte.is_ascii_hexdigit())
            }
            _ => false,
        },
    },
    Program {
        name: "update-grub",
        fits: |arguments| arguments.is_empty(),
    },
    Program {
        name: "grub-mkconfig",
        fits: |arguments| matches!(arguments, ["-o", "/boot/grub/grub.cfg" | "/boot/grub2/grub.cfg"]),
    },
];

fn is_own_entry(entry: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let name = entry
        .strip_prefix("ktrial-")
        .and_then(|rest| rest.strip_suffix(".conf"));
    name.is_some_and(|name| name.bytes().all(known))
}

fn is_zram(device: &str) -> bool {
    let number = device.strip_prefix("/dev/zram");
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_plain_path(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| part != ".." && part != ".")
}

/// Whether a path is a block device, or a file that only root can change or replace: the swap area
/// receives memory.
fn is_swap_area(path: &str) -> bool {
    let Ok(real) = std::fs::canonicalize(path) else {
        return is_plain_path(path);
    };
    let is_device = std::fs::metadata(&real).is_ok_and(|metadata| metadata.file_type().is_block_device());
    is_plain_path(path) && (is_device || real.ancestors().all(is_roots_alone))
}

/// Whether only root can change or replace a file. In a folder with the sticky bit, such as /tmp,
/// nobody can remove root's files.
pub fn is_roots_alone(part: &Path) -> bool {
    is_of(part, 0)
}

/// Whether only root and one user can change or replace a file.
fn is_of(part: &Path, user: u32) -> bool {
    let owns = |uid: u32| uid == 0 || uid == user;
    let is_own_link = std::fs::symlink_metadata(part).is_ok_and(|found| owns(found.uid()));
    is_own_link
        && std::fs::metadata(part).is_ok_and(|metadata| {
            let sticky = metadata.is_dir() && metadata.mode() & 0o1000 != 0;
            owns(metadata.uid()) && (sticky || metadata.mode() & 0o022 == 0)
        })
}

/// Refuses a program for root's units that somebody other than root and `user` can change, or whose
/// interpreter somebody else can change.
pub fn check_own(root: &Root, program: &str, user: u32) -> Result<(), Refusal> {
    let refuse = |outcome, errno: Errno, message: String| Refusal {
        outcome,
        errno: errno.raw_os_error(),
        message,
    };
    let file = root.path(program);
    let real = std::fs::canonicalize(&file).map_err(|error| Refusal::of("run", program, &error))?;
    let is_program = std::fs::metadata(&real).is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0);
    if !is_program {
        let message = format!("{program} is not a program");
        return Err(refuse(Outcome::Refused, Errno::ACCESS, message));
    }
    let interpreter = interpreter_of(&real).map(|name| root.path(&name));
    for part in [Some(file), interpreter]
        .into_iter()
        .flatten()
        .flat_map(|file| links_of(&file))
    {
        if let Some(weak) = part
            .ancestors()
            .find(|part| part.starts_with(root.base()) && !is_of(part, user))
        {
            let message = format!(
                "{} can be changed by someone other than {}, so ktrial writes no unit that runs {program} as root",
                weak.display(),
                if user == 0 {
                    "root"
                } else {
                    "root and the user who asked"
                }
            );
            return Err(refuse(Outcome::Forbidden, Errno::PERM, message));
        }
    }
    Ok(())
}

/// Returns a file, every link that leads from it to the next one, and the file at their end: whoever
/// can change one of them decides which file that is.
fn links_of(file: &Path) -> Vec<PathBuf> {
    let mut found = vec![file.to_owned()];
    while let Some(target) = found.last().and_then(|last| std::fs::read_link(last).ok()) {
        let last = &found[found.len() - 1];
        found.push(last.parent().unwrap_or(Path::new("/")).join(target));
        if found.len() > MOST_LINKS {
            break;
        }
    }
    found.extend(std::fs::canonicalize(file));
    found
}

/// Returns the interpreter that a script's first line names.
fn interpreter_of(file: &Path) -> Option<String> {
    let mut start = [0; 256];
    let count = std::fs::File::open(file).ok()?.read(&mut start).ok()?;
    let text = String::from_utf8_lossy(&start[..count]);
    let first = text.lines().next()?.strip_prefix("#!")?;
    first.split_whitespace().next().map(str::to_owned)
}

fn is_module(name: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !name.starts_with('-') && !name.is_empty() && name.bytes().all(known)
}

/// Whether this is the name of a unit and not a path: `systemctl enable` accepts files from
/// anywhere.
fn is_unit(name: &str) -> bool {
    let known =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'_' | b'.' | b'@' | b'-' | b'\\');
    !name.starts_with('-') && !name.is_empty() && name.bytes().all(known)
}

/// Finds a program on the machine, whatever its arguments will be.
pub fn has(root: &Root, name: &str) -> Result<PathBuf, Refusal> {
    if !root.is_real() {
        return Err(Refusal {
            outcome: Outcome::Refused,
            errno: Errno::NOSYS.raw_os_error(),
            message: format!(
                "cannot run {name}: it would change the running machine, not the one at {}",
                root.base().display()
            ),
        });
    }
    let found = FOLDERS
        .iter()
        .map(|folder| root.path(folder).join(name))
        .find(|file| file.is_file());
    found.ok_or_else(|| Refusal {
        outcome: Outcome::Absent,
        errno: Errno::NOENT.raw_os_error(),
        message: format!("{name}: no such program in {}", FOLDERS.join(", ")),
    })
}

/// Finds the program of a command, if the command is allowed.
pub fn find(root: &Root, argv: &[String]) -> Result<PathBuf, Refusal> {
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let fits = |name: &str, arguments: &[&str]| {
        PROGRAMS
            .iter()
            .any(|program| program.name == name && (program.fits)(arguments))
    };
    match words.split_first() {
        Some((name, arguments)) if fits(name, arguments) => has(root, name),
        _ => Err(Refusal {
            outcome: Outcome::Forbidden,
            errno: Errno::PERM.raw_os_error(),
            message: format!("the agent may not run `{}`", argv.join(" ")),
        }),
    }
}

/// Refuses a step of a plan unless it turns one swap area off and on again, or starts or stops a
/// tuning service ([`services`]) and undoes it.
pub fn check(root: &Root, forward: &[String], undo: &[String]) -> Result<(), Refusal> {
    fn words(argv: &[String]) -> Vec<&str> {
        argv.iter().map(String::as_str).collect()
    }
    match (words(forward).as_slice(), words(undo).as_slice()) {
        (["swapoff", area], ["swapon", priority @ .., again]) if area == again => {
            find(root, forward)?;
            find(root, undo)?;
            check_swap(root, area, priority)
        }
        (["systemctl", there, unit], ["systemctl", back, again])
            if unit == again && matches!((*there, *back), ("start", "stop") | ("stop", "start")) =>
        {
            services::check(unit)?;
            find(root, forward).map(drop)
        }
        _ => Err(Refusal {
            outcome: Outcome::Forbidden,
            errno: Errno::PERM.raw_os_error(),
            message: format!(
                "a plan may not run `{}` with the undo `{}`; it may run swapoff of an area, with its swapon as undo, \
                 and systemctl start or stop of a service that tunes, with the opposite as undo",
                forward.join(" "),
                undo.join(" ")
            ),
        }),
    }
}

/// Refuses an area that is not in use, or whose undo would change its priority.
fn check_swap(root: &Root, area: &str, again: &[&str]) -> Result<(), Refusal> {
    let Some(priority) = priority_of(root, area)? else {
        return Err(Refusal {
            outcome: Outcome::Absent,
            errno: Errno::NOENT.raw_os_error(),
            message: format!("{area} is not an active swap area"),
        });
    };
    let own = priority.to_string();
    let same = if priority < 0 {
        again.is_empty()
    } else {
        again == ["-p", own.as_str()]
    };
    if same {
        return Ok(());
    }
    Err(Refusal {
        outcome: Outcome::Forbidden,
        errno: Errno::PERM.raw_os_error(),
        message: format!("the undo would change the priority of {area}, which is {priority}"),
    })
}

/// Runs an allowed command in an empty environment and waits for it.
pub fn run(root: &Root, argv: &[String]) -> Result<(), Refusal> {
    output(root, argv).map(drop)
}

/// Reads a stream to its end beside the process.
fn drained(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // What came before an error is all that there is.
            let _ = stream.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Runs an allowed command in an empty environment, and returns what it writes.
pub fn output(root: &Root, argv: &[String]) -> Result<String, Refusal> {
    let file = find(root, argv)?;
    let failed = |message: String| Refusal {
        outcome: Outcome::Refused,
        errno: Errno::IO.raw_os_error(),
        message: format!("`{}` {message}", argv.join(" ")),
    };
    let exposed = oom::Exposed::begin();
    let mut child = Command::new(file)
        .args(&argv[1..])
        .env_clear()
        .env("PATH", FOLDERS.join(":"))
        .env("LC_ALL", "C")
        .current_dir(root.base())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    drop(exposed);
    let (said, talk) = (drained(child.stdout.take()), drained(child.stderr.take()));
    let status = wait(&mut child, LIMIT).map_err(&failed)?;
    let unread = |_| failed("failed: its output could not be read".to_owned());
    let (said, bytes) = (said.join().map_err(unread)?, talk.join().map_err(unread)?);
    if status.success() {
        return Ok(String::from_utf8_lossy(&said).into_owned());
    }
    let start = bytes.len().saturating_sub(TALK_BYTES);
    Err(failed(format!(
        "failed with {status}: {}",
        String::from_utf8_lossy(&bytes[start..]).trim()
    )))
}

fn wait(child: &mut Child, limit: Duration) -> Result<std::process::ExitStatus, String> {
    let began = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if began.elapsed() < limit => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Ok(None) => {
                let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let killed = group.map(|group| kill_process_group(group, Signal::KILL));
                let waited = child.wait();
                return Err(format!(
                    "exceeded {} s and was killed ({killed:?}, {waited:?})",
                    limit.as_secs()
                ));
            }
            Err(error) => return Err(format!("failed: cannot wait for it: {error}")),
        }
    }
}

/// Returns the priority of a swap area, by the name that the kernel shows; None if it is not in
/// use.
pub fn priority_of(root: &Root, area: &str) -> Result<Option<i32>, Refusal> {
    let swaps = "/proc/swaps";
    let text = root
        .read_text(swaps)
        .map_err(|error| Refusal::of("read", swaps, &error))?;
    let line = text
        .lines()
        .skip(1)
        .find(|line| line.split_whitespace().next().map(unescape).as_deref() == Some(area));
    Ok(line
        .and_then(|line| line.split_whitespace().nth(4))
        .and_then(|number| number.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(command: &str) -> Vec<String> {
        command.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn only_listed_commands_are_found() {
        let root = Root::new("/");
        for command in [
            "sh -c true",
            "/sbin/swapoff -a",
            "systemctl edit x",
            "systemctl enable /tmp/own.service",
            "systemctl start",
            "modprobe -C /tmp/x y",
            "modprobe -qC /tmp/x",
            "modprobe /tmp/own.ko",
            "modprobe firmware_class path=/tmp",
            "modprobe -a",
            "modprobe ",
            "systemctl start --now",
            "systemctl start ",
            "mkswap /dev/sda",
            "mkswap /dev/zram0/../sda",
            "mkswap /dev/zram",
            "swapoff -a",
            "swapoff area",
            "swapoff /a/../b",
            "swapon -p x /dev/zram0",
            "swapon --fixpgsz /dev/zram0",
            "swapon ../x",
            "grub-mkconfig -o /etc/passwd",
            "update-grub /x",
            "udevadm trigger",
        ] {
            assert_eq!(
                find(&root, &argv(command)).unwrap_err().outcome,
                Outcome::Forbidden,
                "{command}"
            );
        }
        assert_eq!(find(&root, &[]).unwrap_err().outcome, Outcome::Forbidden);
        for command in [
            "mkswap /dev/zram12",
            "swapoff /dev/zram0",
            "swapon -p 100 /dev/zram0",
            "modprobe -r zram",
            "systemctl stop getty@tty1.service",
            "grub-mkconfig -o /boot/grub/grub.cfg",
        ] {
            let found = find(&root, &argv(command)).map_err(|refusal| refusal.outcome);
            assert!(matches!(found, Ok(_) | Err(Outcome::Absent)), "{command}");
        }
    }

    #[test]
    fn memory_is_never_swapped_to_a_file_that_others_can_change() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("swap");
        std::fs::write(&file, "").unwrap();
        let path = file.to_str().unwrap();
        let is_root = std::fs::metadata(&file).unwrap().uid() == 0;
        let mode =
            |of: &Path, mode| std::fs::set_permissions(of, std::fs::Permissions::from_mode(mode)).unwrap();
        for (file_mode, folder_mode, safe) in [
            (0o600, 0o700, true),
            (0o622, 0o700, false),
            (0o1622, 0o700, false),
            (0o600, 0o777, false),
            (0o600, 0o1777, true),
        ] {
            mode(&file, file_mode);
            mode(folder.path(), folder_mode);
            assert_eq!(
                is_swap_area(path),
                safe && is_root,
                "{file_mode:o} in {folder_mode:o}"
            );
        }
        assert!(is_swap_area("/no-such-folder/swap"), "swapon says so itself");
        assert!(
            !is_swap_area("/usr/../etc/passwd"),
            "the kernel's list has no such name"
        );
    }

    #[test]
    fn root_runs_no_program_that_others_can_change() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let mode = |of: &str, mode| {
            std::fs::set_permissions(root.path(of), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for (file, text) in [("/usr/bin/own", "#!/opt/py -I\n"), ("/opt/py", "")] {
            std::fs::create_dir_all(root.path(file).parent().unwrap()).unwrap();
            std::fs::write(root.path(file), text).unwrap();
            mode(file, 0o755);
        }
        let is_root = rustix::process::geteuid().is_root();
        let outcome = || check_own(&root, "/usr/bin/own", 0).map_err(|why| why.message);
        assert_eq!(outcome().is_ok(), is_root, "{:?}", outcome());
        for (part, weak, right) in [
            ("/opt/py", 0o775, 0o755),
            ("/opt", 0o777, 0o755),
            ("/usr/bin", 0o775, 0o755),
            ("/usr/bin/own", 0o757, 0o755),
        ] {
            mode(part, weak);
            let why = outcome().unwrap_err();
            assert!(why.contains("someone other than root"), "{why}");
            assert!(
                !is_root || why.starts_with(&*root.path(part).to_string_lossy()),
                "{why}"
            );
            mode(part, right);
        }
        // Whoever can change a link on the way decides what root runs.
        std::fs::remove_file(root.path("/opt/py")).unwrap();
        std::fs::create_dir_all(root.path("/home/own")).unwrap();
        std::fs::write(root.path("/usr/bin/py"), "").unwrap();
        mode("/usr/bin/py", 0o755);
        for (link, target) in [("/opt/py", "/home/own/py"), ("/home/own/py", "/usr/bin/py")] {
            std::os::unix::fs::symlink(root.path(target), root.path(link)).unwrap();
        }
        assert_eq!(outcome().is_ok(), is_root, "{:?}", outcome());
        mode("/home/own", 0o777);
        let why = outcome().unwrap_err();
        assert!(
            !is_root || why.starts_with(&*root.path("/home/own").to_string_lossy()),
            "{why}"
        );
        mode("/home/own", 0o755);
        mode("/usr/bin/own", 0o644);
        assert!(outcome().unwrap_err().contains("is not a program"));
        assert_eq!(
            check_own(&root, "/usr/bin/none", 0).unwrap_err().outcome,
            Outcome::Absent
        );
    }

    #[test]
    fn a_fake_tree_runs_nothing() {
        let refusal = find(&Root::new("/tmp"), &argv("modprobe zram")).unwrap_err();
        assert_eq!(refusal.outcome, Outcome::Refused);
    }

    #[test]
    fn swap_comes_on_again_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        std::fs::write(
            folder.path().join("proc/swaps"),
            "Filename Type Size Used Priority\n/dev/a\\040b partition 8 0 5\n/dev/own partition 8 0 -2\n\
             /dev/first partition 8 0 0\n",
        )
        .unwrap();
        let outcome = |area: &str, again: &[&str]| check_swap(&root, area, again).map_err(|why| why.outcome);
        assert_eq!(outcome("/dev/a b", &["-p", "5"]), Ok(()));
        assert_eq!(outcome("/dev/own", &[]), Ok(()));
        assert_eq!(outcome("/dev/first", &["-p", "0"]), Ok(()));
        assert_eq!(outcome("/dev/first", &[]), Err(Outcome::Forbidden));
        assert_eq!(outcome("/dev/a b", &[]), Err(Outcome::Forbidden));
        assert_eq!(outcome("/dev/a b", &["-p", "6"]), Err(Outcome::Forbidden));
        assert_eq!(outcome("/dev/own", &["-p", "2"]), Err(Outcome::Forbidden));
        assert_eq!(outcome("/dev/other", &[]), Err(Outcome::Absent));
    }

    #[test]
    fn a_failing_command_says_what_it_said() {
        let refusal = run(&Root::new("/"), &argv("swapoff /dev/ktrial-none")).unwrap_err();
        assert_eq!(refusal.outcome, Outcome::Refused);
        let ended = refusal
            .message
            .starts_with("`swapoff /dev/ktrial-none` failed with");
        assert!(ended, "{}", refusal.message);
    }

    #[test]
    fn what_takes_too_long_is_killed_with_all_that_it_started() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "sleep 600 & echo; wait"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut said = child.stdout.take().unwrap();
        said.read_exact(&mut [0]).unwrap();
        let why = wait(&mut child, Duration::from_millis(20)).unwrap_err();
        assert!(why.starts_with("exceeded 0 s and was killed"), "{why}");
        // The only writer is gone.
        assert_eq!(said.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn a_step_ends_what_its_undo_brings_back() {
        let outcome = |forward: &str, undo: &str| {
            check(&Root::new("/"), &argv(forward), &argv(undo)).map_err(|why| why.outcome)
        };
        for (forward, undo) in [
            ("swapoff /ktrial-none", "swapon /ktrial-other"),
            ("swapoff /ktrial-none", "swapon"),
            ("swapon /ktrial-none", "swapoff /ktrial-none"),
            ("systemctl start tuned", "systemctl stop irqbalance"),
            ("systemctl start tuned", "systemctl start tuned"),
            ("systemctl enable tuned", "systemctl disable tuned"),
            ("systemctl stop ssh", "systemctl start ssh"),
            ("modprobe zram", "modprobe -r zram"),
        ] {
            assert_eq!(
                outcome(forward, undo),
                Err(Outcome::Forbidden),
                "{forward}, {undo}"
            );
        }
        assert_eq!(
            outcome("swapoff /ktrial-none", "swapon -p 5 /ktrial-none"),
            Err(Outcome::Absent)
        );
        let taken = outcome("systemctl stop tuned", "systemctl start tuned");
        assert!(matches!(taken, Ok(()) | Err(Outcome::Absent)), "{taken:?}");
    }
}
