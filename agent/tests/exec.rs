// SPDX-License-Identifier: Apache-2.0
//! Runs real commands through the `exec` request.

use std::time::{Duration, Instant};

use ktrial_agent::error::Kind;
use ktrial_agent::exec::{run, Exit, Reply, Request};
use ktrial_agent::root::Root;
use serde_json::{json, Value};

/// A request as it comes over the wire, with some fields of its own.
fn request(argv: &[&str], more: &Value) -> Request {
    let mut whole =
        json!({"argv": argv, "environment": {"PATH": "/usr/bin:/bin"}, "directory": "/", "limit_s": 20});
    let object = whole.as_object_mut().unwrap();
    object.extend(more.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

fn shell(script: &str, more: &Value) -> Reply {
    run(&Root::new("/"), &request(&["/bin/sh", "-c", script], more), None).unwrap()
}

fn refusal(request: &Request) -> String {
    let error = run(&Root::new("/"), request, None).unwrap_err();
    assert_eq!(error.kind, Kind::BadRequest);
    error.message
}

fn failure(reply: Reply) -> String {
    assert_eq!((reply.wall_ns, reply.rusage), (None, None));
    match reply.exit {
        Exit::Failed(why) => why,
        other => panic!("started: {other:?}"),
    }
}

#[test]
fn status_and_streams_are_kept_apart() {
    let reply = shell("echo out; echo err >&2; exit 3", &json!({}));
    assert_eq!(reply.exit, Exit::Status(3));
    assert_eq!(
        (&reply.stdout[..], &reply.stderr[..]),
        (&b"out\n"[..], &b"err\n"[..])
    );
    assert_eq!((reply.stdout_total_bytes, reply.stderr_total_bytes), (4, 4));
    assert!(!reply.timed_out);
}

#[test]
fn the_reply_is_written_as_the_format_says() {
    let reply = serde_json::to_value(shell("printf '\\377'; kill -9 $$", &json!({}))).unwrap();
    assert_eq!(reply["exit"], json!({"signal": 9}));
    assert_eq!(reply["stdout"], json!({"base64": "/w=="}));
    assert_eq!(reply["stderr"], json!(""));
    let mut usage: Vec<&str> = reply["rusage"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    usage.sort_unstable();
    let mut wanted = [
        "user_us",
        "system_us",
        "max_rss_bytes",
        "minor_faults",
        "major_faults",
        "voluntary_switches",
        "involuntary_switches",
    ];
    wanted.sort_unstable();
    assert_eq!(usage, wanted);
}

#[test]
fn unknown_fields_are_refused() {
    let whole =
        json!({"argv": ["/bin/true"], "environment": {}, "directory": "/", "limit_s": 1, "shell": true});
    assert!(serde_json::from_value::<Request>(whole)
        .unwrap_err()
        .to_string()
        .contains("shell"));
}

#[test]
fn the_environment_is_complete_and_the_directory_is_set() {
    let reply = shell(
        "/usr/bin/env; pwd",
        &json!({"environment": {"ONE": "1"}, "directory": "/usr"}),
    );
    let text = String::from_utf8(reply.stdout.0).unwrap();
    assert!(text.contains("ONE=1\n") && text.ends_with("/usr\n"), "{text}");
    assert!(!text.contains("HOME=") && !text.contains("CARGO"), "{text}");
}

#[test]
fn the_command_leads_its_own_group_with_default_signals() {
    let reply = shell(
        "set -- $(cat /proc/$$/stat); echo $1 $5; grep SigIgn /proc/$$/status",
        &json!({}),
    );
    let text = String::from_utf8(reply.stdout.0).unwrap();
    let (numbers, ignored) = text.split_once('\n').unwrap();
    let (process, group) = numbers.split_once(' ').unwrap();
    assert_eq!(process, group);
    // Rust programs ignore SIGPIPE (13); their children must not.
    let mask = u64::from_str_radix(ignored.trim().rsplit('\t').next().unwrap(), 16).unwrap();
    assert_eq!(mask >> 12 & 1, 0);
}

#[test]
fn at_the_limit_the_whole_group_is_killed() {
    let begin = Instant::now();
    let reply = shell("sleep 300 & echo $!; sleep 300", &json!({"limit_s": 0.3}));
    assert!(begin.elapsed() < Duration::from_secs(4));
    assert_eq!(reply.exit, Exit::Signal(9));
    assert!(reply.timed_out);
    assert!(reply.wall_ns.unwrap() >= 300_000_000);
    assert_is_gone(&String::from_utf8(reply.stdout.0).unwrap());
}

/// The process has ended, or is about to: its new parent may be slow to reap it.
fn assert_is_gone(process: &str) {
    let path = format!("/proc/{}/stat", process.trim());
    let deadline = Instant::now() + Duration::from_secs(5);
    while let Ok(stat) = std::fs::read_to_string(&path) {
        if stat.contains(") Z ") || stat.contains(") X ") {
            return;
        }
        assert!(Instant::now() < deadline, "still there: {stat}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_grandchild_that_holds_the_output_is_killed_at_the_limit() {
    let reply = shell("sleep 300 & echo $!; exit 7", &json!({"limit_s": 1}));
    assert_eq!(reply.exit, Exit::Status(7));
    assert!(reply.timed_out);
    assert!(reply.wall_ns.unwrap() < 900_000_000, "{:?}", reply.wall_ns);
    assert_is_gone(&String::from_utf8(reply.stdout.0).unwrap());
}

#[test]
fn output_of_grandchildren_is_read_to_its_end() {
    let reply = shell("(sleep 1; echo late) & echo early", &json!({}));
    assert_eq!(&reply.stdout[..], b"early\nlate\n");
    assert!(!reply.timed_out);
    assert!(
        reply.wall_ns.unwrap() < 200_000_000,
        "the command itself had ended: {:?}",
        reply.wall_ns
    );
}

#[test]
fn a_command_that_ignores_the_polite_signals_ends_too() {
    let reply = shell(
        "trap '' TERM INT HUP; while :; do sleep 0.05; done",
        &json!({"limit_s": 0.2}),
    );
    assert_eq!((reply.exit, reply.timed_out), (Exit::Signal(9), true));
}

#[test]
fn a_hundred_megabytes_are_counted_and_cut() {
    let script = "head -c 100000000 /dev/zero; head -c 5000 /dev/zero >&2";
    let reply = shell(script, &json!({"capture_bytes": 1000}));
    assert_eq!(reply.exit, Exit::Status(0));
    assert_eq!(
        (reply.stdout.len(), reply.stdout_total_bytes),
        (1000, 100_000_000)
    );
    assert_eq!((reply.stderr.len(), reply.stderr_total_bytes), (1000, 5000));
}

#[test]
fn endless_output_ends_at_the_limit() {
    let reply = shell("yes & yes >&2", &json!({"limit_s": 0.3}));
    assert_eq!((reply.exit, reply.timed_out), (Exit::Signal(9), true));
    assert_eq!(reply.stdout.len(), 1 << 20);
    assert!(reply.stdout_total_bytes > 1 << 20);
}

#[test]
fn input_goes_both_ways_at_once() {
    let input = "x".repeat(3_000_000);
    let reply = shell("cat", &json!({"stdin": input, "capture_bytes": 4_000_000}));
    assert_eq!(&reply.stdout[..], input.as_bytes());
}

#[test]
fn a_command_that_does_not_read_its_input_is_no_failure() {
    let reply = shell(
        "exec <&-; sleep 0.1; echo done",
        &json!({"stdin": "x".repeat(3_000_000)}),
    );
    assert_eq!((reply.exit, &reply.stdout[..]), (Exit::Status(0), &b"done\n"[..]));
}

#[test]
fn without_input_the_command_reads_an_end() {
    assert_eq!(shell("cat; echo end", &json!({})).stdout[..], b"end\n"[..]);
    assert_eq!(
        shell("cat; echo end", &json!({"stdin": ""})).stdout[..],
        b"end\n"[..]
    );
}

#[test]
fn usage_is_of_this_command_alone() {
    let busy = shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done", &json!({}))
        .rusage
        .unwrap();
    let idle = shell("sleep 0.05", &json!({})).rusage.unwrap();
    assert!(busy.user_us + busy.system_us > 10_000, "{busy:?}");
    assert!(
        idle.user_us + idle.system_us < busy.user_us + busy.system_us,
        "{idle:?} {busy:?}"
    );
    assert!(
        idle.max_rss_bytes > 100_000 && idle.max_rss_bytes < 1 << 30,
        "{idle:?}"
    );
    assert!(idle.voluntary_switches > 0);
}

#[test]
fn what_cannot_be_started_says_why() {
    let start =
        |argv: &[&str], more: Value| failure(run(&Root::new("/"), &request(argv, &more), None).unwrap());
    assert!(
        start(&["/no/such/program"], json!({})).starts_with("cannot start /no/such/program: No such file")
    );
    assert!(start(&["/etc/passwd"], json!({})).contains("Permission denied"));
    assert!(start(&["/"], json!({})).contains("Permission denied"));
    assert_eq!(
        start(&["/bin/true"], json!({"directory": "/no/such"})),
        "/no/such: no such directory"
    );
    let group = start(&["/bin/true"], json!({"cgroup": "/no/such/group"}));
    assert!(
        group.starts_with("cannot enter the control group /no/such/group: No such file"),
        "{group}"
    );
    let cpus = start(&["/bin/true"], json!({"cpus": [8191]}));
    assert!(
        cpus.starts_with("cannot run on the CPUs [8191]: Invalid argument"),
        "{cpus}"
    );
    let zero = start(&["/bin/echo", "a\0b"], json!({}));
    assert!(zero.contains("nul byte"), "{zero}");
}

#[test]
fn a_missing_interpreter_is_named_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    // Copied by a process of its own: no other thread's fork can hold this file open for writing.
    let made = shell(
        &format!(
            "printf '#!/no/such/interpreter\\n' > {0}; chmod 755 {0}",
            path.display()
        ),
        &json!({}),
    );
    assert_eq!(made.exit, Exit::Status(0));
    let reply = run(
        &Root::new("/"),
        &request(&[path.to_str().unwrap()], &json!({})),
        None,
    )
    .unwrap();
    assert!(failure(reply).ends_with("its interpreter or loader does not exist"));
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let refused = |argv: &[&str], more: Value| refusal(&request(argv, &more));
    assert!(refused(&[], json!({})).starts_with("argv: expected a program"));
    assert!(refused(&["true"], json!({})).contains("absolute"));
    assert!(refused(&["/bin/../bin/true"], json!({})).contains("absolute"));
    for limit in [json!(0), json!(-1), json!(1e300)] {
        assert!(refused(&["/bin/true"], json!({"limit_s": limit})).starts_with("limit_s"));
    }
    assert!(refused(&["/bin/true"], json!({"cpus": []})).starts_with("cpus"));
    assert!(refused(&["/bin/true"], json!({"cpus": [99999]})).starts_with("cpus"));
    assert!(refused(&["/bin/true"], json!({"environment": {"A=B": "1"}})).starts_with("environment"));
    assert!(refused(&["/bin/true"], json!({"capture_bytes": 1_000_000_000})).starts_with("capture_bytes"));
    assert!(refused(&["/bin/true"], json!({"directory": "here"})).starts_with("directory"));
}

#[test]
fn the_command_runs_on_the_cpus_that_were_named() {
    let allowed = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = allowed
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"))
        .unwrap();
    let first: u32 = allowed.split([',', '-']).next().unwrap().parse().unwrap();
    let reply = shell(
        "grep Cpus_allowed_list /proc/self/status",
        &json!({"cpus": [first]}),
    );
    let text = String::from_utf8(reply.stdout.0).unwrap();
    assert_eq!(text, format!("Cpus_allowed_list:\t{first}\n"));
}

#[test]
fn the_command_enters_its_group_before_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("group")).unwrap();
    std::fs::write(folder.path().join("group/cgroup.procs"), "").unwrap();
    for linked in ["bin", "usr", "lib", "lib64"] {
        std::os::unix::fs::symlink(format!("/{linked}"), folder.path().join(linked)).unwrap();
    }
    // A file stands for the group: what the kernel would read from it is the child's own number, as 0.
    let reply = run(
        &Root::new(folder.path()),
        &request(&["/bin/true"], &json!({"cgroup": "/group"})),
        None,
    )
    .unwrap();
    assert_eq!(reply.exit, Exit::Status(0));
    assert_eq!(
        std::fs::read_to_string(folder.path().join("group/cgroup.procs")).unwrap(),
        "0"
    );
}

#[test]
fn many_commands_at_once() {
    let threads: Vec<_> = (0..8)
        .map(|number| {
            std::thread::spawn(move || {
                for _ in 0..5 {
                    let reply = shell(&format!("echo {number}; exit {number}"), &json!({}));
                    assert_eq!(reply.exit, Exit::Status(number));
                    assert_eq!(reply.stdout[..], format!("{number}\n").into_bytes()[..]);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
