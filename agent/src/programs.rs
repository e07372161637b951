// SPDX-License-Identifier: Apache-2.0
//! The few programs that a plan may have run as root.

use crate::machine::{Outcome, Refusal};
use crate::oom;
use crate::root::Root;
use rustix::io::Errno;
use rustix::process::{kill_process_group, Pid, Signal};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Folders that are searched, in order; never `PATH`.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Longest time that a program may take (rewriting a boot loader's files takes minutes on slow disks).
const LIMIT: Duration = Duration::from_secs(300);

/// Bytes of a program's talk that go into a message.
const TALK_BYTES: usize = 400;

/// A program with the arguments that it may get.
struct Program {
    name: &'static str,
    /// The first argument is one of these; any, when the list is empty.
    verbs: &'static [&'static str],
    /// Arguments that begin so are refused.
    refused: &'static [&'static str],
}

const PROGRAMS: [Program; 11] = [
    Program {
        name: "mkswap",
        verbs: &[],
        refused: &[],
    },
    Program {
        name: "swapon",
        verbs: &[],
        refused: &[],
    },
    Program {
        name: "swapoff",
        verbs: &[],
        refused: &[],
    },
    Program {
        name: "modprobe",
        verbs: &[],
        refused: &["-C", "--config", "-d", "--dirname", "-S", "--set-version"],
    },
    Program {
        name: "systemctl",
        verbs: &[
            "daemon-reload",
            "enable",
            "disable",
            "start",
            "stop",
            "restart",
            "reload",
            "try-restart",
            "mask",
            "unmask",
            "set-property",
        ],
        refused: &["--root", "--image", "-H", "--host", "-M", "--machine"],
    },
    Program {
        name: "update-grub",
        verbs: &[],
        refused: &[],
    },
    Program {
        name: "grub-mkconfig",
        verbs: &["-o"],
        refused: &[],
    },
    Program {
        name: "grubby",
        verbs: &["--update-kernel", "--update-kernel=ALL", "--set-default"],
        refused: &[],
    },
    Program {
        name: "rpm-ostree",
        verbs: &["kargs"],
        refused: &[],
    },
    Program {
        name: "bootc",
        verbs: &["kargs"],
        refused: &[],
    },
    Program {
        name: "udevadm",
        verbs: &["control", "trigger", "settle"],
        refused: &[],
    },
];

/// The program file of a command, if the command is on the list and the machine has it.
pub fn find(root: &Root, argv: &[String]) -> Result<PathBuf, Refusal> {
    let name = argv.first().map_or("", String::as_str);
    let program = PROGRAMS.iter().find(|program| program.name == name);
    let Some(program) = program.filter(|program| arguments_fit(program, &argv[1..])) else {
        return Err(Refusal {
            outcome: Outcome::Forbidden,
            errno: Errno::PERM.raw_os_error(),
            message: format!(
                "`{}` is not among the commands that the agent runs",
                argv.join(" ")
            ),
        });
    };
    if !root.is_real() {
        return Err(Refusal {
            outcome: Outcome::Refused,
            errno: Errno::NOSYS.raw_os_error(),
            message: format!(
                "{name} would act on the running machine, not on the tree at {}",
                root.base().display()
            ),
        });
    }
    let found = FOLDERS
        .iter()
        .map(|folder| root.path(folder).join(program.name))
        .find(|file| file.is_file());
    found.ok_or_else(|| Refusal {
        outcome: Outcome::Absent,
        errno: Errno::NOENT.raw_os_error(),
        message: format!("this machine has no {name} in {}", FOLDERS.join(", ")),
    })
}

fn arguments_fit(program: &Program, arguments: &[String]) -> bool {
    let verb = arguments.first().map_or("", String::as_str);
    let refused = |argument: &String| {
        program
            .refused
            .iter()
            .any(|refused| argument.starts_with(refused))
    };
    (program.verbs.is_empty() || program.verbs.contains(&verb)) && !arguments.iter().any(refused)
}

/// Runs a command of the list in an empty environment and waits for it.
pub fn run(root: &Root, argv: &[String]) -> Result<(), Refusal> {
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
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| failed(format!("could not be started: {error}")))?;
    drop(exposed);
    let talk = child.stderr.take();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = talk.map(|mut talk| talk.read_to_end(&mut bytes));
        (bytes, read.is_none_or(|read| read.is_ok()))
    });
    let status = wait(&mut child).map_err(&failed)?;
    let (bytes, _) = reader
        .join()
        .map_err(|_| failed("could not be listened to".to_owned()))?;
    if status.success() {
        return Ok(());
    }
    let start = bytes.len().saturating_sub(TALK_BYTES);
    Err(failed(format!(
        "ended with {status}: {}",
        String::from_utf8_lossy(&bytes[start..]).trim()
    )))
}

fn wait(child: &mut Child) -> Result<std::process::ExitStatus, String> {
    let began = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if began.elapsed() < LIMIT => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Ok(None) => {
                let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let killed = group.map(|group| kill_process_group(group, Signal::KILL));
                let waited = child.wait();
                return Err(format!(
                    "took longer than {} s and was killed ({killed:?}, {waited:?})",
                    LIMIT.as_secs()
                ));
            }
            Err(error) => return Err(format!("could not be waited for: {error}")),
        }
    }
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
            "modprobe -C /tmp/x y",
            "udevadm test /x",
        ] {
            assert_eq!(
                find(&root, &argv(command)).unwrap_err().outcome,
                Outcome::Forbidden,
                "{command}"
            );
        }
        assert_eq!(find(&root, &[]).unwrap_err().outcome, Outcome::Forbidden);
        assert!(find(&root, &argv("swapoff /dev/zram0")).is_ok());
    }

    #[test]
    fn a_fake_tree_runs_nothing() {
        let refusal = find(&Root::new("/tmp"), &argv("modprobe zram")).unwrap_err();
        assert_eq!(refusal.outcome, Outcome::Refused);
    }

    #[test]
    fn a_failing_command_says_what_it_said() {
        let refusal = run(&Root::new("/"), &argv("swapoff /dev/ktrial-none")).unwrap_err();
        assert_eq!(refusal.outcome, Outcome::Refused);
        assert!(refusal.message.contains("swapoff"), "{}", refusal.message);
    }
}
