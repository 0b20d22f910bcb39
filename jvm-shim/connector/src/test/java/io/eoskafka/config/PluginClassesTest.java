package io.eoskafka.config;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.kafka.clients.producer.RoundRobinPartitioner;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PluginClassesTest {
  private static final String KAFKA = String.join(".", "org", "apache", "kafka") + ".";
  private static final String RELOCATED = "io.eoskafka.elsewhere.";
  private static final String OPTION = "kafka.partitioner.class";

  /** Of a user, by way of its superclass. */
  static class Partitioner extends RoundRobinPartitioner {}

  private static void refuse(String names, String actual) {
    PluginClasses.refuseUnfit(OPTION, names, KAFKA, actual);
  }

  @Test
  void aClassThatARelocatedClientCannotUseIsRefused() {
    String name = Partitioner.class.getName();
    assertThatThrownBy(() -> refuse("java.lang.String, " + name, RELOCATED))
        .hasMessageContaining("[EOSKAFKA_PLUGIN_NEEDS_THIN_JAR]")
        .hasMessageContaining(OPTION)
        .hasMessageContaining(name)
        .hasMessageContaining("the thin jar");
  }

  @Test
  void theClientOfTheThinJarTakesIt() {
    assertThatCode(() -> refuse(Partitioner.class.getName(), KAFKA)).doesNotThrowAnyException();
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "java.lang.String", "nobody.Knows", "io.eoskafka.elsewhere.Its"})
  void whatIsNotCompiledAgainstKafkaIsLeftToTheClient(String names) {
    assertThatCode(() -> refuse(names, RELOCATED)).doesNotThrowAnyException();
  }
}
