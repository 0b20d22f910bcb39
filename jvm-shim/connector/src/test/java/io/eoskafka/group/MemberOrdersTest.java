package io.eoskafka.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class MemberOrdersTest {
  private final List<String> happened = new ArrayList<>();
  private boolean hasEnded;
  private MemberOrders orders;

  /** Orders whose thread is woken by this. */
  private MemberOrders orders(Runnable wakeup) {
    return new MemberOrders(
        wakeup,
        () -> {
          if (hasEnded) {
            throw new IllegalStateException("ended");
          }
        });
  }

  @Test
  void ordersAreCarriedOutInTheirOrder() {
    orders = orders(() -> happened.add("woken"));
    orders.add(() -> happened.add("first"));
    orders.addAndWake(() -> happened.add("second"));
    assertThat(happened).containsExactly("woken");
    orders.carryOut();
    orders.carryOut();
    assertThat(happened).containsExactly("woken", "first", "second");
  }

  @Test
  void whoAsksGetsTheResultOrTheFailure() {
    orders = orders(() -> orders.carryOut());
    assertThat(orders.<String>ask(done -> done.complete("answer"))).isEqualTo("answer");
    RuntimeException failure = new IllegalArgumentException();
    assertThatThrownBy(() -> orders.ask(done -> done.completeExceptionally(failure)))
        .isSameAs(failure);
  }

  @Test
  void aThreadThatHasEndedGetsNoOrder() {
    hasEnded = true;
    orders = orders(() -> happened.add("woken"));
    assertThatThrownBy(() -> orders.ask(done -> happened.add("carried out"))).hasMessage("ended");
    orders.carryOut();
    assertThat(happened).isEmpty();
  }

  @Test
  void anOrderThatCameTooLateIsNotWaitedForWithoutEnd() {
    orders = orders(() -> hasEnded = true);
    assertThatThrownBy(() -> orders.ask(done -> happened.add("carried out"))).hasMessage("ended");
    assertThat(happened).isEmpty();
  }

  @Test
  void anInterruptionIsInAFormThatSparkKnows() {
    orders = orders(() -> Thread.currentThread().interrupt());
    assertThatThrownBy(() -> orders.ask(done -> {})).isInstanceOf(UncheckedIOException.class);
    assertThat(Thread.interrupted()).isTrue();
  }
}
