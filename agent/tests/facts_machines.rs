// SPDX-License-Identifier: Apache-2.0
//! Facts of fake machines: those of `tests/golden/facts`, an empty one, and ones full of garbage.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use flate2::Compression;
use ktrial_agent::facts::{collect, Fact, Facts};
use ktrial_agent::root::Root;
use proptest::prelude::*;
use serde_json::{Map, Value};
use tempfile::TempDir;

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/facts");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    cases.sort();
    assert!(cases.len() >= 4);
    cases
}

/// One entry of a `machine.txt`: its head (path and form) and its content.
fn entries(case: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(case.join("machine.txt")).unwrap();
    let parts = text.strip_prefix("== ").expect("starts with ==").split("\n== ");
    parts
        .map(|part| {
            let (head, content) = part.split_once('\n').unwrap_or((part, ""));
            let content = if content.is_empty() {
                String::new()
            } else {
                format!("{}\n", content.trim_end_matches('\n'))
            };
            (head.trim_end().to_owned(), content)
        })
        .collect()
}

/// Builds the tree of a case; `content` may put something else into its files.
fn build(case: &Path, content: impl Fn(&str, Vec<u8>) -> Vec<u8>) -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    let place = |path: &str| {
        let path = tree.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    let (links, files): (Vec<_>, Vec<_>) = entries(case)
        .into_iter()
        .partition(|(head, _)| head.contains(" -> "));
    for (head, text) in files {
        let (path, form) = head.split_once(' ').unwrap_or((&head, ""));
        fs::write(place(path), content(path, encode(form, &text))).unwrap();
    }
    for (head, _) in links {
        let (path, target) = head.split_once(" -> ").unwrap();
        symlink(target, place(path)).unwrap();
    }
    tree
}

fn encode(form: &str, text: &str) -> Vec<u8> {
    match form {
        "" => text.as_bytes().to_vec(),
        "utf16" => {
            let units = text.trim_end().encode_utf16().chain([0]);
            [6, 0, 0, 0]
                .into_iter()
                .chain(units.flat_map(u16::to_le_bytes))
                .collect()
        }
        "nul" => text.replace('\n', "\0").into_bytes(),
        "gzip" => {
            let mut packer = GzEncoder::new(Vec::new(), Compression::default());
            packer.write_all(text.as_bytes()).unwrap();
            packer.finish().unwrap()
        }
        other => panic!("machine.txt has a file of the form {other}"),
    }
}

fn facts_of(tree: &TempDir) -> Facts {
    collect(&Root::new(tree.path()), &[])
}

/// Whether a fact is the expected one; a reason of `*` stands for any.
fn agrees(found: &Value, expected: &Value) -> bool {
    let any_reason = |kind: &str| expected[kind] == "*" && found[kind].is_string();
    found == expected || any_reason("absent") || any_reason("unknown")
}

#[test]
fn the_golden_machines_have_the_expected_facts() {
    for case in cases() {
        assert!(!fs::read_to_string(case.join("why")).unwrap().trim().is_empty());
        let expected = fs::read_to_string(case.join("expected.json")).unwrap();
        let expected: Map<String, Value> = serde_json::from_str(&expected).unwrap();
        let facts = facts_of(&build(&case, |_, content| content));
        let found = serde_json::to_value(&facts).unwrap();
        let wrong: Vec<String> = expected
            .iter()
            .filter(|(name, expected)| !agrees(&found[name.as_str()], expected))
            .map(|(name, expected)| {
                format!(
                    "{name}\n  found    {}\n  expected {expected}",
                    found[name.as_str()]
                )
            })
            .collect();
        assert!(wrong.is_empty(), "{}\n{}", case.display(), wrong.join("\n"));
    }
}

#[test]
fn an_empty_tree_has_no_values_but_those_of_missing_files() {
    let tree = tempfile::tempdir().unwrap();
    let values: Vec<&str> = facts_of(&tree)
        .into_iter()
        .filter(|(_, fact)| matches!(fact, Fact::Value(_)))
        .map(|(name, _)| name)
        .collect();
    let of_missing_files = [
        "os.android",
        "os.bootc",
        "os.ostree",
        "os.rpm_ostree",
        "tracing.debugfs",
        "tracing.tracefs",
    ];
    assert_eq!(values, of_missing_files);
}

/// A file that holds nonsense never yields a number, a switch or a choice.
#[test]
fn nonsense_is_unknown() {
    let laptop = cases()
        .into_iter()
        .find(|case| case.ends_with("laptop-hybrid"))
        .unwrap();
    let facts = facts_of(&build(&laptop, |_, _| b"\xff\xfe nonsense\n".to_vec()));
    let names = [
        "boot.uptime",
        "cgroup.version",
        "cpu.level",
        "cpu.model",
        "cpu.threads",
        "cpufreq.boost",
        "filesystems",
        "kernel.config",
        "kernel.lockdown",
        "kernel.scheduler",
        "kernel.taints",
        "kernel.tick_rate",
        "ksm.running",
        "mglru.enabled",
        "os.machine",
        "swap.devices",
        "thp.enabled",
        "zswap.enabled",
    ];
    for name in names {
        assert!(
            matches!(facts[name], Fact::Unknown(_)),
            "{name}: {:?}",
            facts[name]
        );
    }
}

/// Runs `what` as a user who is not root, on a thread of its own when this one is root.
fn as_ordinary_user<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            what()
        });
        thread.join().unwrap()
    })
}

#[test]
fn what_may_not_be_read_is_unknown() {
    let laptop = cases()
        .into_iter()
        .find(|case| case.ends_with("laptop-hybrid"))
        .unwrap();
    let tree = build(&laptop, |_, content| content);
    fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for path in [
        "sys/kernel/mm/lru_gen/enabled",
        "sys/kernel/debug",
        "proc/swaps",
        "sys/class/nvme",
    ] {
        fs::set_permissions(tree.path().join(path), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let facts = as_ordinary_user(|| facts_of(&tree));
    let denied = |path: &str| Fact::Unknown(format!("this session may not read {path}"));
    assert_eq!(facts["mglru.enabled"], denied("/sys/kernel/mm/lru_gen/enabled"));
    assert_eq!(facts["swap.devices"], denied("/proc/swaps"));
    assert_eq!(facts["nvme.controllers"], denied("/sys/class/nvme"));
    assert_eq!(facts["tracing.debugfs"], Fact::Value(false.into()));
    assert_eq!(facts["thp.enabled"], Fact::Value("madvise".into()));
    let swap = |facts: &Facts| match &facts["zram.devices"] {
        Fact::Value(value) => value[0]["swap"].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(swap(&facts), Value::Null);
    fs::set_permissions(
        tree.path().join("sys/kernel/debug"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    fs::set_permissions(
        tree.path().join("sys/class/nvme"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the files hold, collecting neither panics nor leaves out a fact.
    #[test]
    fn garbage_never_breaks_the_collection(
        noise in proptest::collection::vec(any::<u8>(), 0..200),
        number in any::<i64>(),
        cut in 0_usize..60,
        which in 0_usize..4,
        seed in any::<u32>(),
    ) {
        let case = &cases()[which];
        let mangle = |path: &str, content: Vec<u8>| {
            let pick = path.bytes().fold(seed, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into())) % 4;
            match pick {
                0 => noise.clone(),
                1 => number.to_string().into_bytes(),
                2 => content[..cut.min(content.len())].to_vec(),
                _ => content,
            }
        };
        let count = facts_of(&tempfile::tempdir().unwrap()).len();
        prop_assert_eq!(facts_of(&build(case, mangle)).len(), count);
    }
}
