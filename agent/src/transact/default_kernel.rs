// SPDX-License-Identifier: Apache-2.0
//! Whether GRUB's menu has the entry that a plan makes the default one, and what that entry boots.

use crate::boots;
use crate::root::Root;
use crate::transact::after;
use crate::transact::allow;
use crate::transact::forms::DefaultKernel;
use crate::transact::machine::{Outcome, Refusal};
use rustix::io::Errno;
use std::collections::BTreeSet;

/// Texts before an entry's name in the menu that grub-mkconfig makes.
const BEFORE_IDS: [&str; 2] = ["$menuentry_id_option '", "--id '"];

/// Refuses an entry that the menu lacks, that boots another kernel, or that adds unfit words which
/// did not boot this machine: a rescue entry has the same kernel, but other words.
pub fn check(root: &Root, path: &str, wanted: &DefaultKernel) -> Result<(), Refusal> {
    let refuse = |outcome, errno: Errno, message: String| {
        Err(Refusal {
            outcome,
            errno: errno.raw_os_error(),
            message,
        })
    };
    let name = wanted.entry.join(">");
    let Some(menu) = after::made_from(root, path) else {
        return refuse(Outcome::Absent, Errno::NOENT, "GRUB has no grub.cfg".to_owned());
    };
    let text = root
        .read_text(menu)
        .map_err(|error| Refusal::of("read", menu, &error))?;
    let Some(words) = find(&text, &wanted.entry) else {
        return refuse(
            Outcome::Absent,
            Errno::NOENT,
            format!("{menu} has no entry {name} that loads Linux"),
        );
    };
    let file = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    if words.first().map(|word| file(word)) != Some(file(&wanted.kernel)) {
        return refuse(
            Outcome::Forbidden,
            Errno::PERM,
            format!("the entry {name} does not load {}", wanted.kernel),
        );
    }
    let line = root
        .read_text("/proc/cmdline")
        .map_err(|error| Refusal::of("read", "/proc/cmdline", &error))?;
    let booted: BTreeSet<&str> = line.split_ascii_whitespace().collect();
    for word in words.iter().skip(1).map(|word| word.trim_matches(['"', '\''])) {
        if !booted.contains(word) && allow::is_unfit_default(&boots::word_of(word)) {
            return refuse(
                Outcome::Forbidden,
                Errno::PERM,
                format!("the entry {name} boots with {word}, which did not boot this machine"),
            );
        }
    }
    boots::check_file(root, &name, &wanted.kernel)
}

/// Returns the kernel and the words of the entry with this name in these submenus.
fn find(text: &str, wanted: &[String]) -> Option<Vec<String>> {
    let mut open: Vec<Option<&str>> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line == "}" {
            open.pop();
        } else if line.ends_with('{') {
            let is_named = line.starts_with("menuentry ") || line.starts_with("submenu ");
            open.push(if is_named { id_of(line) } else { None });
        } else if let Some(rest) = line
            .strip_prefix("linux")
            .filter(|rest| rest.starts_with([' ', '\t']))
        {
            let is_wanted = open.len() == wanted.len()
                && open
                    .iter()
                    .zip(wanted)
                    .all(|(id, name)| *id == Some(name.as_str()));
            if is_wanted {
                return Some(rest.split_ascii_whitespace().map(str::to_owned).collect());
            }
        }
    }
    None
}

fn id_of(line: &str) -> Option<&str> {
    BEFORE_IDS.iter().find_map(|before| {
        let (_, rest) = line.rsplit_once(before)?;
        rest.split_once('\'').map(|(id, _)| id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MENU: &str = "function load_video {\n  true\n}\n\
        menuentry 'Debian' --class os $menuentry_id_option 'gnulinux-simple-1' {\n\
        \tlinux\t/boot/vmlinuz-6.2 root=UUID=1 ro quiet\n}\n\
        submenu 'Advanced' $menuentry_id_option 'gnulinux-advanced-1' {\n\
        \tmenuentry 'Linux 6.2' --class os $menuentry_id_option 'gnulinux-6.2-advanced-1' {\n\
        \t\tif [ x = y ]; then insmod gzio; fi\n\t\tlinux\t/boot/vmlinuz-6.2 root=UUID=1 ro quiet\n\t}\n\
        \tmenuentry 'Rescue' --class os $menuentry_id_option 'gnulinux-6.2-recovery-1' {\n\
        \t\tlinux\t/boot/vmlinuz-6.2 root=UUID=1 ro single\n\t}\n}\n";

    #[test]
    fn only_an_entry_of_the_menu_that_boots_as_this_machine_did_is_the_default() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for path in ["boot/grub", "proc"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        fs::write(folder.path().join("boot/vmlinuz-6.2"), "kernel").unwrap();
        let line = "BOOT_IMAGE=/boot/vmlinuz-6.1 root=UUID=1 ro quiet";
        fs::write(folder.path().join("proc/cmdline"), line).unwrap();
        let outcome = |kernel: &str, entry: &[&str]| {
            let wanted = DefaultKernel {
                kernel: kernel.to_owned(),
                entry: entry.iter().map(|one| (*one).to_owned()).collect(),
                note: Vec::new(),
            };
            let found = check(&root, "/etc/default/grub.d/ktrial.cfg", &wanted);
            found.map_err(|refusal| (refusal.outcome, refusal.message))
        };
        let (top, advanced) = ("gnulinux-advanced-1", "gnulinux-6.2-advanced-1");
        let file = "/boot/vmlinuz-6.2";
        assert_eq!(outcome(file, &[top, advanced]).unwrap_err().0, Outcome::Absent);
        fs::write(folder.path().join("boot/grub/grub.cfg"), MENU).unwrap();
        assert_eq!(outcome(file, &[top, advanced]), Ok(()));
        assert_eq!(outcome(file, &["gnulinux-simple-1"]), Ok(()));
        for entry in [
            &[advanced][..],
            &[top],
            &[top, "none"],
            &[top, advanced, advanced],
        ] {
            let (outcome, message) = outcome(file, entry).unwrap_err();
            assert_eq!(outcome, Outcome::Absent, "{message}");
        }
        let (other, message) = outcome("/boot/vmlinuz-6.1", &[top, advanced]).unwrap_err();
        assert_eq!(other, Outcome::Forbidden, "{message}");
        let (rescue, message) = outcome(file, &[top, "gnulinux-6.2-recovery-1"]).unwrap_err();
        assert_eq!(rescue, Outcome::Forbidden);
        assert!(message.contains("single"), "{message}");
        for (words, told) in [
            ("recovery nomodeset dis_ucode_ldr", "recovery"),
            ("-b", "-b"),
            ("mitigations=off", "mitigations=off"),
            ("nokaslr quiet", "nokaslr"),
        ] {
            let menu = MENU.replace("ro single", &format!("ro {words}"));
            fs::write(folder.path().join("boot/grub/grub.cfg"), menu).unwrap();
            let (found, message) = outcome(file, &[top, "gnulinux-6.2-recovery-1"]).unwrap_err();
            assert_eq!(found, Outcome::Forbidden, "{words}");
            assert!(message.contains(told), "{message}");
        }
        let menu = MENU.replace(
            "ro single",
            "ro quiet splash $vt_handoff lsm=lockdown,yama mitigations=auto",
        );
        fs::write(folder.path().join("boot/grub/grub.cfg"), menu).unwrap();
        assert_eq!(outcome(file, &[top, "gnulinux-6.2-recovery-1"]), Ok(()));
    }
}
