package io.eoskafka.foreign;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Map;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/** A file manager whose files are in a map. It has no folders. */
public abstract class FilesInMap implements CheckpointFileManager {
  private final Map<Path, byte[]> files;
  private final Runnable eachCall;

  /**
   * @param files may change at any time
   * @param eachCall called before a file is looked for, replaced or deleted
   */
  protected FilesInMap(Map<Path, byte[]> files, Runnable eachCall) {
    this.files = files;
    this.eachCall = eachCall;
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
        eachCall.run();
        files.put(path, bytes.toByteArray());
      }
    };
  }

  @Override
  public FSDataInputStream open(Path path) {
    return new FSDataInputStream(new Bytes(files.get(path)));
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
    eachCall.run();
    return files.containsKey(path);
  }

  @Override
  public void mkdirs(Path path) {}

  @Override
  public void delete(Path path) {
    eachCall.run();
    files.remove(path);
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    return files.keySet().stream()
        .filter(file -> file.getParent().equals(path) && filter.accept(file))
        .map(file -> new FileStatus(0, false, 1, 1, 0, file))
        .toArray(FileStatus[]::new);
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
