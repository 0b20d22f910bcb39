package io.eoskafka.decision;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.spark.CheckpointFolder;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SinkIdentityTest {
  private static final String FILE = "eoskafka-sink.json";

  @TempDir Path checkpoint;

  @Test
  void itIsReadAsItWasWritten() {
    assertThat(SinkIdentity.read(folder(), FILE)).isEmpty();
    SinkIdentity identity =
        new SinkIdentity("0123456789abcdefghijkl", "cluster", "decisions", 8, "eoskafka", null);
    identity.write(folder(), FILE);
    assertThat(SinkIdentity.read(folder(), FILE)).contains(identity);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "no JSON",
        "null",
        "[]",
        "{}",
        "{\"version\":1}",
        "{\"version\":1,\"id\":\"0123456789abcdefghijkl\",\"cluster\":\"c\",\"decisionTopic\":\"t\"}",
        "{\"version\":1,\"id\":\"0123456789abcdefghijkl\",\"cluster\":\"c\",\"decisionTopic\":\"t\",\"partitions\":\"8\"}",
        "{\"version\":1,\"id\":null,\"cluster\":\"c\",\"decisionTopic\":\"t\",\"partitions\":8}",
        "{\"version\":9,\"id\":\"0123456789abcdefghijkl\",\"cluster\":\"c\",\"decisionTopic\":\"t\",\"partitions\":8}",
        "{\"version\":1,\"id\":\"0123456789abcdefghijkl\",\"cluster\":\"c\",\"decisionTop",
      })
  void aFileThatIsNotAsItWasWrittenIsRefused(String text) throws IOException {
    Files.writeString(checkpoint.resolve(FILE), text);
    assertThatThrownBy(() -> SinkIdentity.read(folder(), FILE))
        .hasMessageContaining("[EOSKAFKA_CHECKPOINT_UNREADABLE]")
        .hasMessageContaining(FILE);
  }

  private CheckpointFolder folder() {
    return new CheckpointFolder(checkpoint.toUri().toString(), new Configuration());
  }
}
