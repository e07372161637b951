// SPDX-License-Identifier: Apache-2.0
//! Lines of GRUB's drop-in: words that it adds or removes, and the entry that GRUB boots by default.

use super::notes::{self, HEADER};
use super::{made_of, Checked, Word};
use serde::{Deserialize, Serialize};

/// Allowed in the names of GRUB's entries: inside double quotes no shell reads them in a special way.
const IN_IDS: &str = "_.+~:-";
const IN_PATHS: &str = "_.+~@-";

/// The most submenus that an entry is in, and the entry itself.
const DEPTH: usize = 4;

/// Removes words from both variables, whose names and values appear in it literally. It compares
/// whole texts: nothing is split or expanded. A value with a quote stays, because it may hold
/// spaces.
const REMOVES: &str = r#"ktrial_filter() {
	ktrial_left=" $1 "
	while :; do
		case $ktrial_left in
		*" $2 "*) ktrial_left=${ktrial_left%%" $2 "*}" "${ktrial_left#*" $2 "} ;;
		*" $2="*)
			ktrial_rest=${ktrial_left#*" $2="}
			case $3:${ktrial_rest%%" "*} in
			any:*[\"\'\\]*) break ;;
			any:*) ktrial_left=${ktrial_left%%" $2="*}" "${ktrial_rest#*" "} ;;
			*) break ;;
			esac
			;;
		*) break ;;
		esac
	done
	ktrial_left=${ktrial_left# }
	ktrial_left=${ktrial_left% }
}
ktrial_remove() {
	ktrial_filter "$GRUB_CMDLINE_LINUX" "$1" "$2"
	GRUB_CMDLINE_LINUX=$ktrial_left
	ktrial_filter "$GRUB_CMDLINE_LINUX_DEFAULT" "$1" "$2"
	GRUB_CMDLINE_LINUX_DEFAULT=$ktrial_left
}
"#;

/// A line of the drop-in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum GrubLine {
    /// A word to add.
    Word(Word),
    /// A word to remove.
    Removal(Removal),
    /// The entry to boot by default.
    Default(DefaultKernel),
}

/// A word of the kernel's command line that GRUB's other files add, and this one removes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Removal {
    /// The parameter, spelled as in these files.
    pub removes: String,
    /// Its value; none for the flag, and for any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Why it is there: each line becomes a comment above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub note: Vec<String>,
}

/// The installed kernel that GRUB boots by default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefaultKernel {
    /// The kernel's file.
    pub kernel: String,
    /// The names of the submenus that its entry is in, and of the entry.
    pub entry: Vec<String>,
    /// Why it is there: each line becomes a comment above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub note: Vec<String>,
}

impl Removal {
    /// Returns the word, without a value that stands for any.
    #[must_use]
    pub fn word(&self) -> Word {
        Word {
            name: self.removes.clone(),
            value: self.value.clone(),
            note: Vec::new(),
        }
    }

    fn takes(&self, word: &Word) -> bool {
        self.removes == word.name && (self.value.is_none() || self.value == word.value)
    }

    fn line(&self) -> String {
        match &self.value {
            Some(value) => format!("ktrial_remove {}={value} only\n", self.removes),
            None => format!("ktrial_remove {} any\n", self.removes),
        }
    }
}

impl DefaultKernel {
    fn check(&self) -> Checked {
        let name = self.kernel.strip_prefix("/boot/").unwrap_or_default();
        made_of("the name of a kernel in /boot", name, IN_PATHS)?;
        if self.entry.is_empty() || self.entry.len() > DEPTH {
            return Err(format!("an entry of GRUB: expected 1 to {DEPTH} names"));
        }
        self.entry
            .iter()
            .try_for_each(|id| made_of("the name of an entry of GRUB", id, IN_IDS))
    }

    fn line(&self) -> String {
        format!("GRUB_DEFAULT=\"{}\" # {}\n", self.entry.join(">"), self.kernel)
    }
}

impl GrubLine {
    pub(super) fn check(&self) -> Checked {
        match self {
            Self::Word(word) => word.check(),
            Self::Removal(removal) => removal.word().check(),
            Self::Default(kernel) => kernel.check(),
        }
    }

    pub(super) fn note(&self) -> &[String] {
        match self {
            Self::Word(word) => &word.note,
            Self::Removal(removal) => &removal.note,
            Self::Default(kernel) => &kernel.note,
        }
    }

    /// Returns what may occur only once in a file.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Word(word) => word.key(),
            Self::Removal(removal) => format!("-{}", removal.word().text()),
            Self::Default(_) => "GRUB_DEFAULT".to_owned(),
        }
    }

    fn line(&self) -> String {
        match self {
            Self::Word(word) => word.grub(),
            Self::Removal(removal) => removal.line(),
            Self::Default(kernel) => kernel.line(),
        }
    }
}

/// Refuses a file that removes what it adds.
pub(super) fn check(lines: &[GrubLine]) -> Checked {
    for removal in removals(lines) {
        if words(lines).any(|word| removal.takes(word)) {
            return Err(format!("{}: added and removed", removal.removes));
        }
    }
    Ok(())
}

pub(super) fn words(lines: &[GrubLine]) -> impl Iterator<Item = &Word> {
    lines.iter().filter_map(|line| match line {
        GrubLine::Word(word) => Some(word),
        _ => None,
    })
}

pub(super) fn removals(lines: &[GrubLine]) -> impl Iterator<Item = &Removal> {
    lines.iter().filter_map(|line| match line {
        GrubLine::Removal(removal) => Some(removal),
        _ => None,
    })
}

pub(super) fn default_kernel(lines: &[GrubLine]) -> Option<&DefaultKernel> {
    lines.iter().find_map(|line| match line {
        GrubLine::Default(kernel) => Some(kernel),
        _ => None,
    })
}

/// Renders the file, with the functions that remove words if one of its lines does.
pub(super) fn render(lines: &[GrubLine]) -> String {
    let entries: Vec<String> = lines.iter().map(GrubLine::line).collect();
    let text = notes::above(&lines.iter().map(GrubLine::note).collect::<Vec<_>>(), &entries);
    if removals(lines).next().is_none() {
        return text;
    }
    match text.strip_prefix(HEADER) {
        Some(rest) => format!("{HEADER}{REMOVES}{rest}"),
        None => format!("{REMOVES}{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::rendered;
    use serde_json::{json, Value};
    use std::process::Command;

    /// Returns both variables after a shell has read the file.
    fn sourced(before: [&str; 2], entries: &Value) -> [String; 2] {
        let text = rendered("grub.d", entries).unwrap();
        let script =
            format!("set -eu\n{text}printf '%s\\n' \"$GRUB_CMDLINE_LINUX\" \"$GRUB_CMDLINE_LINUX_DEFAULT\"");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("quiet"), "what * would name").unwrap();
        let done = Command::new("sh")
            .args(["-c", &script])
            .current_dir(folder.path())
            .env("GRUB_CMDLINE_LINUX", before[0])
            .env("GRUB_CMDLINE_LINUX_DEFAULT", before[1])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let said = String::from_utf8(done.stdout).unwrap();
        let mut lines = said.lines().map(str::to_owned);
        [lines.next().unwrap(), lines.next().unwrap()]
    }

    #[test]
    fn a_shell_removes_the_words_and_leaves_the_rest_byte_for_byte() {
        let quiet = json!([{"removes": "quiet"}]);
        let level = json!([{"removes": "loglevel", "value": "3"}]);
        let any = json!([{"removes": "loglevel"}]);
        for (entries, before, after) in [
            (&quiet, "quiet", ""),
            (&quiet, "", ""),
            (&quiet, "quiet quiet splash quiet", "splash"),
            (&quiet, "a  b *  $(id) `id` \\quiet", "a  b *  $(id) `id` \\quiet"),
            (&quiet, "splash quiet x=\"a  b\"", "splash x=\"a  b\""),
            (
                &quiet,
                "quieter unquiet quiet=2 un=quiet",
                "quieter unquiet un=quiet",
            ),
            (&level, "loglevel=3 loglevel=33 loglevel", "loglevel=33 loglevel"),
            (&level, "xloglevel=3 loglevel=3=4", "xloglevel=3 loglevel=3=4"),
            (&any, "a loglevel=3 loglevel loglevel= b loglevel=7", "a b"),
            (&any, "loglevel=\"a b\" loglevel", "loglevel=\"a b\""),
        ] {
            for [first, second] in [[before, "x"], ["x", before]] {
                let found = sourced([first, second], entries);
                let wanted = if first == "x" { ["x", after] } else { [after, "x"] };
                assert_eq!(found, wanted, "{entries} {before}");
            }
        }
        let both = json!([{"removes": "loglevel", "value": "3", "note": ["why"]}, {"name": "loglevel", "value": "7"}]);
        assert_eq!(sourced(["", "loglevel=3 quiet"], &both), [" loglevel=7", "quiet"]);
    }

    #[test]
    fn the_default_entry_is_named_with_its_submenus() {
        let ids = [
            "gnulinux-advanced-11-22",
            "gnulinux-6.1.0-13-amd64-advanced-11-22",
        ];
        let kernel =
            |kernel: &str, entry: Value| json!([{"kernel": kernel, "entry": entry, "note": ["why"]}]);
        assert_eq!(
            rendered("grub.d", &kernel("/boot/vmlinuz-6.1.0-13-amd64", json!(ids))).unwrap(),
            "# ktrial keeps this file: `ktrial drift` checks it, `ktrial keep --undo` removes it.\n# why\n\
             GRUB_DEFAULT=\"gnulinux-advanced-11-22>gnulinux-6.1.0-13-amd64-advanced-11-22\" # /boot/vmlinuz-6.1.0-13-amd64\n"
        );
        for (file, entry) in [
            ("/boot/vmlinuz", json!([])),
            ("/boot/vmlinuz", json!(["a>b"])),
            ("/boot/vmlinuz", json!(["a\""])),
            ("/boot/vmlinuz", json!(["$a"])),
            ("/boot/vmlinuz", json!(["a b"])),
            ("/boot/vmlinuz", json!(["a", "b", "c", "d", "e"])),
            ("/boot/a/vmlinuz", json!(["a"])),
            ("/boot/", json!(["a"])),
            ("/tmp/vmlinuz", json!(["a"])),
            ("/boot/vmlinuz\n", json!(["a"])),
        ] {
            assert!(
                rendered("grub.d", &kernel(file, entry.clone())).is_err(),
                "{file:?} {entry}"
            );
        }
    }

    #[test]
    fn what_a_shell_could_read_is_not_removed() {
        for name in ["*", "a b", "$x", "`id`", "a'", "-n", "", "a;b", "(a"] {
            assert!(
                rendered("grub.d", &json!([{ "removes": name }])).is_err(),
                "{name}"
            );
            assert!(
                rendered(
                    "grub.d",
                    &json!([{ "removes": "a", "value": format!("{name}*") }])
                )
                .is_err(),
                "{name}"
            );
        }
        for twice in [
            json!([{"removes": "quiet"}, {"removes": "quiet"}]),
            json!([{"removes": "quiet"}, {"name": "quiet"}]),
            json!([{"removes": "a"}, {"name": "a", "value": "1"}]),
            json!([{"kernel": "/boot/a", "entry": ["a"]}, {"kernel": "/boot/b", "entry": ["b"]}]),
        ] {
            assert!(rendered("grub.d", &twice).is_err(), "{twice}");
        }
    }
}
