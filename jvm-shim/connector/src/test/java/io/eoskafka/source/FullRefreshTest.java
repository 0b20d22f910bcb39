package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThatNoException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.identity.Identity;
import io.eoskafka.identity.Stamp;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A flow's checkpoints have numbers, and the offsets of its group may be those of a former one. */
class FullRefreshTest {
  private static final TopicPartition PARTITION = new TopicPartition("orders", 3);
  private static final Configuration HADOOP = new Configuration();

  @TempDir Path storage;

  private Path source(String checkpoint, int number) {
    return storage.resolve(checkpoint).resolve("sources").resolve(Integer.toString(number));
  }

  private static Identity identity(Path source) {
    return Identity.of("orders", "eoskafka", source.toString(), false);
  }

  /** The checkpoint has run. */
  private Identity ran(Path source) {
    Identity identity = identity(source);
    new CheckpointFiles(source.toString(), HADOOP).writeIdentity(identity);
    return identity;
  }

  private static void refuse(Path source, Identity owner) {
    String stamp =
        new Stamp(Stamp.Scope.TASK, owner.id(), "X8-6PwhyTpSiYAh-8y70Kg", Stamp.SAME_CLUSTER, 3)
            .encode();
    FullRefresh.refuse(
        source.toString(), HADOOP, identity(source), PARTITION, new OffsetAndMetadata(7, stamp));
  }

  @ParameterizedTest
  @CsvSource({
    "_checkpoints/out/clean/0, _checkpoints/out/clean/1",
    "_checkpoints/out/clean/2, _checkpoints/out/clean/11",
    "_checkpoints/spark_catalog/default/out/clean/0, _checkpoints/spark_catalog/default/out/clean/3"
  })
  void offsetsOfAFormerCheckpointAreRefused(String former, String now) {
    ran(source(former, 0));
    Identity owner = ran(source(former, 1));
    assertThatThrownBy(() -> refuse(source(now, 1), owner))
        .hasMessageContaining("[EOSKAFKA_FULL_REFRESH]")
        .hasMessageContaining(storage.resolve(former).toString() + ".")
        .hasMessageContaining(storage.resolve(now).toString() + " in place of")
        .hasMessageContaining("'orders'")
        .hasMessageContaining("offset 7 of orders-3");
  }

  @ParameterizedTest
  @CsvSource({
    // Another flow, a later checkpoint, and folders that are not those of a pipeline.
    "_checkpoints/out/other/0, _checkpoints/out/clean/1",
    "_checkpoints/out/clean/2, _checkpoints/out/clean/1",
    "checkpoints/clean/0, checkpoints/clean/1",
    "_checkpoints/out/clean/0, _checkpoints/out/clean/next"
  })
  void offsetsOfOthersAreNotItsOwn(String other, String now) {
    Identity owner = ran(source(other, 0));
    assertThatNoException().isThrownBy(() -> refuse(source(now, 0), owner));
  }

  @Test
  void itsOwnOffsetsAndThoseWithoutAStampAreNot() {
    ran(source("_checkpoints/out/clean/0", 0));
    Path now = source("_checkpoints/out/clean/1", 0);
    assertThatNoException().isThrownBy(() -> refuse(now, identity(now)));
    assertThatNoException()
        .isThrownBy(
            () ->
                FullRefresh.refuse(
                    now.toString(),
                    HADOOP,
                    identity(now),
                    PARTITION,
                    new OffsetAndMetadata(7, "by hand")));
  }
}
