// SPDX-License-Identifier: Apache-2.0
use super::*;

/// Returns the reply to a request with these parameters and a limit of five seconds.
fn reply(load: &str, parameters: &Value) -> Value {
    within_limit(load, parameters, 5.0)
}

fn within_limit(load: &str, parameters: &Value, limit_s: f64) -> Value {
    let request = json!({"load": load, "parameters": parameters, "limit_s": limit_s});
    run(serde_json::from_value(request).unwrap(), Told::Never).unwrap()
}

fn refusal(request: &Value) -> String {
    let error = run(serde_json::from_value(request.clone()).unwrap(), Told::Never).unwrap_err();
    assert_eq!(error.kind, Kind::BadRequest, "{error}");
    error.message
}

fn number(reply: &Value, name: &str) -> u64 {
    reply["results"][name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} of {reply}"))
}

fn in_histogram(reply: &Value) -> u64 {
    let cells = reply["histogram"].as_object().unwrap();
    cells.values().map(|count| count.as_u64().unwrap()).sum()
}

#[test]
fn every_intended_wakeup_is_counted() {
    for kind in ["futex", "pipe", "eventfd", "timer"] {
        let parameters = json!({"kind": kind, "pairs": 2, "rate_per_s": 500, "duration_s": 0.2});
        let reply = reply("wakeup", &parameters);
        assert_eq!(reply["ended"], "done");
        assert_eq!(
            (number(&reply, "count"), number(&reply, "planned")),
            (200, 200),
            "{kind}"
        );
        assert_eq!(in_histogram(&reply), 200);
        assert!(number(&reply, "p50_ns") <= number(&reply, "max_ns"));
        assert!(number(&reply, "elapsed_ns") >= 200_000_000 * 99 / 100);
        assert_eq!(
            reply["results"]["p99_9_ns"],
            Value::Null,
            "200 values have no 99.9th percentile"
        );
        let ring = &reply["results"]["ring_count"];
        assert_eq!(
            *ring,
            if kind == "timer" { Value::Null } else { json!(200) },
            "{kind}"
        );
        assert_eq!(reply["results"]["timer_slack_ns"].is_null(), kind != "timer");
    }
}

#[test]
fn a_rate_that_cannot_be_kept_shows_as_lateness_not_as_missing_counts() {
    let parameters = json!({"kind": "pipe", "pairs": 8, "rate_per_s": 100_000, "duration_s": 0.1});
    let reply = reply("wakeup", &parameters);
    assert_eq!(number(&reply, "count"), 80_000);
    assert_eq!(number(&reply, "ring_count"), 80_000);
}

#[test]
fn work_that_a_period_has_no_room_for_shows_as_lateness() {
    for kind in ["pipe", "timer"] {
        let parameters = json!({"kind": kind, "rate_per_s": 200, "duration_s": 0.2, "work_s": 0.01});
        let reply = reply("wakeup", &parameters);
        assert_eq!(
            (number(&reply, "count"), number(&reply, "planned")),
            (40, 40),
            "{kind}"
        );
        assert!(number(&reply, "p50_ns") >= 50_000_000, "{kind}: {reply}");
    }
    for work_s in [0.0, 1.5, -1.0] {
        let request = json!({"load": "wakeup", "parameters": {"work_s": work_s}, "limit_s": 5.0});
        assert!(refusal(&request).contains("work_s"), "{work_s}");
    }
}

#[test]
fn lateness_counts_from_the_intended_moment() {
    let reply = reply(
        "wakeup",
        &json!({"kind": "futex", "rate_per_s": 1000, "duration_s": 0.2}),
    );
    assert!(number(&reply, "mean_ns") >= number(&reply, "ring_mean_ns"));
}

#[test]
fn the_limit_ends_each_load_early() {
    let cases = [
        ("wakeup", json!({"kind": "futex", "duration_s": 30})),
        ("wakeup", json!({"kind": "pipe", "duration_s": 30})),
        ("wakeup", json!({"kind": "eventfd", "duration_s": 30})),
        ("wakeup", json!({"kind": "timer", "duration_s": 30})),
        ("contextswitch", json!({"duration_s": 30})),
        ("messaging", json!({"groups": 1, "messages": 1_000_000})),
        ("pagefault", json!({"duration_s": 30})),
        ("memcpy", json!({"duration_s": 30, "bytes": 1 << 20})),
        ("lock", json!({"duration_s": 30})),
        ("spin", json!({})),
        (
            "pressure",
            json!({"duration_s": 30, "file_bytes": 8 << 20, "burst_bytes": 4 << 20}),
        ),
        ("fileio", json!({"duration_s": 30, "bytes": 1 << 20})),
        (
            "fileio",
            json!({"duration_s": 30, "bytes": 1 << 20, "operation": "write"}),
        ),
        (
            "messaging",
            json!({"groups": 1, "messages": 1_000_000, "channel": "socket"}),
        ),
        (
            "messaging",
            json!({"groups": 1, "messages": 1_000_000, "tasks": "process"}),
        ),
    ];
    for (load, parameters) in cases {
        let began_ns = now_ns();
        let reply = within_limit(load, &parameters, 0.1);
        assert_eq!(reply["ended"], "limit", "{load} {parameters}");
        assert!(now_ns() - began_ns < 5_000_000_000, "{load} {parameters}");
    }
}

#[test]
fn round_trips_are_counted_where_they_were_asked_for() {
    let cpus = affinity().unwrap();
    for placement in ["same", "cross", "free"] {
        if placement == "cross" && cpus.len() < 2 {
            let request =
                json!({"load": "contextswitch", "parameters": {"placement": "cross"}, "limit_s": 1});
            assert!(refusal(&request).contains("only CPU"));
            continue;
        }
        let reply = reply(
            "contextswitch",
            &json!({"placement": placement, "duration_s": 0.4}),
        );
        assert!(number(&reply, "count") > 0, "{reply}");
        assert_eq!(in_histogram(&reply), number(&reply, "count"));
        let used = &reply["results"]["cpus"];
        assert_eq!(used[0] == used[1], placement != "cross", "{used}");
    }
}

#[test]
fn every_message_arrives() {
    for (channel, tasks) in [
        ("pipe", "thread"),
        ("socket", "thread"),
        ("pipe", "process"),
        ("socket", "process"),
    ] {
        let parameters = json!({"channel": channel, "tasks": tasks, "groups": 2, "senders": 3, "receivers": 4,
            "messages": 50, "message_bytes": 7});
        let reply = reply("messaging", &parameters);
        assert_eq!(number(&reply, "messages"), 2 * 3 * 4 * 50);
        assert_eq!(number(&reply, "task_count"), 14);
        assert!(number(&reply, "elapsed_ns") > 0);
        assert_eq!(reply["parameters"]["channel"], channel);
    }
}

#[test]
fn page_faults_are_those_that_the_kernel_counted() {
    let base = json!({"bytes": 8 << 20, "threads": 2, "duration_s": 0.1, "huge_pages": "never"});
    let small = reply("pagefault", &base);
    let pages = number(&small, "pages");
    assert!(pages >= 2 * (8 << 20) / number(&small, "page_bytes"));
    let faults = number(&small, "faults");
    assert!((pages..pages + pages / 10 + 100).contains(&faults), "{small}");
    let mut of_file = base.clone();
    of_file["backing"] = json!("file");
    let of_file = reply("pagefault", &of_file);
    assert!(
        number(&of_file, "faults") <= number(&of_file, "pages"),
        "{of_file}"
    );
    assert!(number(&of_file, "faults") > 0);
}

#[test]
fn huge_pages_take_fewer_faults_where_there_are_any() {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let faults_per_100_pages = |huge_pages: &str| {
        let parameters =
            json!({"bytes": 32 << 20, "duration_s": 0.1, "huge_pages": huge_pages, "io_priority": 0});
        let reply = reply("pagefault", &parameters);
        100 * number(&reply, "faults") / number(&reply, "pages")
    };
    let (always, half) = (faults_per_100_pages("always"), faults_per_100_pages("half"));
    if setting.is_empty() || setting.contains("[never]") {
        assert!(always >= 100 && half >= 100, "{setting} {always} {half}");
    } else {
        assert!(always < 100 && half < 100, "{setting} {always} {half}");
    }
    if setting.contains("[madvise]") {
        assert!(
            half > always + 20,
            "the other half has small pages: {always} {half}"
        );
    }
}

#[test]
fn copied_bytes_are_whole_passes() {
    let reply = reply(
        "memcpy",
        &json!({"bytes": 65536, "threads": 2, "duration_s": 0.2}),
    );
    assert!(number(&reply, "passes") > 0);
    assert_eq!(number(&reply, "copied_bytes"), number(&reply, "passes") * 65536);
}

#[test]
fn contending_threads_all_get_on() {
    let parameters = json!({"threads": 3, "locks": 2, "yields": 5, "duration_s": 0.5});
    let reply = reply("lock", &parameters);
    assert!(number(&reply, "least_of_a_thread") > 0);
    assert!(number(&reply, "count") >= number(&reply, "most_of_a_thread") + 2);
    assert_eq!(in_histogram(&reply), number(&reply, "count"));
}

#[test]
fn spinning_counts_by_slices_of_time() {
    let before_ns = now_ns();
    let reply = within_limit("spin", &json!({"threads": 2}), 0.35);
    assert_eq!(reply["ended"], "limit");
    assert!((before_ns..now_ns()).contains(&number(&reply, "start_ns")));
    let slices = reply["results"]["slices"].as_array().unwrap();
    let most = number(&reply, "elapsed_ns") / number(&reply, "slice_ns");
    assert!((1..=most).contains(&(slices.len() as u64)), "{reply}");
    let in_slices: u64 = slices.iter().map(|rounds| rounds.as_u64().unwrap()).sum();
    assert!(in_slices > 0 && in_slices <= number(&reply, "rounds"));
    assert!(number(&reply, "least_of_a_thread") <= number(&reply, "most_of_a_thread"));
}

#[test]
fn every_frame_is_counted_and_late_ones_are_told() {
    let parameters = json!({"file_bytes": 32 << 20, "burst_bytes": 16 << 20, "bursts_per_s": 10, "frames_per_s": 100,
        "reserve_bytes": 64 << 20, "duration_s": 0.3});
    let reply = reply("pressure", &parameters);
    assert_eq!(number(&reply, "count"), 30);
    assert_eq!(in_histogram(&reply), 30);
    assert_eq!(
        number(&reply, "burst_count") + number(&reply, "bursts_left_out"),
        3
    );
    assert!(number(&reply, "read_bytes") > 1 << 20);
    let late = reply["results"]["late"].as_array().unwrap();
    assert_eq!(late.len() as u64, number(&reply, "late_frames"));
}

#[test]
fn a_run_uses_the_file_of_the_last_one_and_so_its_page_cache() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let bytes_of = |own: &Value| {
        let mut parameters = json!({"readers": 0, "bursts_per_s": 0, "duration_s": 0.02, "reserve_bytes": 64 << 20,
            "frames_per_s": 100, "directory": folder.path()});
        let own = own.as_object().unwrap().clone();
        parameters.as_object_mut().unwrap().extend(own);
        number(&reply("pressure", &parameters), "file_bytes")
    };
    let bytes = bytes_of(&json!({}));
    let taken = vec![1_u8; 64 << 20]; // less memory is available than before
    assert_eq!(bytes_of(&json!({})), bytes);
    assert_eq!(bytes_of(&json!({"file_bytes": 5 << 20})), 5 << 20);
    assert_eq!(bytes_of(&json!({})), bytes);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    drop(taken);
}

#[test]
fn the_frame_loop_tells_each_frame_with_its_end_and_the_time_since_the_one_before() {
    let parameters = json!({"file_bytes": 32 << 20, "burst_bytes": 16 << 20, "bursts_per_s": 10, "frames_per_s": 100,
        "reserve_bytes": 64 << 20, "duration_s": 0.3});
    let mut told = Vec::new();
    let moment = || std::time::Duration::from_nanos(now_ns()).as_secs_f64();
    let began_s = moment();
    super::pressure::frame_loop(&serde_json::from_value(parameters).unwrap(), &mut told).unwrap();
    let told = String::from_utf8(told).unwrap();
    let frames: Vec<(f64, f64)> = told
        .lines()
        .map(|line| line.strip_prefix("frame ").unwrap().split_once(' ').unwrap())
        .map(|(end, took)| (end.parse().unwrap(), took.parse().unwrap()))
        .collect();
    assert_eq!(frames.len(), 29, "the first one has none before it");
    assert!(frames[0].0 > began_s && frames[28].0 < moment());
    for pair in frames.windows(2) {
        assert!((pair[1].0 - pair[0].0 - pair[1].1 / 1e3).abs() < 2e-6, "{pair:?}");
    }
}

#[test]
fn a_frame_loop_ends_when_nobody_reads_it() {
    struct Gone;
    impl std::io::Write for Gone {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let alone = json!({"readers": 0, "bursts_per_s": 0, "duration_s": 600, "file_bytes": 32 << 20});
    let began_ns = now_ns();
    super::pressure::frame_loop(&serde_json::from_value(alone).unwrap(), &mut Gone).unwrap();
    assert!(now_ns() - began_ns < 60_000_000_000);
}

#[test]
fn frames_that_cannot_be_kept_up_with_are_late_and_counted_all_the_same() {
    let parameters = json!({"file_bytes": 1 << 28, "burst_bytes": 1 << 20, "frames_per_s": 1000, "readers": 4,
        "duration_s": 0.2, "reserve_bytes": 64 << 20});
    let one_cpu = [affinity().unwrap()[0]];
    let request = json!({"load": "pressure", "parameters": parameters, "cpus": one_cpu, "limit_s": 20});
    let reply = run(serde_json::from_value(request).unwrap(), Told::Never).unwrap();
    assert_eq!(number(&reply, "count"), 200);
    let late = reply["results"]["late"].as_array().unwrap();
    assert_eq!(late.len() as u64, number(&reply, "late_frames"));
    assert!(
        !late.is_empty(),
        "busy threads on one CPU leave no room for 1000 frames in a second"
    );
    assert!(number(&reply, "max_ns") > 1_000_000);
}

#[test]
fn files_are_read_and_written_in_both_orders_and_vanish() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    for operation in ["read", "write"] {
        for order in ["sequential", "random"] {
            for (cache, direct) in [("cold", false), ("warm", false), ("cold", true)] {
                let parameters = json!({"operation": operation, "order": order, "cache": cache, "direct": direct,
                    "bytes": 1 << 20, "block_bytes": 4096, "duration_s": 0.2, "directory": folder.path()});
                let reply = reply("fileio", &parameters);
                assert!(number(&reply, "count") > 0, "{reply}");
                assert_eq!(number(&reply, "moved_bytes"), number(&reply, "count") * 4096);
                assert!(number(&reply, "busy_ns") <= number(&reply, "elapsed_ns"));
            }
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_is_missing_has_its_default_and_is_told() {
    let reply = within_limit("wakeup", &json!({}), 0.05);
    let told = json!({"kind": "futex", "pairs": 1, "rate_per_s": 1000, "duration_s": 2.0});
    assert_eq!(reply["parameters"], told);
    assert!(reply["wall_ns"].as_u64().unwrap() >= 50_000_000);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let cases = [
        (json!({"load": "dance", "limit_s": 1}), "unknown load"),
        (json!({"load": "wakeup", "limit_s": 0}), "limit_s"),
        (json!({"load": "wakeup", "limit_s": 1e9}), "limit_s"),
        (json!({"load": "wakeup", "limit_s": 1, "cpus": []}), "cpus"),
        (json!({"load": "wakeup", "limit_s": 1, "cpus": [5000]}), "cpus"),
        (
            json!({"load": "wakeup", "limit_s": 1, "parameters": {"speed": 1}}),
            "speed",
        ),
        (
            json!({"load": "wakeup", "limit_s": 1, "parameters": {"kind": "signal"}}),
            "signal",
        ),
        (
            json!({"load": "wakeup", "limit_s": 1, "parameters": {"pairs": 0}}),
            "pairs",
        ),
        (
            json!({"load": "wakeup", "limit_s": 1, "parameters": {"rate_per_s": 1_000_000}}),
            "rate_per_s",
        ),
        (
            json!({"load": "wakeup", "limit_s": 1, "parameters": {"rate_per_s": 1, "duration_s": 0.5}}),
            "0 wake-ups",
        ),
        (
            json!({"load": "wakeup", "limit_s": 1, "parameters": {"rate_per_s": 99_999, "duration_s": 3600}}),
            "wake-ups",
        ),
        (
            json!({"load": "contextswitch", "limit_s": 1, "parameters": {"duration_s": -1}}),
            "duration_s",
        ),
        (
            json!({"load": "messaging", "limit_s": 1, "parameters": {"message_bytes": 5000}}),
            "message_bytes",
        ),
        (
            json!({"load": "messaging", "limit_s": 1, "parameters": {"groups": 1000}}),
            "tasks",
        ),
    ];
    let more = [
        ("pagefault", json!({"bytes": 1}), "bytes"),
        ("pagefault", json!({"io_priority": 8}), "io_priority"),
        ("fileio", json!({"io_priority": 8}), "io_priority"),
        (
            "pagefault",
            json!({"bytes": 1_u64 << 31, "threads": 256}),
            "memory",
        ),
        ("memcpy", json!({"threads": 0}), "threads"),
        ("lock", json!({"locks": 0}), "locks"),
        ("spin", json!({"threads": 0}), "threads"),
        ("pressure", json!({"burst_bytes": 1_u64 << 41}), "reserve"),
        ("pressure", json!({"reserve_bytes": 0}), "reserve_bytes"),
        ("fileio", json!({"bytes": 1_048_577}), "bytes"),
        ("fileio", json!({"block_bytes": 0}), "block_bytes"),
        ("fileio", json!({"directory": "../x"}), "directory"),
        ("fileio", json!({"direct": true, "cache": "warm"}), "direct"),
        (
            "fileio",
            json!({"direct": true, "block_bytes": 512}),
            "block_bytes",
        ),
    ];
    let more = more.map(|(load, parameters, named)| {
        (
            json!({"load": load, "parameters": parameters, "limit_s": 1}),
            named,
        )
    });
    for (request, named) in cases.into_iter().chain(more) {
        let message = refusal(&request);
        assert!(message.contains(named), "{request}: {message}");
    }
}

#[test]
fn cpus_bind_the_load_and_not_the_caller() {
    let before = affinity().unwrap();
    let last = *before.last().unwrap();
    let request = json!({"load": "contextswitch", "parameters": {"placement": "free", "duration_s": 0.05},
                         "cpus": [last], "limit_s": 5});
    let reply = run(serde_json::from_value(request).unwrap(), Told::Never).unwrap();
    assert_eq!(reply["results"]["cpus"], json!([[last], [last]]));
    assert_eq!(affinity().unwrap(), before);
}

#[test]
fn a_cpu_that_is_not_there_is_an_error() {
    let request = json!({"load": "wakeup", "limit_s": 1, "cpus": [1023]});
    let error = run(serde_json::from_value(request.clone()).unwrap(), Told::Never).unwrap_err();
    assert_eq!(error.kind, Kind::Io);
}
