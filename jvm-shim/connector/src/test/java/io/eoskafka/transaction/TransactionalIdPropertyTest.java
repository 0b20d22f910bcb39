package io.eoskafka.transaction;

import static io.eoskafka.foreign.ForeignInput.any;
import static io.eoskafka.foreign.ForeignInput.number;
import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.foreign.Corpus;
import io.eoskafka.foreign.ForeignInput;
import io.eoskafka.identity.Identity;
import java.util.List;
import java.util.OptionalLong;
import java.util.Random;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tag;

/** The brokers list every application's transactional ids. */
class TransactionalIdPropertyTest {
  private static final String OURS = Identity.digest("ours");
  private static final String OTHER = Identity.digest("another's");
  private static final String DRIVER = Identity.digest("a driver");
  private static final String PREFIX = "p";

  /** The longest that a coordinator can store. */
  private static final int MOST_CHARACTERS = 32_767;

  @Property
  @Tag("reader")
  void anyNameIsOursOrIsNot(@ForAll("names") String name) {
    boolean isSlot = TransactionalId.isOf(name, OURS);
    boolean isDrivers = TransactionalId.driverOf(name, OURS).isPresent();
    OptionalLong run = TransactionalId.runOfWriter(name, OURS);
    assertThat(isSlot && run.isPresent()).isFalse();
    if (isSlot || run.isPresent() || isDrivers) {
      assertThat(name).contains("-" + OURS + "-");
      assertThat(name.charAt(name.length() - 1)).isBetween('0', '9');
    }
    // An identity is the last one in a name, and none but its owner's.
    for (String another : List.of(OTHER, DRIVER)) {
      assertThat(isSlot && TransactionalId.isOf(name, another)).isFalse();
      assertThat(run.isPresent() && TransactionalId.runOfWriter(name, another).isPresent())
          .isFalse();
      assertThat(isDrivers && TransactionalId.driverOf(name, another).isPresent()).isFalse();
    }
    OptionalLong ofFirst = TransactionalId.runOfWriter(name, PREFIX, OURS, 1);
    if (ofFirst.isPresent()) {
      assertThat(run).isEqualTo(ofFirst);
      assertThat(name).startsWith(PREFIX + "-" + OURS + "-w");
    }
    Corpus.add("id", name, run.isPresent() ? Long.toString(run.getAsLong()) : isSlot ? "slot" : "");
  }

  @Property
  void aWritersNameIsItsOwnersOnly(@ForAll("ofWriters") OfWriter writer) {
    String name = writer.name();
    assertThat(TransactionalId.runOfWriter(name, OURS)).hasValue(writer.run());
    assertThat(TransactionalId.runOfWriter(name, PREFIX, OURS, writer.number()))
        .hasValue(writer.run());
    assertThat(name).matches(TransactionalId.brokerPatternOfWriters(OURS));
    assertThat(TransactionalId.runOfWriter(name, OTHER)).isEmpty();
    assertThat(TransactionalId.runOfWriter(name, PREFIX, OTHER, writer.number())).isEmpty();
    assertThat(TransactionalId.runOfWriter(name, PREFIX + "-" + OURS, OURS, writer.number()))
        .isEmpty();
    assertThat(TransactionalId.runOfWriter(name, PREFIX, OURS, writer.number() + 1)).isEmpty();
    assertThat(TransactionalId.isOf(name, OURS)).isFalse();
  }

  record OfWriter(long run, int number, String name) {}

  @Provide
  Arbitrary<OfWriter> ofWriters() {
    return Arbitraries.randomValue(random -> writer(random, PREFIX, OURS));
  }

  private static OfWriter writer(Random random, String prefix, String owner) {
    long run = number(random, 0, 999_999_999_999_999_999L);
    int writer = (int) number(random, 0, Integer.MAX_VALUE - 1);
    return new OfWriter(
        run,
        writer,
        TransactionalId.ofWriter(
            prefix,
            owner,
            run,
            number(random, 0, Long.MAX_VALUE),
            number(random, 0, Long.MAX_VALUE),
            writer,
            random.nextInt(3),
            random.nextInt(3)));
  }

  @Provide
  Arbitrary<String> names() {
    return Arbitraries.randomValue(
        random -> {
          String name = name(random);
          return random.nextInt(3) == 0 ? ForeignInput.damaged(random, name) : name;
        });
  }

  private static String name(Random random) {
    String prefix = any(random, List.of(PREFIX, "", "-", PREFIX + "-" + OURS, "a\nb", "(x*"));
    String identity = any(random, List.of(OURS, OURS, OTHER, ForeignInput.digest(random)));
    return switch (random.nextInt(8)) {
      case 0 -> ForeignInput.noise(random);
      case 1 -> TransactionalId.ofDecisions(prefix, identity);
      case 2 -> TransactionalId.ofSlot(prefix, "group", identity, random.nextInt());
      case 3 -> TransactionalId.ofSlot(prefix, OTHER, identity + "-" + DRIVER, random.nextInt(9));
      case 4 -> prefix + "-" + identity + "-w" + "9".repeat(random.nextInt(25)) + ".0.1";
      case 5 -> prefix + "-" + identity + "-w1" + any(random, List.of(".\u0661.1", "..1", ".1."));
      case 6 -> random.nextInt(100) == 0 ? longest(prefix, identity) : prefix;
      default -> writer(random, prefix, identity).name();
    };
  }

  private static String longest(String prefix, String identity) {
    String name = prefix + "-" + identity + "-w1";
    return name + ".1".repeat((MOST_CHARACTERS - name.length()) / 2);
  }
}
