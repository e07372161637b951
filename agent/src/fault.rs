// SPDX-License-Identifier: Apache-2.0
//! Numbered points at which a test build dies or stops: before and after each write to the machine,
//! each journal append and each fsync. Without the feature `fault-injection` these functions do
//! nothing.

#[cfg(not(feature = "fault-injection"))]
mod points {
    /// Marks a point at which a test build may die or stop.
    pub fn point() {}

    /// Records a file that a power cut would remove until it and its folder entry are synced.
    pub fn created(_path: &std::path::Path) {}

    /// Records how many bytes of a file would survive a power cut.
    pub fn synced(_path: &std::path::Path, _length: u64) {}

    /// Records that the entries of a folder would survive a power cut.
    pub fn folder_synced(_folder: &std::path::Path) {}
}

#[cfg(feature = "fault-injection")]
mod points {
    use rustix::process::Signal;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::{Mutex, OnceLock};

    /// The part of a file that a power cut would leave.
    #[derive(Debug, Default, Clone, Copy)]
    struct Durable {
        length: u64,
        entry: bool,
    }

    #[derive(Debug, Default)]
    struct Faults {
        at: Option<u64>,
        power: bool,
        stop: bool,
        count_path: Option<PathBuf>,
        passed: u64,
        files: BTreeMap<PathBuf, Durable>,
    }

    fn faults() -> &'static Mutex<Faults> {
        static FAULTS: OnceLock<Mutex<Faults>> = OnceLock::new();
        FAULTS.get_or_init(|| {
            let is_kind = |wanted| std::env::var("KTRIAL_FAULT_KIND").is_ok_and(|kind| kind == wanted);
            Mutex::new(Faults {
                at: std::env::var("KTRIAL_FAULT_AT")
                    .ok()
                    .and_then(|text| text.parse().ok()),
                power: is_kind("power"),
                stop: is_kind("stop"),
                count_path: std::env::var_os("KTRIAL_FAULT_COUNT").map(PathBuf::from),
                ..Faults::default()
            })
        })
    }

    /// Reads the environment; must be called before it is cleared.
    pub fn init() {
        drop(faults().lock());
    }

    /// Marks a point at which a test build may die or stop.
    pub fn point() {
        let mut faults = faults().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        faults.passed += 1;
        if let Some(path) = &faults.count_path {
            fs::write(path, faults.passed.to_string()).expect("KTRIAL_FAULT_COUNT can be written");
        }
        if faults.at != Some(faults.passed) {
            return;
        }
        if faults.power {
            cut(&faults.files);
        }
        let signal = if faults.stop { Signal::STOP } else { Signal::KILL };
        rustix::process::kill_process(rustix::process::getpid(), signal).expect("a process may kill itself");
    }

    fn cut(files: &BTreeMap<PathBuf, Durable>) {
        for (path, durable) in files {
            if !durable.entry {
                fs::remove_file(path).expect("an unsynced file can be dropped");
            } else if let Ok(file) = fs::OpenOptions::new().write(true).open(path) {
                file.set_len(durable.length)
                    .expect("an unsynced tail can be dropped");
            }
        }
    }

    /// Records a file that a power cut would remove until it and its folder entry are synced.
    pub fn created(path: &Path) {
        let mut faults = faults().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        faults.files.insert(path.to_owned(), Durable::default());
    }

    /// Records how many bytes of a file would survive a power cut.
    pub fn synced(path: &Path, length: u64) {
        let mut faults = faults().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let durable = faults.files.entry(path.to_owned()).or_insert(Durable {
            length: 0,
            entry: true,
        });
        durable.length = length;
    }

    /// Records that the entries of a folder would survive a power cut.
    pub fn folder_synced(folder: &Path) {
        let mut faults = faults().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (path, durable) in &mut faults.files {
            durable.entry |= path.parent() == Some(folder);
        }
    }
}

#[cfg(feature = "fault-injection")]
pub use points::init;
pub use points::{created, folder_synced, point, synced};
