// SPDX-License-Identifier: Apache-2.0
//! Checks a plan's steps before anything is written.

use crate::boots;
use crate::bytes::Bytes;
use crate::error::{Error, Kind, Result};
use crate::root::Root;
use crate::transact::after;
use crate::transact::allow::{self, Purpose};
use crate::transact::default_kernel;
use crate::transact::files;
use crate::transact::forms::{Form, Reach};
use crate::transact::journal::Old;
use crate::transact::machine::{self, Content, Outcome, Refusal};
use crate::transact::plan::{FileStep, Plan, RunStep, Step, Write, ZramStep};
use crate::transact::programs;
use crate::transact::zram;
use rustix::io::Errno;
use serde::Serialize;
use serde_json::json;

/// What a step would do.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// Index of the step.
    pub step: usize,
    /// Path that the step is about.
    pub path: String,
    /// `ready`, `same`, `absent`, `refused`, `forbidden` or `stale`.
    pub outcome: Outcome,
    /// The present value.
    pub now: Option<Bytes>,
    /// Explanation for a person.
    pub message: String,
    /// The errno, if the system refused.
    #[serde(skip)]
    pub errno: Option<i32>,
}

/// Checks every step. `as_root`: this process is meant to write.
#[must_use]
pub fn plan(root: &Root, plan: &Plan, as_root: bool) -> Vec<Check> {
    let looked = plan.steps.iter().map(|step| match step {
        Step::Write(step) => write(root, step, as_root),
        Step::File(step) => file(root, step, as_root),
        Step::Zram(step) => swap(root, step),
        Step::Run(step) => run(root, step),
    });
    looked
        .enumerate()
        .map(|(index, found)| report(index, &plan.steps[index], found))
        .collect()
}

/// The result of a check: outcome, present value and message, or a refusal with the present value.
type Looked = std::result::Result<(Outcome, Option<Bytes>, String), (Refusal, Option<Bytes>)>;

fn report(index: usize, step: &Step, looked: Looked) -> Check {
    let path = step.path();
    match looked {
        Ok((outcome, now, message)) => Check {
            step: index,
            path,
            outcome,
            now,
            message,
            errno: None,
        },
        Err((refusal, now)) => {
            let outcome = match refusal.outcome {
                Outcome::Invalid => Outcome::Refused,
                Outcome::Vanished => Outcome::Absent,
                other => other,
            };
            Check {
                step: index,
                path,
                outcome,
                now,
                message: refusal.message,
                errno: Some(refusal.errno),
            }
        }
    }
}

fn write(root: &Root, step: &Write, as_root: bool) -> Looked {
    let bare = |refusal| (refusal, None);
    machine::probe_write(root, &step.path, as_root).map_err(bare)?;
    for couple in &step.couples {
        match machine::read(root, couple, Purpose::Write) {
            Err(refusal) if refusal.outcome != Outcome::Absent => return Err(bare(refusal)),
            _ => {}
        }
    }
    if let Some(effective) = &step.effective {
        machine::read(root, effective, Purpose::Read).map_err(bare)?;
    }
    let content = machine::read(root, &step.path, Purpose::Write).map_err(|mut refusal| {
        refusal.message += "; a value that cannot be read cannot be restored later";
        (refusal, None)
    })?;
    if content.truncated {
        return Err(bare(too_long(&step.path)));
    }
    let now = content.bytes;
    match &step.expect {
        Some(expect) if !step.verify.same_state(&step.new, expect, &now) => {
            let message = format!(
                "{} is `{}`, but the plan expects `{}`",
                step.path,
                now.brief(),
                expect.brief()
            );
            Ok((Outcome::Stale, Some(now), message))
        }
        _ if step.verify.holds(&step.new, &now) => Ok((Outcome::Same, Some(now), "already set".to_owned())),
        _ => Ok((Outcome::Ready, Some(now), String::new())),
    }
}

fn too_long(path: &str) -> Refusal {
    Refusal {
        outcome: Outcome::Refused,
        errno: Errno::FBIG.raw_os_error(),
        message: format!(
            "{path} has more than {} bytes: it could not be restored",
            machine::READ_LIMIT_BYTES
        ),
    }
}

fn file(root: &Root, step: &FileStep, as_root: bool) -> Looked {
    match files::needs_folder(root, &step.path) {
        Err(refusal) if as_root || refusal.outcome != Outcome::Refused => return Err((refusal, None)),
        _ => {}
    }
    let now = present(root, &step.path).map_err(|refusal| (refusal, None))?;
    if let Err(refusal) = as_expected(step, now.as_ref()) {
        return Ok((refusal.outcome, now.map(|content| content.bytes), refusal.message));
    }
    if let Some(form) = &step.holds {
        reach(root, &step.path, form).map_err(|refusal| (refusal, None))?;
        if let Some((program, user)) = form.program() {
            programs::check_own(root, program, user).map_err(|refusal| (refusal, None))?;
        }
        boot(root, step, form).map_err(|refusal| (refusal, None))?;
    }
    let same = match (&now, step.bytes()) {
        (None, None) => true,
        (Some(now), Some(bytes)) => now.bytes == bytes && Some(now.mode) == step.mode_bits(),
        _ => false,
    };
    if same {
        return Ok((Outcome::Same, now.map(|content| content.bytes), String::new()));
    }
    match after::check(root, &step.path) {
        Err(refusal) if as_root || refusal.outcome != Outcome::Refused => {
            Err((refusal, now.map(|content| content.bytes)))
        }
        _ => Ok((Outcome::Ready, now.map(|content| content.bytes), String::new())),
    }
}

/// Refuses a file with words, entries and guards of boots that a plan may not have.
fn boot(root: &Root, step: &FileStep, form: &Form) -> std::result::Result<(), Refusal> {
    let denied = |denial| Refusal::denied(denial, &step.path);
    let words = form.words();
    for word in &words {
        allow::check_word(root, word, &step.confirmed).map_err(denied)?;
    }
    for removal in form.removals() {
        allow::check_removal(&removal.word(), &words, &step.confirmed).map_err(denied)?;
    }
    if let Some(kernel) = form.default_kernel() {
        default_kernel::check(root, &step.path, kernel)?;
    }
    for entry in form.entries() {
        boots::check_entry(root, &step.path, entry, &step.confirmed)?;
    }
    boots::check_guards(root, form.guards())
}

/// Refuses a file that would make its reader write or read a path that no plan may.
fn reach(root: &Root, path: &str, form: &Form) -> std::result::Result<(), Refusal> {
    for Reach { places, purpose } in form.reaches() {
        let mut denials = Vec::new();
        for place in &places {
            match allow::check(root, place, purpose) {
                Ok(_) => break,
                Err(denial) => denials.push(denial),
            }
        }
        if denials.len() == places.len() {
            if let Some(denial) = denials.into_iter().next() {
                let refusal = Refusal::denied(denial, path);
                let message = format!("{path}: {}", refusal.message);
                return Err(Refusal { message, ..refusal });
            }
        }
    }
    Ok(())
}

/// Refuses a file whose content is not what the plan expects; an empty `expect` means no file.
fn as_expected(step: &FileStep, now: Option<&Content>) -> std::result::Result<(), Refusal> {
    let is_expected = match (&step.expect, now) {
        (None, _) => true,
        (Some(expect), None) => expect.is_empty(),
        (Some(expect), Some(now)) => !expect.is_empty() && now.bytes == *expect,
    };
    if is_expected {
        return Ok(());
    }
    Err(stale(format!("{} is not as the plan expects", step.path)))
}

fn stale(message: String) -> Refusal {
    Refusal {
        outcome: Outcome::Stale,
        errno: Errno::BUSY.raw_os_error(),
        message,
    }
}

/// Refuses a file that somebody has edited since its old content was journaled: an undo could not
/// restore the edit.
pub fn unedited(root: &Root, step: &Step, old: Option<&Old>) -> std::result::Result<(), Refusal> {
    let (Step::File(file), Some(old)) = (step, old) else {
        return Ok(());
    };
    let now = present(root, &file.path)?.map(|content| content.bytes);
    if now == old.bytes {
        return Ok(());
    }
    Err(stale(format!(
        "{} was edited while the plan was applied",
        file.path
    )))
}

/// Reads a configuration file; None if it does not exist.
fn present(root: &Root, path: &str) -> std::result::Result<Option<Content>, Refusal> {
    match machine::read(root, path, Purpose::File) {
        Ok(content) if content.truncated => Err(too_long(path)),
        Ok(content) => Ok(Some(content)),
        Err(refusal) if refusal.outcome == Outcome::Absent => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

fn swap(root: &Root, step: &ZramStep) -> Looked {
    let bare = |refusal| (refusal, None);
    let needed: &[&str] = if step.swap {
        &["mkswap", "swapon", "swapoff"]
    } else {
        &[]
    };
    for program in needed {
        programs::has(root, program).map_err(bare)?;
    }
    let Some(device) = &step.device else {
        let control = "/sys/class/zram-control/hot_add";
        if machine::exists(root, control) {
            return Ok((Outcome::Ready, None, String::new()));
        }
        return Err(bare(Refusal {
            outcome: Outcome::Absent,
            errno: Errno::NOENT.raw_os_error(),
            message: format!("{control}: no such file; run `modprobe zram`"),
        }));
    };
    let now = zram::check(root, &format!("/sys/block/{device}")).map_err(bare)?;
    let outcome = if zram::same(&now, &zram::wanted(step, &now)) {
        Outcome::Same
    } else {
        Outcome::Ready
    };
    Ok((outcome, Some(describe(&now)), String::new()))
}

/// Formats the state of a zram device.
#[must_use]
pub fn describe(swap: &zram::Swap) -> Bytes {
    let algorithm = swap.algorithm.as_deref().unwrap_or("unknown");
    let priority = swap
        .priority
        .map_or_else(|| "none".to_owned(), |priority| priority.to_string());
    Bytes(
        format!(
            "size_bytes={} algorithm={algorithm} priority={priority}\n",
            swap.size_bytes
        )
        .into_bytes(),
    )
}

fn run(root: &Root, step: &RunStep) -> Looked {
    programs::check(root, &step.forward, &step.undo).map_err(|refusal| (refusal, None))?;
    Ok((Outcome::Ready, None, String::new()))
}

/// Refuses a plan that leaves the allow-list or whose expected values have changed.
pub fn refuse(checks: &[Check], plan: &Plan) -> Result<()> {
    if let Some(check) = checks.iter().find(|check| check.outcome == Outcome::Forbidden) {
        return Err(
            Error::new(Kind::Forbidden, format!("step {}: {}", check.step, check.message))
                .hint("nothing was changed"),
        );
    }
    let stale: Vec<&Check> = checks
        .iter()
        .filter(|check| check.outcome == Outcome::Stale)
        .collect();
    if stale.is_empty() {
        return Ok(());
    }
    let details = stale.iter().map(|check| {
        let expect = match &plan.steps[check.step] {
            Step::Write(write) => write.expect.clone(),
            Step::File(file) => file.expect.clone(),
            _ => None,
        };
        json!({"step": check.step, "path": check.path, "expect": expect, "now": check.now, "message": check.message})
    });
    let message = match stale.as_slice() {
        [one] => one.message.clone(),
        many => format!(
            "{} knobs differ from what the plan expects; the first: {}",
            many.len(),
            many[0].message
        ),
    };
    Err(Error::new(Kind::Conflict, message)
        .hint("nothing was changed; create the plan again")
        .details(details.collect()))
}

/// Returns the old values of all paths that a step may change.
pub fn olds(root: &Root, index: usize, step: &Step) -> std::result::Result<Vec<Old>, Refusal> {
    match step {
        Step::Write(write) => {
            let own = machine::read(root, &write.path, Purpose::Write)?;
            let mut olds = vec![Old::file(index, &write.path, &own)];
            for couple in write.couples.iter().filter(|couple| **couple != write.path) {
                olds.push(match machine::read(root, couple, Purpose::Write) {
                    Ok(content) => Old::file(index, couple, &content),
                    Err(refusal) if refusal.outcome == Outcome::Absent => Old::nothing(index, couple),
                    Err(refusal) => return Err(refusal),
                });
            }
            Ok(olds)
        }
        Step::File(file) => {
            let content = present(root, &file.path)?;
            as_expected(file, content.as_ref())?;
            let old = content.map_or_else(
                || Old::nothing(index, &file.path),
                |content| Old::file(index, &file.path, &content),
            );
            let mut olds = vec![old];
            if let Some(made) = after::made_from(root, &file.path) {
                olds.push(Old::file(index, made, &machine::read(root, made, Purpose::Own)?));
            }
            if files::needs_folder(root, &file.path)? {
                olds.push(Old {
                    folder: true,
                    ..Old::nothing(index, files::folder_of(&file.path))
                });
            }
            Ok(olds)
        }
        Step::Zram(ZramStep { device: Some(_), .. }) => {
            let swap = zram::check(root, &step.path())?;
            Ok(vec![Old {
                absent: false,
                swap: Some(swap),
                ..Old::nothing(index, &step.path())
            }])
        }
        Step::Zram(_) => {
            let names = zram::devices(root).into_iter().collect::<Vec<_>>().join(" ");
            Ok(vec![Old {
                bytes: Some(Bytes(names.into_bytes())),
                ..Old::nothing(index, &step.path())
            }])
        }
        Step::Run(_) => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transact::forms::Form;

    fn with_swappiness() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let vm = folder.path().join("proc/sys/vm");
        std::fs::create_dir_all(&vm).unwrap();
        std::fs::write(vm.join("swappiness"), "60\n").unwrap();
        let root = Root::new(folder.path());
        (folder, root)
    }

    fn sysctl(path: &str) -> Form {
        serde_json::from_value(serde_json::json!({"sysctl.d": [{"path": path, "value": "1"}]})).unwrap()
    }

    #[test]
    fn a_file_may_set_only_what_may_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let file = "/etc/sysctl.d/ktrial.conf";
        assert!(reach(&root, file, &sysctl("/proc/sys/vm/swappiness")).is_ok());
        let refusal = reach(&root, file, &sysctl("/proc/sys/kernel/core_pattern")).unwrap_err();
        assert!(
            refusal.message.starts_with("/etc/sysctl.d/ktrial.conf: "),
            "{}",
            refusal.message
        );
        assert!(refusal.message.contains("core_pattern"), "{}", refusal.message);
    }

    #[test]
    fn a_file_that_is_not_what_the_plan_expects_is_stale() {
        let (folder, root) = with_swappiness();
        let path = folder.path().join("etc/sysctl.d/ktrial.conf");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let outcome = |expect: Option<&str>| {
            let step = serde_json::json!({"kind": "file", "path": "/etc/sysctl.d/ktrial.conf", "expect": expect,
                "holds": {"sysctl.d": [{"path": "/proc/sys/vm/swappiness", "value": "10"}]}});
            let steps = serde_json::json!({"schema": crate::transact::plan::SCHEMA, "steps": [step]});
            let plan = Plan::from_value(steps).unwrap();
            let checks = super::plan(&root, &plan, true);
            assert_eq!(
                refuse(&checks, &plan).is_err(),
                checks[0].outcome == Outcome::Stale
            );
            checks[0].outcome
        };
        assert_eq!(outcome(None), Outcome::Ready);
        assert_eq!(outcome(Some("")), Outcome::Ready);
        assert_eq!(outcome(Some("# own\n")), Outcome::Stale);
        std::fs::write(&path, "# own\n").unwrap();
        assert_eq!(outcome(None), Outcome::Ready);
        assert_eq!(outcome(Some("")), Outcome::Stale);
        assert_eq!(outcome(Some("# own\n")), Outcome::Ready);
        assert_eq!(outcome(Some("# other\n")), Outcome::Stale);
        std::fs::write(&path, "").unwrap();
        assert_eq!(outcome(Some("")), Outcome::Stale);
        std::fs::remove_file(&path).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(outcome(None), Outcome::Refused);
    }

    #[test]
    fn an_edit_after_the_old_content_was_journaled_is_noticed() {
        let (folder, root) = with_swappiness();
        let path = folder.path().join("etc/sysctl.d/ktrial.conf");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let step: Step = serde_json::from_value(
            serde_json::json!({"kind": "file", "path": "/etc/sysctl.d/ktrial.conf", "holds": null}),
        )
        .unwrap();
        for before in [None, Some("# shown\n")] {
            if let Some(text) = before {
                std::fs::write(&path, text).unwrap();
            }
            let journaled = olds(&root, 0, &step).unwrap();
            assert!(unedited(&root, &step, journaled.first()).is_ok());
            std::fs::write(&path, "# edited\n").unwrap();
            let refusal = unedited(&root, &step, journaled.first()).unwrap_err();
            assert_eq!(refusal.outcome, Outcome::Stale);
        }
    }

    #[test]
    fn a_rule_may_set_what_may_be_written_in_any_of_its_places() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let rule = |attribute: &str| -> Form {
            serde_json::from_value(serde_json::json!({"udev": [{"match": {"SUBSYSTEM": "block"},
                "set": [{"attribute": attribute, "value": "none"}]}]}))
            .unwrap()
        };
        let file = "/etc/udev/rules.d/60-ktrial.rules";
        assert!(reach(&root, file, &rule("queue/scheduler")).is_ok());
        assert!(reach(&root, file, &rule("device/delete")).is_err());
    }
    #[test]
    fn a_couple_that_may_not_be_read_forbids_the_step() {
        let (_folder, root) = with_swappiness();
        for (couple, outcome) in [
            ("/proc/sys/vm/dirty_ratio", Outcome::Ready),
            ("/etc/passwd", Outcome::Forbidden),
        ] {
            let plan = serde_json::json!({"schema": "ktrial.plan/2", "steps": [{"kind": "write",
                "path": "/proc/sys/vm/swappiness", "new": "10\n", "verify": "integer", "couples": [couple]}]});
            let plan: Plan = serde_json::from_value(plan).unwrap();
            assert_eq!(super::plan(&root, &plan, true)[0].outcome, outcome, "{couple}");
        }
    }

    #[test]
    fn the_old_of_a_couple_that_is_not_there_is_that() {
        let (_folder, root) = with_swappiness();
        let olds_with = |couple: &str| {
            let write = serde_json::json!({"kind": "write", "path": "/proc/sys/vm/swappiness", "new": "10\n",
                "verify": "integer", "couples": [couple]});
            olds(&root, 0, &serde_json::from_value(write).unwrap())
        };
        let found = olds_with("/proc/sys/vm/dirty_ratio").unwrap();
        assert_eq!(
            found.iter().map(|old| old.absent).collect::<Vec<_>>(),
            [false, true]
        );
        assert_eq!(olds_with("/etc/passwd").unwrap_err().outcome, Outcome::Forbidden);
    }

    #[test]
    fn what_is_already_so_is_told() {
        let (_folder, root) = with_swappiness();
        let wanted = |new: &str| {
            let step = serde_json::json!({"kind": "write", "path": "/proc/sys/vm/swappiness", "new": new, "verify": "integer"});
            let steps = serde_json::json!({"schema": crate::transact::plan::SCHEMA, "steps": [step]});
            plan(&root, &Plan::from_value(steps).unwrap(), true)
                .remove(0)
                .outcome
        };
        assert_eq!(wanted("60\n"), Outcome::Same);
        assert_eq!(wanted("10\n"), Outcome::Ready);
    }

    #[test]
    fn a_file_without_a_place_is_absent_and_one_that_is_too_long_is_refused() {
        let (folder, root) = with_swappiness();
        let step = serde_json::json!({"kind": "file", "path": "/etc/sysctl.d/90-ktrial.conf",
            "holds": {"sysctl.d": [{"path": "/proc/sys/vm/swappiness", "value": "10"}]}});
        let steps = serde_json::json!({"schema": crate::transact::plan::SCHEMA, "steps": [step]});
        let steps = Plan::from_value(steps).unwrap();
        for as_root in [false, true] {
            assert_eq!(plan(&root, &steps, as_root)[0].outcome, Outcome::Absent);
        }
        std::fs::create_dir_all(folder.path().join("etc/sysctl.d")).unwrap();
        assert_eq!(plan(&root, &steps, true)[0].outcome, Outcome::Ready);
        if rustix::process::geteuid().is_root() {
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(folder.path(), open).unwrap();
            let outcome = crate::sys::as_nobody(|| plan(&root, &steps, false)[0].outcome);
            assert_eq!(outcome, Outcome::Ready, "root could put it there");
        }
        let long = vec![b'#'; machine::READ_LIMIT_BYTES + 1];
        std::fs::write(folder.path().join("etc/sysctl.d/90-ktrial.conf"), long).unwrap();
        let looked = plan(&root, &steps, true).remove(0);
        assert_eq!(looked.outcome, Outcome::Refused);
        assert!(looked.message.contains("has more than"), "{}", looked.message);
        std::fs::remove_file(folder.path().join("etc/sysctl.d/90-ktrial.conf")).unwrap();
        std::fs::create_dir(folder.path().join("etc/sysctl.d/90-ktrial.conf")).unwrap();
        assert_eq!(plan(&root, &steps, true)[0].outcome, Outcome::Refused);
    }

    #[test]
    fn a_file_is_already_so_with_its_content_and_its_mode() {
        let (folder, root) = with_swappiness();
        std::fs::create_dir_all(folder.path().join("etc/sysctl.d")).unwrap();
        let file = folder.path().join("etc/sysctl.d/90-ktrial.conf");
        let outcome = |holds: serde_json::Value| {
            let step =
                serde_json::json!({"kind": "file", "path": "/etc/sysctl.d/90-ktrial.conf", "holds": holds});
            let steps = serde_json::json!({"schema": crate::transact::plan::SCHEMA, "steps": [step]});
            plan(&root, &Plan::from_value(steps).unwrap(), true)[0].outcome
        };
        let ten = serde_json::json!({"sysctl.d": [{"path": "/proc/sys/vm/swappiness", "value": "10"}]});
        let put = |content: &str, mode| {
            std::fs::write(&file, content).unwrap();
            let rights = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(&file, rights).unwrap();
        };
        assert_eq!(outcome(serde_json::Value::Null), Outcome::Same);
        put("vm.swappiness = 10\n", 0o644);
        assert_eq!(outcome(ten.clone()), Outcome::Same);
        assert_eq!(outcome(serde_json::Value::Null), Outcome::Ready);
        put("vm.swappiness = 10\n", 0o600);
        assert_eq!(outcome(ten.clone()), Outcome::Ready);
        put("vm.swappiness = 20\n", 0o644);
        assert_eq!(outcome(ten), Outcome::Ready);
    }

    #[test]
    fn a_device_is_described_with_what_it_has() {
        let swap = zram::Swap {
            size_bytes: 4096,
            algorithm: Some("zstd".to_owned()),
            priority: None,
        };
        assert_eq!(
            describe(&swap),
            Bytes::from("size_bytes=4096 algorithm=zstd priority=none\n")
        );
    }
}
