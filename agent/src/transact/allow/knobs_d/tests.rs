// SPDX-License-Identifier: Apache-2.0
use super::super::{check, Denial, Purpose};
use super::*;
use std::fs;
use std::os::unix::fs::{chown, symlink, PermissionsExt};
use std::path::PathBuf;

const OWN: &str = "/proc/sys/vm/own_knob";
const KNOB: &str = r#"[[knob]]
id = "vm.own_knob"
kind = "sysctl"
value = { type = "int", min = 0 }
takes_effect = "now"
risk = "safe"
what = "An own knob."
price = "None."
"#;

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    /// Creates a machine with one file in `knobs.d` that adds [`OWN`].
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self { folder };
        fs::create_dir_all(machine.at(FOLDER)).unwrap();
        machine.put("own.toml", KNOB);
        machine
    }

    fn root(&self) -> Root {
        Root::new(self.folder.path())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.at(FOLDER).join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Returns why [`OWN`] may not be written.
    fn why_not(&self) -> String {
        match check(&self.root(), OWN, Purpose::Write) {
            Err(Denial::Forbidden(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    fn allows(&self, path: &str, purpose: Purpose) -> bool {
        check(&self.root(), path, purpose).is_ok()
    }
}

fn knob(places: &str) -> String {
    format!("[[knob]]\nid = \"a:b\"\nkind = \"sysfs\"\n{places}\n")
}

#[test]
fn what_root_has_added_is_written_and_put_back_when_it_is_gone() {
    let machine = Machine::new();
    assert!(machine.allows(OWN, Purpose::Write));
    fs::remove_file(machine.at(FOLDER).join("own.toml")).unwrap();
    assert!(!machine.allows(OWN, Purpose::Write));
    assert!(machine.allows(OWN, Purpose::Undo));
    fs::remove_dir_all(machine.at("/etc")).unwrap();
    let why = machine.why_not();
    assert!(
        why.contains("/etc/ktrial/knobs.d") && !why.contains("ignored"),
        "{why}"
    );
}

#[test]
fn places_are_patterns_of_one_component_and_of_groups() {
    let machine = Machine::new();
    machine.put(
        "b.toml",
        &knob("places = [\"/sys/class/a/{device}/x\", \"/sys/class/b/c{cpu}d/x\", \"/sys/fs/cgroup/{slice}/misc.max\"]\n\
               effective = \"/sys/class/a/{device}/y\"\noffers = \"/sys/class/a/{device}/z\""),
    );
    for path in [
        "/sys/class/a/1/x",
        "/sys/class/b/c7d/x",
        "/sys/fs/cgroup/a.slice/b.scope/misc.max",
    ] {
        assert!(machine.allows(path, Purpose::Write), "{path}");
        assert!(machine.allows(path, Purpose::Read), "{path}");
    }
    for path in ["/sys/class/a/1/y", "/sys/class/a/1/z"] {
        assert!(!machine.allows(path, Purpose::Write), "{path}");
        assert!(machine.allows(path, Purpose::Read), "{path}");
    }
    for path in [
        "/sys/class/a/1/2/x",
        "/sys/class/b/7d/x",
        "/sys/fs/cgroup/misc.max",
        "/sys/class/a/1/w",
    ] {
        assert!(!machine.allows(path, Purpose::Write), "{path}");
        assert!(!machine.allows(path, Purpose::Read), "{path}");
    }
}

#[test]
fn no_file_adds_what_is_forbidden_or_no_place_of_knobs() {
    let machine = Machine::new();
    for (place, words) in [
        ("/proc/sys/kernel/core_pattern", "ktrial never writes"),
        ("/sys/bus/pci/devices/{device}/reset", "ktrial never writes"),
        ("/sys/fs/cgroup/{slice}/cgroup.kill", "ktrial never writes"),
        ("/etc/shadow", "not in a folder of knobs"),
        ("/dev/sda", "not in a folder of knobs"),
        ("/proc/sys/../sysrq-trigger", "`.` or `..`"),
        ("/proc/sys//vm/x", "empty part"),
        ("proc/sys/vm/x", "not an absolute path"),
        ("/proc/sys/*/x", "contains a `*`"),
        ("/proc/sys/vm/x}", "unmatched brace"),
        ("/proc/sys/vm/{x", "unmatched brace"),
        ("/proc/sys/vm/{x{y}", "unmatched brace"),
        ("/proc/sys/vm/{X}", "something other than a name"),
        ("/proc/sys/vm/{}", "something other than a name"),
    ] {
        machine.put("own.toml", &knob(&format!("places = [{place:?}]")));
        let added = read(&machine.root());
        assert!(added.written.is_empty(), "{place}");
        let why = machine.why_not();
        assert!(
            why.contains("own.toml: a:b: the place") && why.contains(words),
            "{why}"
        );
    }
    // A placeholder that could stand for a forbidden name doesn't allow that name.
    machine.put("own.toml", &knob("places = [\"/proc/sys/kernel/{device}\"]"));
    assert!(machine.allows("/proc/sys/kernel/harmless", Purpose::Write));
    assert!(!machine.allows("/proc/sys/kernel/core_pattern", Purpose::Write));
    // Nor does a file allow reading what is never read.
    machine.put("own.toml", &knob("places = [\"/proc/sys/net/ipv4/{device}\"]"));
    assert!(!machine.allows("/proc/sys/net/ipv4/tcp_fastopen_key", Purpose::Read));
}

#[test]
fn what_another_could_have_put_there_adds_nothing_and_is_named() {
    let machine = Machine::new();
    for path in [
        "/etc",
        "/etc/ktrial",
        "/etc/ktrial/knobs.d",
        "/etc/ktrial/knobs.d/own.toml",
    ] {
        let before = fs::metadata(machine.at(path)).unwrap().permissions().mode();
        for others in [0o020, 0o002] {
            machine.mode(path, before | others);
            let why = machine.why_not();
            assert!(
                why.contains(&format!("ignored: {path} is writable by others")),
                "{why}"
            );
        }
        machine.mode(path, before);
        assert!(machine.allows(OWN, Purpose::Write), "{path}");
        if rustix::process::geteuid().is_root() {
            chown(machine.at(path), Some(4242), None).unwrap();
            let why = machine.why_not();
            assert!(
                why.contains(&format!("ignored: {path} is owned by user 4242")),
                "{why}"
            );
            chown(machine.at(path), Some(0), None).unwrap();
        }
    }
    machine.mode("/", 0o777);
    assert!(machine.why_not().contains("ignored: / is writable by others"));
}

#[test]
fn links_pipes_and_large_files_add_nothing_and_are_named() {
    let machine = Machine::new();
    let own = machine.at(FOLDER).join("own.toml");
    let beside = machine.at(FOLDER).join("kept");
    fs::rename(&own, &beside).unwrap();
    symlink("kept", &own).unwrap();
    assert!(machine.why_not().contains("own.toml is a symbolic link"));
    fs::remove_file(&own).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &own, FileType::Fifo, Mode::RUSR, 0).unwrap();
    assert!(machine.why_not().contains("own.toml is not a regular file"));
    fs::remove_file(&own).unwrap();
    fs::create_dir(&own).unwrap();
    assert!(machine.why_not().contains("own.toml is not a regular file"));
    fs::remove_dir(&own).unwrap();
    let filled = KNOB.to_owned() + &"#".repeat(usize::try_from(LARGEST_BYTES).unwrap() - KNOB.len());
    machine.put("own.toml", &filled);
    assert!(machine.allows(OWN, Purpose::Write));
    machine.put("own.toml", &(filled + "#"));
    assert!(machine.why_not().contains("own.toml exceeds 262144 bytes"));
    machine.put("own.toml", "[[knob]\n");
    assert!(machine
        .why_not()
        .contains("cannot parse /etc/ktrial/knobs.d/own.toml"));
    // An ignored file doesn't affect the others.
    machine.put("z.toml", KNOB);
    assert!(machine.allows(OWN, Purpose::Write));
    // Hidden files and those with other suffixes are ignored.
    fs::remove_file(machine.at(FOLDER).join("z.toml")).unwrap();
    fs::remove_file(&own).unwrap();
    machine.put(".hidden.toml", KNOB);
    machine.put("own.toml~", KNOB);
    assert!(!machine.why_not().contains("ignored"));
}

#[test]
fn what_became_a_link_or_a_pipe_since_it_was_looked_at_is_neither_followed_nor_waited_for() {
    let machine = Machine::new();
    let folder = open_folder(&machine.root()).unwrap().unwrap();
    symlink("own.toml", machine.at(FOLDER).join("link.toml")).unwrap();
    assert_eq!(open_file(&folder, "link.toml").unwrap_err(), Errno::LOOP);
    let pipe = machine.at(FOLDER).join("pipe.toml");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
    assert!(open_file(&folder, "pipe.toml").is_ok());
}

#[test]
fn a_sysctl_has_its_own_file_unless_it_names_others_and_nothing_else_has_one() {
    let machine = Machine::new();
    for (kind, places, written) in [
        ("sysctl", "[]", ["/proc/sys/vm/own_knob"].as_slice()),
        ("sysctl", "[\"/proc/sys/vm/other\"]", &["/proc/sys/vm/other"]),
        ("sysfs", "[]", &[]),
    ] {
        machine.put(
            "own.toml",
            &format!("[[knob]]\nid = \"vm.own_knob\"\nkind = \"{kind}\"\nplaces = {places}\n"),
        );
        assert_eq!(read(&machine.root()).written, written, "{kind} {places}");
    }
}

#[test]
fn a_folder_that_is_none_or_cannot_be_read_is_named() {
    let machine = Machine::new();
    fs::remove_dir_all(machine.at(FOLDER)).unwrap();
    fs::write(machine.at(FOLDER), "").unwrap();
    let why = machine.why_not();
    assert!(
        why.contains("ignored: /etc/ktrial/knobs.d is not a folder"),
        "{why}"
    );
    let nowhere = read(&Root::new(machine.at("/nowhere"))).passed_over;
    assert_eq!(nowhere.len(), 1);
    assert!(
        nowhere[0].starts_with("cannot read /: No such file"),
        "{nowhere:?}"
    );
}

#[test]
fn a_link_on_the_way_leads_nowhere() {
    for path in ["/etc", "/etc/ktrial", "/etc/ktrial/knobs.d"] {
        let machine = Machine::new();
        let elsewhere = machine.at("/elsewhere");
        fs::rename(machine.at(path), &elsewhere).unwrap();
        symlink(&elsewhere, machine.at(path)).unwrap();
        let why = machine.why_not();
        assert!(why.contains(&format!("ignored: {path} is not a folder")), "{why}");
    }
}

#[test]
fn files_beyond_the_limit_are_left_out_and_it_says_so() {
    let machine = Machine::new();
    fs::remove_file(machine.at(FOLDER).join("own.toml")).unwrap();
    for number in 0..MOST_FILES {
        machine.put(&format!("a{number:03}.toml"), "");
    }
    machine.put("z.toml", KNOB);
    assert!(machine.why_not().contains("has more than 256 files"));
    fs::remove_file(machine.at(FOLDER).join("a000.toml")).unwrap();
    assert!(machine.allows(OWN, Purpose::Write));
    assert!(read(&machine.root()).passed_over.is_empty());
}
