package io.eoskafka.decision;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Settles what a batch job has left whose driver died, as the job's next start would do first: the
 * program behind {@code eoskafka txn resolve}. It runs outside Spark.
 */
public final class ResolveJob {
  private static final ObjectMapper JSON = new ObjectMapper();

  private ResolveJob() {}

  /**
   * Reads a JSON object from standard input: {@code options} of the sink, {@code writeId} among
   * them or else {@code jobId}; {@code forget}, and {@code giveUp} to forget an incomplete one too.
   * Prints one: the {@link #resolve outcome}, or {@code condition} and {@code error}.
   */
  public static void main(String[] arguments) throws IOException {
    JsonNode asked = JSON.readTree(System.in);
    Map<String, String> options = new HashMap<>();
    asked
        .get("options")
        .fields()
        .forEachRemaining(option -> options.put(option.getKey(), option.getValue().asText()));
    ObjectNode answer;
    try {
      SinkOptions sink = SinkOptions.parse(new CaseInsensitiveStringMap(options));
      EpochOwner owner =
          asked.has("jobId")
              ? EpochOwner.ofDeadJob(asked.get("jobId").asText())
              : EpochOwner.ofDeadJob(sink.writeId().orElseThrow(), sink.decisionTopic());
      answer =
          resolve(owner, sink, asked.get("forget").asBoolean(), asked.get("giveUp").asBoolean());
    } catch (EosKafkaException e) {
      answer = JSON.createObjectNode().put("condition", e.condition()).put("error", e.getMessage());
    } catch (RuntimeException e) {
      String condition = e instanceof TimeoutException ? "EOSKAFKA_UNREACHABLE" : "";
      answer = JSON.createObjectNode().put("condition", condition).put("error", e.toString());
    }
    System.out.println(answer);
    // Clients that could not be closed in time hold nothing up.
    System.exit(0);
  }

  /**
   * @return {@code outcome}: {@code unknown} (no job of this {@code writeId} has ever begun),
   *     {@code undecided} (nothing of it has taken effect), {@code committed} or {@code incomplete}
   *     (it has taken effect, and some writers' transactions had timed out); the numbers of writers
   *     with {@code committed} and {@code lost} transactions; {@code forgotten}
   */
  private static ObjectNode resolve(
      EpochOwner owner, SinkOptions options, boolean forget, boolean giveUp) {
    EpochSession session = EpochSession.of(owner, options);
    try {
      boolean decided = session.isDecided(0);
      boolean unknown = session.log().isNew();
      boolean forgotten = unknown || giveUp || forget && session.lost().isEmpty();
      if (forgotten) {
        session.forget();
      }
      int lost = session.lost().size();
      int prepared =
          session
              .log()
              .last()
              .map(decision -> EpochSession.transactions(decision.outputs()).size())
              .orElse(0);
      String outcome;
      if (decided) {
        outcome = lost == 0 ? "committed" : "incomplete";
      } else {
        outcome = unknown ? "unknown" : "undecided";
      }
      return JSON.createObjectNode()
          .put("outcome", outcome)
          .put("committed", prepared - lost)
          .put("lost", lost)
          .put("forgotten", forgotten);
    } finally {
      session.close();
    }
  }
}
