// SPDX-License-Identifier: Apache-2.0
use super::*;

fn raw(at_ns: u64, what: What, pid: i32, numbers: [i64; 4]) -> Raw {
    let mut text = [0; TEXT];
    text[..2].copy_from_slice(b"WS");
    Raw {
        at_ns,
        cpu: 1,
        what,
        pid,
        numbers,
        text,
    }
}

impl Raw {
    fn lettered(mut self, letters: [u8; 2]) -> Self {
        self.text[..2].copy_from_slice(&letters);
        self
    }
}

fn pairs(watched: &[i32], events: &[Raw]) -> Pairs {
    let mut pairs = Pairs::new(Limits::default(), watched);
    for event in events {
        pairs.take(event);
    }
    pairs
}

#[test]
fn direct_reclaim_is_joined_by_thread() {
    let kind = Kind::DirectReclaim;
    let found = pairs(
        &[],
        &[
            raw(100, What::Begin(kind), 7, [2, 0, 0, 0]),
            raw(150, What::Begin(kind), 8, [0; 4]),
            raw(400, What::End(kind), 7, [32, 0, 0, 0]),
            raw(900, What::End(kind), 9, [1, 0, 0, 0]),
        ],
    );
    let event = &found.events[0];
    assert_eq!(
        (event.begin_ns, event.length_ns, event.pid, event.amount),
        (100, Some(300), 7, Some(32))
    );
    assert_eq!(event.detail.as_deref(), Some("order 2"));
    assert_eq!((found.events.len(), found.cut[&kind]), (1, 1));
    assert_eq!(found.unfinished().collect::<Vec<_>>(), [(kind, 150, 8)]);
    assert_eq!((found.counts[&kind].begun, found.counts[&kind].ended), (2, 1));
}

#[test]
fn a_request_ends_with_its_last_part_and_is_told_above_its_limit() {
    let (issue, complete) = (What::Begin(Kind::BlockIo), What::End(Kind::BlockIo));
    let found = pairs(
        &[],
        &[
            raw(0, issue, 3, [8, 1000, 16, 8192]),
            raw(0, issue, 3, [8, 2000, 8, 4096]),
            raw(4_000_000, complete, 0, [8, 2000, 8, 0]),
            raw(6_000_000, complete, 0, [8, 1000, 8, 0]),
            raw(7_000_000, complete, 0, [8, 1008, 8, 0]),
            // Two requests wait for one flush; the data of the second had ended before.
            raw(7_000_000, issue, 3, [8, 0, 0, 0]).lettered(*b"FF"),
            raw(7_000_000, complete, 0, [8, -1, 0, 0]).lettered(*b"FF"),
            raw(7_000_000, complete, 0, [8, 0, 0, 0]),
            raw(7_000_000, complete, 0, [8, 1016, 0, 0]),
        ],
    );
    assert_eq!(found.events.len(), 1);
    let event = &found.events[0];
    assert_eq!(
        (event.length_ns, event.device, event.pid),
        (Some(7_000_000), Some(8), 3)
    );
    assert_eq!((event.amount, event.detail.as_deref()), (Some(8192), Some("WS")));
    assert_eq!(
        (
            found.latency[&8].requests,
            found.latency[&8].flushes,
            found.latency[&8].waits,
            found.cut.len()
        ),
        (2, 1, 1, 0)
    );
}

#[test]
fn run_delay_is_that_of_watched_threads_from_waking_or_preemption_on() {
    let delay = |at, before, state, after| raw(at, What::Switch, before, [before.into(), state, after, 0]);
    let found = pairs(
        &[7],
        &[
            raw(0, What::Waking, 1, [7, 0, 0, 0]),
            raw(10, What::Waking, 1, [8, 0, 0, 0]),
            delay(2_000_000, 99, 1, 7),
            delay(3_000_000, 7, 0, 8),
            delay(5_000_000, 8, 1, 7),
            delay(6_000_000, 7, 1, 8),
            delay(9_000_000, 8, 1, 7),
        ],
    );
    let told: Vec<_> = found
        .events
        .iter()
        .map(|event| (event.begin_ns, event.length_ns))
        .collect();
    assert_eq!(told, [(0, Some(2_000_000)), (3_000_000, Some(2_000_000))]);
    assert!(found.events[1]
        .detail
        .as_deref()
        .unwrap()
        .starts_with("preempted"));
    assert_eq!(found.counts[&Kind::RunDelay].ended, 2);
}

#[test]
fn children_of_watched_threads_are_watched_until_they_end() {
    let mut found = pairs(
        &[7],
        &[
            raw(0, What::Fork, 7, [7, 20, 0, 0]),
            raw(1, What::Fork, 1, [1, 30, 0, 0]),
        ],
    );
    assert!(found.watched.contains(&20) && !found.watched.contains(&30));
    found.take(&raw(2, What::Exit, 20, [20, 0, 0, 0]));
    assert!(!found.watched.contains(&20));
}

#[test]
fn a_loss_forgets_what_was_open() {
    let mut found = pairs(&[], &[raw(0, What::Begin(Kind::Compaction), 7, [0; 4])]);
    found.forget();
    found.take(&raw(5, What::End(Kind::Compaction), 7, [0; 4]));
    assert_eq!((found.events.len(), found.cut[&Kind::Compaction]), (0, 2));
}

#[test]
fn throttling_lies_before_its_event_and_a_pause_behind_it() {
    let found = pairs(
        &[],
        &[
            raw(9_000_000, What::Whole(Kind::ReclaimThrottle), 7, [4000, 0, 0, 0]),
            raw(9_000_000, What::Whole(Kind::DirtyPause), 7, [20, 0, 0, 0]),
        ],
    );
    let told: Vec<_> = found
        .events
        .iter()
        .map(|event| (event.begin_ns, event.length_ns))
        .collect();
    assert_eq!(
        told,
        [(5_000_000, Some(4_000_000)), (9_000_000, Some(20_000_000))]
    );
}

#[test]
fn a_request_that_found_its_device_idle_says_for_how_long() {
    let (issue, complete) = (What::Begin(Kind::BlockIo), What::End(Kind::BlockIo));
    let found = pairs(
        &[],
        &[
            raw(0, issue, 3, [8, 1000, 8, 4096]),
            raw(6_000_000, complete, 0, [8, 1000, 8, 0]),
            raw(2_006_000_000, issue, 3, [8, 2000, 8, 4096]),
            raw(2_006_000_500, issue, 3, [8, 3000, 8, 4096]),
            raw(2_016_000_000, complete, 0, [8, 2000, 8, 0]),
            raw(2_016_000_000, complete, 0, [8, 3000, 8, 0]),
        ],
    );
    let idle: Vec<Option<u64>> = found.events.iter().map(|event| event.idle_ns).collect();
    assert_eq!(idle, [None, Some(2_000_000_000), None]);
}

#[test]
fn a_wake_up_of_a_thread_that_still_runs_is_no_delay() {
    let switch = |at, before, state, after| raw(at, What::Switch, before, [before.into(), state, after, 0]);
    let found = pairs(
        &[7],
        &[
            raw(0, What::Waking, 1, [7, 0, 0, 0]),
            switch(2_000_000, 99, 1, 7),
            raw(3_000_000, What::Waking, 1, [7, 0, 0, 0]),
            switch(900_000_000, 7, 0, 8),
            switch(902_000_000, 8, 1, 7),
            raw(903_000_000, What::Waking, 1, [7, 0, 0, 0]),
            switch(1_900_000_000, 7, 1, 8),
            switch(2_900_000_000, 8, 1, 7),
        ],
    );
    let told: Vec<_> = found.events.iter().map(|event| event.length_ns).collect();
    assert_eq!(told, [Some(2_000_000), Some(2_000_000)]);
}

#[test]
fn a_fault_that_must_read_a_file_takes_until_its_thread_goes_on() {
    let switch = |at, before, state, after| raw(at, What::Switch, before, [before.into(), state, after, 0]);
    let fault = |at, pid| raw(at, What::Whole(Kind::FileFault), pid, [8, 3, 0, 0]);
    let mut found = pairs(
        &[7],
        &[
            // The page is in memory; the next one is read.
            fault(0, 7),
            fault(1_000_000, 7),
            switch(1_100_000, 7, 2, 8),
            switch(9_000_000, 8, 1, 7),
            // Also in memory: the thread sleeps for another reason, or much later.
            fault(10_000_000, 7),
            switch(10_100_000, 7, 1, 8),
            switch(20_000_000, 8, 1, 7),
            fault(30_000_000, 7),
            switch(40_000_000, 7, 2, 8),
            switch(50_000_000, 8, 1, 7),
            // The thread is preempted first.
            fault(60_000_000, 7),
            switch(60_100_000, 7, 0, 8),
            switch(60_200_000, 8, 1, 7),
            switch(60_300_000, 7, 2, 8),
            switch(64_000_000, 8, 1, 7),
            fault(70_000_000, 7),
        ],
    );
    let told: Vec<_> = found
        .events
        .iter()
        .filter(|event| event.kind == Kind::FileFault)
        .map(|event| (event.begin_ns, event.length_ns, event.device))
        .collect();
    assert_eq!(
        told,
        [
            (1_000_000, Some(8_000_000), Some(8)),
            (60_000_000, Some(4_000_000), Some(8))
        ]
    );
    assert_eq!(found.events.last().unwrap().thread.as_deref(), Some("WS"));
    found.take(&raw(71_000_000, What::Exit, 7, [7, 0, 0, 0]));
    let count = found.counts[&Kind::FileFault];
    assert_eq!((count.begun, count.ended, count.time_ns), (6, 6, 12_000_000));
}
