package io.eoskafka.foreign;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.config.EosKafkaException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** A checkpoint's files in memory, as many as a property wants, with any text in them. */
public final class MemoryFiles extends FilesInMap {
  private static final Map<Path, byte[]> FILES = new HashMap<>();

  /** Spark makes it. */
  public MemoryFiles(Path folder, Configuration hadoop) {
    super(FILES, () -> {});
  }

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
}
