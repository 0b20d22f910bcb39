package io.eoskafka.decision;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.faults.FaultPoint;
import io.eoskafka.transaction.TransactionRef;
import io.eoskafka.wire.KafkaCalls;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.errors.TransactionalIdNotFoundException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One epoch, from before its first task to its last transaction's end.
 *
 * <p>Its writers prepare their transactions. The driver decides in one transaction, together with
 * the source offsets, and then commits what the writers have prepared. Until the decision is sent,
 * a failure ends everything. From then on nothing is aborted, whatever happens: only a new start
 * can find out the outcome.
 */
public final class EpochBatch {
  private static final Logger LOG = LoggerFactory.getLogger(EpochBatch.class);

  private final EpochSession session;
  private final WriterScope scope;
  private final Decision.Plan plan;
  private final Decision before;
  private final Set<Integer> lost;
  private final long beganNanos;
  private boolean decided;
  private long timeLeftMs = -1;

  /**
   * @param before the decision that a former run has made on this epoch, or null
   * @param lost the writers of that decision whose output is to be written again
   */
  EpochBatch(
      EpochSession session,
      WriterScope scope,
      Decision.Plan plan,
      Decision before,
      Set<Integer> lost) {
    this.session = session;
    this.scope = scope;
    this.plan = plan;
    this.before = before;
    this.lost = lost;
    beganNanos = session.nanoTime();
  }

  /** For the writers. */
  public WriterScope scope() {
    return scope;
  }

  /**
   * Called when every writer has reported. If the query is stopped meanwhile, the interruption
   * takes effect only after everything has been committed: readers would wait for transactions that
   * stay open.
   *
   * @param sources those of ours that the epoch reads
   * @return how many transactions were committed
   */
  public int commit(List<WriterReport> reports, List<? extends EpochSource> sources) {
    try {
      Uninterrupted.run(() -> decideAndCommit(reports, sources));
    } finally {
      session.stopDeciding();
    }
    FaultPoint.BEFORE_LOG.reach();
    return WriterOutput.transactions(reports.stream().map(WriterReport::output).toList()).size();
  }

  private void decideAndCommit(List<WriterReport> reports, List<? extends EpochSource> sources) {
    List<WriterOutput> outputs =
        reports.stream()
            .map(WriterReport::output)
            .sorted(Comparator.comparingInt(WriterOutput::writer))
            .toList();
    if (before == null) {
      Map<String, Decision.Input> inputs = new HashMap<>();
      sources.forEach(source -> inputs.put(source.producersId(), source.input()));
      decide(
          new Decision(scope.run(), scope.epoch(), session.lastDecided(), plan, outputs, inputs),
          outputs,
          sources);
    } else if (lost.isEmpty()) {
      decided = true;
      if (!hasSameRows(outputs) && session.isJob()) {
        throw EosKafkaException.of("EOSKAFKA_WRITE_ID_USED", Map.of("owner", session.ownerName()));
      }
      if (!hasSameRows(outputs)) {
        LOG.warn(
            "Epoch {} has taken effect before and was run again for its state only. Its rows differ"
                + " this time; the first ones stay.",
            scope.epoch());
      }
    } else {
      heal(outputs);
    }
    session.finish(scope.epoch());
    endLostAttempts(reports);
    sources.forEach(source -> source.epochCommitted(scope.epoch()));
  }

  private void endLostAttempts(List<WriterReport> reports) {
    session
        .lostAttempts()
        .mayBegin(
            reports.stream()
                .filter(report -> !report.isFirstAttempt())
                .map(report -> report.output().writer())
                .collect(Collectors.toSet()));
    if (session.isSink()) {
      session.lostAttempts().endLater();
    } else {
      // The program may read what it has written, up to the first transaction that is open.
      session.lostAttempts().end();
    }
  }

  /** Decides anew for the writers whose transactions were aborted after the first decision. */
  private void heal(List<WriterOutput> outputs) {
    if (!isRepeated(outputs)) {
      throw EosKafkaException.of(
          "EOSKAFKA_EPOCH_NOT_REPEATABLE",
          Map.of(
              "epoch",
              scope.epoch(),
              "lost",
              lost.size(),
              "before",
              before.outputs().size(),
              "now",
              outputs.size(),
              "missing",
              before.describe(lost),
              "owner",
              session.ownerName()));
    }
    List<WriterOutput> merged = new ArrayList<>(before.outputs());
    merged.replaceAll(
        former -> lost.contains(former.writer()) ? of(former.writer(), outputs) : former);
    List<WriterOutput> written =
        merged.stream().filter(output -> lost.contains(output.writer())).toList();
    // The first decision has the offsets.
    decide(
        new Decision(
            scope.run(), scope.epoch(), before.previous(), before.plan(), merged, before.sources()),
        written,
        List.of());
    LOG.warn("Epoch {}: the output of writers {} is written again", scope.epoch(), lost);
  }

  /**
   * Whether all writers together have made the same rows as then. On other cores, the rows may be
   * shared out differently.
   */
  private boolean hasSameRows(List<WriterOutput> outputs) {
    return rows(outputs) == rows(before.outputs()) && digest(outputs) == digest(before.outputs());
  }

  private static long rows(List<WriterOutput> outputs) {
    return outputs.stream().mapToLong(WriterOutput::rows).sum();
  }

  private static long digest(List<WriterOutput> outputs) {
    return outputs.stream().mapToLong(WriterOutput::digest).sum();
  }

  private boolean isRepeated(List<WriterOutput> outputs) {
    return outputs.size() == before.outputs().size()
        && before.outputs().stream()
            .allMatch(
                former -> {
                  WriterOutput now = of(former.writer(), outputs);
                  return now != null && former.isRepeatedBy(now);
                });
  }

  private static WriterOutput of(int writer, List<WriterOutput> outputs) {
    return outputs.stream().filter(output -> output.writer() == writer).findFirst().orElse(null);
  }

  /**
   * @param written the outputs whose transactions are open
   */
  private void decide(
      Decision decision, List<WriterOutput> written, List<? extends EpochSource> sources) {
    FaultPoint.BEFORE_DECISION.reach();
    List<TransactionRef> prepared = WriterOutput.transactions(written);
    session.willDecide(scope.epoch());
    decided = true; // unless an exception says that it was not sent
    Map<String, KafkaFuture<TransactionDescription>> described = new HashMap<>();
    Map<TransactionRef, Integer> openAt = new HashMap<>();
    try {
      session
          .log()
          .decide(
              decision,
              () -> {
                // First: a transaction that has timed out is not open either.
                requireTime();
                described.putAll(session.coordinators().describe(ids(prepared)));
              },
              producer -> {
                sources.forEach(source -> source.addOffsets(producer, scope.epoch()));
                openAt.putAll(requireOpen(prepared, described));
              });
    } catch (RuntimeException e) {
      decided = session.log().isUnclear();
      session.setUnsettled(decided);
      throw e;
    }
    FaultPoint.AFTER_DECISION.reach();
    if (FaultPoint.HALF_ROLLED_FORWARD.isArmed()) {
      List<WriterOutput> half = written.subList(0, (written.size() + 1) / 2);
      session.rollForward(
          new Decision(
              decision.run(),
              decision.epoch(),
              decision.previous(),
              decision.plan(),
              half,
              decision.sources()),
          Map.of());
      FaultPoint.HALF_ROLLED_FORWARD.reach();
    }
    Set<Integer> missing = session.rollForward(decision, openAt);
    if (!missing.isEmpty()) {
      throw EosKafkaException.of(
          "EOSKAFKA_EPOCH_TIMED_OUT",
          Map.of(
              "epoch",
              scope.epoch(),
              "lost",
              missing.size(),
              "writers",
              decision.outputs().size()));
    }
  }

  private static List<String> ids(List<TransactionRef> prepared) {
    return prepared.stream().map(TransactionRef::transactionalId).toList();
  }

  /**
   * Each prepared transaction must be open, and the one that was reported.
   *
   * @return the ids of the brokers that have said so
   */
  private Map<TransactionRef, Integer> requireOpen(
      List<TransactionRef> prepared, Map<String, KafkaFuture<TransactionDescription>> described) {
    Map<TransactionRef, Integer> openAt = new HashMap<>();
    for (TransactionRef transaction : prepared) {
      String now;
      try {
        TransactionDescription found = KafkaCalls.get(described.get(transaction.transactionalId()));
        if (found.state() == TransactionState.ONGOING
            && found.producerId() == transaction.producerId()
            && found.producerEpoch() == transaction.producerEpoch()) {
          openAt.put(transaction, found.coordinatorId());
          continue;
        }
        now = found.state().toString();
      } catch (TransactionalIdNotFoundException e) {
        now = "the id is not known any more";
      }
      throw EosKafkaException.of(
          "EOSKAFKA_PREPARED_GONE",
          Map.of("epoch", scope.epoch(), "prepared", transaction.transactionalId(), "now", now));
    }
    return openAt;
  }

  private void requireTime() {
    long elapsedMs = (session.nanoTime() - beganNanos) / 1_000_000;
    long allowedMs = session.times().undecidedForMs();
    timeLeftMs = allowedMs - elapsedMs;
    if (timeLeftMs < 0) {
      throw EosKafkaException.of(
          before == null ? "EOSKAFKA_EPOCH_TOO_LONG" : "EOSKAFKA_EPOCH_TOO_LONG_AGAIN",
          Map.of(
              "epoch",
              scope.epoch(),
              "elapsed",
              elapsedMs,
              "allowed",
              allowedMs,
              "timeout",
              scope.transactionTimeoutMs(),
              "reserve",
              session.times().recoveryReserveMs()));
    }
    if (timeLeftMs < allowedMs / 2) {
      LOG.warn(
          "Epoch {} took {} ms. It would be given up undecided after {} ms: its transactions time"
              + " out after {} ms, of which {} ms are kept for a restart. Make batches smaller or"
              + " raise kafka.transaction.timeout.ms",
          scope.epoch(),
          elapsedMs,
          allowedMs,
          scope.transactionTimeoutMs(),
          session.times().recoveryReserveMs());
    }
  }

  /**
   * How much later the epoch could have been decided, in milliseconds; empty if it was decided by a
   * former run and nothing of it was written again.
   */
  public OptionalLong timeLeftMs() {
    return timeLeftMs < 0 ? OptionalLong.empty() : OptionalLong.of(timeLeftMs);
  }

  /** Whether it has taken effect, or may have, in this run or a former one. */
  public boolean mayBeDecided() {
    return decided || before != null;
  }

  /** Ends what the epoch's writers have prepared, unless it may be decided. */
  public void abort() {
    if (decided) {
      LOG.warn("Epoch {} may be decided; the next start settles it", scope.epoch());
      return;
    }
    session.giveUp();
    session.lostAttempts().mayBegin();
    Uninterrupted.run(() -> session.lostAttempts().end());
  }
}
