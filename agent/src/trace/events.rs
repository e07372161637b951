// SPDX-License-Identifier: Apache-2.0
//! The tracepoints that are listened to, and the kinds of event that they make.

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

/// Which events of a kind are told one by one; all are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Those that took at least so long.
    From(u64),
    /// Those that held a thread up.
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

    /// Its name in a recording.
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

    /// Whether only threads of a watched program have it.
    pub fn is_of_threads(self) -> bool {
        matches!(self, Self::RunDelay | Self::Migration | Self::FileFault)
    }

    /// A kind by its name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Which are told unless asked otherwise.
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

/// What a tracepoint tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Something of this kind began in this thread.
    Begin(Kind),
    /// It ended.
    End(Kind),
    /// Something of this kind was over in an instant, or tells its length itself.
    Whole(Kind),
    /// A thread asks for it: it may begin or not.
    Asked(Kind),
    /// A thread can run.
    Waking,
    /// One thread stopped running, another one runs.
    Switch,
    /// A thread made another one.
    Fork,
    /// A thread ended.
    Exit,
    /// A mark of the agent's own.
    Mark,
}

/// Which of the two buffers an event goes to: that of the whole machine, or that of the watched threads alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    Machine,
    Threads,
}

/// A tracepoint, and what is wanted of it.
pub struct Tracepoint {
    /// Group and name.
    pub path: &'static str,
    pub what: What,
    /// Fields that are numbers, in the order in which they are handed on.
    pub numbers: &'static [&'static str],
    /// The field that is a text.
    pub text: Option<&'static str>,
    /// What the kernel leaves out.
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

/// Most numbers of one tracepoint.
pub const NUMBERS: usize = 4;

/// The reason of a flush by which another CPU was interrupted (`TLB_REMOTE_SEND_IPI`).
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
    /// The kinds of event that are lost where it is missing.
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
