package io.eoskafka.source;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.group.Identity;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * What the source keeps in the checkpoint, beside Spark's own files: the identity, the topics' ids,
 * and the initial offsets in the built-in connector's own file and form, so that either connector
 * reads them.
 */
final class CheckpointFiles {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Path folder;
  private final Path identityFile;
  private final Path topicIdsFile;
  private final Path initialOffsetsFile;
  private final Path offsetLog;
  private final CheckpointFileManager files;

  /**
   * @param sourcePath {@code <checkpoint>/sources/<index>}
   */
  CheckpointFiles(String sourcePath, Configuration hadoop) {
    folder = new Path(sourcePath);
    identityFile = new Path(folder, "eoskafka-identity.json");
    topicIdsFile = new Path(folder, "eoskafka-topic-ids.json");
    initialOffsetsFile = new Path(folder, "0");
    offsetLog = new Path(folder.getParent().getParent(), "offsets");
    files = CheckpointFileManager.create(folder, hadoop);
  }

  Optional<Identity> readIdentity() {
    return read(identityFile)
        .map(
            text -> {
              try {
                JsonNode node = JSON.readTree(text);
                if (node.path("version").asInt() != 1) {
                  throw EosKafkaException.of(
                      "EOSKAFKA_CHECKPOINT_UNREADABLE", Map.of("file", identityFile));
                }
                return new Identity(
                    node.get("group").asText(),
                    node.get("instanceId").asText(),
                    node.get("checkpointId").asText());
              } catch (IOException | NullPointerException e) {
                throw EosKafkaException.of(
                    "EOSKAFKA_CHECKPOINT_UNREADABLE", Map.of("file", identityFile), e);
              }
            });
  }

  void writeIdentity(Identity identity) {
    write(
        identityFile,
        JSON.createObjectNode()
            .put("version", 1)
            .put("group", identity.group())
            .put("instanceId", identity.instanceId())
            .put("checkpointId", identity.checkpointId())
            .toString());
  }

  /** Each topic's id when it was last planned. */
  Map<String, String> readTopicIds() {
    Map<String, String> ids = new HashMap<>();
    read(topicIdsFile)
        .ifPresent(
            text -> {
              try {
                JSON.readTree(text)
                    .fields()
                    .forEachRemaining(entry -> ids.put(entry.getKey(), entry.getValue().asText()));
              } catch (IOException e) {
                throw EosKafkaException.of(
                    "EOSKAFKA_CHECKPOINT_UNREADABLE", Map.of("file", topicIdsFile), e);
              }
            });
    return ids;
  }

  void writeTopicIds(Map<String, String> ids) {
    write(topicIdsFile, JSON.valueToTree(ids).toString());
  }

  Optional<PartitionOffsets> readInitialOffsets() {
    return read(initialOffsetsFile)
        .map(
            text -> {
              int line = text.indexOf('\n');
              // A zero byte and a version line come before the JSON (SPARK-19517).
              if (line < 0 || !text.substring(0, line).replace("\0", "").equals("v1")) {
                throw EosKafkaException.of(
                    "EOSKAFKA_CHECKPOINT_UNREADABLE", Map.of("file", initialOffsetsFile));
              }
              return PartitionOffsets.parse(text.substring(line + 1));
            });
  }

  void writeInitialOffsets(PartitionOffsets offsets) {
    write(initialOffsetsFile, "\0v1\n" + offsets.json());
  }

  /** Whether Spark has logged any batch of this query. */
  boolean sparkHasBatches() {
    try {
      return files.exists(offsetLog)
          && files.list(offsetLog, path -> path.getName().matches("\\d+")).length > 0;
    } catch (Exception e) {
      throw failed(offsetLog, e);
    }
  }

  private Optional<String> read(Path file) {
    try {
      if (!files.exists(file)) {
        return Optional.empty();
      }
      try (InputStream in = files.open(file)) {
        return Optional.of(new String(in.readAllBytes(), StandardCharsets.UTF_8));
      }
    } catch (Exception e) {
      throw failed(file, e);
    }
  }

  private void write(Path file, String text) {
    try {
      files.mkdirs(folder);
      CheckpointFileManager.CancellableFSDataOutputStream out = files.createAtomic(file, true);
      try {
        ((FSDataOutputStream) out).write(text.getBytes(StandardCharsets.UTF_8));
        out.close();
      } catch (IOException e) {
        out.cancel();
        throw e;
      }
    } catch (Exception e) {
      throw failed(file, e);
    }
  }

  private static RuntimeException failed(Path file, Exception e) {
    return e instanceof RuntimeException runtime
        ? runtime
        : new UncheckedIOException(file + ": " + e.getMessage(), new IOException(e));
  }
}
