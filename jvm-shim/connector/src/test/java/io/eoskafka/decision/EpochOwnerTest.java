package io.eoskafka.decision;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.spark.Checkpoint;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Batches 4 to 6 are planned, and those before them are purged. */
class EpochOwnerTest {
  @TempDir Path folder;

  private EpochOwner owner;

  @BeforeEach
  void planThreeBatches() throws IOException {
    Files.createDirectory(folder.resolve("offsets"));
    for (int batch = 4; batch <= 6; batch++) {
      Files.writeString(folder.resolve("offsets/" + batch), "plan " + batch);
    }
    Checkpoint checkpoint = new Checkpoint(folder.toString(), new Configuration());
    owner = new EpochOwner("id", "name", "eoskafka-write-x.json", "x", checkpoint, true);
  }

  private static Decision.Plan plan(String before, String of) {
    return Decision.Plan.ofFiles(Optional.ofNullable(before), Optional.ofNullable(of));
  }

  @Test
  void agreesWithThePlanInItsCheckpointAndWithNoOther() {
    assertThat(owner.agreesWith(6, plan("plan 5", "plan 6"))).isTrue();
    assertThat(owner.agreesWith(6, plan("plan x", "plan 6"))).isFalse();
    assertThat(owner.agreesWith(6, plan("plan 5", "plan x"))).isFalse();
  }

  @Test
  void takesAPurgedPlanForTheOneThatWasDecided() {
    assertThat(owner.agreesWith(4, plan("plan 3", "plan 4"))).isTrue();
    assertThat(owner.agreesWith(4, plan("plan 3", "plan x"))).isFalse();
    assertThat(owner.agreesWith(3, plan("plan 2", "plan 3"))).isTrue();
  }

  @Test
  void takesNoDecisionWithoutAPlan() {
    assertThat(owner.agreesWith(6, plan(null, null))).isFalse();
    assertThat(owner.agreesWith(6, plan(null, "plan 6"))).isFalse();
    assertThat(owner.agreesWith(6, plan("plan 5", null))).isFalse();
    assertThat(owner.agreesWith(3, plan(null, null))).isFalse();
  }

  @Test
  void takesNoPlanFromACheckpointThatHasLostIt() throws IOException {
    Files.delete(folder.resolve("offsets/5"));
    assertThat(owner.agreesWith(5, plan("plan 4", "plan 5"))).isFalse();
    assertThat(owner.agreesWith(6, plan("plan 5", "plan 6"))).isFalse();
  }

  @Test
  void ofAJobHasNoPlan() {
    EpochOwner job = EpochOwner.ofJob("nightly", "topic");
    assertThat(job.agreesWith(0, Decision.Plan.NONE)).isTrue();
    assertThat(job.agreesWith(0, plan("plan 5", "plan 6"))).isFalse();
  }
}
