// SPDX-License-Identifier: Apache-2.0
use super::feed::{Cell, Parser, LIE, MISSING};
use super::*;
use proptest::prelude::*;
use std::fs;
use std::process::{Command, Stdio};

/// A machine with every source.
const FILES: &[(&str, &str)] = &[
    (
        "/proc/stat",
        "cpu  100 1 20 300 4 0 5 6 0 0\ncpu0 40 1 10 200 1 0 2 2 0 0\ncpu2 60 0 10 100 3 0 3 4 0 0\n\
         intr 777 0 0 9\nctxt 888\nbtime 1\nprocesses 99\nprocs_running 3\nprocs_blocked 1\nsoftirq 5 1\n",
    ),
    (
        "/proc/meminfo",
        "MemTotal:       100 kB\nMemFree:         50 kB\nMemAvailable:    70 kB\nOther:  1 kB\nSwapTotal: 8 kB\nSwapFree: 3 kB\nZswap: 1 kB\nZswapped: 4 kB\n",
    ),
    (
        "/proc/vmstat",
        "nr_free_pages 5\nallocstall_normal 7\npgscan_direct 11\nnr_x 1\npswpin 2\ncompact_stall 4\n",
    ),
    (
        "/proc/buddyinfo",
        "Node 0, zone      DMA      1      0      2\nNode 0, zone   Normal     10     20     30\n",
    ),
    ("/proc/loadavg", "0.50 1.25 2.00 3/456 7890\n"),
    ("/proc/uptime", "123.45 67.00\n"),
    (
        "/proc/pressure/cpu",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    ),
    ("/proc/pressure/irq", "full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"),
    ("/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "2400000\n"),
    ("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n"),
    ("/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "8\n"),
    ("/sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n"),
    ("/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4\n"),
    ("/sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "8\n"),
    ("/sys/devices/system/cpu/cpu1/topology/physical_package_id", "0\n"),
    ("/sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n"),
    ("/sys/class/thermal/thermal_zone0/temp", "45000\n"),
    ("/sys/class/thermal/thermal_zone1/type", "acpitz\n"),
    ("/sys/class/thermal/thermal_zone1/temp", "0\n"),
    ("/sys/class/hwmon/hwmon0/name", "nvme\n"),
    ("/sys/class/hwmon/hwmon0/temp1_input", "38850\n"),
    ("/sys/class/hwmon/hwmon0/temp1_label", "Composite\n"),
    ("/sys/class/hwmon/hwmon1/name", "nvme\n"),
    ("/sys/class/hwmon/hwmon1/temp1_input", "255000\n"),
    ("/sys/class/hwmon/hwmon2/name", "thinkpad\n"),
    ("/sys/class/hwmon/hwmon2/fan1_input", "0\n"),
    ("/sys/class/power_supply/BAT0/type", "Battery\n"),
    ("/sys/class/power_supply/BAT0/capacity", "81\n"),
    ("/sys/class/power_supply/BAT0/status", "Discharging\n"),
    ("/sys/class/power_supply/AC/type", "Mains\n"),
    ("/sys/class/power_supply/AC/online", "0\n"),
    ("/sys/block/zram0/mm_stat", "4096 74 12288 0 12288 1 0 0 0\n"),
    ("/sys/block/zram0/disksize", "1073741824\n"),
];

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self::empty();
        for (path, content) in FILES {
            machine.write(path, content.as_bytes());
        }
        machine.write("/dev/cpu/0/msr", &[1_u8; 512]);
        machine
    }

    fn empty() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        Self { folder }
    }

    fn root(&self) -> Root {
        Root::new(self.folder.path())
    }

    fn write(&self, path: &str, content: &[u8]) {
        let file = self.root().path(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }

    fn set(&self) -> Set {
        Set::open(&self.root(), None).unwrap()
    }
}

fn cells(set: &mut Set) -> Vec<Cell> {
    let mut row = vec![0; set.width()];
    set.sample(&mut row);
    row
}

fn cell(set: &Set, row: &[Cell], name: &str) -> Cell {
    let place = set.columns().position(|column| column.name == name);
    row[place.unwrap_or_else(|| panic!("no column {name}"))]
}

fn once(root: &Root) -> Value {
    let request = json!({"limit_s": 5, "count": 1});
    run(
        root,
        &serde_json::from_value(request).unwrap(),
        Told::Never,
        &|| Ok(()),
    )
    .unwrap()
}

#[test]
fn every_source_is_read() {
    let machine = Machine::new();
    let mut set = machine.set();
    assert_eq!(set.absent, []);
    let row = cells(&mut set);
    let expected = [
        ("cpu.user", 100),
        ("cpu.steal", 6),
        ("cpu.interrupts", 777),
        ("cpu.context_switches", 888),
        ("cpu.running", 3),
        ("cpu0.busy", 53),
        ("cpu2.idle", 103),
        ("cpu2.steal", 4),
        ("memory.MemAvailable", 70 * 1024),
        ("memory.SwapFree", 3 * 1024),
        ("memory.Zswapped", 4 * 1024),
        ("vmstat.allocstall_normal", 7),
        ("vmstat.compact_stall", 4),
        ("fragmentation.free_blocks_order_0", 11),
        ("fragmentation.free_blocks_order_2", 32),
        ("load.1min", 50),
        ("load.runnable", 3),
        ("load.tasks", 456),
        ("uptime.since_boot", 12345),
        ("pressure.cpu.some", 5),
        ("pressure.irq.full", 9),
        ("frequency.policy0", 2_400_000_000),
        ("throttle.cpu0.package_count", 8),
        ("throttle.cpu1.core_count", 4),
        ("cycles.cpu0.aperf", 0x0101_0101_0101_0101),
        ("temperature.x86_pkg_temp.thermal_zone0", 45_000),
        ("temperature.acpitz.thermal_zone1", LIE),
        ("temperature.nvme.temp1", 38_850),
        ("temperature.nvme-hwmon1.temp1", LIE),
        ("fan.thinkpad.fan1", 0),
        ("power.BAT0.charge", 81),
        ("power.BAT0.discharging", 1),
        ("power.AC.online", 0),
        ("zram.zram0.memory", 12288),
        ("zram.zram0.disk", 1 << 30),
    ];
    for (name, value) in expected {
        assert_eq!(cell(&set, &row, name), value, "{name}");
    }
    let names: Vec<&str> = set.columns().map(|column| column.name.as_str()).collect();
    let distinct: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(distinct.len(), names.len());
    assert!(
        !distinct.contains("throttle.cpu1.package_count"),
        "the package is told once"
    );
    assert!(!distinct.contains("memory.Other") && !distinct.contains("vmstat.nr_x"));
}

#[test]
fn an_absent_source_is_absent_and_not_zero() {
    let machine = Machine::empty();
    machine.write("/proc/uptime", b"1.00 1.00\n");
    let reply = once(&machine.root());
    assert_eq!(reply["columns"], json!({"uptime.since_boot": [100]}));
    let absent = reply["absent"].as_object().unwrap();
    assert_eq!(absent.len(), set::names().count() - set::NAMED.len() - 1);
    assert!(absent["temperature"]
        .as_str()
        .unwrap()
        .contains("no thermal zone"));
    assert!(absent["memory"].as_str().unwrap().contains("/proc/meminfo"));
}

#[test]
fn what_is_not_understood_at_the_beginning_is_absent() {
    let machine = Machine::empty();
    machine.write("/proc/loadavg", b"busy\n");
    machine.write("/sys/class/thermal/thermal_zone0/temp", b"warm\n");
    machine.write("/proc/meminfo", b"Nothing known\n");
    machine.write("/proc/stat", b"");
    let set = machine.set();
    assert_eq!(set.width(), 0);
    let why = |name: &str| &set.absent.iter().find(|(source, _)| *source == name).unwrap().1;
    assert!(
        why("load").contains("/proc/loadavg: unexpected content"),
        "{}",
        why("load")
    );
    assert!(why("temperature").contains("thermal_zone0/temp"));
}

#[test]
fn a_lie_is_counted_and_not_handed_over() {
    let machine = Machine::empty();
    for (zone, shown) in ["0", "255000", "-3000", "151000", "150000"].iter().enumerate() {
        machine.write(
            &format!("/sys/class/thermal/thermal_zone{zone}/temp"),
            shown.as_bytes(),
        );
    }
    let reply = once(&machine.root());
    let lies = reply["lies"].as_object().unwrap();
    assert_eq!(lies.len(), 4, "{lies:?}");
    assert_eq!(
        reply["columns"]["temperature.unnamed.thermal_zone0"],
        json!([null])
    );
    assert_eq!(
        reply["columns"]["temperature.unnamed.thermal_zone4"],
        json!([150_000])
    );
}

#[test]
fn a_cpu_that_goes_offline_and_lines_that_move_are_followed() {
    let machine = Machine::new();
    let mut set = machine.set();
    machine.write(
        "/proc/stat",
        b"cpu  9 9 9 9 9 9 9 9 9 9\ncpu2 1 1 1 1 1 1 1 1 1 1\ncpu3 1 1 1 1\nintr 5\n",
    );
    machine.write("/proc/vmstat", b"pswpin 20\nnew_one 4\nallocstall_normal 70\n");
    let row = cells(&mut set);
    assert_eq!(cell(&set, &row, "cpu0.busy"), MISSING);
    assert_eq!(cell(&set, &row, "cpu2.busy"), 5);
    assert_eq!(cell(&set, &row, "cpu.interrupts"), 5);
    assert_eq!(cell(&set, &row, "cpu.running"), MISSING);
    assert_eq!(cell(&set, &row, "vmstat.pswpin"), 20);
    assert_eq!(cell(&set, &row, "vmstat.allocstall_normal"), 70);
    assert_eq!(cell(&set, &row, "vmstat.pgscan_direct"), MISSING);
    assert!(set.appeared(&machine.root()).contains(&"cpu3.busy".to_owned()));
}

#[test]
fn a_sensor_that_vanishes_is_absent_from_then_on_and_one_that_appears_is_named() {
    let machine = Machine::empty();
    let mut child = Command::new("/bin/sleep")
        .arg("60")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let zone = machine.root().path("/sys/class/thermal/thermal_zone0");
    fs::create_dir_all(&zone).unwrap();
    // A number of a process: once the process has ended, reading the open file fails as for a
    // device that was removed.
    std::os::unix::fs::symlink(format!("/proc/{}/oom_score", child.id()), zone.join("temp")).unwrap();
    let mut set = machine.set();
    assert!(cells(&mut set)[0] > 0);
    child.kill().unwrap();
    child.wait().unwrap();
    machine.write("/sys/class/thermal/thermal_zone7/temp", b"41000\n");
    assert_eq!(cells(&mut set), [MISSING]);
    assert_eq!(cells(&mut set), [MISSING]);
    let feed = &set.feeds[0].1;
    assert!(feed.gone.as_ref().unwrap().why.contains("No such process"));
    assert_eq!(feed.failures, 1, "it is not read again");
    assert_eq!(
        set.appeared(&machine.root()),
        ["temperature.unnamed.thermal_zone7"]
    );
}

#[test]
fn a_register_is_read_once_and_zero_is_no_value() {
    assert_eq!(cycles::Register.enough(), 8);
    let mut row = [MISSING];
    assert_eq!(cycles::Register.parse(&[0; 8], &mut row), feed::Progress::Garbage);
    assert_eq!(cycles::Register.parse(&[1; 4], &mut row), feed::Progress::Garbage);
    assert_eq!(row, [MISSING]);
}

#[test]
fn a_part_of_a_source_is_read_when_it_is_named() {
    let machine = Machine::new();
    let mut set = Set::open(&machine.root(), Some(&["paging".to_owned()])).unwrap();
    let row = cells(&mut set);
    assert_eq!((row.len(), cell(&set, &row, "paging.pswpin")), (1, 2));
}

#[test]
fn numbers_that_grow_are_read_to_their_end() {
    let machine = Machine::empty();
    let counters = |value: &str| -> String {
        let names = ["pgpgin", "pgpgout", "pswpin", "pswpout"];
        names
            .map(|name| format!("{:200}\n{name} {value}\n", "filler 1"))
            .concat()
    };
    machine.write("/proc/vmstat", counters("1").as_bytes());
    let mut set = Set::open(&machine.root(), Some(&["paging".to_owned()])).unwrap();
    machine.write("/proc/vmstat", counters("9223372036854775807").as_bytes());
    assert_eq!(cells(&mut set), [Cell::MAX; 4]);
    let grown = counters(&format!("{}7", "0".repeat(60)));
    machine.write("/proc/vmstat", grown.as_bytes());
    assert_eq!(cells(&mut set), [7; 4]);
}

#[test]
fn a_file_longer_than_one_read_is_read_on() {
    let machine = Machine::empty();
    let mut text = "filler 1\n".repeat(50_000);
    text.push_str("pswpin 5\n");
    machine.write("/proc/vmstat", text.as_bytes());
    let mut set = machine.set();
    assert_eq!(cells(&mut set), [5]);
}

#[test]
fn samples_lie_on_the_grid_of_the_period_and_end_at_the_limit() {
    let machine = Machine::new();
    let request = json!({"limit_s": 0.35, "period_s": 0.1, "sources": ["uptime", "load"]});
    let reply = run(
        &machine.root(),
        &serde_json::from_value(request).unwrap(),
        Told::Never,
        &|| Ok(()),
    )
    .unwrap();
    assert_eq!(reply["ended"], "limit");
    let times: Vec<u64> = serde_json::from_value(reply["times_ns"].clone()).unwrap();
    let start = reply["started_ns"].as_u64().unwrap();
    assert_eq!(
        times.len() as u64 + reply["missed"].as_u64().unwrap(),
        5,
        "{times:?}"
    );
    assert!(times.last().unwrap() - start >= 350_000_000);
    for (place, time) in times.iter().enumerate().skip(1) {
        assert!(time - start >= 100_000_000 * place.min(3) as u64, "{times:?}");
    }
    assert_eq!(
        reply["columns"]["load.runnable"].as_array().unwrap().len(),
        times.len()
    );
    assert_eq!(
        reply["units"]["load.1min"],
        json!({"unit": "count", "per_unit": 100, "kind": "level"})
    );
    assert!(reply["cost"]["cpu_ns_per_sample"].as_u64().unwrap() > 0);
    assert_eq!(reply["kept_of"], 1);
}

#[test]
fn a_late_sample_leaves_moments_out_and_does_not_shift_the_others() {
    let mut clock = Clock::new(1000, 100, u64::MAX, Told::Never);
    assert_eq!(clock.next(1000, 1001), 1100);
    assert_eq!(clock.next(1100, 1399), 1400);
    assert_eq!(clock.missed, 2);
    assert_eq!(clock.next(1400, 1400), 1500);
    assert_eq!(clock.missed, 2);
}

#[test]
fn requests_outside_the_limits_are_refused() {
    let root = Machine::empty().root();
    let cases = [
        json!({"limit_s": 0}),
        json!({"limit_s": -1}),
        json!({"limit_s": 1e9}),
        json!({"limit_s": 1, "period_s": 0.05}),
        json!({"limit_s": 1, "period_s": 61}),
        json!({"limit_s": 1, "count": 0}),
        json!({"limit_s": 1, "sources": ["moon"]}),
    ];
    for case in cases {
        let request: Request = serde_json::from_value(case.clone()).unwrap();
        let error = run(&root, &request, Told::Never, &|| Ok(())).unwrap_err();
        assert_eq!(error.kind, Kind::BadRequest, "{case}");
    }
}

#[test]
fn the_own_cost_is_told_by_source() {
    let machine = Machine::new();
    let measured = selfcost::measure(&machine.root(), &[]).unwrap();
    let rows = measured["sources"].as_array().unwrap();
    assert_eq!(rows.len(), set::names().count() + 1);
    // The machine has none of the files that only recordings use.
    for row in rows.iter().filter(|row| row["absent"].is_null()) {
        assert!(row["sample_ns"].as_u64().unwrap() > 0, "{row}");
        assert!(row["bare_ns"].as_u64().unwrap() > 0, "{row}");
    }
    assert!(selfcost::show(&measured).contains("temperature"));
    assert!(selfcost::measure(&machine.root(), &["moon".to_owned()]).is_err());
}

/// Replaces, inserts and drops bytes.
fn mutated(mut bytes: Vec<u8>, changes: &[(usize, u8, u8)]) -> Vec<u8> {
    for (at, byte, how) in changes {
        let at = at % (bytes.len() + 1);
        match how % 3 {
            0 => bytes.insert(at, *byte),
            1 if at < bytes.len() => bytes[at] = *byte,
            _ if at < bytes.len() => drop(bytes.remove(at)),
            _ => {}
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_content_before_or_during_is_read_or_told(
        number in 0..FILES.len(),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        before in any::<bool>(),
    ) {
        let machine = Machine::new();
        let path = FILES[number].0;
        if before {
            machine.write(path, &bytes);
        }
        let mut set = machine.set();
        machine.write(path, &bytes);
        let row = cells(&mut set);
        prop_assert_eq!(row.len(), set.columns().count());
    }

    #[test]
    fn mutated_content_is_read_or_told(
        number in 0..FILES.len(),
        first in prop::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 0..6),
        second in prop::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..12),
    ) {
        let machine = Machine::new();
        let (path, content) = FILES[number];
        machine.write(path, &mutated(content.as_bytes().to_vec(), &first));
        let mut set = machine.set();
        machine.write(path, &mutated(content.as_bytes().to_vec(), &second));
        let row = cells(&mut set);
        for (column, cell) in set.columns().zip(&row) {
            let heat = column.name.starts_with("temperature.");
            prop_assert!(!heat || [MISSING, LIE].contains(cell) || (1..=150_000).contains(cell), "{} {cell}", column.name);
        }
        set.bare();
    }

    #[test]
    fn numbers_are_read_as_they_are_written(value in any::<i64>(), rest in "[a-z ]{0,3}") {
        let text = format!("  {value}{rest}");
        let expected = (value != i64::MIN).then_some((value, rest.as_bytes()));
        prop_assert_eq!(text::number(text.as_bytes()), expected);
    }
}
