package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Starts that Spark's log does not have, over the runs of a query. */
class RestartedPartitionsTest {
  private static final TopicPartition A = new TopicPartition("t", 0);
  private static final TopicPartition B = new TopicPartition("t", 1);

  @TempDir Path checkpoint;

  /** By Spark's log. */
  private long planned = 3;

  private long done = 3;

  /** As a run of the query has them. */
  private RestartedPartitions run() {
    return new RestartedPartitions(
        new CheckpointFiles(checkpoint.resolve("sources/0").toString(), new Configuration()),
        () -> planned,
        () -> done);
  }

  @Test
  void theFirstBatchThatIsPlannedSinceBeginsThereUntilItIsDone() {
    RestartedPartitions first = run();
    first.add(Map.of(A, 0L), p -> "iD");
    assertThat(first.begin(A, 9)).isZero();
    assertThat(first.begin(B, 9)).isEqualTo(9);
    planned = 4;
    first.forgetLogged();
    // The driver dies, and the batch runs again.
    RestartedPartitions second = run();
    second.forgetLogged();
    assertThat(second.notInLastPlanned()).isEmpty();
    assertThat(second.begin(A, 9)).isZero();
    done = 4;
    second.forgetLogged();
    assertThat(second.begin(A, 7)).isEqualTo(7);
    assertThat(run().isEmpty()).isTrue();
  }

  @Test
  void aBatchThatWasPlannedBeforeIsAnothers() {
    planned = 4;
    RestartedPartitions first = run();
    first.add(Map.of(A, 0L), p -> "iD");
    assertThat(first.notInLastPlanned()).containsExactly(A);
    done = 4;
    first.forgetLogged();
    assertThat(first.begin(A, 9)).isZero();
    assertThat(run().begin(A, 9)).isZero();
  }

  @Test
  void aStartIsOfOneTopic() {
    run().add(Map.of(A, 5L), p -> "iD");
    assertThat(run().start(A, "iD")).isEqualTo(5);
    assertThat(run().start(A, "another")).isNull();
    assertThat(run().start(B, "iD")).isNull();
  }

  @Test
  void whatIsCutOffABatchIsForTheNextOne() {
    planned = 4;
    RestartedPartitions first = run();
    first.cut(Map.of(A, 5L), p -> "iD");
    assertThat(first.end(A, 9)).isEqualTo(5);
    assertThat(first.end(B, 9)).isEqualTo(9);
    assertThat(first.begin(A, 2)).isEqualTo(2);
    // The batch runs again, and ends there however long the log is by then.
    RestartedPartitions second = run();
    assertThat(second.end(A, 9)).isEqualTo(5);
    assertThat(second.notInLastPlanned()).isEmpty();
    assertThat(second.start(A, "iD")).isNull();
    done = 4;
    assertThat(run().begin(A, 9)).isEqualTo(5);
    assertThat(run().start(A, "iD")).isEqualTo(5);
    second.forgetLogged();
    assertThat(second.begin(A, 9)).isEqualTo(5);
    planned = 5;
    done = 5;
    second.forgetLogged();
    assertThat(run().isEmpty()).isTrue();
  }

  @Test
  void aBatchThatWasCutBeginsWhereItDid() {
    run().add(Map.of(A, 0L), p -> "iD");
    planned = 4;
    run().cut(Map.of(A, 5L), p -> "iD");
    assertThat(run().begin(A, 9)).isZero();
    assertThat(run().end(A, 9)).isEqualTo(5);
    done = 4;
    assertThat(run().begin(A, 9)).isEqualTo(5);
    assertThat(run().end(A, 9)).isEqualTo(9);
  }

  @Test
  void aCutIsForgottenIfAnotherConnectorHasRunBatchesSince() {
    planned = 4;
    run().cut(Map.of(A, 5L), p -> "iD");
    planned = 5;
    done = 5;
    assertThat(run().begin(A, 9)).isEqualTo(9);
    assertThat(run().end(A, 9)).isEqualTo(9);
  }

  @Test
  void aTopicThatIsCreatedAgainAfterItsLogWasCutBeginsWithItsFirstRecord() {
    planned = 4;
    run().cut(Map.of(A, 5L), p -> "iD");
    run().add(Map.of(A, 0L), p -> "a new one");
    done = 4;
    assertThat(run().begin(A, 9)).isZero();
    assertThat(run().start(A, "a new one")).isZero();
  }

  @Test
  void aBatchThatHasTheNumberOfOneWhosePlanIsGoneIsPlannedAfterwards() {
    planned = 4;
    run().add(Map.of(A, 0L), p -> "iD");
    run().cut(Map.of(B, 5L), p -> "iD");
    planned = 3;
    run();
    planned = 4;
    RestartedPartitions later = run();
    done = 4;
    later.forgetLogged();
    assertThat(later.isEmpty()).isTrue();
    assertThat(later.begin(B, 9)).isEqualTo(9);
  }

  @Test
  void ourSinkGoesByTheGroup() {
    RestartedPartitions restarts = run();
    restarts.add(Map.of(A, 5L), p -> "iD");
    restarts.forgetAll();
    assertThat(restarts.isEmpty()).isTrue();
    assertThat(run().isEmpty()).isTrue();
  }
}
