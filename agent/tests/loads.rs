// SPDX-License-Identifier: Apache-2.0
//! The agent's own loads over the wire.

use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A running agent.
struct Session {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn start(role: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_ktrial-agent"))
            .args(["serve", "--role", role])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
        }
    }

    /// Writes requests at once.
    fn send(&mut self, requests: &[Value]) {
        let lines: Vec<String> = requests
            .iter()
            .map(|request| {
                let mut request = request.clone();
                request["id"] = json!(1);
                format!("{request}\n")
            })
            .collect();
        self.input
            .as_mut()
            .unwrap()
            .write_all(lines.concat().as_bytes())
            .unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Ends the input; what the agent still has to say.
    fn hang_up(&mut self) -> Value {
        drop(self.input.take());
        self.receive()
    }

    /// Ends the input; the agent must end well, with nothing more to say.
    fn end(mut self) {
        drop(self.input.take());
        let mut rest = String::new();
        assert_eq!(self.output.read_line(&mut rest).unwrap(), 0, "{rest}");
        assert!(self.process.wait().unwrap().success());
    }
}

fn load(load: &str, parameters: &Value, limit_s: u32) -> Value {
    json!({"do": "load", "load": load, "parameters": parameters, "limit_s": limit_s})
}

/// A request that is answered at once.
fn short() -> Value {
    json!({"do": "read", "paths": []})
}

#[test]
fn every_load_is_answered_in_one_session() {
    let mut session = Session::start("user");
    let cases = [
        ("wakeup", json!({"duration_s": 0.1})),
        ("pagefault", json!({"duration_s": 0.05, "bytes": 1 << 20})),
        ("contextswitch", json!({"duration_s": 0.05})),
        ("messaging", json!({"groups": 1, "messages": 5})),
        (
            "messaging",
            json!({"groups": 1, "messages": 5, "tasks": "process"}),
        ),
        ("memcpy", json!({"duration_s": 0.05, "bytes": 4096})),
        ("lock", json!({"duration_s": 0.05, "yields": 10})),
        ("fileio", json!({"duration_s": 0.05, "bytes": 1 << 20})),
        (
            "pressure",
            json!({"duration_s": 0.1, "file_bytes": 1 << 20, "burst_bytes": 1 << 20, "reserve_bytes": 64 << 20}),
        ),
    ];
    for (name, parameters) in cases {
        session.send(&[load(name, &parameters, 20)]);
        let reply = session.receive()["ok"].take();
        assert_eq!(reply["load"], name);
        assert_eq!(reply["ended"], "done", "{reply}");
        for (parameter, value) in parameters.as_object().unwrap() {
            assert_eq!(reply["parameters"][parameter], *value, "{name}");
        }
        let elapsed_ns = reply["results"]["elapsed_ns"].as_u64().unwrap();
        assert!(elapsed_ns <= reply["wall_ns"].as_u64().unwrap(), "{reply}");
    }
    session.end();
}

#[test]
fn spinning_ends_with_the_next_request() {
    let began = Instant::now();
    let mut session = Session::start("user");
    // The second request is there before the first one is answered.
    session.send(&[load("spin", &json!({}), 600), short()]);
    assert_eq!(session.receive()["ok"]["ended"], "told");
    assert!(session.receive()["ok"].is_object());
    session.send(&[load("spin", &json!({"threads": 1}), 600)]);
    std::thread::sleep(Duration::from_millis(500));
    session.send(&[short()]);
    let told = session.receive();
    assert_eq!(told["ok"]["ended"], "told");
    let slices = told["ok"]["results"]["slices"].as_array().unwrap().len();
    assert!(slices >= 1, "{told}");
    assert!(session.receive()["ok"].is_object());
    assert!(began.elapsed() < Duration::from_secs(60));
    session.end();
}

#[test]
fn every_load_ends_with_the_input_and_is_answered() {
    let loads = [
        "wakeup",
        "spin",
        "pagefault",
        "contextswitch",
        "memcpy",
        "lock",
        "fileio",
    ];
    for name in loads {
        let mut session = Session::start("user");
        let parameters = if name == "spin" {
            json!({})
        } else {
            json!({"duration_s": 600})
        };
        session.send(&[load(name, &parameters, 600)]);
        let told = session.hang_up();
        assert_eq!(told["ok"]["ended"], "told", "{name}: {told}");
        session.end();
    }
}

#[test]
fn a_request_that_waits_ends_no_other_load() {
    let mut session = Session::start("user");
    session.send(&[load("contextswitch", &json!({"duration_s": 0.2}), 20), short()]);
    let reply = session.receive();
    assert_eq!(reply["ok"]["ended"], "done", "{reply}");
    assert!(session.receive()["ok"].is_object());
    session.end();
}

fn sample(limit_s: f64) -> Value {
    json!({"do": "sample", "limit_s": limit_s, "period_s": 0.1, "sources": ["uptime", "cpu"]})
}

#[test]
fn sampling_ends_with_the_next_request_and_with_the_input() {
    for role in ["user", "root"] {
        let mut session = Session::start(role);
        session.send(&[sample(600.0)]);
        std::thread::sleep(Duration::from_millis(500));
        session.send(&[short()]);
        let told = session.receive()["ok"].take();
        assert_eq!(told["ended"], "told", "{told}");
        let times = told["times_ns"].as_array().unwrap().len();
        assert!((3..=7).contains(&times), "{times}");
        assert_eq!(told["columns"]["cpu.user"].as_array().unwrap().len(), times);
        assert!(session.receive()["ok"].is_object());
        session.send(&[sample(0.2)]);
        assert_eq!(session.receive()["ok"]["ended"], "limit");
        session.send(&[sample(600.0)]);
        assert_eq!(session.hang_up()["ok"]["ended"], "told");
        session.end();
    }
}

#[test]
fn a_head_that_asks_is_told_when_the_first_sample_was_taken() {
    let mut session = Session::start("user");
    let mut asking = sample(600.0);
    asking["tell_begun"] = json!(true);
    session.send(&[asking]);
    let begun = session.receive();
    assert_eq!(begun["begun"], true, "{begun}");
    let heard_ns = monotonic_ns();
    session.send(&[short()]);
    let told = session.receive();
    assert_eq!(told["id"], begun["id"]);
    let first_ns = told["ok"]["times_ns"][0].as_u64().unwrap();
    assert!(first_ns < heard_ns, "{first_ns} {heard_ns}");
    assert!(session.receive()["ok"].is_object());
    session.end();
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap()
}

/// The soft and the hard limit of open files of a process.
fn open_files(process: u32) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let mut words = line.split_whitespace().skip(3).map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

#[test]
fn the_limit_of_open_files_is_lifted_while_sampling_alone() {
    let mut session = Session::start("user");
    session.send(&[short()]);
    session.receive();
    let (soft, hard) = open_files(session.process.id());
    session.send(&[sample(600.0)]);
    let began = Instant::now();
    while open_files(session.process.id()).0 != hard {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "still {soft} of {hard}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    session.send(&[short()]);
    session.receive();
    session.receive();
    assert_eq!(open_files(session.process.id()), (soft, hard));
    session.end();
}

/// Process numbers of all children of a process.
fn children(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let path = task.unwrap().path().join("children");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let text: String = tasks.map(of).collect();
    text.split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect()
}

#[test]
fn processes_of_a_load_end_with_it_and_with_a_killed_agent() {
    let parameters = json!({"tasks": "process", "groups": 1, "messages": 1_000_000});
    for killed in [false, true] {
        let mut session = Session::start("user");
        session.send(&[load("messaging", &parameters, 600)]);
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut forked = Vec::new();
        while forked.len() < 40 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
            forked = children(session.process.id());
        }
        assert_eq!(forked.len(), 40);
        if killed {
            session.process.kill().unwrap();
            session.process.wait().unwrap();
        } else {
            let told = session.hang_up();
            assert_eq!(told["ok"]["ended"], "told", "{told}");
            assert_eq!(told["ok"]["results"]["messages"], Value::Null);
            session.end();
        }
        let lives = |number: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
            status.contains("(ktrial-agent)") && !status.contains(") Z ")
        };
        while forked.iter().any(lives) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!forked.iter().any(lives), "{forked:?}");
    }
}

#[test]
fn a_session_of_root_runs_no_load_but_its_own() {
    for (role, name) in [("root", "spin"), ("user", "zram")] {
        let mut session = Session::start(role);
        session.send(&[load(name, &json!({}), 1)]);
        assert_eq!(session.receive()["error"]["kind"], "forbidden", "{role} {name}");
        session.end();
    }
}
