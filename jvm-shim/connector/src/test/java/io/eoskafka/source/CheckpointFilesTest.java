package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.identity.Identity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CheckpointFilesTest {
  private static final TopicPartition PARTITION = new TopicPartition("orders", 3);

  private static final Map<String, Consumer<CheckpointFiles>> READS =
      Map.of(
          "eoskafka-identity.json", CheckpointFiles::readIdentity,
          "eoskafka-restarted.json", CheckpointFiles::readRestarted,
          "eoskafka-cut.json", CheckpointFiles::readCut,
          "eoskafka-topic-ids.json", CheckpointFiles::readTopicIds,
          "eoskafka-former-topic-ids.json", CheckpointFiles::readFormerTopicIds,
          "eoskafka-unresolved.json", CheckpointFiles::readUnresolved,
          "eoskafka-run", CheckpointFiles::readRun,
          "eoskafka-taken-over", CheckpointFiles::readTakenOver,
          "eoskafka-real-time", CheckpointFiles::readRealTime,
          "0", CheckpointFiles::readInitialOffsets);

  @TempDir Path checkpoint;

  @Test
  void everyFileIsReadAsItWasWritten() {
    CheckpointFiles files = files();
    Identity identity = Identity.of("orders", "eoskafka", "/checkpoint/sources/0", true);
    files.writeIdentity(identity);
    files.writeTopicIds(Map.of(PARTITION, "iD"));
    files.writeFormerTopicIds(Set.of("iD1", "iD2"));
    files.writeUnresolved(Set.of(PARTITION));
    Map<TopicPartition, RestartedPartitions.Restart> restarts =
        Map.of(PARTITION, new RestartedPartitions.Restart("iD", 5, -1));
    files.writeRestarted(restarts);
    files.writeCut(restarts);
    files.writeRun("a-run");
    files.writeTakenOver(7);
    files.writeRealTime(8);
    files.writeInitialOffsets(PartitionOffsets.of(Map.of(PARTITION, 5L)));
    assertThat(files.readIdentity()).contains(identity);
    assertThat(files.readTopicIds()).isEqualTo(Map.of(PARTITION, "iD"));
    assertThat(files.readFormerTopicIds()).isEqualTo(Set.of("iD1", "iD2"));
    assertThat(files.readUnresolved()).isEqualTo(Set.of(PARTITION));
    assertThat(files.readRestarted()).isEqualTo(restarts);
    assertThat(files.readCut()).isEqualTo(restarts);
    assertThat(files.readRun()).contains("a-run");
    assertThat(files.readTakenOver()).hasValue(7);
    assertThat(files.readRealTime()).hasValue(8);
    assertThat(files.readInitialOffsets().orElseThrow().offsets()).isEqualTo(Map.of(PARTITION, 5L));
  }

  @Test
  void nothingIsInACheckpointWithoutFiles() {
    CheckpointFiles files = files();
    assertThat(files.readIdentity()).isEmpty();
    assertThat(files.readTopicIds()).isEmpty();
    assertThat(files.readFormerTopicIds()).isEmpty();
    assertThat(files.readUnresolved()).isEmpty();
    assertThat(files.readRestarted()).isEmpty();
    assertThat(files.readCut()).isEmpty();
    assertThat(files.readRun()).isEmpty();
    assertThat(files.readTakenOver()).isEmpty();
    assertThat(files.readRealTime()).isEmpty();
    assertThat(files.readInitialOffsets()).isEmpty();
  }

  @Test
  void partitionsMayAllBeResolved() {
    CheckpointFiles files = files();
    files.writeUnresolved(Set.of());
    assertThat(files.readUnresolved()).isEmpty();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '~',
      emptyValue = "",
      value = {
        "eoskafka-identity.json|~~",
        "eoskafka-identity.json|no JSON",
        "eoskafka-identity.json|null",
        "eoskafka-identity.json|[]",
        "eoskafka-identity.json|{}",
        "eoskafka-identity.json|{\"version\":1}",
        "eoskafka-identity.json|{\"version\":1,\"group\":\"g\",\"instanceId\":\"i\",\"checkpo",
        "eoskafka-identity.json|{\"version\":1,\"group\":\"g\",\"instanceId\":\"i\",\"checkpointId\":null}",
        "eoskafka-identity.json|{\"version\":1,\"group\":5,\"instanceId\":\"i\",\"checkpointId\":\"c\"}",
        "eoskafka-identity.json|{\"version\":2,\"group\":\"g\",\"instanceId\":\"i\",\"checkpointId\":\"c\"}",
        "eoskafka-topic-ids.json|~~",
        "eoskafka-topic-ids.json|no JSON",
        "eoskafka-topic-ids.json|null",
        "eoskafka-topic-ids.json|[]",
        "eoskafka-topic-ids.json|{}",
        "eoskafka-topic-ids.json|{\"orders\":{}}",
        "eoskafka-topic-ids.json|{\"orders\":[\"iD\"]}",
        "eoskafka-topic-ids.json|{\"orders\":\"iD\"}",
        "eoskafka-topic-ids.json|{\"orders\":{\"0\":null}}",
        "eoskafka-topic-ids.json|{\"orders\":{\"first\":\"iD\"}}",
        "eoskafka-topic-ids.json|{\"orders\":{\"0\":\"iD\"",
        "eoskafka-topic-ids.json|{\"orders\":{\"0\":\"iD\"}} {}",
        "eoskafka-unresolved.json|~~",
        "eoskafka-unresolved.json|no JSON",
        "eoskafka-unresolved.json|null",
        "eoskafka-unresolved.json|[]",
        "eoskafka-unresolved.json|{\"orders\":[0]}",
        "eoskafka-former-topic-ids.json|~~",
        "eoskafka-former-topic-ids.json|[]",
        "eoskafka-former-topic-ids.json|[0]",
        "eoskafka-unresolved.json|{\"orders\":{\"0\":-1",
        "eoskafka-restarted.json|~~",
        "eoskafka-restarted.json|[]",
        "eoskafka-restarted.json|{\"orders\":[0]}",
        "eoskafka-restarted.json|{\"orders\":{\"0\":5}}",
        "eoskafka-restarted.json|{\"orders\":{\"0\":{\"id\":\"iD\",\"offset\":5}}}",
        "eoskafka-restarted.json|{\"orders\":{\"0\":{\"id\":\"iD\",\"batch\":5}}}",
        "eoskafka-restarted.json|{\"orders\":{\"0\":{\"offset\":5,\"batch\":1}}}",
        "eoskafka-cut.json|{\"orders\":{\"x\":{\"id\":\"iD\",\"offset\":5,\"batch\":1}}}",
        "eoskafka-run|~~",
        "eoskafka-taken-over|~~",
        "eoskafka-taken-over|{}",
        "eoskafka-real-time|{}",
        "0|~~",
        "0|null",
        "0|{\"orders\":{\"0\":5}}",
      })
  void aFileThatIsNotAsItWasWrittenIsRefused(String file, String text) throws IOException {
    damage(file, text);
    assertThatThrownBy(() -> READS.get(file).accept(files()))
        .hasMessageContaining("[EOSKAFKA_CHECKPOINT_UNREADABLE]")
        .hasMessageContaining("sources/0/" + file);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '~',
      value = {"~~", "no JSON", "null", "[]", "{\"orders\":{\"0\":5", "{\"orders\":[5]}"})
  void initialOffsetsThatAreNotAsTheyWereWrittenAreRefused(String text) throws IOException {
    damage("0", "\0v1\n" + text);
    assertThatThrownBy(() -> files().readInitialOffsets())
        .hasMessageContaining("[EOSKAFKA_CHECKPOINT_UNREADABLE]");
  }

  private void damage(String file, String text) throws IOException {
    Path place = checkpoint.resolve("sources/0").resolve(file);
    Files.createDirectories(place.getParent());
    Files.writeString(place, text);
  }

  private CheckpointFiles files() {
    return new CheckpointFiles(
        checkpoint.resolve("sources/0").toUri().toString(), new Configuration());
  }
}
