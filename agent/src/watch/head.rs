// SPDX-License-Identifier: Apache-2.0
//! The head block of a recording.

use super::Request;
use crate::load::clock::unix_at_zero_ns;
use crate::root::Root;
use crate::transact::context::Context;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// Describes the machine, the process and the sources before anything is read.
pub fn head(
    context: &Context,
    request: &Request,
    rates: &[(&'static str, u64)],
    absent: &Map<String, Value>,
    trace: &Value,
    started_ns: u64,
) -> Value {
    let (unix_at_zero_ns, error_ns) = unix_at_zero_ns();
    let rates: BTreeMap<&str, u64> = rates.iter().copied().collect();
    let command = request
        .command
        .clone()
        .or_else(|| command_of(&context.root, request.process?));
    let groups = request
        .process
        .map(|process| crate::sample::limits_of(&context.root, process));
    json!({
        "schema": "ktrial.recording/1", "agent": env!("CARGO_PKG_VERSION"), "boot_id": context.store.boot_id(),
        "kernel": context.root.read_text("/proc/sys/kernel/osrelease").ok(), "architecture": std::env::consts::ARCH,
        "cpus": std::thread::available_parallelism().map_or(1, std::num::NonZero::get), "started_ns": started_ns,
        "unix_at_zero_ns": unix_at_zero_ns, "clock_error_ns": error_ns,
        "process": request.process, "command": command, "frame_thread": request.frame_thread, "nvme": crate::facts::nvme::sleepers(&context.root),
        "groups": groups.unwrap_or_default(),
        "period_ns": rates, "absent": absent, "trace": trace,
    })
}

/// Returns the command line of a process, its program as a path; None if it is not visible.
fn command_of(root: &Root, process: u32) -> Option<Vec<String>> {
    let line = root.read_bytes(&format!("/proc/{process}/cmdline")).ok()?;
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let mut words: Vec<String> = line
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let first = words.first_mut().filter(|word| !word.is_empty())?;
    if !first.starts_with('/') {
        let program = std::fs::read_link(root.path(&format!("/proc/{process}/exe"))).ok()?;
        *first = program.to_string_lossy().into_owned();
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_words_and_the_path_of_its_program() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("proc/7");
        std::fs::create_dir_all(&process).unwrap();
        let root = Root::new(folder.path());
        let told = |line: &[u8]| {
            std::fs::write(process.join("cmdline"), line).unwrap();
            command_of(&root, 7)
        };
        assert_eq!(
            told(b"/opt/game\0--map\0a b\0").unwrap(),
            ["/opt/game", "--map", "a b"]
        );
        assert_eq!(told(b"./game\0"), None, "its path is not known");
        std::os::unix::fs::symlink("/opt/game", process.join("exe")).unwrap();
        assert_eq!(told(b"./game\0\0x\0").unwrap(), ["/opt/game", "", "x"]);
        assert_eq!(told(b""), None, "a thread of the kernel");
        assert_eq!(command_of(&root, 8), None);
    }
}
