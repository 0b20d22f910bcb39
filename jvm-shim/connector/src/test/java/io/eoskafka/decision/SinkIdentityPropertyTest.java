package io.eoskafka.decision;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.foreign.ForeignInput;
import io.eoskafka.foreign.MemoryFiles;
import io.eoskafka.identity.Identity;
import io.eoskafka.spark.CheckpointFolder;
import java.util.Optional;
import java.util.Random;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tag;

/** A checkpoint's file that names whose decisions a query's are. */
class SinkIdentityPropertyTest {
  private static final String FILE = "eoskafka-sink.json";
  private static final CheckpointFolder CHECKPOINT =
      new CheckpointFolder("/checkpoint", MemoryFiles.hadoop());

  private static Optional<SinkIdentity> read(String text) {
    MemoryFiles.put(CHECKPOINT.nameOf(FILE), text);
    return read();
  }

  private static Optional<SinkIdentity> read() {
    return MemoryFiles.read(() -> SinkIdentity.read(CHECKPOINT, FILE).orElseThrow());
  }

  private static String textOf(SinkIdentity identity) {
    identity.write(CHECKPOINT, FILE);
    return CHECKPOINT.read(FILE).orElseThrow();
  }

  @Property
  @Tag("reader")
  void anyTextIsAnIdentityThatCanBeUsedOrIsRefused(@ForAll("texts") String text) {
    read(text)
        .ifPresent(
            found -> {
              assertThat(found.id()).matches(Identity.DIGEST_PATTERN);
              assertThat(found.cluster()).isNotNull();
              assertThat(found.topic()).isNotNull();
              assertThat(found.partitions()).isGreaterThanOrEqualTo(2);
            });
  }

  @Property
  void anIdentityIsReadAsItWasWritten(@ForAll("identities") SinkIdentity identity) {
    identity.write(CHECKPOINT, FILE);
    assertThat(read()).contains(identity);
  }

  @Example
  void aFileCutOffAnywhereIsRefused() {
    String text = textOf(identity(new Random(0)));
    for (int length = 0; length < text.length(); length++) {
      assertThat(read(text.substring(0, length))).isEmpty();
    }
  }

  @Provide
  Arbitrary<SinkIdentity> identities() {
    return Arbitraries.randomValue(SinkIdentityPropertyTest::identity);
  }

  @Provide
  Arbitrary<String> texts() {
    return Arbitraries.randomValue(
        random -> ForeignInput.damagedJson(random, textOf(identity(random))));
  }

  private static SinkIdentity identity(Random random) {
    return new SinkIdentity(
        ForeignInput.digest(random),
        ForeignInput.noise(random),
        ForeignInput.noise(random),
        2 + random.nextInt(100),
        random.nextBoolean() ? null : ForeignInput.noise(random),
        random.nextBoolean() ? null : ForeignInput.noise(random));
  }
}
