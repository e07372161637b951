// SPDX-License-Identifier: Apache-2.0
//! Descendants that leave the group or the session of a command do not outlive its limit.
//!
//! Apart from the other tests of `exec`, and one at a time: what has left its group belongs to whichever command of the
//! process ends.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ktrial_agent::exec::{run, Exit, Reply, Request};
use ktrial_agent::root::Root;
use serde_json::json;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shell(script: &str, limit_s: f64) -> Reply {
    let request: Request = serde_json::from_value(json!({
        "argv": ["/bin/sh", "-c", script],
        "environment": {"PATH": "/usr/bin:/bin"},
        "directory": "/",
        "limit_s": limit_s,
    }))
    .unwrap();
    run(&Root::new("/"), &request, None).unwrap()
}

/// Numbers of the processes, not ended, whose command line holds the words `sleep` and `mark`.
fn sleepers(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if words == format!("sleep\0{mark}\0").into_bytes() {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found
}

/// Children of this process that have ended and that nobody took away.
fn zombies() -> Vec<String> {
    let own = format!(" Z {} ", std::process::id());
    let stats = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default());
    stats.filter(|stat| stat.contains(&own)).collect()
}

fn mark(test: u32) -> String {
    format!("77{test}.{}", std::process::id())
}

#[test]
fn a_grandchild_that_left_the_group_hangs_nobody_and_is_killed() {
    let _alone = alone();
    let mark = mark(1);
    let begin = Instant::now();
    let reply = shell(&format!("setsid sleep {mark} & echo here"), 0.3);
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    assert_eq!((reply.exit, reply.timed_out), (Exit::Status(0), true));
    assert_eq!(&reply.stdout[..], b"here\n");
    assert_eq!(sleepers(&mark), Vec::<String>::new());
}

#[test]
fn whatever_left_group_and_session_is_killed_at_the_limit() {
    let _alone = alone();
    let mark = mark(2);
    let quiet = ">/dev/null 2>&1";
    let script = format!(
        "setsid sh -c 'setsid sleep {mark} {quiet} & setsid sleep {mark} & sleep {mark}' {quiet} & \
         (setsid sh -c '(sleep {mark} &) ; sleep {mark}' {quiet} &) ; sleep {mark}"
    );
    let waiter = {
        let mark = mark.clone();
        thread::spawn(move || loop {
            let count = sleepers(&mark).len();
            if count == 6 {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        })
    };
    let reply = shell(&script, 2.0);
    waiter.join().unwrap();
    assert_eq!((reply.exit, reply.timed_out), (Exit::Signal(9), true));
    assert_eq!(sleepers(&mark), Vec::<String>::new());
    assert_eq!(zombies(), Vec::<String>::new());
}

#[test]
fn what_a_command_that_ended_well_leaves_behind_goes_on_and_is_no_zombie_later() {
    let _alone = alone();
    let mark = mark(3);
    let reply = shell(&format!("setsid sleep {mark} >/dev/null 2>&1 & true"), 20.0);
    assert_eq!((reply.exit, reply.timed_out), (Exit::Status(0), false));
    let none = Vec::<String>::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while sleepers(&mark) == none {
        assert!(Instant::now() < deadline, "it never began");
        thread::sleep(Duration::from_millis(5));
    }
    let left = sleepers(&mark);
    // A later command's limit does not reach it, where they did not begin in the same tick of the kernel's clock.
    thread::sleep(Duration::from_millis(50));
    assert!(shell("sleep 300", 0.2).timed_out);
    assert_eq!(sleepers(&mark), left);
    assert_eq!(shell(&format!("kill {}", left[0]), 20.0).exit, Exit::Status(0));
    let deadline = Instant::now() + Duration::from_secs(10);
    while sleepers(&mark) != none || zombies() != none {
        assert!(Instant::now() < deadline, "{:?}", zombies());
        shell("true", 20.0);
    }
}
