package io.eoskafka.group;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class IdentityTest {
  private static final String SOURCE = "file:/checkpoint/sources/0";

  @Test
  void theSameCheckpointAndGroupAreTheSameIdentity() {
    assertThat(Identity.of("g", SOURCE)).isEqualTo(Identity.of("g", SOURCE));
    assertThat(Identity.of("g", SOURCE).id()).isEqualTo(Identity.of("g", SOURCE).id());
  }

  @Test
  void anotherCheckpointGroupOrSourceIsAnother() {
    assertThat(
            java.util.stream.Stream.of(
                    Identity.of("g", SOURCE),
                    Identity.of("h", SOURCE),
                    Identity.of(null, SOURCE),
                    Identity.of("g", "file:/checkpoint/sources/1"),
                    Identity.of("g", "file:/checkpoint2/sources/0"))
                .map(Identity::id))
        .doesNotHaveDuplicates();
  }

  @Test
  void partsThatReadTheSameInARowAreNotTheSameIdentity() {
    assertThat(new Identity("a", "bc", "d").id()).isNotEqualTo(new Identity("ab", "c", "d").id());
    assertThat(new Identity("a", "b", "cd").id()).isNotEqualTo(new Identity("a", "bc", "d").id());
    assertThat(new Identity("1:a", "b", "c").id()).isNotEqualTo(new Identity("1", ":ab", "c").id());
  }

  @Test
  void theIdFitsStampsAndTransactionalIds() {
    assertThat(Identity.of("g", SOURCE).id()).matches("[A-Za-z0-9_-]{22}");
  }

  @Test
  void withoutANameTheGroupIsMadeOfTheCheckpoint() {
    Identity derived = Identity.of(null, SOURCE);
    assertThat(derived.group()).isEqualTo("eoskafka-" + derived.checkpointId());
    assertThat(derived.instanceId()).isEqualTo(derived.group());
  }

  @Test
  void thisIdIsTheSameForEver() {
    // A change would make every existing query a stranger to its own group.
    assertThat(Identity.of("orders", "file:/checkpoint/sources/0").id())
        .isEqualTo("ROwn0qHBFyGBL_hXnFbHXg");
  }
}
