package io.eoskafka.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.security.oauthbearer.ClientJwtValidator;
import org.junit.jupiter.api.Test;

class ClientSettingsTest {
  private static ClientSettings settings(String... pairs) {
    Map<String, String> options = new java.util.HashMap<>();
    options.put("kafka.bootstrap.servers", "b:9092");
    for (int i = 0; i < pairs.length; i += 2) {
      options.put(pairs[i], pairs[i + 1]);
    }
    return new ClientSettings(options);
  }

  @Test
  void onlyClientSettingsAreTakenAndTheGroupIsNot() {
    ClientSettings settings =
        settings("topic", "t", "kafka.group.id", "g", "Kafka.Fetch.Min.Bytes", "7");
    assertThat(settings.given("fetch.min.bytes")).isEqualTo("7");
    assertThat(settings.given("group.id")).isNull();
    assertThat(settings.given("topic")).isNull();
    assertThat(settings.bootstrapServers()).isEqualTo("b:9092");
  }

  @Test
  void invariant11ValuesAreNotInItsText() {
    assertThat(settings("kafka.ssl.key.password", "geheim").toString())
        .contains("ssl.key.password")
        .doesNotContain("geheim")
        .doesNotContain("b:9092");
  }

  @Test
  void tokensAreCheckedByAClassThatNeedsNoLibraryOfBrokers() {
    String validator = "sasl.oauthbearer.jwt.validator.class";
    String mechanism = "kafka.sasl.mechanism";
    assertThat(settings(mechanism, "OAUTHBEARER").given(validator))
        .isEqualTo(ClientJwtValidator.class.getName());
    assertThat(settings(mechanism, "OAUTHBEARER", "kafka." + validator, "Own").given(validator))
        .isEqualTo("Own");
    assertThat(settings(mechanism, "PLAIN").given(validator)).isNull();
    assertThat(
            settings(
                    mechanism, "OAUTHBEARER", "kafka.sasl.oauthbearer.jwks.endpoint.url", "file:/k")
                .given(validator))
        .isNull();
  }

  @Test
  void ourDefaultsGiveWayButTheGuaranteeDoesNot() {
    ClientSettings settings =
        settings(
            "kafka.linger.ms", "1",
            "kafka.max.poll.records", "2",
            "kafka.isolation.level", "read_uncommitted",
            "kafka.enable.idempotence", "false",
            "kafka.acks", "0",
            "kafka.transactional.id", "x",
            "kafka.enable.auto.commit", "true",
            "kafka.auto.offset.reset", "latest");
    assertThat(settings.producer("tx", 1_000))
        .containsEntry(ProducerConfig.LINGER_MS_CONFIG, "1")
        .containsEntry(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true)
        .containsEntry(ProducerConfig.ACKS_CONFIG, "all")
        .containsEntry(ProducerConfig.TRANSACTIONAL_ID_CONFIG, "tx")
        .containsEntry(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, 1_000);
    assertThat(settings.dataConsumer("c"))
        .containsEntry(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "2")
        .containsEntry(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_uncommitted")
        .containsEntry(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false)
        .containsEntry(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
    assertThat(settings.exclusiveMember("m", "g", "i"))
        .containsEntry(ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG, Integer.MAX_VALUE)
        .containsEntry(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, "i");
    assertThat(settings().dataConsumer("c"))
        .containsEntry(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
  }

  @Test
  void aRebalanceWaitsForLongerThanAMembersSession() {
    assertThat(settings().sharedMember("m", "g", "i"))
        .containsEntry(ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG, 300_000);
    assertThat(settings("kafka.session.timeout.ms", "600000").sharedMember("m", "g", "i"))
        .containsEntry(ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG, 660_000);
  }

  @Test
  void whatOnlyAMemberMayHaveIsNotGivenToTheConsumersOfTasks() {
    Map<String, Object> config =
        settings("kafka.group.protocol", "consumer", "kafka.group.remote.assignor", "range")
            .dataConsumer("c");
    assertThat(new ConsumerConfig(config).getString(ConsumerConfig.GROUP_PROTOCOL_CONFIG))
        .isEqualTo("classic");
  }

  @Test
  void anOpenBatchForEachPartitionLeavesHalfOfTheBuffer() {
    assertThat(batchBytes(settings().forPartitions(8))).isEqualTo(511 << 10);
    assertThat(batchBytes(settings().forPartitions(64))).isEqualTo(511 << 10);
    assertThat(batchBytes(settings().forPartitions(1_024))).isEqualTo(32 << 10);
    assertThat(batchBytes(settings().forPartitions(100_000))).isEqualTo(4 << 10);
    assertThat(batchBytes(settings())).isEqualTo(256 << 10);
    assertThat(batchBytes(settings().forPartitions(0))).isEqualTo(256 << 10);
    assertThat(batchBytes(settings("kafka.max.request.size", "200000").forPartitions(8)))
        .isEqualTo(200_000);
    assertThat(batchBytes(settings("kafka.buffer.memory", "1048576").forPartitions(8)))
        .isEqualTo(64 << 10);
    assertThat(batchBytes(settings("kafka.buffer.memory", "1000").forPartitions(8)))
        .isEqualTo(1_000);
    assertThat(settings("kafka.batch.size", "7").forPartitions(8).producer("tx", 1))
        .containsEntry(ProducerConfig.BATCH_SIZE_CONFIG, "7");
  }

  private static Object batchBytes(ClientSettings settings) {
    return settings.producer("tx", 1_000).get(ProducerConfig.BATCH_SIZE_CONFIG);
  }

  @Test
  void equalSettingsAreEqual() {
    assertThat(settings().forPartitions(8)).isEqualTo(settings().forPartitions(500));
    assertThat(settings("kafka.linger.ms", "1")).isEqualTo(settings("kafka.linger.ms", "1"));
    assertThat(settings("kafka.linger.ms", "1")).isNotEqualTo(settings("kafka.linger.ms", "2"));
  }

  @Test
  void aSettingThatIsNearlyOneOfTheClientsIsRefusedAndAPlugInsIsNot() {
    assertThatThrownBy(
            () ->
                settings("kafka.max.pol.records", "5").check("source", ConsumerConfig.configDef()))
        .hasMessageContaining("EOSKAFKA_UNKNOWN_OPTION")
        .hasMessageContaining("Did you mean kafka.max.poll.records?");
    settings("kafka.my.login.region", "eu", "kafka.linger.ms", "5")
        .check("source", ConsumerConfig.configDef());
  }

  @Test
  void aValueThatTheClientWouldRefuseIsRefusedBeforeItIsMade() {
    assertThatThrownBy(
            () ->
                settings("kafka.compression.type", "zst").check("sink", ProducerConfig.configDef()))
        .hasMessageContaining("EOSKAFKA_OPTION_INVALID")
        .hasMessageContaining("kafka.compression.type is 'zst'")
        .hasMessageContaining("zstd");
    settings(
            "kafka.ssl.key.password", "any",
            "kafka.linger.ms", "${file:/of/a:provider}",
            "kafka.partitioner.class", "not.here")
        .check("sink", ProducerConfig.configDef());
  }
}
