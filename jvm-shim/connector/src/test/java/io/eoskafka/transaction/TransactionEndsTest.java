package io.eoskafka.transaction;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.transaction.TransactionEnds.Stand;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TransactionEndsTest {
  private static final long PRODUCER = 7;
  private static final short EPOCH = 3;

  @ParameterizedTest
  @CsvSource({
    "ONGOING,         0, false, OPEN",
    "ONGOING,         0, true,  OPEN",
    "ONGOING,         1, true,  UNKNOWN",
    "PREPARE_COMMIT,  0, false, COMMITTING",
    "PREPARE_COMMIT,  1, false, UNKNOWN",
    "PREPARE_COMMIT,  1, true,  COMMITTING",
    "COMPLETE_COMMIT, 0, false, COMMITTED",
    "COMPLETE_COMMIT, 1, false, UNKNOWN",
    "COMPLETE_COMMIT, 0, true,  UNKNOWN",
    "COMPLETE_COMMIT, 1, true,  COMMITTED",
    "COMPLETE_COMMIT, 2, true,  UNKNOWN",
    "PREPARE_ABORT,   1, true,  UNKNOWN",
    "COMPLETE_ABORT,  0, false, UNKNOWN",
  })
  void aCommitIsThatOfThePreparedTransactionByItsEpoch(
      TransactionState state, int epochsSince, boolean version2, Stand stand) {
    assertThat(stand(PRODUCER, state, epochsSince, version2)).isEqualTo(stand);
  }

  @ParameterizedTest
  @CsvSource({"ONGOING, 0, false", "COMPLETE_COMMIT, 0, false", "COMPLETE_COMMIT, 1, true"})
  void thatOfAnotherProducerSaysNothing(TransactionState state, int epochsSince, boolean version2) {
    assertThat(stand(PRODUCER + 1, state, epochsSince, version2)).isEqualTo(Stand.UNKNOWN);
  }

  private static Stand stand(
      long producer, TransactionState state, int epochsSince, boolean version2) {
    return TransactionEnds.stand(
        new TransactionRef("id", PRODUCER, EPOCH, version2),
        new TransactionDescription(
            0, state, producer, EPOCH + epochsSince, 60_000, OptionalLong.empty(), Set.of()));
  }
}
