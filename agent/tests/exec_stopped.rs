// SPDX-License-Identifier: Apache-2.0
//! Commands that start stopped, over the wire: the head has their number, and lets them go with its next request.

use serde_json::{json, Value};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A running agent of the user's role.
struct Session {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_ktrial-agent"))
            .args(["serve", "--role", "user"])
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
        let lines: Vec<String> = requests.iter().map(|request| format!("{request}\n")).collect();
        let input = self.input.as_mut().unwrap();
        input.write_all(lines.concat().as_bytes()).unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Asks for a command that starts stopped: its number.
    fn begin(&mut self, argv: &[&str], more: &Value) -> i64 {
        self.send(&[exec(argv, more)]);
        let told = self.receive();
        assert_eq!((&told["id"], &told["begun"]), (&json!(1), &json!(true)), "{told}");
        told["pid"].as_i64().unwrap()
    }

    /// What came of it.
    fn reply(&mut self) -> Value {
        let mut reply = self.receive();
        assert_eq!(reply["id"], 1, "{reply}");
        reply["ok"].take()
    }

    /// Ends the input; the agent must end well.
    fn end(mut self) {
        drop(self.input.take());
        assert!(self.process.wait().unwrap().success());
    }
}

fn exec(argv: &[&str], more: &Value) -> Value {
    let mut whole = json!({
        "id": 1, "do": "exec", "argv": argv, "environment": {"PATH": "/usr/bin:/bin"}, "directory": "/",
        "limit_s": 60, "stopped": true,
    });
    let fields = whole.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    whole
}

fn next() -> Value {
    json!({"id": 2, "do": "hello", "protocol": 1, "head": "test"})
}

/// The state's letter; None when the process is gone.
fn state(process: i64) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn assert_ends(process: i64) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while state(process).is_some_and(|state| state != 'Z') {
        assert!(Instant::now() < deadline, "still there: {:?}", state(process));
        std::thread::yield_now();
    }
}

#[test]
fn it_waits_with_its_number_and_goes_with_the_next_request() {
    let mut session = Session::start();
    let process = session.begin(&["/bin/sh", "-c", "echo $$; exit 3"], &json!({}));
    assert_eq!(state(process), Some('T'));
    session.send(&[next()]);
    let reply = session.reply();
    assert_eq!(reply["exit"], json!({"status": 3}));
    assert_eq!(reply["stdout"], json!(format!("{process}\n")));
    assert_eq!(
        (&reply["hung_up"], &reply["timed_out"]),
        (&json!(false), &json!(false))
    );
    let after = session.receive();
    assert_eq!((&after["id"], &after["ok"]["role"]), (&json!(2), &json!("user")));
    session.end();
}

#[test]
fn a_next_request_that_is_there_already_lets_it_go() {
    let mut session = Session::start();
    session.send(&[exec(&["/bin/echo", "went"], &json!({})), next()]);
    assert_eq!(session.receive()["begun"], true);
    assert_eq!(session.reply()["stdout"], "went\n");
    assert_eq!(session.receive()["id"], 2);
    session.end();
}

#[test]
fn an_end_of_the_input_ends_it_before_its_first_instruction() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let mut session = Session::start();
    let process = session.begin(&["/bin/touch", mark.to_str().unwrap()], &json!({}));
    drop(session.input.take());
    let reply = session.reply();
    assert_eq!(
        (&reply["exit"], &reply["hung_up"]),
        (&json!({"signal": 9}), &json!(true))
    );
    assert!(!mark.exists() && state(process).is_none());
    session.end();
}

#[test]
fn a_limit_that_passes_while_it_is_stopped_kills_it() {
    let mut session = Session::start();
    let process = session.begin(&["/bin/true"], &json!({"limit_s": 0.2}));
    let reply = session.reply();
    assert_eq!(
        (&reply["exit"], &reply["timed_out"]),
        (&json!({"signal": 9}), &json!(true))
    );
    assert!(reply["wall_ns"].as_u64().unwrap() >= 200_000_000, "{reply}");
    assert_eq!(state(process), None);
    session.end();
}

#[test]
fn one_that_somebody_else_kills_is_answered() {
    let mut session = Session::start();
    let process = session.begin(&["/bin/true"], &json!({}));
    let number = rustix::process::Pid::from_raw(process.try_into().unwrap()).unwrap();
    rustix::process::kill_process(number, rustix::process::Signal::KILL).unwrap();
    assert_eq!(session.reply()["exit"], json!({"signal": 9}));
    session.end();
}

#[test]
fn it_does_not_outlive_an_agent_that_is_killed_meanwhile() {
    let mut session = Session::start();
    let process = session.begin(&["/bin/sleep", "600"], &json!({}));
    session.process.kill().unwrap();
    session.process.wait().unwrap();
    assert_ends(process);
}

#[test]
fn it_is_started_with_all_that_was_asked_for() {
    let mut session = Session::start();
    let script =
        "printf '%s|' \"$@\"; echo $ONE; pwd; grep -E '^(SigIgn|Cpus_allowed_list)' /proc/$$/status; cat";
    let argv = ["/bin/sh", "-c", script, "sh", "--", "-h", "", "--report"];
    let cpu: u32 = {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let list = status.split("Cpus_allowed_list:\t").nth(1).unwrap();
        list.split([',', '-', '\n']).next().unwrap().parse().unwrap()
    };
    let environment = json!({"PATH": "/usr/bin:/bin", "ONE": "1"});
    let more = json!({"environment": environment, "directory": "/usr", "cpus": [cpu], "stdin": "read"});
    session.begin(&argv, &more);
    session.send(&[next()]);
    let told = session.reply()["stdout"].as_str().unwrap().to_owned();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[..2], ["--|-h||--report|1", "/usr"], "{told}");
    // Rust programs ignore SIGPIPE; their children must not.
    let ignored = u64::from_str_radix(lines[2].rsplit('\t').next().unwrap(), 16).unwrap();
    assert_eq!(ignored >> 12 & 1, 0);
    assert_eq!(
        lines[3..],
        [format!("Cpus_allowed_list:\t{cpu}").as_str(), "read"]
    );
    session.end();
}

#[test]
fn once_it_goes_it_ends_with_the_input_as_others_do() {
    let mut session = Session::start();
    let more = json!({"while_connected": true});
    let process = session.begin(&["/bin/sleep", "600"], &more);
    session.send(&[next()]);
    while fs::read_to_string(format!("/proc/{process}/comm")).unwrap() != "sleep\n" {
        std::thread::yield_now();
    }
    drop(session.input.take());
    let reply = session.reply();
    assert_eq!(
        (&reply["exit"], &reply["hung_up"]),
        (&json!({"signal": 15}), &json!(true))
    );
}

#[test]
fn what_cannot_be_started_says_why_as_without() {
    let folder = tempfile::tempdir().unwrap();
    let lost = folder.path().join("lost");
    fs::write(&lost, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&lost, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Whether it is known before the command would wait.
    let cases = [
        ("/no/such/program", true),
        ("/etc/passwd", true),
        ("/", false),
        (lost.to_str().unwrap(), false),
    ];
    for (program, at_once) in cases {
        let mut session = Session::start();
        session.send(&[exec(&[program], &json!({})), next()]);
        let first = session.receive();
        assert_eq!(first.get("begun").is_none(), at_once, "{first}");
        let reply = if at_once {
            first["ok"].clone()
        } else {
            session.reply()
        };
        assert_eq!(session.receive()["id"], 2);
        session.send(&[exec(&[program], &json!({"stopped": false}))]);
        assert_eq!(reply["exit"], session.reply()["exit"], "{program}");
        assert!(
            reply["exit"]["failed"]
                .as_str()
                .unwrap()
                .starts_with("cannot start"),
            "{reply}"
        );
        assert!(reply["wall_ns"].is_null(), "{reply}");
        session.end();
    }
}

#[test]
fn where_it_cannot_wait_it_is_refused() {
    let mut session = Session::start();
    session.send(&[exec(&["/bin/true"], &json!({"network": {}}))]);
    let error = session.receive()["error"].take();
    assert_eq!(error["kind"], "bad-request");
    assert!(
        error["message"].as_str().unwrap().starts_with("stopped"),
        "{error}"
    );
    session.end();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("requests");
    fs::write(&file, format!("{}\n", exec(&["/bin/true"], &json!({})))).unwrap();
    let told = Command::new(env!("CARGO_BIN_EXE_ktrial-agent"))
        .args(["batch", "--role", "user"])
        .arg(&file)
        .output()
        .unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(
        told.contains("only a session can continue a stopped command"),
        "{told}"
    );
}
