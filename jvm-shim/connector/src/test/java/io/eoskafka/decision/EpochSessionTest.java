package io.eoskafka.decision;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import io.eoskafka.config.SinkOptions;
import io.eoskafka.identity.Identity;
import io.eoskafka.spark.Checkpoint;
import io.eoskafka.transaction.TransactionCounts;
import io.eoskafka.transaction.Transactions;
import io.eoskafka.wire.Daemon;
import io.eoskafka.wire.KafkaCalls;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs of one query in epoch scope, with two writers, against a broker in memory. */
class EpochSessionTest {
  private static final int WRITERS = 2;
  private static final String ID = Identity.digest("owner");
  private static final SinkOptions OPTIONS =
      SinkOptions.parse(
          new CaseInsensitiveStringMap(
              Map.of("kafka.bootstrap.servers", "broker:9092", "topic", "t")));
  private static final EpochTimes TIMES = new EpochTimes(600_000, 1_000, 200_000);

  @TempDir Path folder;

  private final MemoryBroker broker = new MemoryBroker();

  private Executor background = Runnable::run;

  /** What the rows of an epoch's writers add up to. */
  private long digest = 77;

  @BeforeEach
  void planTheFirstBatch() throws IOException {
    Files.createDirectory(folder.resolve("offsets"));
    Files.createDirectory(folder.resolve("commits"));
    plan(0);
  }

  private void plan(long batch) {
    write("offsets/" + batch, "plan " + batch);
  }

  private void log(long batch) {
    write("commits/" + batch, "v1");
  }

  private void write(String file, String text) {
    try {
      Files.writeString(folder.resolve(file), text);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private EpochOwner owner(boolean isSink) {
    String file = isSink ? EpochOwner.SINK_FILE : "eoskafka-write-x.json";
    return new EpochOwner(
        ID,
        "the query",
        file,
        isSink ? null : "x",
        new Checkpoint(folder.toString(), new Configuration()),
        true);
  }

  /** A driver starts. */
  private EpochSession start(boolean isSink) {
    EpochSession session = connect(isSink, () -> {});
    session.start();
    return session;
  }

  /**
   * A driver gets ready to start.
   *
   * @param meanwhile what happens after it has fenced the former driver, before it reads the topic
   */
  private EpochSession connect(boolean isSink, Runnable meanwhile) {
    return connect(owner(isSink), meanwhile);
  }

  private EpochSession connect(EpochOwner owner, Runnable meanwhile) {
    Optional<SinkIdentity> kept = owner.kept();
    SinkIdentity identity =
        new SinkIdentity(
            ID,
            "cluster",
            MemoryBroker.TOPIC,
            MemoryBroker.PARTITIONS,
            OPTIONS.transactionalIdPrefix(),
            owner.writeId());
    String decisionId = MemoryBroker.decisionId(owner.prefix(OPTIONS), ID);
    DecisionLog log =
        DecisionLog.open(
            broker,
            () -> {
              Transactions producer = broker.producer(decisionId);
              meanwhile.run();
              return producer;
            },
            ID,
            decisionId,
            0,
            kept.isPresent(),
            () -> broker.highestRun(ID));
    return new EpochSession(
        owner,
        OPTIONS,
        new EpochConnection(
            identity,
            kept.equals(Optional.of(identity)),
            broker,
            broker,
            log,
            SinkOptions::client,
            TIMES,
            System::nanoTime,
            background));
  }

  private EpochSession start() {
    return start(true);
  }

  /** All writers of an epoch run, and leave their transactions open. */
  private List<WriterReport> run(EpochBatch batch) {
    List<WriterReport> reports = new ArrayList<>();
    for (int writer = 0; writer < WRITERS; writer++) {
      WriterOutput output =
          batch.scope().isWriting(writer)
              ? new WriterOutput(
                  writer,
                  broker.prepare(batch.scope().transactionalId(writer, 0, 0)),
                  batch.scope().presencePartition(writer),
                  writer,
                  5,
                  digest)
              : WriterOutput.withoutTransaction(writer, 5, digest);
      reports.add(new WriterReport(output, true, TransactionCounts.NONE));
    }
    return reports;
  }

  private int write(EpochSession session, long epoch) {
    EpochBatch batch = session.begin(epoch, OPTIONS);
    return batch.commit(run(batch), List.of());
  }

  private static List<String> ids(EpochBatch batch) {
    return IntStream.range(0, WRITERS)
        .mapToObj(writer -> batch.scope().transactionalId(writer, 0, 0))
        .toList();
  }

  @Test
  void aJobOfWhichNothingIsKnownIsNotKnownTheNextTimeEither() {
    for (int time = 0; time < 2; time++) {
      EpochSession session = connect(EpochOwner.ofDeadJob(ID), () -> {});
      session.start();
      assertThat(session.log().isNew()).isTrue();
      session.close();
    }
  }

  @Test
  void theDecisionIsCommittedAfterWritersWereLookedAtAndBeforeTheyAreCommitted() {
    EpochSession session = start();
    EpochBatch batch = session.begin(0, OPTIONS);
    List<WriterReport> reports = run(batch);
    broker.restart();
    assertThat(batch.commit(reports, List.of())).isEqualTo(WRITERS);
    assertThat(broker.calls)
        .containsExactly(
            "begin",
            "send decision",
            "flush",
            "describe",
            "commit",
            "commit writer at broker 0",
            "commit writer at broker 0",
            "read presence records",
            "abort writers");
    assertThat(broker.committed()).containsExactlyInAnyOrderElementsOf(ids(batch));
    assertThat(session.lastDecided()).isZero();
  }

  @Test
  void aWriterRemovesItsOwnPresenceRecordOfTheLastEpoch() {
    EpochSession session = start();
    EpochBatch first = session.begin(0, OPTIONS);
    first.commit(run(first), List.of());
    assertThat(first.scope().formerPresence()).isEmpty();
    plan(1);
    broker.restart();
    EpochBatch second = session.begin(1, OPTIONS);
    second.commit(run(second), List.of());
    assertThat(second.scope().formerPresence())
        .isEqualTo(
            Map.of(
                0, first.scope().presenceKey(ids(first).get(0)),
                1, first.scope().presenceKey(ids(first).get(1))));
    assertThat(broker.calls).doesNotContain("remove marker");
  }

  @Test
  void aDecisionRemovesThePresenceRecordsThatNoWriterHasRemoved() {
    EpochSession session = start();
    write(session, 0);
    plan(1);
    broker.restart();
    EpochBatch batch = session.begin(1, OPTIONS);
    WriterReport first = run(batch).get(0);
    WriterOutput withoutRows = WriterOutput.withoutTransaction(1, 0, 0);
    batch.commit(
        List.of(first, new WriterReport(withoutRows, true, TransactionCounts.NONE)), List.of());
    assertThat(broker.calls).containsOnlyOnce("remove marker");
  }

  @Test
  void anEpochBeginsAfterTheLastOneHasEndedLostAttempts() {
    background =
        work ->
            Daemon.start(
                "late",
                () -> {
                  KafkaCalls.sleep(300);
                  work.run();
                });
    EpochSession session = start();
    write(session, 0);
    plan(1);
    broker.restart();
    EpochBatch next = session.begin(1, OPTIONS);
    List<WriterReport> reports = run(next);
    assertThat(broker.calls).containsExactly("abort writers");
    assertThat(next.commit(reports, List.of())).isEqualTo(WRITERS);
  }

  @Test
  void lostAttemptsThatCannotBeEndedDoNotFailTheNextEpoch() {
    EpochSession session = start();
    EpochBatch batch = session.begin(0, OPTIONS);
    List<WriterReport> reports = run(batch);
    broker.restart();
    broker.before(
        "abort writers",
        () -> {
          throw new TimeoutException("no answer");
        });
    batch.commit(reports, List.of());
    plan(1);
    // What was asked for may yet be done, and must not meet the next epoch's transactions.
    assertThat(ids(session.begin(1, OPTIONS))).doesNotContainAnyElementsOf(ids(batch));
    assertThat(write(session, 1)).isEqualTo(WRITERS);
  }

  @Test
  void onlyAWriterOfWhichAnAttemptHasNotReportedGetsAnotherId() {
    EpochSession session = start();
    EpochBatch batch = session.begin(0, OPTIONS);
    List<WriterReport> reports = run(batch);
    reports.set(1, new WriterReport(reports.get(1).output(), false, TransactionCounts.NONE));
    batch.commit(reports, List.of());
    plan(1);
    List<String> next = ids(session.begin(1, OPTIONS));
    assertThat(next.get(0)).isEqualTo(ids(batch).get(0));
    assertThat(next.get(1)).isNotIn(ids(batch));
  }

  @Test
  void aSessionEndsAlthoughLostAttemptsAreNotEnded() {
    background = work -> {};
    EpochSession session = start();
    write(session, 0);
    assertTimeoutPreemptively(Duration.ofSeconds(20), session::close);
  }

  @Test
  void anEpochWithAWriterWhoseTransactionHasTimedOutIsNotDecided() {
    EpochSession session = start();
    EpochBatch batch = session.begin(0, OPTIONS);
    List<WriterReport> reports = run(batch);
    broker.timeOut(ids(batch).get(1));
    assertThatThrownBy(() -> batch.commit(reports, List.of()))
        .hasMessageContaining("[EOSKAFKA_PREPARED_GONE]");
    assertThat(batch.mayBeDecided()).isFalse();
    batch.abort();
    assertThat(broker.open()).isEmpty();
    assertThat(broker.committed()).isEmpty();
    // A decision has failed: another run decides the next one.
    assertThatThrownBy(() -> session.begin(0, OPTIONS))
        .hasMessageContaining("[EOSKAFKA_RUN_ENDED]");
    assertThat(write(start(), 0)).isEqualTo(WRITERS);
  }

  /** The decision is the first commit; its answer gets lost. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aDecisionWithoutAnAnswerIsSettledByTheNextStart(boolean tookEffect) {
    EpochSession session = start();
    EpochBatch batch = session.begin(0, OPTIONS);
    List<WriterReport> reports = run(batch);
    broker.crashAt(5, tookEffect);
    assertThatThrownBy(() -> batch.commit(reports, List.of()))
        .hasMessageContaining("[EOSKAFKA_DECISION_UNKNOWN]");
    assertThat(batch.mayBeDecided()).isTrue();
    broker.restart();
    batch.abort();
    session.close();
    // Neither takes back what may be decided.
    assertThat(broker.open()).hasSize(WRITERS);
    EpochSession next = start();
    assertThat(next.isDecided(0)).isEqualTo(tookEffect);
    assertThat(broker.open()).isEmpty();
    assertThat(broker.committed())
        .containsExactlyInAnyOrderElementsOf(tookEffect ? ids(batch) : List.of());
  }

  @Test
  void aDecidedEpochThatRunsAgainWritesNothing() {
    EpochSession first = start();
    write(first, 0);
    EpochSession next = start();
    EpochBatch again = next.begin(0, OPTIONS);
    assertThat(again.scope().isWriting(0)).isFalse();
    assertThat(again.mayBeDecided()).isTrue();
    assertThat(again.commit(run(again), List.of())).isZero();
    assertThatThrownBy(() -> next.begin(0, OPTIONS))
        .hasMessageContaining("[EOSKAFKA_SECOND_WRITE]");
  }

  /** A run that has decided an epoch, one of whose writers' transactions times out then. */
  private EpochSession afterALoss(boolean isSink) {
    EpochSession session = start(isSink);
    EpochBatch batch = session.begin(0, OPTIONS);
    List<WriterReport> reports = run(batch);
    // At the first commit of a writer.
    broker.crashAt(6, true);
    assertThatThrownBy(() -> batch.commit(reports, List.of()))
        .isInstanceOf(MemoryBroker.Crash.class);
    broker.restart();
    List.copyOf(broker.open()).forEach(broker::timeOut);
    assertThat(broker.committed()).hasSize(1);
    return start(isSink);
  }

  @Test
  void onlyTheWritersWhoseOutputWasLostWriteAgain() {
    EpochSession next = afterALoss(true);
    assertThat(next.lost()).hasSize(1);
    int lost = next.lost().iterator().next();
    EpochBatch again = next.begin(0, OPTIONS);
    assertThat(again.scope().isWriting(lost)).isTrue();
    assertThat(again.scope().isWriting(1 - lost)).isFalse();
    assertThat(again.commit(run(again), List.of())).isEqualTo(1);
    assertThat(broker.committed()).hasSize(WRITERS);
    assertThat(start().lost()).isEmpty();
  }

  @Test
  void anEpochWithOtherRowsIsNotWrittenAgain() {
    EpochSession next = afterALoss(true);
    EpochBatch again = next.begin(0, OPTIONS);
    digest++;
    List<WriterReport> reports = run(again);
    assertThatThrownBy(() -> again.commit(reports, List.of()))
        .hasMessageContaining("[EOSKAFKA_EPOCH_NOT_REPEATABLE]");
    assertThat(broker.committed()).hasSize(1);
  }

  @Test
  void aLossThatNoEpochWritesAgainStopsTheOwnerUntilItIsAccepted() {
    EpochSession next = afterALoss(true);
    plan(1);
    assertThatThrownBy(() -> next.begin(1, OPTIONS))
        .hasMessageContaining("[EOSKAFKA_WRITE_INCOMPLETE]");
    next.acceptLoss();
    assertThat(next.lost()).isEmpty();
    assertThat(start().lost()).isEmpty();
  }

  @Test
  void anEpochThatWasDecidedBesideThisStartIsTaken() {
    write(start(), 0);
    log(0);
    EpochSession next = start();
    assertThat(next.isDecided(0)).isFalse();
    assertThatThrownBy(() -> next.begin(0, OPTIONS)).hasMessageContaining("[EOSKAFKA_EPOCH_TAKEN]");
  }

  @Test
  void aFormerDriverDecidesNothing() {
    EpochSession former = start();
    EpochBatch batch = former.begin(0, OPTIONS);
    List<WriterReport> reports = run(batch);
    EpochSession next = start();
    assertThat(broker.open()).isEmpty();
    run(next.begin(0, OPTIONS));
    Set<String> ofNext = Set.copyOf(broker.open());
    assertThatThrownBy(() -> batch.commit(reports, List.of()))
        .hasMessageContaining("[EOSKAFKA_DECISION_FENCED]");
    former.close();
    assertThat(broker.open()).isEqualTo(ofNext);
  }

  @Test
  void aStartThatOnlySettlesStopsIfAnotherDriverStartsBeforeItHasReadTheDecisions() {
    start(false).close();
    assertThatThrownBy(() -> connect(false, () -> run(start(false).begin(0, OPTIONS))))
        .hasMessageContaining("[EOSKAFKA_DECISION_FENCED]");
    assertThat(broker.open()).hasSize(WRITERS);
  }

  @Test
  void aStartThatOnlySettlesEndsNothingOfADriverThatStartsAfterIt() {
    start(false).close();
    EpochSession settling = connect(false, () -> {});
    run(start(false).begin(0, OPTIONS));
    settling.settle();
    assertThat(broker.open()).hasSize(WRITERS);
  }

  @Test
  void anAttemptThatPreparesAfterItsSessionWasClosedIsEnded() {
    EpochSession session = start();
    EpochBatch batch = session.begin(0, OPTIONS);
    session.close();
    run(batch);
    batch.abort();
    assertThat(broker.open()).isEmpty();
    // The session's own client is closed by then.
    assertThat(broker.clientsWhileClosing()).isEqualTo(2);
  }

  @Test
  void aStartThatOnlySettlesEndsWhatFormerRunsHaveLeft() {
    run(start(false).begin(0, OPTIONS));
    assertThat(connect(false, () -> {}).settle()).isEmpty();
    assertThat(broker.open()).isEmpty();
  }

  @Test
  void aClosedSessionDecidesNothing() {
    EpochSession session = start();
    EpochBatch batch = session.begin(0, OPTIONS);
    List<WriterReport> reports = run(batch);
    session.close();
    assertThat(broker.open()).isEmpty();
    assertThatThrownBy(() -> batch.commit(reports, List.of()))
        .hasMessageContaining("[EOSKAFKA_RUN_ENDED]");
  }

  @ParameterizedTest
  @ValueSource(strings = {"send decision", "commit", "commit writer at broker 0", "abort writers"})
  void whatAThreadIsDecidingWhenItsSessionIsClosedIsCommitted(String call) {
    EpochSession session = start(false);
    EpochBatch batch = session.begin(0, OPTIONS);
    List<WriterReport> reports = run(batch);
    broker.before(call, session::close);
    batch.commit(reports, List.of());
    assertThat(broker.committed()).hasSize(WRITERS);
    assertThat(broker.open()).isEmpty();
    assertThat(broker.callsAfterClose()).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aSessionWhoseDecisionFailsIsClosedAfterIt(boolean takesEffect) {
    EpochSession session = start(false);
    EpochBatch batch = session.begin(0, OPTIONS);
    List<WriterReport> reports = run(batch);
    broker.before(
        "commit",
        () -> {
          session.close();
          broker.crashAt(1, takesEffect);
        });
    assertThatThrownBy(() -> batch.commit(reports, List.of()))
        .hasMessageContaining("[EOSKAFKA_DECISION_UNKNOWN]");
    assertThat(broker.closedSessions()).isEqualTo(1);
    broker.restart();
    start(false).close();
    assertThat(broker.committed()).hasSize(takesEffect ? WRITERS : 0);
    assertThat(broker.open()).isEmpty();
  }

  @Test
  void aWriterThatHasNotReportedGetsNoLaterOneWithItsId() {
    EpochSession session = start();
    EpochBatch first = session.begin(0, OPTIONS);
    first.abort();
    EpochBatch second = session.begin(0, OPTIONS);
    assertThat(ids(second)).doesNotContainAnyElementsOf(ids(first));
  }

  private enum Checkpoints {
    OLDER("EOSKAFKA_DECISION_NEWER"),
    OTHER("EOSKAFKA_DECISION_OTHER_PLAN");

    private final String condition;

    Checkpoints(String condition) {
      this.condition = condition;
    }
  }

  @ParameterizedTest
  @EnumSource(Checkpoints.class)
  void aDecisionThatIsNotOfSparksPlanStopsTheQuery(Checkpoints now) throws IOException {
    EpochSession session = start();
    write(session, 0);
    plan(1);
    write(session, 1);
    if (now == Checkpoints.OLDER) {
      Files.delete(folder.resolve("offsets/1"));
    } else {
      write("offsets/1", "another plan");
    }
    assertThatThrownBy(this::start).hasMessageContaining("[" + now.condition + "]");
  }

  /** Spark logs a batch of foreachBatch whatever has become of its writes. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aLoggedDecisionIsRolledForwardForAWriteOfForeachBatch(boolean isSink) {
    EpochSession session = start(isSink);
    EpochBatch batch = session.begin(0, OPTIONS);
    List<WriterReport> reports = run(batch);
    broker.crashAt(6, false);
    assertThatThrownBy(() -> batch.commit(reports, List.of()))
        .isInstanceOf(MemoryBroker.Crash.class);
    broker.restart();
    log(0);
    start(isSink);
    assertThat(broker.open()).isEmpty();
    assertThat(broker.committed()).hasSize(isSink ? 0 : WRITERS);
  }

  /**
   * A driver that crashes at any call of an epoch, carried out or not, is started again: then the
   * epoch was decided and all of it is committed, or nothing of it is, and nothing is open.
   */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anEpochTakesEffectWholeOrNotAtAllWhereverTheDriverCrashes(boolean tookEffect)
      throws IOException {
    for (int call = 1; call <= 9; call++) {
      EpochSession session = start();
      EpochBatch batch = session.begin(0, OPTIONS);
      List<WriterReport> reports = run(batch);
      broker.crashAt(call, tookEffect);
      try {
        batch.commit(reports, List.of());
      } catch (RuntimeException e) {
        // The driver is gone.
      }
      broker.restart();
      EpochSession next = start();
      assertThat(broker.open()).isEmpty();
      assertThat(next.lost()).isEmpty();
      List<String> committed = ids(batch).stream().filter(broker.committed()::contains).toList();
      assertThat(committed).hasSize(next.isDecided(0) ? WRITERS : 0);
      assertThat(next.isDecided(0)).isEqualTo(call > 5 || call == 5 && tookEffect);
      next.forget();
      broker.committed().clear();
      Files.delete(folder.resolve(EpochOwner.SINK_FILE));
    }
  }
}
