package io.eoskafka.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CheckpointFolderTest {
  @TempDir java.nio.file.Path folder;

  @Test
  void aFileIsReadAsItWasWrittenLast() {
    CheckpointFolder files = folder();
    assertThat(files.read("a")).isEmpty();
    files.write("a", "one");
    files.write("a", "two");
    assertThat(files.read("a")).contains("two");
    files.delete("a");
    files.delete("a");
    assertThat(files.read("a")).isEmpty();
  }

  /** Spark stops a query by an interruption and knows one that ended of it by this cause. */
  @Test
  void aStoppedQuerysWriteIsKnownAsInterrupted() {
    InterruptedIOException interrupted = new InterruptedIOException("sleep interrupted");
    assertThat(CheckpointFolder.failed(new Path("file:/checkpoint/a"), interrupted))
        .isInstanceOf(UncheckedIOException.class)
        .hasMessage("file:/checkpoint/a: sleep interrupted")
        .hasCause(interrupted);
  }

  private CheckpointFolder folder() {
    return new CheckpointFolder(
        folder.resolve("sources/0").toUri().toString(), new Configuration());
  }
}
