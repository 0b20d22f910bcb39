package io.eoskafka.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.eoskafka.config.EosKafkaException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;

/** A folder of a checkpoint, with small text files that are replaced atomically. */
public final class CheckpointFolder {
  /** A number that fits a long. */
  private static final String BATCH = "\\d{1,18}";

  private static final ObjectMapper JSON =
      new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

  private final Path folder;
  private final CheckpointFileSystem files;

  public CheckpointFolder(String path, Configuration hadoop) {
    folder = new Path(path);
    files = CheckpointFileSystem.of(folder, hadoop);
  }

  /** The full name of a file in it, for errors. */
  public String nameOf(String file) {
    return new Path(folder, file).toString();
  }

  /** A file's text, or empty if there is no such file. */
  public Optional<String> read(String file) {
    Path path = new Path(folder, file);
    try {
      if (!files.exists(path)) {
        return Optional.empty();
      }
      try (InputStream in = files.open(path)) {
        return Optional.of(new String(in.readAllBytes(), StandardCharsets.UTF_8));
      }
    } catch (Exception e) {
      throw failed(path, e);
    }
  }

  /**
   * The content of a JSON file.
   *
   * @param form parses the content; a file without an expected field is refused
   * @throws EosKafkaException {@code EOSKAFKA_CHECKPOINT_UNREADABLE}, also for an empty file, which
   *     a host may leave if it crashes during the write
   */
  public <T> Optional<T> readJson(String file, Function<JsonNode, T> form) {
    return read(file)
        .map(
            text -> {
              try {
                return form.apply(JSON.readTree(text));
              } catch (JsonProcessingException
                  | IllegalArgumentException
                  | NullPointerException e) {
                throw unreadable(file, e);
              }
            });
  }

  public EosKafkaException unreadable(String file, Exception cause) {
    return EosKafkaException.of(
        "EOSKAFKA_CHECKPOINT_UNREADABLE", Map.of("file", nameOf(file)), cause);
  }

  /** Removes a file, if it is there. */
  public void delete(String file) {
    Path path = new Path(folder, file);
    try {
      files.delete(path);
    } catch (Exception e) {
      throw failed(path, e);
    }
  }

  /**
   * Writes a file, and replaces an existing one. It is then read again: if a file system does not
   * rename to an existing name, Spark's file manager keeps the former file without an error.
   */
  public void write(String file, String text) {
    Path path = new Path(folder, file);
    try {
      files.mkdirs(folder);
      FSDataOutputStream out = files.createAtomic(path, true);
      try {
        out.write(text.getBytes(StandardCharsets.UTF_8));
        out.close();
      } catch (IOException e) {
        CheckpointFileSystem.cancel(out);
        throw e;
      }
    } catch (Exception e) {
      throw failed(path, e);
    }
    if (!read(file).equals(Optional.of(text))) {
      throw failed(
          path,
          new IOException(
              "the file does not have the content that was written to it. Either its file system"
                  + " cannot replace a file by a rename: set"
                  + " spark.sql.streaming.checkpointFileManagerClass to a manager for this file"
                  + " system, or move the checkpoint. Or another driver uses this checkpoint: stop"
                  + " one of the two. No record is lost or duplicated."));
    }
  }

  /** Whether it has a file whose name is a number, as Spark's logs have. */
  public boolean hasBatches() {
    return hasFile(BATCH);
  }

  /** The highest number that is a file's name: the last batch of one of Spark's logs. */
  OptionalLong lastBatch() {
    return names(BATCH).stream().mapToLong(Long::parseLong).max();
  }

  /** The lowest such number. */
  OptionalLong firstBatch() {
    return names(BATCH).stream().mapToLong(Long::parseLong).min();
  }

  /** Whether it has a file with such a name. */
  public boolean hasFile(String pattern) {
    return !names(pattern).isEmpty();
  }

  /** The names of its files that match a pattern, in their order. */
  List<String> names(String pattern) {
    try {
      if (!files.exists(folder)) {
        return List.of();
      }
      return Stream.of(files.list(folder, path -> path.getName().matches(pattern)))
          .map(file -> file.getPath().getName())
          .sorted()
          .toList();
    } catch (Exception e) {
      throw failed(folder, e);
    }
  }

  static RuntimeException failed(Path file, Exception e) {
    if (e instanceof RuntimeException runtime) {
      return runtime;
    }
    // The cause is kept: by its type Spark distinguishes a stopped query from a failed one.
    IOException cause = e instanceof IOException io ? io : new IOException(e);
    return new UncheckedIOException(file + ": " + e.getMessage(), cause);
  }
}
