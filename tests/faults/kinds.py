"""The kinds of fault that a campaign has, by name, and which of them a workload can meet."""

from __future__ import annotations

from faults import cluster_faults, process_faults
from faults.process_faults import Fault
from faults.proxy import Api
from faults.workloads import Workload

KINDS: dict[str, Fault] = {
    "executor killed": process_faults.kill_executor,
    "executor paused": process_faults.pause_executor,
    "executor paused, then the other killed": process_faults.kill_other_after_pause,
    "executor paused before it reads": process_faults.pause_executor_before_reading,
    "driver killed": process_faults.kill_driver,
    "driver paused": process_faults.pause_driver,
    "broker paused": process_faults.pause_broker,
    "transaction coordinator killed": process_faults.kill_transaction_coordinator,
    "group coordinator killed": process_faults.kill_group_coordinator,
    "controller killed": cluster_faults.kill_controller,
    "two brokers paused": cluster_faults.pause_two_brokers,
    "two brokers killed": cluster_faults.kill_two_brokers,
    "brokers restarted in turn": cluster_faults.restart_brokers_in_turn,
    "a stranger's transaction open": cluster_faults.leave_transaction_open,
    "connections cut": process_faults.cut_connections,
    "leader of the output cut off before-flush": process_faults.cut_off_leader_of_output,
    "replies swallowed": cluster_faults.swallow_replies,
    "disk full": cluster_faults.fill_disk,
    "packets lost": cluster_faults.lose_packets,
    "replies delayed": process_faults.delay_replies,
    **{
        f"{api.name} reply lost": process_faults.reply_lost(api)
        for api in (Api.END_TXN, Api.TXN_OFFSET_COMMIT, Api.INIT_PRODUCER_ID, Api.PRODUCE)
    },
    **{
        f"executor killed {point}": process_faults.executor_killed(point)
        for point in ("before-flush", "after-flush", "after-offsets", "after-commit")
    },
    **{
        f"driver killed {point}": process_faults.driver_killed(point)
        for point in ("before-decision", "after-decision", "half-rolled-forward", "before-log")
    },
    **{
        f"executor given up {point}": process_faults.executor_given_up(point)
        for point in ("before-flush", "after-flush")
    },
    "executor given up, and its successor late": process_faults.let_given_up_executor_commit,
    "driver replaced while paused": process_faults.replace_paused_driver,
    **{
        f"driver replaced {point}": process_faults.driver_replaced(point)
        for point in ("before-decision", "after-decision")
    },
    "decided transactions aborted": process_faults.abort_decided,
    "driver killed, and the rest of its decided transactions aborted": (
        process_faults.abort_rest_of_decided
    ),
}

# Between the names of two faults that happen at the same time.
DURING = " during "

# Faults of brokers and connections that may happen together with one of a process.
OF_BROKERS = (
    "broker paused",
    "transaction coordinator killed",
    "group coordinator killed",
    "controller killed",
    "a stranger's transaction open",
    "connections cut",
    "replies swallowed",
    "replies delayed",
)

# Steps that exist in one scope only.
_OF_TASK_SCOPE = ("executor killed after-offsets", "executor killed after-commit")
_OF_EPOCH_SCOPE = (
    "driver killed before-decision",
    "driver killed after-decision",
    "driver killed half-rolled-forward",
    "driver replaced before-decision",
    "driver replaced after-decision",
    "decided transactions aborted",
    "driver killed, and the rest of its decided transactions aborted",
)

_OF_ROOT = ("disk full", "packets lost")


def kinds(workload: Workload) -> list[str]:
    """The kinds of fault that can hit this workload, and that this user may cause."""
    absent: tuple[str, ...] = _OF_TASK_SCOPE if workload.in_epoch_scope else _OF_EPOCH_SCOPE
    if not cluster_faults.can_mount_and_filter():
        absent += _OF_ROOT
    return [kind for kind in KINDS if kind not in absent]


def of_processes(workload: Workload) -> list[str]:
    """Those of them that hit a process of Spark."""
    return [kind for kind in kinds(workload) if kind.startswith(("executor", "driver"))]
