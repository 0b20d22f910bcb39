package io.eoskafka.transaction;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.identity.Identity;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TransactionalIdTest {
  private static final String OURS =
      Identity.of("orders", "eoskafka", "/checkpoint/sources/0", false).id();

  private static boolean matchesBroker(String transactionalId) {
    return Pattern.matches("(?s)" + TransactionalId.brokerPattern(OURS), transactionalId);
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1, 9, 10, 12345, Integer.MAX_VALUE})
  void everySlotIsOurs(int slot) {
    String id = TransactionalId.ofSlot("eoskafka", "orders", OURS, slot);
    assertThat(TransactionalId.isOf(id, OURS)).isTrue();
    assertThat(matchesBroker(id)).isTrue();
  }

  @ParameterizedTest
  @ValueSource(strings = {"another", "a-b-c", "", "pre.fix*[x]"})
  void anotherPrefixOfAnEarlierRunIsOurs(String prefix) {
    String id = TransactionalId.ofSlot(prefix, "orders", OURS, 3);
    assertThat(TransactionalId.isOf(id, OURS)).isTrue();
    assertThat(matchesBroker(id)).isTrue();
  }

  @Test
  void aGroupWhoseNameContainsOursIsNotOurs() {
    for (String group : new String[] {"orders-2", "my-orders", "orders-" + OURS, OURS, "orders"}) {
      String identity = Identity.of(group, "eoskafka", "/another/sources/0", false).id();
      String id = TransactionalId.ofSlot("eoskafka", group, identity, 0);
      assertThat(TransactionalId.isOf(id, OURS)).as(id).isFalse();
      assertThat(matchesBroker(id)).as(id).isFalse();
    }
  }

  @Test
  void aGroupMadeToLookLikeOurIdIsNotOurs() {
    String other = Identity.of("x", "eoskafka", "/another/sources/0", false).id();
    String group = "orders-" + OURS + "-0";
    String id = TransactionalId.ofSlot("eoskafka", group, other, 0);
    assertThat(TransactionalId.isOf(id, OURS)).isFalse();
    assertThat(matchesBroker(id)).isFalse();
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "-", "-x", "--1", "-1x", "-1-2", "-1\n"})
  void anythingElseAfterTheIdentityIsNotOurs(String end) {
    String id = "eoskafka-orders-" + OURS + end;
    assertThat(TransactionalId.isOf(id, OURS)).isFalse();
  }

  @Test
  void anIdentityThatEndsWithOursIsNotOurs() {
    String id = "eoskafka-orders-x" + OURS + "-0";
    assertThat(TransactionalId.isOf(id, OURS)).isFalse();
    assertThat(matchesBroker(id)).isFalse();
  }

  @Test
  void aWriterIsOfItsQueryAndItsRun() {
    String first = TransactionalId.ofWriter("p", OURS, 12, 3, 40, 7, 0, 0);
    String retry = TransactionalId.ofWriter("p", OURS, 12, 3, 40, 7, 0, 1);
    String other = Identity.of("orders", "eoskafka", "/another", false).id();
    for (String id : new String[] {first, retry}) {
      assertThat(TransactionalId.runOfWriter(id, OURS)).hasValue(12);
      assertThat(TransactionalId.runOfWriter(id, other)).isEmpty();
      assertThat(TransactionalId.isOf(id, OURS)).isFalse();
      assertThat(id).matches(TransactionalId.brokerPatternOfWriters(OURS));
    }
    assertThat(TransactionalId.runOfWriter(TransactionalId.ofDecisions("p", OURS), OURS)).isEmpty();
    assertThat(TransactionalId.runOfWriter(TransactionalId.ofSlot("p", "g", OURS, 1), OURS))
        .isEmpty();
  }

  @Test
  void onlyFirstAttemptsShareAnIdWithOtherEpochs() {
    assertThat(TransactionalId.ofWriter("p", OURS, 1, 0, 5, 2, 0, 0))
        .isEqualTo(TransactionalId.ofWriter("p", OURS, 1, 0, 6, 2, 0, 0))
        .isNotEqualTo(TransactionalId.ofWriter("p", OURS, 1, 1, 6, 2, 0, 0));
    assertThat(TransactionalId.ofWriter("p", OURS, 1, 0, 5, 2, 0, 1))
        .isNotEqualTo(TransactionalId.ofWriter("p", OURS, 1, 0, 6, 2, 0, 1));
    assertThat(TransactionalId.ofWriter("p", OURS, 1, 0, 5, 2, 1, 0))
        .isNotEqualTo(TransactionalId.ofWriter("p", OURS, 1, 0, 5, 2, 0, 1));
  }
}
