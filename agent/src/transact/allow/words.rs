// SPDX-License-Identifier: Apache-2.0
//! Words of the kernel's command line: which a plan may add, and which only with a confirmation of
//! their own.

use super::pattern::fits;
use super::{catalog, check as check_path, knobs_d, Denial, Purpose};
use crate::root::Root;
use crate::transact::forms::Word;

/// Words that name a program or file that root runs, decide what is booted, or open a way around
/// the login. The catalog and `knobs.d` cannot add them.
const NEVER: &[&str] = &[
    "init",
    "rdinit",
    "initrd",
    "root",
    "rootflags",
    "rootfstype",
    "rd.*",
    "systemd.*",
    "sysctl.*",
    "luks.*",
    "break",
    "single",
    "emergency",
    "rescue",
    "recovery",
    "s",
    "1",
    "_s",
    "_b",
    "roothash*",
    "usrhash*",
    "firmware_class.*",
    "modprobe.*",
    "module_blacklist",
    "dyndbg",
    "*.dyndbg",
    "kgdb*",
    "ekgdboc",
    "netconsole*",
    "memmap",
    "acpi_rsdp",
    "efi",
    "efivar_ssdt",
    "resume",
    "nfsroot",
    "ip",
];

/// Words that weaken the protection of the machine, each with the values that do not.
const GUARDED: &[(&str, &[&str])] = &[
    ("amd_iommu", &["force_enable", "force_isolation"]),
    ("apparmor", &["1"]),
    ("audit", &["1"]),
    ("debugfs", &["off", "no-mount"]),
    ("efi_no_storage_paranoia", &[]),
    ("enforcing", &["1"]),
    ("cfi", &["kcfi", "fineibt"]),
    ("dis_ucode_ldr", &[]),
    ("evm", &[]),
    ("fips", &["1"]),
    ("gather_data_sampling", &["force"]),
    ("hardened_usercopy", &["on"]),
    ("ia32_emulation", &["0", "off", "false"]),
    ("ibt", &["on"]),
    ("ima_*", &[]),
    ("indirect_target_selection", &["on", "force"]),
    ("init_on_alloc", &["1"]),
    ("init_on_free", &["1"]),
    ("intel_iommu", &["on"]),
    ("iommu", &["force"]),
    ("iommu.passthrough", &["0"]),
    ("iommu.strict", &["1"]),
    ("kpti", &["1"]),
    ("kvm*.*", &[]),
    ("l1d_flush", &["on"]),
    ("l1tf", &["full", "full,force"]),
    ("lockdown", &[]),
    ("lsm", &[]),
    ("lsm.debug", &[]),
    ("mds", &["full", "full,nosmt"]),
    ("mitigations", &["auto", "auto,nosmt"]),
    ("mmio_stale_data", &["full", "full,nosmt"]),
    ("module.sig_enforce", &["1"]),
    ("no_hash_pointers", &[]),
    ("noexec*", &["on"]),
    ("nokaslr", &[]),
    ("nopti", &[]),
    ("norandmaps", &[]),
    ("nosmap", &[]),
    ("nosmt", &["force"]),
    ("nosmep", &[]),
    ("nospec*", &[]),
    ("page_alloc.shuffle", &["1", "y", "on"]),
    ("page_poison", &["1"]),
    ("pti", &["on", "auto"]),
    ("random.*", &[]),
    ("randomize_kstack_offset", &["1", "y", "on"]),
    ("reg_file_data_sampling", &["on"]),
    ("retbleed", &["auto", "auto,nosmt"]),
    ("rodata", &["on", "full"]),
    ("security", &[]),
    ("selinux", &["1"]),
    ("slab_debug", &[]),
    ("slab_merge", &[]),
    ("slab_nomerge", &[]),
    ("slub_debug", &[]),
    ("spec_rstack_overflow", &["safe-ret", "ibpb"]),
    ("spec_store_bypass_disable", &["on", "auto", "seccomp"]),
    ("spectre_*", &["on", "auto"]),
    ("split_lock_detect", &["warn", "fatal"]),
    ("srbds", &["on"]),
    ("ssbd", &["force-on"]),
    ("tsa", &["on"]),
    ("tsx", &["off"]),
    ("tsx_async_abort", &["full", "full,nosmt"]),
    ("unsafe*", &[]),
    ("usbcore.authorized_default", &["0", "2"]),
    ("vmscape", &["on", "auto", "force"]),
    ("vsyscall", &["none", "xonly"]),
];

/// Guarded words that themselves weaken the protection: without them the machine is safer.
const WEAKENS: &[&str] = &[
    "dis_ucode_ldr",
    "efi_no_storage_paranoia",
    "lsm.debug",
    "no_hash_pointers",
    "nokaslr",
    "nopti",
    "norandmaps",
    "nosmap",
    "nosmep",
    "nospec*",
    "slab_merge",
    "unsafe*",
];

/// Refuses a word that no plan may add, that no knob has, or that weakens the machine's protection
/// and is not in `confirmed`.
pub fn check(root: &Root, word: &Word, confirmed: &[String]) -> Result<(), Denial> {
    let (name, key) = (&word.name, word.key());
    let forbid = |why: &str| Err(Denial::Forbidden(format!("the kernel argument {name} {why}")));
    if is_fixed_name(&key) {
        return forbid("is one that ktrial never sets: it decides what runs as root, or bypasses the login");
    }
    if !is_known(root, &key) {
        let Some((module, parameter)) = key.split_once('.') else {
            return forbid(&format!(
                "belongs to no knob of the catalog, and no file in {} adds it",
                knobs_d::FOLDER
            ));
        };
        check_path(
            root,
            &format!("/sys/module/{module}/parameters/{parameter}"),
            Purpose::Write,
        )?;
    }
    if is_guarded(word) && !confirmed.iter().any(|one| one.replace('-', "_") == key) {
        return forbid("weakens the protection of this machine, so it needs a confirmation of its own");
    }
    Ok(())
}

fn is_known(root: &Root, key: &str) -> bool {
    let is = |known: &str| known.replace('-', "_") == *key;
    catalog().words.iter().any(|known| is(known)) || knobs_d::read(root).words.iter().any(|known| is(known))
}

/// Whether words of this name decide what runs as root: plans neither add nor remove them.
#[must_use]
pub fn is_fixed_name(key: &str) -> bool {
    NEVER.iter().any(|pattern| fits(pattern, key))
}

/// Refuses to remove a word that decides what runs as root, or that protects the machine, unless it
/// is in `confirmed` or a word in `added` replaces it.
pub fn check_removal(word: &Word, added: &[&Word], confirmed: &[String]) -> Result<(), Denial> {
    let forbid = |why: &str| {
        let message = format!("the kernel argument {} {why}", word.text());
        Err(Denial::Forbidden(message))
    };
    if is_fixed_name(&word.key()) {
        return forbid("is one that ktrial never removes: it decides what runs as root");
    }
    let is_replaced = added.iter().any(|one| one.key() == word.key());
    if !is_replaced && is_guarded_removal(word, confirmed) {
        return forbid("may protect this machine, so its removal needs a confirmation of its own");
    }
    Ok(())
}

/// Whether this word may protect the machine, and nobody has confirmed its removal. A word without
/// a value stands for any value.
#[must_use]
pub fn is_guarded_removal(word: &Word, confirmed: &[String]) -> bool {
    let key = word.key();
    let protects = guarded(&key).is_some_and(|(pattern, harmless)| match word.value.as_deref() {
        Some(value) if harmless.contains(&value) => true,
        Some("0" | "off") => false,
        _ => !WEAKENS.contains(pattern),
    });
    protects && !confirmed.iter().any(|one| one.replace('-', "_") == key)
}

/// Whether a default entry of GRUB's menu may not have this word, if it did not boot the machine: it
/// decides what runs as root, as in rescue entries, or weakens the protection.
#[must_use]
pub fn is_unfit_default(word: &Word) -> bool {
    is_fixed_name(&word.key()) || (is_guarded(word) && !is_guarded_removal(word, &[]))
}

fn guarded(key: &str) -> Option<&'static (&'static str, &'static [&'static str])> {
    GUARDED
        .iter()
        .find(|(pattern, _)| fits(&pattern.replace('-', "_"), key))
}

fn is_guarded(word: &Word) -> bool {
    let value = word.value.as_deref();
    guarded(&word.key()).is_some_and(|(_, harmless)| !value.is_some_and(|value| harmless.contains(&value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, value: Option<&str>, confirmed: &[&str]) -> Result<(), String> {
        let word = Word {
            name: name.to_owned(),
            value: value.map(str::to_owned),
            note: Vec::new(),
        };
        let confirmed: Vec<String> = confirmed.iter().map(|one| (*one).to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        match check(&Root::new(folder.path()), &word, &confirmed) {
            Ok(()) => Ok(()),
            Err(Denial::Forbidden(why)) => Err(why),
            Err(Denial::System(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn no_confirmation_lets_a_program_or_a_way_around_the_login_through() {
        for name in [
            "init",
            "rdinit",
            "rd.break",
            "rd.shell",
            "root",
            "systemd.debug-shell",
            "systemd.debug_shell",
            "systemd.unit",
            "sysctl.kernel.core_pattern",
            "firmware_class.path",
            "single",
            "zram.dyndbg",
        ] {
            let why = outcome(name, Some("1"), &[name]).unwrap_err();
            assert!(why.contains("ktrial never"), "{name}: {why}");
        }
    }

    #[test]
    fn only_words_of_knobs_and_parameters_of_modules_are_added() {
        assert_eq!(outcome("transparent_hugepage", Some("always"), &[]), Ok(()));
        assert_eq!(
            outcome("nohz-full", Some("1-3"), &[]),
            Ok(()),
            "the kernel's own spelling does not matter"
        );
        assert_eq!(outcome("nvme.poll_queues", Some("4"), &[]), Ok(()));
        for name in [
            "quiet",
            "loglevel",
            "nvme.no_such",
            "apparmor.mode",
            "module.sig_enforce",
        ] {
            assert!(outcome(name, Some("0"), &["quiet", name]).is_err(), "{name}");
        }
    }

    #[test]
    fn what_weakens_the_machine_needs_its_own_confirmation() {
        for (name, value) in [
            ("mitigations", Some("off")),
            ("spectre_v2", Some("off")),
            ("retbleed", Some("off")),
            ("nokaslr", None),
            ("init_on_alloc", Some("0")),
            ("init-on-free", Some("0")),
            ("audit", Some("0")),
            ("iommu.passthrough", Some("1")),
            ("split_lock_detect", Some("off")),
        ] {
            let why = outcome(name, value, &["another"]).unwrap_err();
            assert!(why.contains("confirmation of its own"), "{name}: {why}");
            assert_eq!(outcome(name, value, &[name]), Ok(()), "{name}");
        }
        assert_eq!(outcome("mitigations", Some("auto"), &[]), Ok(()));
        assert_eq!(outcome("init_on_alloc", Some("1"), &[]), Ok(()));
        assert!(outcome("mitigations", Some("auto,nosmt,off"), &[]).is_err());
    }

    #[test]
    fn what_protects_the_machine_is_removed_only_with_a_confirmation() {
        let outcome = |name: &str, value: Option<&str>, added: &[&Word], confirmed: &[&str]| {
            let word = Word {
                name: name.to_owned(),
                value: value.map(str::to_owned),
                note: Vec::new(),
            };
            let confirmed: Vec<String> = confirmed.iter().map(|one| (*one).to_owned()).collect();
            check_removal(&word, added, &confirmed).is_ok()
        };
        for (name, value) in [
            ("lsm", Some("lockdown,yama")),
            ("lockdown", Some("integrity")),
            ("mitigations", Some("auto")),
            ("mitigations", None),
            ("slab-nomerge", None),
            ("debugfs", Some("off")),
            ("spectre_v2", Some("retpoline")),
        ] {
            assert!(!outcome(name, value, &[], &["other"]), "{name}");
            assert!(outcome(name, value, &[], &[name]), "{name}");
        }
        for (name, value) in [
            ("quiet", None),
            ("mitigations", Some("off")),
            ("apparmor", Some("0")),
            ("nokaslr", None),
            ("nospectre_v2", None),
        ] {
            assert!(outcome(name, value, &[], &[]), "{name}");
        }
        for name in ["root", "init", "systemd.unit", "rd.shell", "luks.uuid"] {
            assert!(!outcome(name, Some("1"), &[], &[name]), "{name}");
        }
        let other = Word {
            name: "mitigations".to_owned(),
            value: Some("auto,nosmt".to_owned()),
            note: Vec::new(),
        };
        assert!(outcome("mitigations", Some("auto"), &[&other], &[]));
        assert!(!outcome("lsm", Some("yama"), &[&other], &[]));
    }
}
