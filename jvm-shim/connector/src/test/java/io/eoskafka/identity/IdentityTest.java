package io.eoskafka.identity;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class IdentityTest {
  private static final String SOURCE = "file:/checkpoint/sources/0";

  @Test
  void theSameCheckpointAndGroupAreTheSameIdentity() {
    assertThat(Identity.of("g", "eoskafka", SOURCE, false))
        .isEqualTo(Identity.of("g", "eoskafka", SOURCE, false));
    assertThat(Identity.of("g", "eoskafka", SOURCE, false).id())
        .isEqualTo(Identity.of("g", "eoskafka", SOURCE, false).id());
  }

  @Test
  void anotherCheckpointGroupOrSourceIsAnother() {
    assertThat(
            java.util.stream.Stream.of(
                    Identity.of("g", "eoskafka", SOURCE, false),
                    Identity.of("h", "eoskafka", SOURCE, false),
                    Identity.of(null, "eoskafka", SOURCE, false),
                    Identity.of("g", "eoskafka", "file:/checkpoint/sources/1", false),
                    Identity.of("g", "eoskafka", "file:/checkpoint2/sources/0", false))
                .map(Identity::id))
        .doesNotHaveDuplicates();
  }

  @Test
  void partsThatReadTheSameInARowAreNotTheSameIdentity() {
    assertThat(new Identity("a", "bc", "d", false).id())
        .isNotEqualTo(new Identity("ab", "c", "d", false).id());
    assertThat(new Identity("a", "b", "cd", false).id())
        .isNotEqualTo(new Identity("a", "bc", "d", false).id());
    assertThat(new Identity("1:a", "b", "c", false).id())
        .isNotEqualTo(new Identity("1", ":ab", "c", false).id());
  }

  @Test
  void theIdFitsStampsAndTransactionalIds() {
    assertThat(Identity.of("g", "eoskafka", SOURCE, false).id()).matches("[A-Za-z0-9_-]{22}");
  }

  @Test
  void withoutANameTheGroupIsMadeOfTheCheckpoint() {
    Identity derived = Identity.of(null, "eoskafka", SOURCE, false);
    assertThat(derived.group()).isEqualTo("eoskafka-" + derived.checkpointId());
    assertThat(derived.instanceId()).isEqualTo(derived.group());
  }

  @Test
  void thisIdIsTheSameForEver() {
    // A change would make every existing query a stranger to its own group.
    assertThat(Identity.of("orders", "eoskafka", "file:/checkpoint/sources/0", false).id())
        .isEqualTo("ROwn0qHBFyGBL_hXnFbHXg");
  }
}
