"""Faults of a campaign that hit Spark's processes, one broker, or the connections to brokers.

Each one says when it happens (`Campaign.happens_now`), and returns what it hit. A fault that has
several targets chooses by the generator that it is given, so that two faults at a time do not
change each other's choice.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from eoskafka.demo.processes import Process
from harness import Action, Point, until
from harness.flow import end

from faults.proxy import Api

if TYPE_CHECKING:
    from faults.campaign import Campaign

Fault = Callable[["Campaign", random.Random], str]

# How long each fault lasts. Brokers are taken for dead after 4 s.
_PAUSE_S = 3.0
# Spark waits three seconds for the executor that a task prefers, and five for its sign of life.
_MOVED_S = 4.0
_COMMIT_S = 2.0
_BROKER_PAUSE_S = 6.0
_CUT_S = 3.0
_DELAY_S = 0.3
_REQUEST_S = 60.0
# A worker kills an executor ten seconds after it was told to end it.
_OTHERS_S = 8.0
# A driver reads at once what has become of a transaction whose commit is refused.
_NOTICED_S = 30.0


def _taken(campaign: Campaign, point: Point, action: Action) -> int:
    """The process that next reaches this point, and does this there: the fault happens then."""
    campaign.application.faults.arm(point, action)
    pid = campaign.application.faults.wait_taken(point)
    campaign.happens_now()
    return pid


def kill_executor(campaign: Campaign, rng: random.Random) -> str:
    """Kill one of the executors."""
    victim = rng.choice(campaign.application.executors())
    campaign.happens_now()
    victim.id.send(signal.SIGKILL)
    return f"pid {victim.id.pid}"


def pause_executor(campaign: Campaign, rng: random.Random) -> str:
    """Stop one of the executors, and let it continue."""
    victim = rng.choice(campaign.application.executors())
    campaign.happens_now()
    campaign.application.pause(victim.id.pid)
    campaign.last(_PAUSE_S)
    campaign.application.resume(victim.id.pid)
    return f"pid {victim.id.pid}"


def kill_other_after_pause(campaign: Campaign, rng: random.Random) -> str:
    """Stop an executor until others do its work, let it continue, and kill these others.

    Its work comes back to it, and what it has kept is of batches that are long over.
    """
    executors = campaign.application.executors()
    kept, *others = rng.sample(executors, len(executors))
    campaign.application.pause(kept.id.pid)
    campaign.last(_MOVED_S)
    campaign.application.resume(kept.id.pid)
    now = time.monotonic()
    until(lambda: campaign.reader.has_all_since(now), "what all executors do", _REQUEST_S)
    campaign.happens_now()
    _kill(others)
    return f"all but pid {kept.id.pid}"


def pause_executor_before_reading(campaign: Campaign, _: random.Random) -> str:
    """Kill the executors; stop one of the next ones when it has read nothing yet, for a while."""
    campaign.application.faults.arm("after-init", "stop")
    _kill(campaign.application.executors())
    victim = campaign.application.faults.wait_taken("after-init")
    campaign.happens_now()
    campaign.last(_PAUSE_S)
    campaign.application.resume(victim)
    return f"pid {victim}"


def _kill(executors: Iterable[Process]) -> None:
    for executor in executors:
        executor.id.send(signal.SIGKILL)


def executor_killed(point: Point) -> Fault:
    """Kills the executor that next reaches this point."""

    def kill(campaign: Campaign, _: random.Random) -> str:
        return f"pid {_taken(campaign, point, 'kill')}"

    return kill


def executor_given_up(point: Point) -> Fault:
    """Stops the executor that next reaches this point until its driver has given it up.

    It goes on when others have done its work, or before its worker would kill it.
    """

    def give_up(campaign: Campaign, _: random.Random) -> str:
        application = campaign.application
        victim = _taken(campaign, point, "stop")
        before = len(application.text())
        until(
            lambda: "with no recent heartbeats" in application.text()[before:],
            "the end of the driver's patience",
            _REQUEST_S,
        )
        now = time.monotonic()
        with suppress(TimeoutError):
            until(lambda: campaign.reader.has_all_since(now), "what others do", _OTHERS_S)
        application.resume(victim)
        return f"pid {victim}"

    return give_up


def let_given_up_executor_commit(campaign: Campaign, _: random.Random) -> str:
    """Stop an executor that has written, and let it commit when the next attempt has begun.

    The next attempt has seen the offsets of before, and has no producer yet.
    """
    application = campaign.application
    victim = _taken(campaign, "after-flush", "stop")
    application.faults.arm("before-init", "stop")
    successor = application.faults.wait_taken("before-init")
    application.resume(victim)
    campaign.last(_COMMIT_S)
    application.resume(successor)
    return f"pid {victim}, then pid {successor}"


def kill_driver(campaign: Campaign, _: random.Random) -> str:
    """Kill the driver, and start the query in another one."""
    campaign.happens_now()
    campaign.replace_driver()
    return "its Python process and its JVM"


def driver_killed(point: Point) -> Fault:
    """Kills the driver when it next reaches this point, and starts the query in another one."""

    def kill(campaign: Campaign, _: random.Random) -> str:
        _taken(campaign, point, "kill")
        campaign.replace_driver()
        return "its JVM, then its Python process"

    return kill


def pause_driver(campaign: Campaign, _: random.Random) -> str:
    """Stop the driver, and let it continue."""
    campaign.happens_now()
    campaign.application.pause_driver()
    campaign.last(_PAUSE_S)
    campaign.application.resume()
    return "its Python process and its JVM"


def replace_paused_driver(campaign: Campaign, _: random.Random) -> str:
    """Stop the driver, start the query in another one, and let the first one go on beside it."""
    campaign.happens_now()
    campaign.application.pause_driver()
    campaign.outlive_driver()
    return "its Python process and its JVM"


def driver_replaced(point: Point) -> Fault:
    """Stops the driver when it next reaches this point; then as `replace_paused_driver`."""

    def replace(campaign: Campaign, _: random.Random) -> str:
        victim = _taken(campaign, point, "stop")
        campaign.outlive_driver()
        return f"its JVM, pid {victim}"

    return replace


def abort_decided(campaign: Campaign, _: random.Random) -> str:
    """Abort what the driver has decided on and not committed yet, as their timeout would."""
    campaign.application.faults.arm("after-decision", "stop")
    campaign.application.faults.wait_taken("after-decision")
    aborted = _abort_open(campaign)
    campaign.happens_now()
    campaign.application.resume()
    try:
        error = campaign.query.wait_end(_NOTICED_S).error or ""
    except TimeoutError:
        pass  # It has not noticed, and goes on; then records are missing at the end.
    else:
        assert "[EOSKAFKA_EPOCH_TIMED_OUT]" in error, error
        campaign.start_query()
    return f"{aborted} transactions"


def abort_rest_of_decided(campaign: Campaign, _: random.Random) -> str:
    """Kill the driver when it has committed some of what it decided on, and abort the rest."""
    _taken(campaign, "half-rolled-forward", "kill")
    aborted = _abort_open(campaign)
    campaign.replace_driver()
    return f"its JVM, and {aborted} transactions"


def _abort_open(campaign: Campaign) -> int:
    """Abort the query's transactions that its driver has decided on; how many there were."""
    decided = [
        name for name in campaign.flow.open_transactions() if not name.endswith("-decisions")
    ]
    assert decided, "the driver has decided on no transaction that is still open"
    for name in decided:
        end(campaign.flow, name)
    return len(decided)


def pause_broker(campaign: Campaign, rng: random.Random) -> str:
    """Stop one of the brokers for longer than the others wait for it, and let it continue."""
    node = rng.choice(sorted(campaign.cluster.brokers))
    campaign.happens_now()
    campaign.cluster.brokers[node].pause()
    campaign.last(_BROKER_PAUSE_S)
    campaign.cluster.brokers[node].resume()
    return f"broker {node}"


def kill_transaction_coordinator(campaign: Campaign, rng: random.Random) -> str:
    """Kill the coordinator of one of the query's transactional ids, and start it again."""
    name = rng.choice(campaign.flow.transactional_ids())
    node = campaign.cluster.transaction_coordinator(name)
    return f"{_restart(campaign, node)} of {name}"


def kill_group_coordinator(campaign: Campaign, _: random.Random) -> str:
    """Kill the coordinator of the query's group, and start it again."""
    return _restart(campaign, campaign.cluster.group_coordinator(campaign.flow.group))


def cut_connections(campaign: Campaign, rng: random.Random) -> str:
    """No client reaches one of the brokers for a while."""
    node = rng.choice(sorted(campaign.cluster.proxies))
    campaign.happens_now()
    campaign.cluster.proxies[node].cut()
    campaign.last(_CUT_S)
    campaign.cluster.proxies[node].mend()
    return f"broker {node}'s clients"


def cut_off_leader_of_output(campaign: Campaign, rng: random.Random) -> str:
    """No client reaches a leader of the output when a task has written and not yet flushed.

    A broker that is stopped would not do: until it is out of the replicas that must be in sync, no
    record of any other leader is acknowledged either.
    """
    victim = _taken(campaign, "before-flush", "stop")
    leaders = campaign.cluster.leaders(campaign.flow.output)
    node = leaders[rng.choice(sorted(leaders))]
    campaign.cluster.proxies[node].cut()
    campaign.application.resume(victim)
    campaign.last(_CUT_S)
    campaign.cluster.proxies[node].mend()
    return f"broker {node}'s clients"


def delay_replies(campaign: Campaign, _: random.Random) -> str:
    """Every reply takes 0.3 s longer for a while."""
    campaign.happens_now()
    for proxy in campaign.cluster.proxies.values():
        proxy.delay(_DELAY_S)
    campaign.last(_CUT_S)
    for proxy in campaign.cluster.proxies.values():
        proxy.mend()
    return "every reply"


def reply_lost(api: Api) -> Fault:
    """Loses the next reply to a request of this kind, with its connection."""

    def lose(campaign: Campaign, _: random.Random) -> str:
        drops = [proxy.drop_reply(api) for proxy in campaign.cluster.proxies.values()]
        if api is Api.INIT_PRODUCER_ID:  # executors without a producer ask for one
            _kill(campaign.application.executors())
        until(
            lambda: any(drop.happened.is_set() for drop in drops), f"a lost {api.name}", _REQUEST_S
        )
        campaign.happens_now()
        for proxy in campaign.cluster.proxies.values():
            proxy.mend()
        return f"a reply to {api.name}"

    return lose


def _restart(campaign: Campaign, node: int) -> str:
    broker = campaign.cluster.brokers[node]
    campaign.happens_now()
    broker.kill()
    broker.start()
    return f"broker {node}"
