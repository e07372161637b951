// SPDX-License-Identifier: Apache-2.0
//! Networks of the agent's own: the load `tcp`, and commands with a server at the other end.

use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The replies to requests, all sent at once; the input ends so long `after` them, or when all were answered.
fn replies(requests: &[Value], after: Duration) -> Vec<Value> {
    let mut process = Command::new(env!("CARGO_BIN_EXE_ktrial-agent"))
        .args(["serve", "--role", "user"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take();
    for request in requests {
        let mut request = request.clone();
        request["id"] = json!(1);
        writeln!(input.as_mut().unwrap(), "{request}").unwrap();
    }
    if after != Duration::MAX {
        std::thread::sleep(after);
        drop(input.take());
    }
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let found = lines.take(requests.len());
    let found = found
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    drop(input);
    assert!(process.wait().unwrap().success());
    found
}

fn load(parameters: &Value) -> Value {
    let request = json!({"do": "load", "load": "tcp", "parameters": parameters, "limit_s": 30});
    replies(&[request], Duration::MAX).remove(0)
}

fn exec(argv: &[&str], more: &Value) -> Value {
    let mut request = json!({"do": "exec", "argv": argv, "environment": {}, "directory": "/", "limit_s": 20});
    request
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    replies(&[request], Duration::ZERO).remove(0)["ok"].take()
}

#[test]
fn a_stream_is_counted_within_its_window() {
    let reply = load(&json!({"connections": 2, "duration_s": 0.4, "ramp_s": 0.2}));
    let results = &reply["ok"]["results"];
    assert_eq!(reply["ok"]["ended"], "done", "{reply}");
    assert!(results["received_bytes"].as_u64().unwrap() > 1_000_000, "{reply}");
    assert!(results["ramp_received_bytes"].as_u64().unwrap() > 0, "{reply}");
    let window_ns = results["window_ns"].as_u64().unwrap();
    assert!((390_000_000..1_500_000_000).contains(&window_ns), "{reply}");
    assert!(results["retransmits"].is_u64());
    let machine = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    assert_eq!(results["network"]["congestion"], machine.trim());
    assert_eq!(results["network"]["wire"], Value::Null);
    assert_eq!(results["network"]["settings_not_carried"], json!([]));
}

#[test]
fn every_request_is_counted_from_its_moment() {
    let open = json!({"mode": "request-response", "rate_per_s": 500, "connections": 3, "duration_s": 0.4, "ramp_s": 0.1001});
    let reply = load(&open);
    let results = &reply["ok"]["results"];
    // 250 of 0.5001 s, without the 50 of the ramp.
    assert_eq!(results["planned"], 600, "{reply}");
    assert_eq!(results["count"], 600);
    assert!(results["p50_ns"].as_u64() <= results["p99_ns"].as_u64());
    let more = "more than can be answered shows as lateness";
    let flood = json!({"mode": "request-response", "rate_per_s": 200_000, "duration_s": 0.2, "ramp_s": 0, "request_bytes": 8192});
    let reply = load(&flood);
    assert_eq!(reply["ok"]["results"]["count"], 40_000, "{more}: {reply}");
    let closed = json!({"mode": "request-response", "rate_per_s": 0, "duration_s": 0.2, "ramp_s": 0.1});
    let reply = load(&closed);
    assert_eq!(reply["ok"]["results"]["planned"], Value::Null);
    assert!(reply["ok"]["results"]["count"].as_u64().unwrap() > 10, "{reply}");
}

#[test]
fn what_is_asked_for_is_in_force_or_refused() {
    let asked = json!({"congestion": "reno", "qdisc": "pfifo", "duration_s": 0.1, "ramp_s": 0});
    let network = load(&asked)["ok"]["results"]["network"].take();
    assert_eq!(network["congestion"], "reno");
    assert_eq!(network["client_qdisc"]["kind"], "pfifo");
    assert_eq!(network["server_qdisc"]["kind"], "pfifo");
    for parameters in [json!({"congestion": "nobodys"}), json!({"qdisc": "nobodys"})] {
        let error = load(&parameters)["error"].take();
        assert_eq!(error["kind"], "io");
        assert!(error["message"].as_str().unwrap().contains("nobodys"), "{error}");
        assert!(error["hint"].as_str().unwrap().contains("modprobe"), "{error}");
    }
    for parameters in [
        json!({"loss_ppm": 600_000}),
        json!({"connections": 65}),
        json!({"ramp_s": -1}),
    ] {
        assert_eq!(load(&parameters)["error"]["kind"], "bad-request", "{parameters}");
    }
}

#[test]
fn a_wire_needs_netem() {
    let reply = load(&json!({"delay_us": 2000, "duration_s": 0.3, "ramp_s": 0.1}));
    if let Some(message) = reply["error"]["message"].as_str() {
        assert!(message.contains("sch_netem"), "{reply}");
        assert!(
            reply["error"]["hint"].as_str().unwrap().contains("delay_us"),
            "{reply}"
        );
    } else {
        let wire = &reply["ok"]["results"]["network"]["wire"];
        assert_eq!(wire["to_server"]["options"]["delay_ns"], 1_000_000, "{reply}");
    }
}

#[test]
fn the_end_of_the_input_ends_it() {
    let began = Instant::now();
    for mode in ["stream", "request-response"] {
        let request = json!({"do": "load", "load": "tcp", "parameters": {"mode": mode, "duration_s": 600}, "limit_s": 600});
        let reply = replies(&[request], Duration::from_millis(500)).remove(0);
        assert_eq!(reply["ok"]["ended"], "told", "{reply}");
    }
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_command_sees_its_own_network_alone() {
    let reply = exec(&["/bin/cat", "/proc/net/dev"], &json!({"network": {}}));
    assert_eq!(reply["exit"]["status"], 0, "{reply}");
    let devices: Vec<&str> = reply["stdout"]
        .as_str()
        .unwrap()
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim())
        .collect();
    assert_eq!(devices.len(), 2, "{devices:?}");
    assert!(devices.contains(&"lo") && devices.contains(&"ktrial"));
    assert!(reply["network"]["kernel"].is_string());
    assert!(exec(&["/bin/true"], &json!({})).get("network").is_none());
}

#[test]
fn a_server_stands_at_the_other_end_and_goes_with_the_command() {
    let server = json!({"argv": ["/usr/bin/iperf3", "-s", "-p", "5999"], "port": 5999});
    let client = [
        "/usr/bin/iperf3",
        "-c",
        "198.51.100.1",
        "-p",
        "5999",
        "-n",
        "1M",
        "-J",
    ];
    let reply = exec(&client, &json!({"network": {}, "server": server}));
    assert_eq!(reply["exit"]["status"], 0, "{reply}");
    assert!(
        reply["stdout"].as_str().unwrap().contains("sum_received"),
        "{reply}"
    );
    let running = std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.ends_with(b"-s\0-p\x005999\0")
    });
    assert!(!running, "the server is still there");
}

#[test]
fn a_command_without_its_network_or_server_is_not_started() {
    let failed = |argv: &[&str], more: Value| {
        let reply = exec(argv, &more);
        reply["exit"]["failed"]
            .as_str()
            .map_or_else(|| panic!("{reply}"), ToOwned::to_owned)
    };
    let server = json!({"argv": ["/bin/false"], "port": 5999});
    let why = failed(&["/bin/true"], json!({"network": {}, "server": server}));
    assert!(
        why.contains("/bin/false") && why.contains("before it listened"),
        "{why}"
    );
    let why = failed(&["/usr/bin/nothing"], json!({"network": {}}));
    assert!(why.starts_with("cannot start /usr/bin/nothing"), "{why}");
    let why = failed(&["/bin/true"], json!({"network": {"qdisc": "nobodys"}}));
    assert!(why.contains("sch_nobodys") && why.contains("modprobe"), "{why}");
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let cases = [
        json!({"server": {"argv": ["/bin/true"], "port": 5}}),
        json!({"network": {}, "server": {"argv": ["true"], "port": 5}}),
        json!({"network": {}, "server": {"argv": ["/bin/true"], "port": 0}}),
        json!({"network": {"limit_packets": 0}}),
        json!({"network": {"colour": "red"}}),
    ];
    for more in cases {
        let mut request =
            json!({"do": "exec", "argv": ["/bin/true"], "environment": {}, "directory": "/", "limit_s": 5});
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let reply = replies(&[request], Duration::ZERO).remove(0);
        assert_eq!(reply["error"]["kind"], "bad-request", "{more}");
    }
}
