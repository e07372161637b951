// SPDX-License-Identifier: Apache-2.0
//! How the memory and disk use of processes and control groups changes from look to look.
//!
//! Each look reads two small files of every process. To stay cheap on a machine with thousands of
//! processes, looks become rarer until they take no more than their share of a CPU.

use crate::load::clock::{now_ns, thread_cpu_ns};
use crate::root::Root;
use serde_json::{json, Map, Value};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

/// Looks take at most one part in this many of a CPU.
const SHARE: u64 = 400;
/// Most processes and groups to report per look.
const MOST: usize = 16;
/// Smallest change to report.
const LEAST_BYTES: u64 = 1 << 20;
/// Looks between two searches for control groups.
const SEARCH: u64 = 10;
/// Most control groups to read.
const MOST_GROUPS: usize = 256;
/// The parent of all kernel threads.
const KERNEL: u32 = 2;
const GROUPS: &str = "/sys/fs/cgroup";
/// Most bytes of a file that are read.
const TEXT_BYTES: usize = 8192;

/// What a process or group uses; None for what is unreadable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Used {
    memory: Option<u64>,
    cache: Option<u64>,
    read: Option<u64>,
    written: Option<u64>,
}

/// A process or a control group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Who {
    Process(u32),
    Group(String),
}

#[derive(Debug)]
struct Known {
    name: String,
    used: Used,
    /// The last look in which it existed.
    seen: u64,
}

/// The state of all looks, and what they cost.
pub struct Usage {
    pub due_ns: u64,
    period_ns: u64,
    known: HashMap<Who, Known>,
    groups: Vec<String>,
    last_ns: u64,
    taken: u64,
    late_ns: u64,
    cpu_ns: u64,
    longest_period_ns: u64,
    page_bytes: u64,
    text: Vec<u8>,
}

impl Usage {
    pub fn new(period_ns: u64, start_ns: u64) -> Self {
        Self {
            due_ns: start_ns,
            period_ns,
            known: HashMap::new(),
            groups: Vec::new(),
            last_ns: 0,
            taken: 0,
            late_ns: 0,
            cpu_ns: 0,
            longest_period_ns: period_ns,
            page_bytes: rustix::param::page_size() as u64,
            text: vec![0; TEXT_BYTES],
        }
    }

    /// Takes a look. Returns the changes since the previous one, the biggest first; None at the
    /// first look, and if nothing changed.
    pub fn look(&mut self, root: &Root) -> Option<Value> {
        let began_cpu_ns = thread_cpu_ns();
        let at_ns = now_ns();
        self.late_ns = self.late_ns.max(at_ns.saturating_sub(self.due_ns));
        self.taken += 1;
        let mut changed = self.processes(root);
        changed.extend(self.control_groups(root));
        let now = self.taken;
        self.known.retain(|_, known| known.seen == now);
        let first = self.taken == 1;
        let before_ns = std::mem::replace(&mut self.last_ns, at_ns);
        let cost_ns = thread_cpu_ns().saturating_sub(began_cpu_ns);
        self.cpu_ns += cost_ns;
        let period_ns = self.period_ns.max(cost_ns.saturating_mul(SHARE));
        self.longest_period_ns = self.longest_period_ns.max(period_ns);
        self.due_ns = at_ns + period_ns;
        if first || changed.is_empty() {
            return None;
        }
        changed.sort_by_key(|(by, _)| std::cmp::Reverse(*by));
        let grown: Vec<Value> = changed.into_iter().take(MOST).map(|(_, entry)| entry).collect();
        Some(json!({"at_ns": at_ns, "before_ns": before_ns, "changed": grown}))
    }

    /// Returns statistics about the looks.
    pub fn report(&self) -> Value {
        json!({
            "period_ns": self.period_ns, "taken": self.taken, "late_ns": self.late_ns, "cpu_ns": self.cpu_ns,
            "longest_period_ns": self.longest_period_ns,
        })
    }

    fn processes(&mut self, root: &Root) -> Vec<(u64, Value)> {
        let mut changed = Vec::new();
        for entry in std::fs::read_dir(root.path("/proc"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let who = Who::Process(process);
            if !self.known.contains_key(&who) {
                let Some((name, parent)) = stat(root, process) else {
                    continue;
                };
                if process != KERNEL && parent != KERNEL {
                    self.meet(who.clone(), name);
                } else {
                    // Kernel threads use nothing of their own.
                    self.meet(who.clone(), String::new());
                }
            }
            if let Some(known) = self.known.get_mut(&who).filter(|known| known.name.is_empty()) {
                known.seen = self.taken;
                continue;
            }
            let used = self.used_by_process(root, process);
            changed.extend(self.update(&who, used));
        }
        changed
    }

    fn used_by_process(&mut self, root: &Root, process: u32) -> Used {
        let page_bytes = self.page_bytes;
        let memory = self
            .read(root, &format!("/proc/{process}/statm"))
            .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        let io = self.read(root, &format!("/proc/{process}/io"));
        let line = |name: &str| {
            io.as_ref()?
                .lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        Used {
            memory: memory.map(|pages| pages.saturating_mul(page_bytes)),
            cache: None,
            read: line("read_bytes:"),
            written: line("write_bytes:"),
        }
    }

    fn control_groups(&mut self, root: &Root) -> Vec<(u64, Value)> {
        if self.taken % SEARCH == 1 {
            self.groups = leaves(root);
        }
        let mut changed = Vec::new();
        for group in self.groups.clone() {
            let folder = format!("{GROUPS}{group}");
            let memory = self
                .read(root, &format!("{folder}/memory.current"))
                .and_then(|text| text.trim().parse().ok());
            let cache = self
                .read(root, &format!("{folder}/memory.stat"))
                .and_then(|text| keyed(&text, "file "));
            let io = self.read(root, &format!("{folder}/io.stat"));
            let used = Used {
                memory,
                cache,
                read: io.as_ref().map(|text| summed(text, "rbytes=")),
                written: io.as_ref().map(|text| summed(text, "wbytes=")),
            };
            let who = Who::Group(group.clone());
            if !self.known.contains_key(&who) {
                self.meet(who.clone(), group);
            }
            changed.extend(self.update(&who, used));
        }
        changed
    }

    fn meet(&mut self, who: Who, name: String) {
        let used = Used::default();
        let seen = self.taken;
        self.known.insert(who, Known { name, used, seen });
    }

    /// Records what a process or group uses now. Returns the change and its description, if it is
    /// large enough.
    fn update(&mut self, who: &Who, used: Used) -> Option<(u64, Value)> {
        let taken = self.taken;
        let known = self.known.get_mut(who)?;
        known.seen = taken;
        let before = std::mem::replace(&mut known.used, used);
        let mut entry = Map::new();
        let mut by = 0;
        for (what, before, after) in [
            ("memory", before.memory, used.memory),
            ("cache", before.cache, used.cache),
            ("read", before.read, used.read),
            ("written", before.written, used.written),
        ] {
            if let Some(after) = after {
                let before = before.unwrap_or_default();
                by = by.max(before.abs_diff(after));
                entry.insert(what.to_owned(), json!([before, after]));
            }
        }
        if by < LEAST_BYTES {
            return None;
        }
        match who {
            Who::Process(process) => {
                entry.insert("pid".to_owned(), json!(process));
                entry.insert("name".to_owned(), json!(known.name));
            }
            Who::Group(group) => {
                entry.insert("group".to_owned(), json!(group));
            }
        }
        Some((by, Value::Object(entry)))
    }

    fn read(&mut self, root: &Root, path: &str) -> Option<String> {
        let mut file = File::open(root.path(path)).ok()?;
        let length = file.read(&mut self.text).ok()?;
        Some(String::from_utf8_lossy(&self.text[..length]).into_owned())
    }
}

/// Returns the name and parent of a process.
fn stat(root: &Root, process: u32) -> Option<(String, u32)> {
    let text = root.read_text(&format!("/proc/{process}/stat")).ok()?;
    // The name may contain blanks and parentheses.
    let (front, rest) = text.rsplit_once(')')?;
    let name = front.split_once('(')?.1;
    let parent = rest.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let name = if name.is_empty() { "unnamed" } else { name };
    Some((name.to_owned(), parent))
}

/// Returns the control groups of version 2 without subgroups.
fn leaves(root: &Root) -> Vec<String> {
    let mut found = Vec::new();
    if !root.path(&format!("{GROUPS}/cgroup.controllers")).exists() {
        return found;
    }
    let mut open = vec![String::new()];
    while let Some(group) = open.pop() {
        let folder = root.path(&format!("{GROUPS}{group}"));
        let mut below = 0;
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                below += 1;
                open.push(format!("{group}/{}", entry.file_name().to_string_lossy()));
            }
        }
        if below == 0 && !group.is_empty() {
            found.push(group);
        }
        if found.len() + open.len() > MOST_GROUPS {
            break;
        }
    }
    found.truncate(MOST_GROUPS);
    found
}

/// Returns the number on the line that begins with `key`.
fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

/// Sums the numbers of a key over all lines, one per device.
fn summed(text: &str, key: &str) -> u64 {
    text.split_ascii_whitespace()
        .filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn write(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn process(folder: &Path, pid: u32, name: &str, parent: u32, pages: u64, written: u64) {
        let line = format!("{pid} ({name}) S {parent} 1 1 0 -1 4194560 0 0\n");
        write(folder, &format!("proc/{pid}/stat"), &line);
        write(
            folder,
            &format!("proc/{pid}/statm"),
            &format!("9999 {pages} 10 1 0 1 0\n"),
        );
        let io =
            format!("rchar: 5\nwchar: 6\nread_bytes: 0\nwrite_bytes: {written}\ncancelled_write_bytes: 0\n");
        write(folder, &format!("proc/{pid}/io"), &io);
    }

    #[test]
    fn who_changed_is_told_with_what_it_used_before() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let page = rustix::param::page_size() as u64;
        process(folder.path(), 7, "a) (b", 1, 100, 0);
        process(folder.path(), 8, "still", 1, 100, 0);
        process(folder.path(), 9, "kworker", 2, 0, 0);
        let mut usage = Usage::new(1_000_000_000, now_ns());
        assert_eq!(usage.look(&root), None);
        process(folder.path(), 7, "a) (b", 1, 1100, 3 << 20);
        process(folder.path(), 9, "kworker", 2, 5000, 0);
        process(folder.path(), 10, "new", 1, 2000, 0);
        let told = usage.look(&root).unwrap();
        let found: Vec<(&str, &Value)> = told["changed"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["name"].as_str().unwrap(), &one["memory"]))
            .collect();
        assert_eq!(
            found,
            [
                ("new", &json!([0, 2000 * page])),
                ("a) (b", &json!([100 * page, 1100 * page]))
            ]
        );
        assert_eq!(told["changed"][1]["written"], json!([0, 3 << 20]));
        assert_eq!(usage.look(&root), None);
        assert_eq!(usage.report()["taken"], 3);
    }

    #[test]
    fn groups_without_others_below_them_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        write(folder.path(), "proc/version", "Linux\n");
        write(folder.path(), "sys/fs/cgroup/cgroup.controllers", "memory io\n");
        let group = "sys/fs/cgroup/a.slice/b.service";
        write(folder.path(), &format!("{group}/memory.current"), "1000\n");
        write(
            folder.path(),
            &format!("{group}/memory.stat"),
            "anon 1\nfile 4096\nfile_mapped 7\n",
        );
        write(
            folder.path(),
            &format!("{group}/io.stat"),
            "8:0 rbytes=5 wbytes=6 rios=1\n8:16 rbytes=7\n",
        );
        let mut usage = Usage::new(1_000_000_000, now_ns());
        assert_eq!(usage.look(&root), None);
        write(
            folder.path(),
            &format!("{group}/memory.stat"),
            "anon 1\nfile 40960000\n",
        );
        let told = usage.look(&root).unwrap();
        let wanted = json!({"memory": [1000, 1000], "cache": [4096, 40_960_000], "read": [12, 12], "written": [6, 6],
            "group": "/a.slice/b.service"});
        assert_eq!(told["changed"], json!([wanted]));
    }

    #[test]
    fn looks_get_rarer_where_they_cost_more_than_their_share() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for pid in 10..60 {
            process(folder.path(), pid, "many", 1, 100, 0);
        }
        let begin_ns = now_ns();
        let mut usage = Usage::new(1, begin_ns);
        usage.look(&root);
        assert!(usage.due_ns - begin_ns >= usage.cpu_ns * SHARE);
    }
}
