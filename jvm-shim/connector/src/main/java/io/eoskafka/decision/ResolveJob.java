package io.eoskafka.decision;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import io.eoskafka.spark.Checkpoint;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.StreamSupport;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Settles what a batch job has left whose driver died, or what a query has left whose checkpoint is
 * given, as their next start would do first: the program behind {@code eoskafka txn resolve}. It
 * runs outside Spark.
 */
public final class ResolveJob {
  private static final ObjectMapper JSON = new ObjectMapper();

  private ResolveJob() {}

  /**
   * Reads a JSON object from standard input: {@code options} of the sink; {@code writeId} among
   * them, or {@code jobId}, or {@code checkpoint}; {@code forget}, {@code giveUp} to forget an
   * incomplete job too; for a checkpoint {@code acceptLoss}, the epoch whose loss is accepted, and
   * {@code ofWrite}, the {@code writeId} of the write that has lost it, if it is not the only one.
   * Prints one: for a job the {@link #resolve outcome}, for a checkpoint {@code writes}, a list of
   * them with the {@code name} of each; or {@code condition} and {@code error}, which a single
   * write of a checkpoint may have as well.
   */
  public static void main(String[] arguments) throws IOException {
    JsonNode asked = JSON.readTree(System.in);
    Map<String, String> options = new HashMap<>();
    asked
        .get("options")
        .properties()
        .forEach(option -> options.put(option.getKey(), option.getValue().asText()));
    ObjectNode answer;
    try {
      SinkOptions sink = SinkOptions.parse(new CaseInsensitiveStringMap(options));
      if (asked.has("checkpoint")) {
        answer =
            resolveAll(
                new Checkpoint(asked.get("checkpoint").asText(), new Configuration()),
                sink,
                asked.has("acceptLoss")
                    ? OptionalLong.of(asked.get("acceptLoss").asLong())
                    : OptionalLong.empty(),
                Optional.ofNullable(asked.get("ofWrite")).map(JsonNode::asText));
      } else {
        EpochOwner owner =
            asked.has("jobId")
                ? EpochOwner.ofDeadJob(asked.get("jobId").asText())
                : EpochOwner.ofDeadJob(sink.writeId().orElseThrow(), sink.decisionTopic());
        boolean giveUp = asked.get("giveUp").asBoolean();
        answer = resolve(owner, sink, asked.get("forget").asBoolean(), giveUp);
      }
    } catch (RuntimeException e) {
      answer = refusal(e);
    }
    System.out.println(answer);
    // Clients that could not be closed in time hold nothing up.
    System.exit(0);
  }

  private static ObjectNode refusal(RuntimeException e) {
    String condition = e instanceof TimeoutException ? "EOSKAFKA_UNREACHABLE" : "";
    return e instanceof EosKafkaException ours
        ? JSON.createObjectNode().put("condition", ours.condition()).put("error", e.getMessage())
        : JSON.createObjectNode().put("condition", condition).put("error", e.toString());
  }

  /**
   * Every owner that a checkpoint knows; one that cannot be settled does not hold up the others.
   *
   * @param accepted the epoch whose loss is accepted, if exactly one write can have lost some of it
   * @param ofWrite that write's {@code writeId}
   */
  private static ObjectNode resolveAll(
      Checkpoint checkpoint, SinkOptions options, OptionalLong accepted, Optional<String> ofWrite) {
    checkpoint.requireSparks();
    ArrayNode writes = JSON.createArrayNode();
    Map<Integer, Supplier<ObjectNode>> acceptable = new HashMap<>();
    for (String file : EpochOwner.files(checkpoint)) {
      ObjectNode found;
      String name = checkpoint.folder().nameOf(file);
      try {
        SinkIdentity kept = SinkIdentity.read(checkpoint.folder(), file).orElseThrow();
        EpochOwner owner = EpochOwner.ofFile(checkpoint, file, kept);
        name = owner.name();
        SinkOptions asKept =
            SinkOptions.ofOwner(
                options.client(),
                kept.prefix() == null ? options.transactionalIdPrefix() : kept.prefix(),
                kept.topic());
        found = resolve(owner, asKept, false, false);
        if (found.get("lost").asInt() > 0
            && OptionalLong.of(found.get("epoch").asLong()).equals(accepted)
            && ofWrite.map(id -> id.equals(owner.writeId())).orElse(true)) {
          acceptable.put(writes.size(), () -> accept(owner, asKept, accepted.getAsLong()));
        }
      } catch (RuntimeException e) {
        found = refusal(e);
      }
      writes.add(found.put("name", name));
    }
    // One that could not be settled may have lost some of the same epoch.
    boolean isClear =
        ofWrite.isPresent()
            || StreamSupport.stream(writes.spliterator(), false)
                .noneMatch(write -> write.has("error"));
    if (acceptable.size() == 1 && isClear) {
      acceptable.forEach(
          (place, accept) -> {
            ObjectNode found = (ObjectNode) writes.get(place);
            try {
              found.setAll(accept.get());
            } catch (RuntimeException e) {
              found.setAll(refusal(e));
            }
          });
    }
    ObjectNode answer = JSON.createObjectNode();
    answer.set("writes", writes);
    return answer;
  }

  private static ObjectNode accept(EpochOwner owner, SinkOptions options, long epoch) {
    EpochSession session = EpochSession.open(owner, options);
    try {
      boolean isTheSame = session.lastDecided() == epoch && !session.lost().isEmpty();
      if (isTheSame) {
        session.acceptLoss();
      }
      return JSON.createObjectNode().put("accepted", isTheSame);
    } finally {
      session.close();
    }
  }

  /**
   * @return {@code outcome}: {@code unknown} (no job of this {@code writeId} has ever begun),
   *     {@code undecided} (nothing of it, or of the query's last epoch, has taken effect), {@code
   *     committed} or {@code incomplete} (it has taken effect, and some writers' transactions had
   *     timed out); {@code epoch}, -1 if none was decided; the numbers of writers with {@code
   *     committed} and {@code lost} transactions; what is {@code missing}, also if that was
   *     accepted before; {@code forgotten}; {@code accepted}
   */
  private static ObjectNode resolve(
      EpochOwner owner, SinkOptions options, boolean forget, boolean giveUp) {
    EpochSession session = EpochSession.open(owner, options);
    try {
      Optional<Decision> last = session.log().last();
      boolean unknown = session.log().isNew();
      Set<Integer> lost = session.lost();
      int prepared = last.map(decision -> decision.transactions().size()).orElse(0);
      boolean forgotten = !unknown && (giveUp || forget && lost.isEmpty());
      if (forgotten) {
        session.forget();
      }
      Set<Integer> before = last.map(Decision::acceptedAsLost).orElse(Set.of());
      Set<Integer> missing = lost.isEmpty() ? before : lost;
      String outcome;
      if (last.isPresent()) {
        outcome = lost.isEmpty() ? "committed" : "incomplete";
      } else {
        outcome = unknown ? "unknown" : "undecided";
      }
      return JSON.createObjectNode()
          .put("outcome", outcome)
          .put("epoch", session.lastDecided())
          .put("committed", prepared - lost.size())
          .put("lost", lost.size())
          .put("missing", missing.isEmpty() ? "" : last.orElseThrow().describe(missing))
          .put("forgotten", forgotten)
          .put("accepted", lost.isEmpty() && !before.isEmpty());
    } finally {
      session.close();
    }
  }
}
