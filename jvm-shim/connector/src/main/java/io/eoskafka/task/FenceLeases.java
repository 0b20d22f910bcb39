package io.eoskafka.task;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.eoskafka.group.PartitionLeases;
import io.eoskafka.identity.Fence;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.api.plugin.PluginContext;

/**
 * How a task of a shared group asks its driver for the fence, over Spark's plugin RPC. Messages are
 * text, because the RPC's class loader may not know this jar.
 */
public final class FenceLeases {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** On the driver, by the run of the source. */
  private static final Map<String, PartitionLeases> OF_RUNS = new ConcurrentHashMap<>();

  private static volatile boolean installed;

  /** On an executor. */
  private static volatile PluginContext driver;

  private FenceLeases() {}

  // ---- on the driver

  public static void install() {
    installed = true;
  }

  public static boolean isInstalled() {
    return installed;
  }

  public static void register(String run, PartitionLeases leases) {
    OF_RUNS.put(run, leases);
  }

  public static void unregister(String run) {
    OF_RUNS.remove(run);
  }

  /** Answers a task; must not block. */
  public static String answer(String question) {
    try {
      JsonNode asked = JSON.readTree(question);
      PartitionLeases leases = OF_RUNS.get(asked.get("run").asText());
      List<Integer> slots = new ArrayList<>();
      asked.get("slots").forEach(slot -> slots.add(slot.asInt()));
      ObjectNode answer = JSON.createObjectNode();
      if (leases == null) {
        return answer.put("moved", true).toString();
      }
      long plan = asked.get("plan").asLong();
      switch (asked.get("ask").asText()) {
        case "owned" -> answer.put("owned", leases.isOwned(plan, slots));
        case "moved" -> answer.put("moved", leases.hasMoved(plan, slots));
        case "ended" -> leases.ended(plan, slots, asked.get("attempt").asLong());
        default ->
            leases
                .lease(
                    plan,
                    slots,
                    asked.get("attempt").asLong(),
                    asked.get("transactionalId").asText())
                .ifPresent(
                    fence ->
                        answer
                            .put("group", fence.group())
                            .put("generation", fence.generation())
                            .put("member", fence.memberId())
                            .put("instance", fence.instanceId()));
      }
      return answer.toString();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  // ---- on an executor

  public static void connect(PluginContext context) {
    driver = context;
  }

  /** Whether the driver has owned the partitions of these slots ever since they were planned. */
  static boolean isOwned(TaskScope scope, List<Integer> slots) {
    return ask(question("owned", scope, slots)).path("owned").asBoolean();
  }

  /** Whether the driver has lost a partition of these slots, or the batch is over. */
  static boolean hasMoved(TaskScope scope, List<Integer> slots) {
    return ask(question("moved", scope, slots)).path("moved").asBoolean();
  }

  /** The driver's fence, for one commit; empty where {@link #isOwned} no longer holds. */
  static Optional<Fence> lease(TaskScope scope, List<Integer> slots, String transactionalId) {
    JsonNode answer = ask(question("lease", scope, slots).put("transactionalId", transactionalId));
    return answer.has("generation")
        ? Optional.of(
            new Fence(
                answer.get("group").asText(),
                answer.get("generation").asInt(),
                answer.get("member").asText(),
                answer.path("instance").textValue()))
        : Optional.empty();
  }

  /** No transaction over these slots is open any more. */
  static void ended(TaskScope scope, List<Integer> slots) {
    ask(question("ended", scope, slots));
  }

  private static ObjectNode question(String what, TaskScope scope, List<Integer> slots) {
    ObjectNode question =
        JSON.createObjectNode()
            .put("ask", what)
            .put("run", scope.run())
            .put("plan", scope.plan())
            .put("attempt", TaskContext.get().taskAttemptId());
    slots.forEach(question.putArray("slots")::add);
    return question;
  }

  private static JsonNode ask(ObjectNode question) {
    try {
      return JSON.readTree((String) driver.ask(question.toString()));
    } catch (RuntimeException e) {
      throw e;
    } catch (Exception e) {
      throw new IllegalStateException("The driver did not answer " + question, e);
    }
  }
}
