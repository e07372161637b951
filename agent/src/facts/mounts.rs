// SPDX-License-Identifier: Apache-2.0
//! The mount table.

use super::probe::{text, unescape, unknown, Probe};
use crate::root::Root;

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Device numbers, `major:minor`.
    pub device: String,
    /// Mount point.
    pub point: String,
    /// File system type.
    pub kind: String,
    /// Source, as given to mount.
    pub source: String,
    /// Options of the mount and of the file system, without duplicates.
    pub options: Vec<String>,
}

/// Reads this session's mount table.
pub fn read(root: &Root) -> Probe<Vec<Mount>> {
    const PATH: &str = "/proc/self/mountinfo";
    let text = text(root, PATH)?;
    let mounts: Vec<Mount> = text.lines().filter_map(parse_line).collect();
    if mounts.is_empty() {
        return unknown(format!("{PATH} has no line that describes a mount"));
    }
    Ok(mounts)
}

fn parse_line(line: &str) -> Option<Mount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2);
    let device = mount.next()?.to_owned();
    let point = unescape(mount.nth(1)?);
    let mount_options = mount.next()?;
    let mut file_system = file_system.split(' ');
    let kind = file_system.next()?.to_owned();
    let source = unescape(file_system.next()?);
    let mut options: Vec<String> = Vec::new();
    for option in mount_options
        .split(',')
        .chain(file_system.next().unwrap_or_default().split(','))
    {
        if !option.is_empty() && !options.iter().any(|known| known == option) {
            options.push(option.to_owned());
        }
    }
    Some(Mount {
        device,
        point,
        kind,
        source,
        options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_optional_fields_and_a_blank_in_the_name() {
        let line = r"36 35 8:3 /@home /mnt/my\040disk rw,noatime master:1 shared:2 - btrfs /dev/sda3 rw,noatime,ssd,subvol=/@home";
        let mount = parse_line(line).unwrap();
        assert_eq!(
            (mount.device.as_str(), mount.point.as_str()),
            ("8:3", "/mnt/my disk")
        );
        assert_eq!(
            (mount.kind.as_str(), mount.source.as_str()),
            ("btrfs", "/dev/sda3")
        );
        assert_eq!(mount.options, ["rw", "noatime", "ssd", "subvol=/@home"]);
    }

    #[test]
    fn a_short_line_is_not_a_mount() {
        assert_eq!(parse_line("36 35 8:3 - ext4"), None);
        assert_eq!(parse_line(""), None);
    }
}
