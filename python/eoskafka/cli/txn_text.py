"""What `eoskafka txn resolve` says of a job or a query, in words."""

from __future__ import annotations

from eoskafka.jobs import Outcome, Resolution, Settled


def text_of_job(write_id: str, found: Resolution) -> str:
    """What has become of a batch job."""
    text = {
        Outcome.UNKNOWN: "nothing is known of it here. Either it has never begun to write (check "
        "the name, the brokers, --decision-topic and --transactional-id-prefix), or it was "
        "successful and its entry was removed, as it is for a job without a writeId. Check the "
        "output before you run it again",
        Outcome.UNDECIDED: "nothing of it has taken effect, and none of its transactions is open "
        "now; run the job again",
        Outcome.COMMITTED: f"all of it has taken effect, in {found.committed} transactions",
        Outcome.INCOMPLETE: f"a part of it has taken effect: {found.lost} of "
        f"{found.committed + found.lost} transactions had timed out before they could be "
        "committed. Run the same job again, with the same rows, the same number of tasks and "
        "writeId=<its name> (without a writeId: the name in 'Batch write ... begins' in the log of "
        "its driver): it writes the missing rows. Without this option it would write everything "
        "again. To do without the missing rows, use --give-up",
    }[found.outcome]
    forgotten = found.forgotten and found.outcome is not Outcome.UNKNOWN
    return f"{write_id}: {text}" + ("; its entry has been removed" if forgotten else "")


def text_of_write(write: Settled) -> str:
    """What has become of one write of a query."""
    if write.error:
        return f"{write.name}: not settled. {write.error}"
    if write.outcome is Outcome.COMMITTED and write.accepted:
        return (
            f"{write.name}: epoch {write.epoch}, the last one that was decided, has taken effect "
            f"without records whose loss was accepted. Missing from the output: {write.missing}. "
            "No transaction is open"
        )
    if write.outcome is not Outcome.INCOMPLETE:
        what = (
            f"all of epoch {write.epoch}, the last one that was decided, has taken effect, in "
            f"{write.committed} transactions"
            if write.outcome is Outcome.COMMITTED
            else "no epoch was decided"
        )
        return f"{write.name}: {what}; no transaction is open"
    then = (
        "This loss is now accepted, and the query continues without these records"
        if write.accepted
        else "If Spark runs the epoch again with the same rows, it writes them. Otherwise write "
        "them yourself, or do without them, and repeat this command with --accept-loss "
        f"{write.epoch}"
    )
    return (
        f"{write.name}: {write.lost} of the {write.committed + write.lost} transactions of epoch "
        f"{write.epoch} had timed out before they could be committed; the others have taken "
        f"effect. Missing from the output: {write.missing}. {then}"
    )
