// SPDX-License-Identifier: Apache-2.0
//! A fake machine, and the binary that works on it.

#![allow(dead_code, reason = "no test uses all of it")]

use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_ktrial-agent");

/// Knobs that the catalog does not have.
const FAKE_KNOBS: &str =
    "[[knob]]\nid = \"features\"\nkind = \"sysctl\"\nplaces = [\"/proc/sys/kernel/features\"]\n\
    [[knob]]\nid = \"vm.nonsense\"\nkind = \"sysctl\"\n";

/// A fake tree.
pub struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    pub fn new() -> Self {
        let machine = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let files = [
            ("/proc/sys/kernel/random/boot_id", "this-boot\n"),
            ("/proc/sys/kernel/features", "NO_A B\n"),
            ("/proc/sys/kernel/core_pattern", "core\n"),
            ("/proc/sys/vm/swappiness", "60\n"),
            ("/etc/passwd", "root\n"),
            ("/etc/ktrial/knobs.d/fake.toml", FAKE_KNOBS),
            ("/etc/sysctl.d/10-own.conf", ""),
            ("/sys/class/x/y", "1\n"),
            ("/var/lib/x", ""),
        ];
        for (path, content) in files {
            fs::create_dir_all(machine.path(path).parent().unwrap()).unwrap();
            machine.write(path, content);
        }
        std::os::unix::fs::symlink("../../../etc/passwd", machine.path("/sys/class/x/out")).unwrap();
        machine
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    pub fn state(&self) -> PathBuf {
        self.path("/var/lib/ktrial")
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub fn write(&self, path: &str, content: &str) {
        fs::write(self.path(path), content).unwrap();
    }

    /// All files but the journals.
    pub fn content(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.path("/proc"), self.path("/sys"), self.path("/etc")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(bytes) = fs::read(&path) {
                    found.insert(path, bytes);
                }
            }
        }
        found
    }

    /// The processes that hold leases of this machine: their folders below `/proc`.
    pub fn holders(&self) -> Vec<PathBuf> {
        let own = self.root().to_str().unwrap();
        let is_own = |folder: &PathBuf| {
            let line = fs::read(folder.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains("\0hold\0") && line.contains(own)
        };
        let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        all.filter(is_own).collect()
    }

    /// Writes a file that the holders of leases read, without one of them seeing half of it.
    pub fn write_beside_holders(&self, path: &str, content: &str) {
        let holders = self.holders();
        let all = |signal| {
            for folder in &holders {
                rustix::process::kill_process(pid_of(folder), signal).unwrap();
            }
        };
        all(rustix::process::Signal::STOP);
        self.write(path, content);
        all(rustix::process::Signal::CONT);
    }

    /// Kills the processes that hold leases of this machine.
    pub fn kill_holders(&self) {
        for folder in self.holders() {
            let pid = pid_of(&folder);
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            while rustix::process::test_kill_process(pid).is_ok() && !is_zombie(&folder) {
                std::thread::yield_now();
            }
        }
    }
}

fn pid_of(folder: &Path) -> rustix::process::Pid {
    let name = folder.file_name().unwrap().to_str().unwrap();
    rustix::process::Pid::from_raw(name.parse().unwrap()).unwrap()
}

fn is_zombie(folder: &Path) -> bool {
    fs::read_to_string(folder.join("stat")).map_or(true, |stat| stat.contains(") Z "))
}

/// The words for what became of the steps.
pub fn outcomes(reply: &Value) -> Vec<&str> {
    let steps = reply["steps"].as_array().unwrap();
    steps
        .iter()
        .map(|step| step["outcome"].as_str().unwrap())
        .collect()
}

/// Turning forwarding on or off for all interfaces does so for each.
pub fn forwarding() -> [String; 2] {
    ["all", "lo"].map(|name| format!("/proc/sys/net/ipv4/conf/{name}/forwarding"))
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A running agent.
pub struct Session {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: u64,
}

impl Session {
    pub fn start(machine: &Machine, role: &str) -> Self {
        Self::spawn(machine, Command::new(AGENT).args(["serve", "--role", role]))
    }

    /// An agent of root that can write no file beyond so many bytes: it is told so, as by a disk that is full.
    pub fn short_of_room(machine: &Machine, bytes: u64) -> Self {
        let ignoring = "trap '' XFSZ; exec \"$0\" \"$@\"";
        let session = Self::spawn(
            machine,
            Command::new("sh").args(["-c", ignoring, AGENT, "serve", "--role", "root"]),
        );
        let pid = i32::try_from(session.process.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        let limit = rustix::process::Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        rustix::process::prlimit(pid, rustix::process::Resource::Fsize, limit).unwrap();
        session
    }

    /// An agent of root started by a program that changes its surroundings.
    pub fn start_in(machine: &Machine, wrapper: &[&str]) -> Self {
        let (program, arguments) = wrapper.split_first().unwrap();
        let serve = [AGENT, "serve", "--role", "root"];
        Self::spawn(machine, Command::new(program).args(arguments).args(serve))
    }

    /// An agent of root in mounts of its own, which a shell makes before it starts.
    pub fn start_mounted(machine: &Machine, prepare: &str) -> Self {
        let prepare = format!("{prepare}; exec \"$@\"");
        Self::start_in(
            machine,
            &[
                "unshare",
                "--map-root-user",
                "--mount",
                "sh",
                "-ec",
                &prepare,
                "sh",
            ],
        )
    }

    /// The same on a machine one of whose folders cannot be written.
    pub fn start_read_only(machine: &Machine, path: &str) -> Self {
        let folder = machine.path(path);
        let folder = folder.display();
        Self::start_mounted(
            machine,
            &format!("mount --bind {folder} {folder}; mount -o remount,bind,ro {folder}"),
        )
    }

    /// The same on the machine itself, with its journals in the state folder of a fake one.
    pub fn start_on_this_machine(machine: &Machine, wrapper: &[&str]) -> Self {
        let (program, arguments) = wrapper.split_first().unwrap();
        let serve = [AGENT, "serve", "--role", "root", "--state"];
        let mut command = Command::new(program);
        command.args(arguments).args(serve).arg(machine.state());
        Self::begin(&mut command)
    }

    /// The same in a network of its own, whose forwarding it may write. `prepare`: commands of a shell before it starts.
    pub fn start_in_own_network(machine: &Machine, prepare: &str) -> Self {
        let wrapper = ["unshare", "--map-root-user", "--net", "--mount"];
        // No knobs of the catalog: in a mount namespace of its own root has added them.
        let added = r#"[[knob]]\nid = "forwarding"\nkind = "sysctl"\nplaces = ["/proc/sys/net/ipv4/conf/{interface}/forwarding"]\n"#;
        let folder = "/etc/ktrial/knobs.d";
        let prepare = format!(
            "mount -t tmpfs -o mode=755 none /etc; mkdir -p {folder}; printf '{added}' > {folder}/net.toml; \
             {prepare}; exec \"$@\""
        );
        let wrapper: Vec<&str> = wrapper.into_iter().chain(["sh", "-ec", &prepare, "sh"]).collect();
        Self::start_on_this_machine(machine, &wrapper)
    }

    fn spawn(machine: &Machine, command: &mut Command) -> Self {
        Self::begin(command.arg("--root").arg(machine.root()))
    }

    fn begin(command: &mut Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self {
            process,
            input,
            output,
            last: 0,
        }
    }

    fn ask(&mut self, name: &str, fields: Value) -> Value {
        self.last += 1;
        let mut request = fields;
        request["id"] = json!(self.last);
        request["do"] = json!(name);
        writeln!(self.input.as_mut().unwrap(), "{request}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let reply: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(reply["id"], self.last);
        reply
    }

    pub fn ok(&mut self, name: &str, fields: Value) -> Value {
        let reply = self.ask(name, fields);
        assert!(reply.get("error").is_none(), "{name}: {reply}");
        reply["ok"].clone()
    }

    pub fn error(&mut self, name: &str, fields: Value) -> Value {
        let reply = self.ask(name, fields);
        assert!(reply.get("ok").is_none(), "{name}: {reply}");
        reply["error"].clone()
    }

    /// How many processes that it started are over and not waited for.
    pub fn zombies(&self) -> usize {
        let parent = format!(") Z {} ", self.process.id());
        let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let is_own = |folder: &PathBuf| {
            fs::read_to_string(folder.join("stat")).is_ok_and(|stat| stat.contains(&parent))
        };
        all.filter(is_own).count()
    }

    /// Ends the input; the agent must end well.
    pub fn end(mut self) {
        drop(self.input.take());
        assert!(self.process.wait().unwrap().success());
    }

    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// The terminal goes away, and the head with it: all of the agent's process group gets SIGHUP, and its input ends.
    pub fn hang_up(mut self) {
        let group = i32::try_from(self.process.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process_group(group.unwrap(), rustix::process::Signal::HUP).unwrap();
        drop(self.input.take());
        self.process.wait().unwrap();
    }
}
