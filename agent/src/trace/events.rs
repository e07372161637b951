// SPDX-License-Identifier: Apache-2.0
//! The tracepoints in use, and the kinds of event that they produce.

use serde::Serialize;

/// A kind of event of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    DirectReclaim,
    CgroupReclaim,
    ReclaimThrottle,
    Kswapd,
    Compaction,
    BlockIo,
    DirtyPause,
    RunDelay,
    Migration,
    FileFault,
    ThpCollapse,
    TlbShootdown,
    Irq,
    Softirq,
    Oom,
}

/// Which events of a kind are reported individually; all are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Events that took at least this long, in nanoseconds.
    From(u64),
    /// Events that delayed a thread.
    Waits,
    /// None.
    Never,
}

const MS: u64 = 1_000_000;

impl Kind {
    pub const ALL: [Self; 15] = [
        Self::DirectReclaim,
        Self::CgroupReclaim,
        Self::ReclaimThrottle,
        Self::Kswapd,
        Self::Compaction,
        Self::BlockIo,
        Self::DirtyPause,
        Self::RunDelay,
        Self::Migration,
        Self::FileFault,
        Self::ThpCollapse,
        Self::TlbShootdown,
        Self::Irq,
        Self::Softirq,
        Self::Oom,
    ];

    /// Returns the kind's name in a recording.
    pub fn name(self) -> &'static str {
        match self {
            Self::DirectReclaim => "direct-reclaim",
            Self::CgroupReclaim => "cgroup-reclaim",
            Self::ReclaimThrottle => "reclaim-throttle",
            Self::Kswapd => "kswapd",
            Self::Compaction => "compaction",
            Self::BlockIo => "block-io",
            Self::DirtyPause => "dirty-pause",
            Self::RunDelay => "run-delay",
            Self::Migration => "migration",
            Self::FileFault => "file-fault",
            Self::ThpCollapse => "thp-collapse",
            Self::TlbShootdown => "tlb-shootdown",
            Self::Irq => "irq",
            Self::Softirq => "softirq",
            Self::Oom => "oom",
        }
    }

    /// Whether only threads of a watched program have events of this kind.
    pub fn is_of_threads(self) -> bool {
        matches!(self, Self::RunDelay | Self::Migration | Self::FileFault)
    }

    /// Returns the kind with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns which events are reported by default.
    pub fn told(self) -> Told {
        match self {
            Self::BlockIo => Told::From(5 * MS),
            Self::RunDelay | Self::Softirq => Told::From(MS),
            Self::Irq => Told::From(MS / 2),
            Self::FileFault => Told::Waits,
            Self::Migration | Self::TlbShootdown => Told::Never,
            _ => Told::From(0),
        }
    }
}

/// What a tracepoint means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// An event of this kind began in this thread.
    Begin(Kind),
    /// It ended.
    End(Kind),
    /// An event of this kind that is instantaneous or states its own length.
    Whole(Kind),
    /// A thread requests it; it may or may not begin.
    Asked(Kind),
    /// A thread becomes runnable.
    Waking,
    /// A thread stopped running and another one runs.
    Switch,
    /// A thread created another one.
    Fork,
    /// A thread exited.
    Exit,
    /// The agent's own marker.
    Mark,
}

/// The buffer that an event goes to: the machine's, or the one for watched threads only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    Machine,
    Threads,
}

/// A tracepoint and what to read from it.
pub struct Tracepoint {
    /// Group and name.
    pub path: &'static str,
    pub what: What,
    /// Numeric fields, in the order in which they are passed on.
    pub numbers: &'static [&'static str],
    /// The text field.
    pub text: Option<&'static str>,
    /// A filter that the kernel applies.
    pub filter: Option<&'static str>,
    pub buffer: Buffer,
}

const fn machine(path: &'static str, what: What, numbers: &'static [&'static str]) -> Tracepoint {
    Tracepoint {
        path,
        what,
        numbers,
        text: None,
        filter: None,
        buffer: Buffer::Machine,
    }
}

const fn threads(
    path: &'static str,
    what: What,
    numbers: &'static [&'static str],
    text: &'static str,
) -> Tracepoint {
    Tracepoint {
        text: Some(text),
        buffer: Buffer::Threads,
        ..machine(path, what, numbers)
    }
}

/// Most numeric fields of one tracepoint.
pub const NUMBERS: usize = 4;

/// Flushes that interrupted another CPU (`TLB_REMOTE_SEND_IPI`).
const SENT: &str = "reason == 4";

pub const TRACEPOINTS: &[Tracepoint] = &[
    machine("ftrace/print", What::Mark, &[]),
    machine(
        "vmscan/mm_vmscan_direct_reclaim_begin",
        What::Begin(Kind::DirectReclaim),
        &["order"],
    ),
    machine(
        "vmscan/mm_vmscan_direct_reclaim_end",
        What::End(Kind::DirectReclaim),
        &["nr_reclaimed"],
    ),
    machine(
        "vmscan/mm_vmscan_memcg_reclaim_begin",
        What::Begin(Kind::CgroupReclaim),
        &["order"],
    ),
    machine(
        "vmscan/mm_vmscan_memcg_reclaim_end",
        What::End(Kind::CgroupReclaim),
        &["nr_reclaimed"],
    ),
    machine(
        "vmscan/mm_vmscan_throttled",
        What::Whole(Kind::ReclaimThrottle),
        &["usec_delayed"],
    ),
    machine(
        "vmscan/mm_vmscan_kswapd_wake",
        What::Begin(Kind::Kswapd),
        &["order"],
    ),
    machine("vmscan/mm_vmscan_kswapd_sleep", What::End(Kind::Kswapd), &["nid"]),
    machine(
        "compaction/mm_compaction_try_to_compact_pages",
        What::Asked(Kind::Compaction),
        &["order"],
    ),
    machine(
        "compaction/mm_compaction_begin",
        What::Begin(Kind::Compaction),
        &["sync"],
    ),
    machine(
        "compaction/mm_compaction_end",
        What::End(Kind::Compaction),
        &["status"],
    ),
    Tracepoint {
        text: Some("rwbs"),
        ..machine(
            "block/block_rq_issue",
            What::Begin(Kind::BlockIo),
            &["dev", "sector", "nr_sector", "bytes"],
        )
    },
    Tracepoint {
        text: Some("rwbs"),
        ..machine(
            "block/block_rq_complete",
            What::End(Kind::BlockIo),
            &["dev", "sector", "nr_sector"],
        )
    },
    Tracepoint {
        text: Some("bdi"),
        filter: Some("pause > 0"),
        ..machine(
            "writeback/balance_dirty_pages",
            What::Whole(Kind::DirtyPause),
            &["pause"],
        )
    },
    machine(
        "huge_memory/mm_collapse_huge_page",
        What::Whole(Kind::ThpCollapse),
        &["status"],
    ),
    Tracepoint {
        filter: Some(SENT),
        ..machine("tlb/tlb_flush", What::Whole(Kind::TlbShootdown), &["pages"])
    },
    Tracepoint {
        text: Some("name"),
        ..machine("irq/irq_handler_entry", What::Begin(Kind::Irq), &["irq"])
    },
    machine("irq/irq_handler_exit", What::End(Kind::Irq), &["irq"]),
    machine("irq/softirq_entry", What::Begin(Kind::Softirq), &["vec"]),
    machine("irq/softirq_exit", What::End(Kind::Softirq), &["vec"]),
    machine("oom/mark_victim", What::Whole(Kind::Oom), &["pid"]),
    threads("sched/sched_waking", What::Waking, &["pid"], "comm"),
    threads("sched/sched_wakeup_new", What::Waking, &["pid"], "comm"),
    threads(
        "sched/sched_switch",
        What::Switch,
        &["prev_pid", "prev_state", "next_pid"],
        "next_comm",
    ),
    threads(
        "sched/sched_migrate_task",
        What::Whole(Kind::Migration),
        &["pid", "orig_cpu", "dest_cpu"],
        "comm",
    ),
    threads(
        "sched/sched_process_fork",
        What::Fork,
        &["parent_pid", "child_pid"],
        "child_comm",
    ),
    threads("sched/sched_process_exit", What::Exit, &["pid"], "comm"),
    Tracepoint {
        buffer: Buffer::Threads,
        ..machine(
            "filemap/mm_filemap_fault",
            What::Whole(Kind::FileFault),
            &["s_dev", "index"],
        )
    },
];

impl Tracepoint {
    /// Returns the kinds of event that are lost without this tracepoint.
    pub fn kinds(&self) -> &'static [Kind] {
        match self.what {
            What::Begin(kind) | What::End(kind) | What::Whole(kind) | What::Asked(kind) => {
                let at = Kind::ALL.iter().position(|one| *one == kind).unwrap_or_default();
                &Kind::ALL[at..=at]
            }
            What::Waking | What::Switch => &[Kind::RunDelay],
            What::Fork | What::Exit | What::Mark => &[],
        }
    }
}
