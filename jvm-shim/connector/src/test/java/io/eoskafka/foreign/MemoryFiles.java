package io.eoskafka.foreign;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.config.EosKafkaException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/** A checkpoint's files in memory, as many as a property wants, with any text in them. */
public final class MemoryFiles implements CheckpointFileManager {
  private static final Map<Path, byte[]> FILES = new HashMap<>();

  /** Spark makes it. */
  public MemoryFiles(Path folder, Configuration hadoop) {}

  /** Lets a folder's files be in memory. */
  public static Configuration hadoop() {
    Configuration hadoop = new Configuration(false);
    hadoop.set("spark.sql.streaming.checkpointFileManagerClass", MemoryFiles.class.getName());
    return hadoop;
  }

  /** Puts a text in a file. */
  public static void put(String file, String text) {
    FILES.put(new Path(file), text.getBytes(StandardCharsets.UTF_8));
  }

  /** What a reader makes of its file, or empty if it refuses it as unreadable. */
  public static <T> Optional<T> read(Supplier<T> reader) {
    try {
      return Optional.of(reader.get());
    } catch (EosKafkaException e) {
      assertThat(e.condition()).isEqualTo("EOSKAFKA_CHECKPOINT_UNREADABLE");
      return Optional.empty();
    }
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    return new CancellableFSDataOutputStream(bytes) {
      @Override
      public void cancel() {}

      @Override
      public void close() throws IOException {
        super.close();
        FILES.put(path, bytes.toByteArray());
      }
    };
  }

  @Override
  public FSDataInputStream open(Path path) {
    return new FSDataInputStream(new Bytes(FILES.get(path)));
  }

  /** A file's. Hadoop asks that they can be sought in, which nobody does here. */
  private static final class Bytes extends FSInputStream {
    private final byte[] bytes;
    private int position;

    Bytes(byte[] bytes) {
      this.bytes = bytes;
    }

    @Override
    public int read() {
      return position < bytes.length ? bytes[position++] & 0xff : -1;
    }

    @Override
    public void seek(long to) {
      position = (int) to;
    }

    @Override
    public long getPos() {
      return position;
    }

    @Override
    public boolean seekToNewSource(long target) {
      return false;
    }
  }

  @Override
  public boolean exists(Path path) {
    return FILES.containsKey(path);
  }

  @Override
  public void mkdirs(Path path) {}

  @Override
  public void delete(Path path) {
    FILES.remove(path);
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    return new FileStatus[0];
  }

  @Override
  public boolean isLocal() {
    return true;
  }

  @Override
  public Path createCheckpointDirectory() {
    throw new UnsupportedOperationException();
  }
}
