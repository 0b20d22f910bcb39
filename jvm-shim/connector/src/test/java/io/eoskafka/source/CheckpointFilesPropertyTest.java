package io.eoskafka.source;

import static io.eoskafka.foreign.ForeignInput.any;
import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.eoskafka.foreign.ForeignInput;
import io.eoskafka.foreign.MemoryFiles;
import io.eoskafka.identity.Identity;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.stream.Collectors;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tag;
import org.apache.kafka.common.TopicPartition;

/** What a source finds in its folder of the checkpoint, whoever has written it. */
class CheckpointFilesPropertyTest {
  private static final String FOLDER = "/checkpoint/sources/0";
  private static final CheckpointFiles FILES = new CheckpointFiles(FOLDER, MemoryFiles.hadoop());

  private static void put(String file, String text) {
    MemoryFiles.put(FOLDER + "/" + file, text);
  }

  @Property
  @Tag("reader")
  void anyIdentityIsReadOrRefused(@ForAll("identities") String text) {
    put("eoskafka-identity.json", text);
    MemoryFiles.read(() -> FILES.readIdentity().orElseThrow())
        .ifPresent(found -> assertThat(found.id()).matches(Identity.DIGEST_PATTERN));
  }

  @Property
  void anIdentityIsReadAsItStandsInItsFile(@ForAll("identities") String text) throws IOException {
    put("eoskafka-identity.json", text);
    Optional<Identity> found = MemoryFiles.read(() -> FILES.readIdentity().orElseThrow());
    if (found.isPresent()) {
      JsonNode file = new ObjectMapper().readTree(text);
      assertThat(file.get("version").isIntegralNumber()).isTrue();
      assertThat(file.get("version").asLong()).isEqualTo(1);
      assertThat(file.get("group").textValue()).isEqualTo(found.get().group());
      assertThat(file.get("instanceId").textValue()).isEqualTo(found.get().instanceId());
      assertThat(file.get("checkpointId").textValue()).isEqualTo(found.get().checkpointId());
      assertThat(file.path("shared").isBoolean() || file.path("shared").isMissingNode()).isTrue();
    }
  }

  @Property
  void topicIdsAreReadAsTheyStandInTheirFile(@ForAll("topicIds") String text) throws IOException {
    put("eoskafka-topic-ids.json", text);
    Optional<Map<TopicPartition, String>> found = MemoryFiles.read(FILES::readTopicIds);
    if (found.isPresent()) {
      JsonNode file = new ObjectMapper().readTree(text);
      int members = 0;
      for (JsonNode topic : file) {
        members += topic.size();
      }
      assertThat(found.get()).hasSize(members);
      found
          .get()
          .forEach(
              (partition, id) -> {
                String number = Integer.toString(partition.partition());
                assertThat(file.get(partition.topic()).get(number).textValue()).isEqualTo(id);
              });
    }
  }

  @Property
  @Tag("reader")
  void anyTopicIdsAreReadOrRefused(@ForAll("topicIds") String text) {
    put("eoskafka-topic-ids.json", text);
    MemoryFiles.read(FILES::readTopicIds)
        .ifPresent(found -> assertThat(found).doesNotContainValue(null));
  }

  @Property
  @Tag("reader")
  void anyOffsetsAreReadOrRefused(@ForAll("initial") String text) {
    put("0", text);
    MemoryFiles.read(() -> FILES.readInitialOffsets().orElseThrow())
        .ifPresent(found -> assertThat(found.offsets()).doesNotContainValue(null));
    put("eoskafka-unresolved.json", text.substring(text.indexOf('\n') + 1));
    MemoryFiles.read(FILES::readUnresolved);
  }

  @Property
  @Tag("reader")
  void anyNumberIsReadOrRefused(@ForAll("numbers") String text) {
    put("eoskafka-taken-over", text);
    MemoryFiles.read(() -> FILES.readTakenOver().orElseThrow())
        .ifPresent(batch -> assertThat(batch).isBetween(0L, 999_999_999_999_999_999L));
    put("eoskafka-real-time", text);
    MemoryFiles.read(() -> FILES.readRealTime().orElseThrow())
        .ifPresent(batch -> assertThat(batch).isBetween(0L, 999_999_999_999_999_999L));
    put("eoskafka-run", text);
    MemoryFiles.read(() -> FILES.readRun().orElseThrow())
        .ifPresent(run -> assertThat(run).isEqualTo(text));
  }

  @Property
  void everythingIsReadAsItWasWritten(@ForAll Random random) {
    Identity identity = identity(random);
    FILES.writeIdentity(identity);
    assertThat(FILES.readIdentity()).contains(identity);
    Map<TopicPartition, Long> offsets = PartitionOffsetsPropertyTest.some(random);
    FILES.writeInitialOffsets(PartitionOffsets.of(offsets));
    assertThat(FILES.readInitialOffsets().orElseThrow().offsets()).isEqualTo(offsets);
    FILES.writeUnresolved(offsets.keySet());
    assertThat(FILES.readUnresolved()).isEqualTo(offsets.keySet());
    Map<TopicPartition, String> ids = topicIds(random);
    if (!ids.isEmpty()) {
      FILES.writeTopicIds(ids);
      assertThat(FILES.readTopicIds()).isEqualTo(ids);
    }
    long batch = random.nextInt(Integer.MAX_VALUE);
    FILES.writeTakenOver(batch);
    assertThat(FILES.readTakenOver()).hasValue(batch);
  }

  @Provide
  Arbitrary<String> identities() {
    return Arbitraries.randomValue(
        random -> {
          Identity identity = identity(random);
          return ForeignInput.damagedJson(
              random,
              "{\"version\":1,\"group\":\"%s\",\"instanceId\":\"%s\",\"checkpointId\":\"%s\",\"shared\":%s}"
                  .formatted(
                      identity.group(),
                      identity.instanceId(),
                      identity.checkpointId(),
                      identity.isShared()));
        });
  }

  private static Identity identity(Random random) {
    return new Identity(
        "group-" + ForeignInput.digest(random),
        "eoskafka-" + ForeignInput.digest(random),
        ForeignInput.digest(random),
        random.nextBoolean());
  }

  @Provide
  Arbitrary<String> topicIds() {
    return Arbitraries.randomValue(
        random ->
            ForeignInput.damagedJson(
                random,
                "{\"t\":{\"0\":\"%1$s\",\"1\":\"%1$s\"}}".formatted(ForeignInput.digest(random))));
  }

  private static Map<TopicPartition, String> topicIds(Random random) {
    return PartitionOffsetsPropertyTest.some(random).keySet().stream()
        .collect(
            Collectors.toMap(partition -> partition, partition -> ForeignInput.digest(random)));
  }

  @Provide
  Arbitrary<String> initial() {
    return Arbitraries.randomValue(
        random -> {
          String json = PartitionOffsets.of(PartitionOffsetsPropertyTest.some(random)).json();
          String start = "\0v1\n";
          return random.nextInt(4) == 0
              ? ForeignInput.damaged(random, start + json)
              : start + ForeignInput.damagedJson(random, json);
        });
  }

  @Provide
  Arbitrary<String> numbers() {
    return Arbitraries.randomValue(
        random ->
            any(
                random,
                List.of(
                    "",
                    "7",
                    " 7\n",
                    "-1",
                    "+7",
                    "7.0",
                    "0x7",
                    "\u0667",
                    "9".repeat(20),
                    ForeignInput.noise(random),
                    ForeignInput.damaged(random, Integer.toString(random.nextInt())))));
  }
}
