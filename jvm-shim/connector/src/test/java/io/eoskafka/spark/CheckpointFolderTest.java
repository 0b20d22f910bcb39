package io.eoskafka.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Abortable;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.util.Progressable;
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

  /** Hadoop keeps a file's checksum in another one, and a driver can die between the two. */
  @Test
  void aFileOnADiskIsReadWhateverItsChecksum() throws IOException {
    writeWithChecksum("one");
    Files.writeString(folder.resolve("sources/0/a"), "two");
    assertThat(folder().read("a")).contains("two");
  }

  @Test
  void aFileOnADiskIsReplacedWithItsChecksum() throws IOException {
    Path path = writeWithChecksum("one");
    folder().write("a", "two");
    assertThat(folder.resolve("sources/0").toFile().list()).containsExactly("a");
    try (FSDataInputStream in = path.getFileSystem(new Configuration()).open(path)) {
      assertThat(in.readAllBytes()).asString().isEqualTo("two");
    }
  }

  private Path writeWithChecksum(String text) throws IOException {
    Path path = new Path(folder.resolve("sources/0/a").toString());
    try (FSDataOutputStream out = path.getFileSystem(new Configuration()).create(path)) {
      out.writeBytes(text);
    }
    assertThat(folder.resolve("sources/0/.a.crc")).exists();
    return path;
  }

  @Test
  void aFileOnADiskIsReplacedByOneRenameWhicheverOfItsManagersSparkUses() {
    Configuration hadoop = new Configuration();
    hadoop.set(
        CheckpointFileSystem.MANAGER,
        CheckpointFileSystem.SPARKS + "checkpointing.FileSystemBasedCheckpointFileManager");
    new CheckpointFolder(folder.resolve("0").toString(), hadoop).write("a", "one");
    assertThat(folder.resolve("0").toFile().list()).containsExactly("a");
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

  /** As S3A: what a stream has is there when it is closed, and a rename is a copy. */
  public static final class Store extends RawLocalFileSystem {
    static boolean fails;

    @Override
    public String getScheme() {
      return "store";
    }

    @Override
    public URI getUri() {
      return URI.create("store:///");
    }

    @Override
    public boolean hasPathCapability(Path path, String capability) throws IOException {
      return capability.equals(CommonPathCapabilities.ABORTABLE_STREAM)
          || super.hasPathCapability(path, capability);
    }

    @Override
    public FSDataOutputStream create(
        Path file,
        boolean overwrite,
        int bufferSize,
        short replication,
        long blockSize,
        Progressable progress)
        throws IOException {
      return new FSDataOutputStream(new Upload(pathToFile(file)), null);
    }

    @Override
    public boolean rename(Path from, Path to) {
      throw new AssertionError("renamed " + from);
    }

    @Override
    public boolean delete(Path file, boolean recursive) {
      throw new AssertionError("deleted " + file);
    }

    private static final class Upload extends ByteArrayOutputStream
        implements Abortable, StreamCapabilities {
      private final File file;
      private boolean isAborted;

      Upload(File file) {
        this.file = file;
      }

      @Override
      public boolean hasCapability(String capability) {
        return capability.equals(CommonPathCapabilities.ABORTABLE_STREAM);
      }

      @Override
      public AbortableResult abort() {
        isAborted = true;
        return null;
      }

      @Override
      public void close() throws IOException {
        if (fails) {
          throw new IOException("the store does not answer");
        }
        if (!isAborted) {
          file.getParentFile().mkdirs();
          Files.write(file.toPath(), toByteArray());
        }
      }
    }
  }

  @Test
  void inAnObjectStoreAFileIsReplacedByOneRequest() {
    CheckpointFolder files = store();
    assertThat(files.read("a")).isEmpty();
    assertThat(files.hasFile(".*")).isFalse();
    files.write("a", "one");
    files.write("a", "two");
    assertThat(files.read("a")).contains("two");
    assertThat(files.names(".*")).containsExactly("a");
  }

  @Test
  void aFileThatAnObjectStoreDoesNotTakeIsAnErrorAndTheFormerOneStays() {
    CheckpointFolder files = store();
    files.write("a", "one");
    Store.fails = true;
    try {
      assertThatThrownBy(() -> files.write("a", "two"))
          .isInstanceOf(UncheckedIOException.class)
          .hasMessageEndingWith("/a: the store does not answer");
    } finally {
      Store.fails = false;
    }
    assertThat(files.read("a")).contains("one");
  }

  private CheckpointFolder store() {
    Configuration hadoop = new Configuration();
    hadoop.setClass("fs.store.impl", Store.class, FileSystem.class);
    return new CheckpointFolder("store://" + folder.resolve("0"), hadoop);
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
