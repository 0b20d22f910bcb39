package io.eoskafka.decision;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.faults.FaultPoint;
import io.eoskafka.spark.RunningQuery;
import io.eoskafka.transaction.TransactionalId;
import io.eoskafka.transaction.TransactionalProducer;
import io.eoskafka.wire.BrokerVersions;
import io.eoskafka.wire.Daemon;
import io.eoskafka.wire.KafkaCalls;
import io.eoskafka.wire.OutputTopics;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.function.Function;
import java.util.function.LongSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterResult;

/**
 * An owner's place in the decision topic, and whom a session of it asks.
 *
 * @param identity of the owner
 * @param isKept whether the checkpoint has this identity already
 * @param topic where decisions and presence records are
 * @param coordinators of the writers' transactions
 * @param log of the owner's decisions
 * @param outputs the settings of a sink's producers
 * @param times of its epochs
 * @param nanoClock what its epochs' times are measured with, in nanoseconds
 * @param background runs what need not be waited for at once
 */
record EpochConnection(
    SinkIdentity identity,
    boolean isKept,
    DecisionRecords topic,
    EpochCoordinators coordinators,
    DecisionLog log,
    Function<SinkOptions, ClientSettings> outputs,
    EpochTimes times,
    LongSupplier nanoClock,
    Executor background) {

  /**
   * Fences the owner's former driver and reads its last decision.
   *
   * @throws EosKafkaException {@code EOSKAFKA_DECISIONS_ELSEWHERE} if the owner has been on another
   *     cluster or topic, and as {@link DecisionTopic#require}, {@link EpochTimes#choose} and
   *     {@link DecisionLog#open}
   */
  static EpochConnection open(EpochOwner owner, SinkOptions options) {
    RunningQuery.requireDriverRuns();
    FaultPoint.BEFORE_RUN.reach();
    Admin admin = AdminCoordinators.admin(options.client());
    try {
      BrokerVersions.require(admin, options.client());
      return open(owner, options, admin);
    } catch (RuntimeException e) {
      admin.close(Duration.ZERO);
      throw e;
    }
  }

  private static EpochConnection open(EpochOwner owner, SinkOptions options, Admin admin) {
    ClientSettings client = options.client();
    DescribeClusterResult described = admin.describeCluster();
    String cluster = KafkaCalls.reach(described.clusterId(), client);
    EpochCoordinators coordinators =
        new AdminCoordinators(
            admin, client, options.transactionalIdPrefix(), KafkaCalls.get(described.nodes()));
    Optional<SinkIdentity> kept = owner.kept();
    if (kept.isPresent()) {
      requireKept(owner, "the sink's cluster", kept.get().cluster(), cluster);
      requireKept(owner, "decisionTopic", kept.get().topic(), options.decisionTopic());
    }
    BrokerSettings broker = BrokerSettings.read(admin, client);
    DecisionTopic topic = new DecisionTopic(admin, client, broker, options.decisionTopic());
    topic.require(kept.map(SinkIdentity::partitions).orElse(0), owner.mayBegin());
    SinkIdentity identity =
        new SinkIdentity(
            kept.map(SinkIdentity::id).orElse(owner.id()),
            cluster,
            options.decisionTopic(),
            topic.partitions(),
            options.transactionalIdPrefix(),
            owner.writeId());
    OutputTopics outputs = new OutputTopics(admin);
    EpochTimes times =
        EpochTimes.choose(
            options.transactionTimeout(),
            options.recoveryReserve(),
            broker.maxTransactionTimeoutMs(),
            broker.timeoutCheckMs());
    String decisionId = TransactionalId.ofDecisions(owner.prefix(options), identity.id());
    DecisionLog log =
        DecisionLog.open(
            topic,
            () ->
                TransactionalProducer.init(
                    decisionId, client.uncompressed(), times.decisionTimeoutMs()),
            identity.id(),
            decisionId,
            owner.isJob() ? 0 : topic.decisionPartition(identity.id()),
            kept.isPresent(),
            () -> coordinators.highestRun(identity.id()));
    return new EpochConnection(
        identity,
        kept.equals(Optional.of(identity)),
        topic,
        coordinators,
        log,
        outputs::settings,
        times,
        System::nanoTime,
        work -> Daemon.start("eoskafka-lost-attempts", work));
  }

  private static void requireKept(EpochOwner owner, String what, String kept, String now) {
    if (!kept.equals(now)) {
      throw EosKafkaException.of(
          "EOSKAFKA_DECISIONS_ELSEWHERE",
          Map.of("what", what, "kept", kept, "given", now, "owner", owner.name()));
    }
  }
}
