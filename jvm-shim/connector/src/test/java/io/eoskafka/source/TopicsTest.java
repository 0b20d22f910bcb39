package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.entry;

import io.eoskafka.config.SourceOptions;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.LeaderNotAvailableException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.internals.KafkaFutureImpl;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;

/** How often the driver asks for offsets, and how long it waits in between. */
class TopicsTest {
  private static final Set<TopicPartition> PARTITION = Set.of(new TopicPartition("t", 0));
  private static final RuntimeException PASSES = new LeaderNotAvailableException("not yet");
  private static final int INTERVAL_MS = 50;

  private int asked;

  /** The ends that are found in a cluster which fails so many times before it answers. */
  private Map<TopicPartition, Long> ends(int failures, RuntimeException failure, String attempts) {
    return new Topics(admin(failures, failure), options(attempts), Set.of()).readable(PARTITION);
  }

  private static SourceOptions options(String attempts) {
    return SourceOptions.parse(
        new CaseInsensitiveStringMap(
            Map.of(
                "kafka.bootstrap.servers",
                "broker:9092",
                "subscribe",
                "t",
                "fetchOffset.numRetries",
                attempts,
                "fetchOffset.retryIntervalMs",
                Integer.toString(INTERVAL_MS))));
  }

  private Admin admin(int failures, RuntimeException failure) {
    return (Admin)
        Proxy.newProxyInstance(
            Admin.class.getClassLoader(),
            new Class<?>[] {Admin.class},
            (proxy, method, arguments) -> {
              assertThat(method.getName()).isEqualTo("listOffsets");
              asked++;
              return asked <= failures ? failed(failure) : found(7);
            });
  }

  /** The topics of a batch query, in a cluster whose former leader ends at 7. */
  private Topics ofBatch(Map<TopicPartition, Long> newest) {
    return new Topics(
        admin(0, PASSES),
        options("1"),
        Set.of(),
        (times, isolation) -> {
          assertThat(isolation).isEqualTo(IsolationLevel.READ_COMMITTED);
          Map<TopicPartition, Long> found = new HashMap<>(newest);
          times.forEach((p, time) -> found.computeIfPresent(p, (k, end) -> time < end ? end : -1));
          return found;
        });
  }

  @Test
  void whereABatchEndsIsSaidByTheLeadersThatWereElectedLast() {
    TopicPartition partition = PARTITION.iterator().next();
    Topics topics = ofBatch(Map.of(partition, 9L));
    assertThat(topics.readable(PARTITION)).containsOnly(entry(partition, 9L));
    assertThat(topics.atOrAfter(Map.of(partition, 8L))).containsOnly(entry(partition, 9L));
    assertThat(topics.atOrAfter(Map.of(partition, 9L))).isEmpty();
    assertThat(asked).isZero();
  }

  @Test
  void aPartitionThatTheyDoNotKnowIsMissed() {
    Topics topics = ofBatch(Map.of());
    assertThatThrownBy(() -> topics.readable(PARTITION))
        .hasMessageContaining("[EOSKAFKA_NO_SUCH_TOPIC]");
  }

  private static ListOffsetsResult failed(RuntimeException failure) {
    KafkaFutureImpl<ListOffsetsResultInfo> answer = new KafkaFutureImpl<>();
    answer.completeExceptionally(failure);
    return new ListOffsetsResult(Map.of(PARTITION.iterator().next(), answer));
  }

  private static ListOffsetsResult found(long offset) {
    KafkaFutureImpl<ListOffsetsResultInfo> answer = new KafkaFutureImpl<>();
    answer.complete(new ListOffsetsResultInfo(offset, -1, Optional.empty()));
    return new ListOffsetsResult(Map.of(PARTITION.iterator().next(), answer));
  }

  @Test
  void whatPassesIsAskedForAgainAfterAWait() {
    long started = System.nanoTime();
    assertThat(ends(3, PASSES, "4")).containsValue(7L);
    assertThat(asked).isEqualTo(4);
    assertThat(System.nanoTime() - started)
        .isGreaterThanOrEqualTo(TimeUnit.MILLISECONDS.toNanos(3 * INTERVAL_MS));
  }

  @Test
  void notMoreOftenThanTheOptionSays() {
    assertThatThrownBy(() -> ends(4, PASSES, "4")).isSameAs(PASSES);
    assertThat(asked).isEqualTo(4);
  }

  @Test
  void whatDoesNotPassIsNotAskedForAgain() {
    RuntimeException stays = new UnsupportedVersionException("too old");
    assertThatThrownBy(() -> ends(1, stays, "4")).isSameAs(stays);
    assertThat(asked).isEqualTo(1);
  }
}
