package io.eoskafka.decision;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/** The checkpoint of a simulated query, in memory: each access of a driver is one of its calls. */
public final class SimulatedFiles implements CheckpointFileManager {
  static final String CHECKPOINT = "/checkpoint";

  /** How a driver gets to the files of its simulation: Spark hands it to the file manager. */
  static final class Access extends Configuration {
    private final Map<Path, byte[]> files;
    private final Runnable eachCall;

    /**
     * @param files of the checkpoint
     * @param eachCall called before each access
     */
    Access(Map<Path, byte[]> files, Runnable eachCall) {
      super(false);
      this.files = files;
      this.eachCall = eachCall;
      set("spark.sql.streaming.checkpointFileManagerClass", SimulatedFiles.class.getName());
    }
  }

  private final Map<Path, byte[]> files;
  private final Runnable eachCall;

  /** Spark makes it. */
  public SimulatedFiles(Path folder, Configuration access) {
    files = ((Access) access).files;
    eachCall = ((Access) access).eachCall;
  }

  /** An empty checkpoint. */
  static Map<Path, byte[]> none() {
    return new TreeMap<>();
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
    return files.containsKey(path)
        || files.keySet().stream().anyMatch(file -> file.getParent().equals(path));
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

  /** The text of a file, or null. */
  static String text(Map<Path, byte[]> files, String name) {
    byte[] bytes = files.get(new Path(CHECKPOINT, name));
    return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
  }

  static void put(Map<Path, byte[]> files, String name, String text) {
    files.put(new Path(CHECKPOINT, name), text.getBytes(StandardCharsets.UTF_8));
  }

  static void remove(Map<Path, byte[]> files, String name) {
    files.remove(new Path(CHECKPOINT, name));
  }

  /** The highest number that is the name of a file in a folder, or -1. */
  static long last(Map<Path, byte[]> files, String folder) {
    Path of = new Path(CHECKPOINT, folder);
    return files.keySet().stream()
        .filter(file -> file.getParent().equals(of))
        .mapToLong(file -> Long.parseLong(file.getName()))
        .max()
        .orElse(-1);
  }
}
