package io.eoskafka.decision;

import io.eoskafka.foreign.FilesInMap;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** The checkpoint of a simulated query, in memory: each access of a driver is one of its calls. */
public final class SimulatedFiles extends FilesInMap {
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

  /** Spark makes it. */
  public SimulatedFiles(Path folder, Configuration access) {
    super(((Access) access).files, ((Access) access).eachCall);
    files = ((Access) access).files;
  }

  /** An empty checkpoint. */
  static Map<Path, byte[]> none() {
    return new TreeMap<>();
  }

  /** Also a folder with a file in it, as Spark's own file managers have folders. */
  @Override
  public boolean exists(Path path) {
    return super.exists(path) || files.keySet().stream().anyMatch(f -> f.getParent().equals(path));
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
