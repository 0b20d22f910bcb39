package io.eoskafka.spark;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CheckpointTest {
  @TempDir Path folder;

  @Test
  void aFolderIsACheckpointOnceSparkHasPlannedABatch() throws IOException {
    Checkpoint checkpoint = new Checkpoint(folder.toString(), new Configuration());
    assertThatThrownBy(checkpoint::requireSparks).hasMessageContaining("no file named metadata");
    Files.writeString(folder.resolve("metadata"), "{}");
    Files.createDirectory(folder.resolve("offsets"));
    assertThatThrownBy(checkpoint::requireSparks).hasMessageContaining("no file in offsets");
    Files.writeString(folder.resolve("offsets").resolve("0"), "v1");
    assertThatCode(checkpoint::requireSparks).doesNotThrowAnyException();
  }
}
