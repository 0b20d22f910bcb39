package io.eoskafka.task;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** Invariant 12: a client serves one attempt at a time. */
class IdlePoolTest {
  private final List<String> closed = new ArrayList<>();
  private final IdlePool<String> pool = new IdlePool<>(closed::add);

  @Test
  void aClientThatWasTakenIsNobodyElses() {
    pool.put("slot", "client");
    assertThat(pool.take("slot")).isEqualTo("client");
    assertThat(pool.take("slot")).isNull();
  }

  @Test
  void aClientIsKnownByItsWholeName() {
    pool.put("slot-1", "client");
    assertThat(pool.take("slot-10")).isNull();
    assertThat(pool.take("slot")).isNull();
  }

  @Test
  void theOlderOfTwoClientsOfOneNameIsClosed() {
    pool.put("slot", "older");
    pool.put("slot", "newer");
    assertThat(closed).containsExactly("older");
    assertThat(pool.take("slot")).isEqualTo("newer");
  }

  @Test
  void whatRestsForAStoppedQueryIsClosedAndNothingElseIs() {
    pool.put("a-1", "taken");
    pool.put("a-2", "resting");
    pool.put("b-1", "of another");
    pool.take("a-1");
    pool.closeIf(name -> name.startsWith("a-"));
    assertThat(closed).containsExactly("resting");
    assertThat(pool.take("a-2")).isNull();
    assertThat(pool.take("b-1")).isEqualTo("of another");
  }

  @Test
  void threadsThatWantOneClientHaveItInTurns() throws Exception {
    AtomicBoolean inUse = new AtomicBoolean();
    IdlePool<AtomicBoolean> clients = new IdlePool<>(client -> {});
    clients.put("slot", inUse);
    Callable<Integer> attempts =
        () -> {
          int taken = 0;
          for (int i = 0; i < 100_000; i++) {
            AtomicBoolean client = clients.take("slot");
            if (client != null) {
              assertThat(client.compareAndSet(false, true)).as("in use twice").isTrue();
              taken++;
              client.set(false);
              clients.put("slot", client);
            }
          }
          return taken;
        };
    ExecutorService threads = Executors.newFixedThreadPool(4);
    try {
      int taken = 0;
      for (Future<Integer> ended : threads.invokeAll(List.of(attempts, attempts, attempts))) {
        taken += ended.get();
      }
      assertThat(taken).isPositive();
    } finally {
      threads.shutdownNow();
    }
  }
}
