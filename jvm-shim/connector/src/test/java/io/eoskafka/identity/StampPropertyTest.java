package io.eoskafka.identity;

import static io.eoskafka.foreign.ForeignInput.any;
import static io.eoskafka.foreign.ForeignInput.digest;
import static io.eoskafka.foreign.ForeignInput.number;
import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.foreign.Corpus;
import io.eoskafka.foreign.ForeignInput;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tag;

/** Any application may commit offsets with metadata of its own. */
class StampPropertyTest {

  @Property
  @Tag("reader")
  void anyMetadataIsAStampOrNone(@ForAll("metadata") String metadata) {
    Stamp.Kind kind = Stamp.kindOf(metadata);
    Optional<Stamp> stamp = Stamp.parse(metadata);
    assertThat(stamp.isPresent()).isEqualTo(kind == Stamp.Kind.OURS);
    assertThat(kind == Stamp.Kind.NONE).isEqualTo(!metadata.startsWith("eoskafka:"));
    stamp.ifPresent(found -> assertThat(Stamp.parse(found.encode())).contains(found));
    Corpus.add("stamp", metadata, stamp.map(Stamp::encode).orElse(kind.name()));
  }

  @Property
  void aStampIsReadAsItWasWrittenAndShort(@ForAll("stamps") Stamp stamp) {
    String text = stamp.encode();
    assertThat(Stamp.parse(text)).contains(stamp);
    assertThat(text.getBytes(StandardCharsets.UTF_8)).hasSizeLessThanOrEqualTo(Stamp.MAX_BYTES);
  }

  @Provide
  Arbitrary<Stamp> stamps() {
    return Arbitraries.randomValue(StampPropertyTest::stamp);
  }

  @Provide
  Arbitrary<String> metadata() {
    return Arbitraries.randomValue(
        random ->
            switch (random.nextInt(4)) {
              case 0 -> ForeignInput.noise(random);
              case 1 -> stamp(random).encode();
              case 2 -> replaced(random, stamp(random).encode());
              default -> ForeignInput.damaged(random, stamp(random).encode());
            });
  }

  private static Stamp stamp(Random random) {
    return new Stamp(
        any(random, List.of(Stamp.Scope.values())),
        digest(random),
        digest(random).substring(random.nextInt(22)),
        random.nextBoolean() ? Stamp.SAME_CLUSTER : Stamp.clusterOf(ForeignInput.noise(random)),
        number(random, -1, 999_999_999_999_999_999L));
  }

  /** One of its parts is another. */
  private static String replaced(Random random, String stamp) {
    String[] parts = stamp.split(":");
    parts[random.nextInt(parts.length)] =
        any(
            random,
            List.of("", "0", "2", "01", "-0", "\u0661", "9".repeat(9), "9".repeat(20), "x", "T"));
    return String.join(":", parts);
  }
}
