// SPDX-License-Identifier: Apache-2.0
//! Entries of a boot loader for one boot each, and the units that judge and continue such a boot.

use super::{drift, made_of, Checked, Word};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The units' names.
pub(super) const SERVICE: &str = "ktrial-boot.service";
pub(super) const NEXT: &str = "ktrial-boot-next.service";

/// The first line of these files.
pub const HEADER: &str = "# ktrial wrote this file; `ktrial boot undo` removes it.\n";

/// The entry that panics at once, to show that the default entry comes back by itself.
pub const REHEARSAL: &str = "ktrial-rehearsal";

/// The folder of entries that the running kernel starts itself.
pub const KEXEC_FOLDER: &str = "/etc/ktrial-kexec/";

/// The kernel argument with the entry's name.
pub const WORD: &str = "ktrial.boot";
/// The variable of GRUB that shows that it started the entry.
pub const STARTED: &str = "ktrial_boot";

/// Arguments that bring a machine back that panics, oopses or gets stuck; dracut would wait in a
/// shell.
const NETS: &str = "panic=10 oops=panic softlockup_panic=1 hung_task_panic=1 rd.shell=0 rd.emergency=reboot";
/// initramfs-tools ignores an `init=` that does not exist, so the initramfs must not start either.
const FAILS: &str = "panic=5 init=/nonexistent rdinit=/nonexistent";

/// Seconds that the check itself may take beyond its limit.
const SPARE_S: u32 = 60;

const AGENT: &str = crate::transact::recovery::AGENT;
/// Most entries. A search among many suspects boots a random half of them and the other half in
/// each of up to 108 blocks.
const ENTRIES: usize = 256;
const GUARDS: usize = 32;
/// The kinds of units that can guard a boot, and what systemd takes as a name.
const UNITS: [&str; 7] = ["service", "socket", "target", "mount", "timer", "path", "swap"];
const UNIT_BYTES: usize = 256;
const IN_PATHS: &str = "_.+@-/";
const IN_BASE: &str = "_.,:/+=@-";

/// An entry for one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootEntry {
    /// The entry's name, which begins with `ktrial-`.
    pub id: String,
    /// The entry's title in the loader's menu.
    pub title: String,
    /// Modules that GRUB loads first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// The UUID of the file system with the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// The kernel, as the loader finds it.
    pub kernel: String,
    /// The kernel's file on the machine.
    pub file: String,
    /// Initial file systems, as the loader finds them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initrds: Vec<String>,
    /// Words of the command line that booted this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub base: Vec<String>,
    /// New words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<Word>,
    /// How long systemd may be stuck before the watchdog resets the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchdog_s: Option<u32>,
}

impl BootEntry {
    fn check(&self) -> Checked {
        made_of("the entry's name", &self.id, "-")?;
        if !self.id.starts_with("ktrial-") {
            return Err(format!(
                "{:?}: expected an entry's name that begins with ktrial-",
                self.id
            ));
        }
        made_of("the entry's title", &self.title, " _.,:=+-")?;
        for module in &self.modules {
            made_of("a module of GRUB", module, "_")?;
        }
        if let Some(uuid) = &self.search {
            made_of("the UUID of a file system", uuid, "-")?;
        }
        for path in self.initrds.iter().chain([&self.kernel, &self.file]) {
            check_path(path)?;
        }
        for word in &self.base {
            made_of("a word of the kernel's command line", word, IN_BASE)?;
        }
        self.words.iter().try_for_each(Word::check)?;
        let twice = self.words.iter().map(Word::key).collect::<BTreeSet<_>>().len() != self.words.len();
        match self.watchdog_s {
            _ if twice => Err(format!("{}: a kernel argument is given twice", self.id)),
            Some(0 | 601..) => Err("the watchdog: expected 1 to 600 seconds".to_owned()),
            _ => Ok(()),
        }
    }

    /// Returns the kernel's command line.
    fn line(&self) -> String {
        let mut line = String::new();
        for word in &self.base {
            let _ = write!(line, "{word} ");
        }
        for word in &self.words {
            let _ = write!(line, "{} ", word.text());
        }
        line.push_str(NETS);
        if let Some(seconds) = self.watchdog_s {
            let _ = write!(line, " systemd.watchdog_sec={seconds}");
        }
        if self.id == REHEARSAL {
            let _ = write!(line, " {FAILS}");
        }
        let _ = write!(line, " {WORD}={}", self.id);
        line
    }

    /// Returns the entry for GRUB. The entry records its start in GRUB's environment, because
    /// nothing else shows it if the kernel ends before it can write. If GRUB cannot write, it could
    /// not clear the entry either, and would start it for ever. It then starts its first entry
    /// instead.
    fn grub(&self) -> String {
        let mut text = format!("menuentry '{}' --id '{}' {{\n", self.title, self.id);
        for module in &self.modules {
            let _ = writeln!(text, "\tinsmod {module}");
        }
        let _ = writeln!(text, "\tset {STARTED}={}\n\tif save_env {STARTED}; then", self.id);
        if let Some(uuid) = &self.search {
            let _ = writeln!(text, "\t\tsearch --no-floppy --fs-uuid --set=root {uuid}");
        }
        let _ = writeln!(text, "\t\tlinux {} {}", self.kernel, self.line());
        if !self.initrds.is_empty() {
            let _ = writeln!(text, "\t\tinitrd {}", self.initrds.join(" "));
        }
        text.push_str("\telse\n\t\tset fallback=0\n\tfi\n}\n");
        text
    }

    /// Returns the command that lets the running kernel load the entry.
    #[must_use]
    pub fn kexec(&self) -> Vec<String> {
        let mut argv = ["kexec", "--kexec-syscall-auto", "--load", &self.file]
            .map(str::to_owned)
            .to_vec();
        argv.extend(self.initrds.first().map(|initrd| format!("--initrd={initrd}")));
        argv.push(format!("--command-line={}", self.line()));
        argv
    }

    /// Returns the entry as the Boot Loader Specification has it.
    fn specified(&self) -> String {
        let mut text = format!("title {}\nlinux {}\n", self.title, self.kernel);
        for initrd in &self.initrds {
            let _ = writeln!(text, "initrd {initrd}");
        }
        let _ = writeln!(text, "options {}", self.line());
        text
    }
}

fn check_path(path: &str) -> Checked {
    made_of("a path of the entry", path, IN_PATHS)?;
    let is_plain = path.starts_with('/')
        && path
            .split('/')
            .skip(1)
            .all(|part| !part.is_empty() && part != "." && part != "..");
    if is_plain {
        return Ok(());
    }
    Err(format!(
        "{path:?}: expected an absolute path without `.` and `..`"
    ))
}

/// Refuses entries with faults, or none, too many, or two of the same name.
pub(super) fn check_entries(entries: &[BootEntry]) -> Checked {
    if entries.is_empty() || entries.len() > ENTRIES {
        return Err(format!("expected 1 to {ENTRIES} entries"));
    }
    entries.iter().try_for_each(BootEntry::check)?;
    let names: BTreeSet<_> = entries.iter().map(|one| &one.id).collect();
    if names.len() == entries.len() {
        return Ok(());
    }
    Err("two entries have the same name".to_owned())
}

/// Refuses an entry with faults, or in a file of another name.
pub(super) fn check_entry(path: &str, entry: &BootEntry) -> Checked {
    if !path.ends_with(&format!("/{}.conf", entry.id)) {
        return Err(format!("{path}: expected the entry's name, {}.conf", entry.id));
    }
    entry.check()
}

pub(super) fn render_entries(entries: &[BootEntry]) -> String {
    entries
        .iter()
        .fold(HEADER.to_owned(), |text, one| text + &one.grub())
}

pub(super) fn render_entry(entry: &BootEntry) -> String {
    format!("{HEADER}{}", entry.specified())
}

/// Refuses what systemd or a command line would not read as the name of one unit.
fn check_unit(unit: &str) -> Checked {
    made_of("a guard", unit, ":_.@-")?;
    let has_kind = unit
        .rsplit_once('.')
        .is_some_and(|(name, kind)| !name.is_empty() && UNITS.contains(&kind));
    if has_kind && !unit.starts_with('-') && unit.len() < UNIT_BYTES {
        return Ok(());
    }
    Err(format!(
        "{unit:?} is not the name of a unit: expected NAME.{}",
        UNITS.join(", NAME.")
    ))
}

/// How long a boot may take until it is healthy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootLimit {
    /// Seconds from the start of the unit.
    pub limit_s: u32,
    /// Units that must be active then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<String>,
}

impl BootLimit {
    pub(super) fn check(&self) -> Checked {
        if !(30..=3600).contains(&self.limit_s) {
            return Err(format!("expected 30 to 3600 seconds, got {}", self.limit_s));
        }
        if self.guards.len() > GUARDS {
            return Err(format!("expected at most {GUARDS} guards"));
        }
        self.guards.iter().try_for_each(|unit| check_unit(unit))
    }

    fn arguments(&self) -> String {
        self.guards
            .iter()
            .fold(self.limit_s.to_string(), |text, unit| text + " --guard " + unit)
    }

    /// Renders the unit. It runs only in boots of our entries, and must not wait for the targets
    /// that it judges.
    pub(super) fn render(&self) -> String {
        format!(
            "{HEADER}[Unit]\nDescription=Check whether the boot that ktrial tries is healthy\nDefaultDependencies=no\n\
             ConditionKernelCommandLine={WORD}\nRequiresMountsFor=/var/lib/ktrial {folder}\n\
             After=systemd-remount-fs.service ktrial-recover.service\nConflicts=shutdown.target\nBefore=shutdown.target\n\
             FailureAction=reboot-force\n\n\
             [Service]\nType=exec\nExecStart={AGENT} boot-health --limit-s {}\nRuntimeMaxSec={}\n",
            self.arguments(),
            self.limit_s + SPARE_S,
            folder = crate::transact::files::folder_of(AGENT),
        )
    }
}

/// What continues after each boot, in the default entry too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootNext {
    /// The trial to continue; none if there is only an attempt to record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Resumed>,
}

/// A trial that continues after each boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumed {
    /// The `ktrial` to run.
    pub program: String,
    /// The user who started the trial; 0 is root.
    pub user: u32,
    /// The trial's name.
    pub name: String,
}

impl BootNext {
    pub(super) fn check(&self) -> Checked {
        let Some(trial) = &self.trial else { return Ok(()) };
        drift::check_program(&trial.program)?;
        made_of("the trial's name", &trial.name, "_.-")?;
        if trial.name.starts_with('-') {
            return Err(format!("{:?} is not the name of a trial", trial.name));
        }
        Ok(())
    }

    pub(super) fn render(&self) -> String {
        let mut text = format!(
            "{HEADER}[Unit]\nDescription=Go on with the boots that ktrial tries\nAfter=multi-user.target\n\n\
             [Service]\nType=exec\nExecStart={AGENT} boot-next"
        );
        if let Some(trial) = &self.trial {
            let _ = write!(
                text,
                " --user {} --trial {} {}",
                trial.user, trial.name, trial.program
            );
        }
        text.push_str("\nStandardOutput=journal+console\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    fn entry(more: &Value) -> BootEntry {
        let mut one = json!({"id": "ktrial-trial", "title": "ktrial: nohz_full=2-9", "modules": ["part_gpt", "ext2"],
            "search": "0a1b-2c", "kernel": "/boot/vmlinuz-6.1.0", "file": "/boot/vmlinuz-6.1.0",
            "initrds": ["/boot/initrd.img-6.1.0"], "base": ["root=UUID=0a1b-2c", "ro"],
            "words": [{"name": "nohz_full", "value": "2-9"}], "watchdog_s": 60});
        one.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        serde_json::from_value(one).unwrap()
    }

    #[test]
    fn grub_gets_an_entry_that_leaves_a_trace_and_comes_back() {
        assert_eq!(
            render_entries(&[entry(&json!({}))]),
            format!(
                "{HEADER}menuentry 'ktrial: nohz_full=2-9' --id 'ktrial-trial' {{\n\tinsmod part_gpt\n\tinsmod ext2\n\
                 \tset ktrial_boot=ktrial-trial\n\tif save_env ktrial_boot; then\n\
                 \t\tsearch --no-floppy --fs-uuid --set=root 0a1b-2c\n\
                 \t\tlinux /boot/vmlinuz-6.1.0 root=UUID=0a1b-2c ro nohz_full=2-9 {NETS} systemd.watchdog_sec=60 \
                 ktrial.boot=ktrial-trial\n\t\tinitrd /boot/initrd.img-6.1.0\n\telse\n\t\tset fallback=0\n\tfi\n}}\n"
            )
        );
    }

    #[test]
    fn the_rehearsal_panics_whatever_the_initial_file_system_does() {
        let text = render_entry(&entry(&json!({"id": REHEARSAL})));
        assert!(
            text.contains("panic=5 init=/nonexistent rdinit=/nonexistent ktrial.boot=ktrial-rehearsal\n"),
            "{text}"
        );
        assert!(
            text.contains("\nlinux /boot/vmlinuz-6.1.0\ninitrd /boot/initrd.img-6.1.0\noptions root="),
            "{text}"
        );
    }

    #[test]
    fn the_running_kernel_gets_the_same_command_line() {
        let argv = entry(&json!({})).kexec();
        assert_eq!(
            argv[..5],
            [
                "kexec",
                "--kexec-syscall-auto",
                "--load",
                "/boot/vmlinuz-6.1.0",
                "--initrd=/boot/initrd.img-6.1.0"
            ]
        );
        assert!(
            argv[5].starts_with("--command-line=root=UUID=0a1b-2c ro nohz_full=2-9 panic=10 "),
            "{argv:?}"
        );
        assert!(argv[5].ends_with(" ktrial.boot=ktrial-trial"), "{argv:?}");
        assert_eq!(argv.len(), 6);
        assert_eq!(
            check_entry("/etc/ktrial-kexec/ktrial-trial.conf", &entry(&json!({}))),
            Ok(())
        );
    }

    #[test]
    fn what_a_loader_would_read_in_its_own_way_is_refused() {
        for bad in [
            json!({"id": "trial"}),
            json!({"id": "ktrial-a b"}),
            json!({"title": "it's"}),
            json!({"title": "a\nlinux /x"}),
            json!({"modules": ["a;b"]}),
            json!({"search": "$x"}),
            json!({"kernel": "boot/vmlinuz"}),
            json!({"kernel": "/boot/../vmlinuz"}),
            json!({"kernel": "/boot/vm linuz"}),
            json!({"initrds": ["/boot//x"]}),
            json!({"base": ["a\"b"]}),
            json!({"base": ["$x"]}),
            json!({"words": [{"name": "quiet"}, {"name": "quiet"}]}),
            json!({"words": [{"name": "a b"}]}),
            json!({"watchdog_s": 0}),
        ] {
            assert!(check_entries(&[entry(&bad)]).is_err(), "{bad}");
        }
        assert!(check_entries(&[]).is_err());
        assert!(check_entries(&[entry(&json!({})), entry(&json!({}))]).is_err());
        assert_eq!(
            check_entry("/efi/loader/entries/ktrial-trial.conf", &entry(&json!({}))),
            Ok(())
        );
        assert!(check_entry("/efi/loader/entries/ktrial-other.conf", &entry(&json!({}))).is_err());
    }

    #[test]
    fn a_search_among_many_suspects_has_room_for_its_entries() {
        let entries = |count: usize| -> Vec<BootEntry> {
            (0..count)
                .map(|number| entry(&json!({"id": format!("ktrial-on-{number:x}")})))
                .collect()
        };
        assert_eq!(check_entries(&entries(256)), Ok(()));
        assert_eq!(
            check_entries(&entries(257)).unwrap_err(),
            "expected 1 to 256 entries"
        );
    }

    #[test]
    fn units_name_only_a_ktrial_and_a_plain_trial() {
        let next = |program: &str, name: &str| BootNext {
            trial: Some(Resumed {
                program: program.to_owned(),
                user: 1000,
                name: name.to_owned(),
            }),
        };
        let good = next("/opt/ktrial/ktrial", "swap-1");
        assert_eq!(good.check(), Ok(()));
        assert!(good
            .render()
            .contains("boot-next --user 1000 --trial swap-1 /opt/ktrial/ktrial\n"));
        for (program, name) in [
            ("/bin/sh", "a"),
            ("ktrial", "a"),
            ("/a b/ktrial", "a"),
            ("/ktrial", "-a"),
            ("/ktrial", "a b"),
            ("/ktrial", "%n"),
        ] {
            assert!(next(program, name).check().is_err(), "{program} {name}");
        }
    }

    #[test]
    fn a_boot_has_a_limit_and_units_that_guard_it() {
        let limit = |limit_s: u32, guards: &[&str]| BootLimit {
            limit_s,
            guards: guards.iter().map(|one| (*one).to_owned()).collect(),
        };
        assert!(limit(5, &[]).check().is_err());
        assert!(limit(300, &[])
            .render()
            .contains("--limit-s 300\nRuntimeMaxSec=360\n"));
        let two = limit(300, &["ssh.service", "getty@tty1.service"]);
        assert_eq!(two.check(), Ok(()));
        assert!(two
            .render()
            .contains("--limit-s 300 --guard ssh.service --guard getty@tty1.service\nRuntimeMaxSec=360\n"));
        for unit in [
            "ssh",
            ".service",
            "-a.service",
            "a b.service",
            "a\\x2d.mount",
            "%n.service",
            "a.service\nb",
            "a/b.service",
            "$a.service",
        ] {
            assert!(limit(300, &[unit]).check().is_err(), "{unit}");
        }
        assert!(limit(300, &["a.service"; 33]).check().is_err());
    }
}
