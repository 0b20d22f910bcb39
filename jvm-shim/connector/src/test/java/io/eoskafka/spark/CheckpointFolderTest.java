package io.eoskafka.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
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

  /** As HDFS, but without the interface through which Spark's file manager renames atomically. */
  public static final class Keeping extends RawLocalFileSystem {
    @Override
    public String getScheme() {
      return "keeping";
    }

    @Override
    public URI getUri() {
      return URI.create("keeping:///");
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
      return !exists(to) && super.rename(from, to);
    }
  }

  @Test
  void aFileThatIsNotReplacedIsAnError() {
    Configuration hadoop = new Configuration();
    hadoop.setClass("fs.keeping.impl", Keeping.class, FileSystem.class);
    CheckpointFolder files = new CheckpointFolder("keeping://" + folder.resolve("0"), hadoop);
    files.write("a", "one");
    assertThatThrownBy(() -> files.write("a", "two"))
        .isInstanceOf(UncheckedIOException.class)
        .hasMessageContaining("does not have the content that was written to it");
    assertThat(files.read("a")).contains("one");
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
