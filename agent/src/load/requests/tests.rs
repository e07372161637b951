// SPDX-License-Identifier: Apache-2.0
use super::super::{run, Request};
use super::*;
use crate::transact::context::Told;
use serde_json::Value;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::Instant;

/// Answers each request of eight bytes with `reply` after `delay`, on every connection; `stall`
/// delays one of them.
fn serve(path: &Path, reply: &'static [u8], delay: Duration, stall: Option<(u64, Duration)>) {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            thread::spawn(move || {
                let mut request = [0; 8];
                let mut number = 0;
                while stream.read_exact(&mut request).is_ok() {
                    thread::sleep(delay);
                    if let Some((_, time)) = stall.filter(|(which, _)| *which == number) {
                        thread::sleep(time);
                    }
                    number += 1;
                    // In two parts: a reply need not arrive at once.
                    let (begin, end) = reply.split_at(reply.len() / 2);
                    if stream
                        .write_all(begin)
                        .and_then(|()| stream.write_all(end))
                        .is_err()
                    {
                        break;
                    }
                }
            });
        }
    });
}

fn asked(address: &str, more: &Value) -> Result<Value> {
    let mut parameters = json!({
        "address": address, "request": "question", "begins": "+yes", "ends": "end\r\n", "connections": 1,
    });
    for (name, value) in more.as_object().unwrap() {
        parameters[name] = value.clone();
    }
    let limit_s = parameters.as_object_mut().unwrap().shift_remove("limit_s");
    let request =
        json!({"load": "requests", "parameters": parameters, "limit_s": limit_s.unwrap_or(json!(5))});
    run(serde_json::from_value::<Request>(request).unwrap(), Told::Never)
}

struct Server {
    address: String,
    _folder: tempfile::TempDir,
}

fn server(reply: &'static [u8], delay_ms: u64, stall: Option<(u64, u64)>) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let delay = Duration::from_millis(delay_ms);
    serve(
        &path,
        reply,
        delay,
        stall.map(|(which, ms)| (which, Duration::from_millis(ms))),
    );
    Server {
        address: format!("unix:{}", path.display()),
        _folder: folder,
    }
}

fn number(reply: &Value, name: &str) -> u64 {
    reply["results"][name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} of {reply}"))
}

#[test]
fn every_request_is_answered_and_counted() {
    let server = server(b"+yes, the end\r\n", 0, None);
    for connections in [1, 3] {
        let reply = asked(
            &server.address,
            &json!({"connections": connections, "rate_per_s": 500, "duration_s": 0.2}),
        )
        .unwrap();
        assert_eq!(reply["ended"], "done");
        assert_eq!(
            (number(&reply, "planned"), number(&reply, "answered")),
            (100, 100)
        );
        assert_eq!((number(&reply, "left_over"), number(&reply, "count")), (0, 100));
        assert_eq!(number(&reply, "lag_count"), 100);
    }
}

#[test]
fn a_stall_is_charged_to_every_request_that_it_kept_waiting() {
    // 100 requests in a second; number 20 takes 300 ms, during which 29 more become due. A closed
    // loop would see one slow request.
    let server = server(b"+yes, the end\r\n", 0, Some((20, 300)));
    let reply = asked(&server.address, &json!({"rate_per_s": 100, "duration_s": 1})).unwrap();
    assert_eq!(number(&reply, "count"), 100);
    let slow = reply["histogram"].as_object().unwrap().iter();
    let slow: u64 = slow
        .filter(|(ns, _)| ns.parse::<u64>().unwrap() > 50_000_000)
        .map(|(_, count)| count.as_u64().unwrap())
        .sum();
    assert!((20..=40).contains(&slow), "{slow} requests took more than 50 ms");
}

#[test]
fn a_server_that_cannot_keep_up_leaves_requests_over() {
    let server = server(b"+yes, the end\r\n", 20, None);
    let reply = asked(&server.address, &json!({"rate_per_s": 400, "duration_s": 0.5})).unwrap();
    assert_eq!(reply["ended"], "done");
    assert_eq!(number(&reply, "count"), 200);
    assert_eq!(number(&reply, "answered") + number(&reply, "left_over"), 200);
    // 50 per second are answered, in half a second plus the second of grace.
    assert!((20..=80).contains(&number(&reply, "answered")), "{reply}");
    assert!(number(&reply, "max_ns") > 900_000_000);
}

#[test]
fn a_server_that_never_answers_is_waited_for_in_vain() {
    let server = server(b"+yes, the end\r\n", 60_000, None);
    let began = Instant::now();
    let reply = asked(&server.address, &json!({"rate_per_s": 100, "duration_s": 0.1})).unwrap();
    assert_eq!((number(&reply, "answered"), number(&reply, "left_over")), (0, 10));
    assert!(began.elapsed() < Duration::from_secs(4));
}

#[test]
fn replies_that_are_not_as_told_fail_the_load() {
    for (reply, said) in [
        (&b"-error: no\r\n"[..], "is not as expected: \\\"-err"),
        (&b"+yes"[..], ""),
    ] {
        let server = server(reply, 0, None);
        let answer = asked(&server.address, &json!({"rate_per_s": 100, "duration_s": 0.1}));
        if said.is_empty() {
            // The reply never ends, so no request was answered.
            assert_eq!(number(&answer.unwrap(), "answered"), 0);
        } else {
            let message = format!("{:?}", answer.unwrap_err().message);
            assert!(message.contains(said), "{message}");
        }
    }
}

#[test]
fn a_server_that_hangs_up_fails_the_load() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 8]).unwrap();
    });
    let error = asked(&format!("unix:{}", path.display()), &json!({"duration_s": 0.1})).unwrap_err();
    assert!(error.message.contains("is incomplete"), "{error}");
    let error = asked("unix:/nowhere/socket", &json!({})).unwrap_err();
    assert!(
        error.message.contains("cannot connect to unix:/nowhere/socket"),
        "{error}"
    );
}

#[test]
fn a_socket_may_lie_deeper_than_the_kernel_takes_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let near = folder.path().join("socket");
    serve(&near, b"+yes, the end\r\n", Duration::ZERO, None);
    std::fs::rename(&near, deep.join("socket")).unwrap();
    let address = format!("unix:{}/socket", deep.display());
    let reply = asked(&address, &json!({"rate_per_s": 100, "duration_s": 0.1})).unwrap();
    assert_eq!(number(&reply, "answered"), 10);
}

#[test]
fn the_limit_ends_it_early() {
    let server = server(b"+yes, the end\r\n", 0, None);
    let began = Instant::now();
    let reply = asked(
        &server.address,
        &json!({"rate_per_s": 1, "duration_s": 60, "limit_s": 0.1}),
    )
    .unwrap();
    assert_eq!(reply["ended"], "limit");
    assert!(number(&reply, "count") < 60);
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let cases = [
        ("socket", json!({}), "address"),
        ("unix:relative", json!({}), "address"),
        ("tcp:localhost", json!({}), "address"),
        ("unix:/socket", json!({"request": ""}), "`request`"),
        ("unix:/socket", json!({"ends": ""}), "`ends`"),
        ("unix:/socket", json!({"connections": 0}), "connections"),
        (
            "unix:/socket",
            json!({"connections": 11, "rate_per_s": 10}),
            "connections",
        ),
        (
            "unix:/socket",
            json!({"rate_per_s": 1_000_000, "duration_s": 60}),
            "60000000 requests",
        ),
    ];
    for (address, more, said) in cases {
        let error = asked(address, &more).unwrap_err();
        assert_eq!(error.kind, Kind::BadRequest);
        assert!(error.message.contains(said), "{error}");
    }
}
