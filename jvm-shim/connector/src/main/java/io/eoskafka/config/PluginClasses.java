package io.eoskafka.config;

import java.util.Arrays;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Classes that users give to Kafka's client: log-in plug-ins, partitioners, reporters. They are
 * compiled against Kafka's own package names, and a client that was relocated cannot use them.
 */
final class PluginClasses {
  private PluginClasses() {}

  /**
   * @param option the option's name, as users write it
   * @param names comma-separated classes; those that cannot be found are left to the client, whose
   *     error names them
   * @param compiled the package that plug-ins are compiled against, with a trailing dot
   * @param actual the package of the client in this jar, likewise
   * @throws EosKafkaException {@code EOSKAFKA_PLUGIN_NEEDS_THIN_JAR}
   */
  static void refuseUnfit(String option, String names, String compiled, String actual) {
    if (compiled.equals(actual)) {
      return;
    }
    for (String name : names.trim().split("\\s*,\\s*")) {
      if (!name.startsWith(actual) && needs(compiled, name)) {
        throw EosKafkaException.of(
            "EOSKAFKA_PLUGIN_NEEDS_THIN_JAR",
            Map.of("option", option, "class", name, "package", actual + "*"));
      }
    }
  }

  private static boolean needs(String compiled, String name) {
    try {
      return isOf(compiled, Class.forName(name, false, loader()));
    } catch (ClassNotFoundException e) {
      return false;
    } catch (NoClassDefFoundError e) {
      // Without kafka-clients on the class path, the interface that it implements is missing.
      return String.valueOf(e.getMessage()).replace('/', '.').startsWith(compiled);
    }
  }

  private static boolean isOf(String compiled, Class<?> type) {
    return type.getName().startsWith(compiled)
        || Stream.concat(
                Stream.ofNullable(type.getSuperclass()), Arrays.stream(type.getInterfaces()))
            .anyMatch(each -> isOf(compiled, each));
  }

  /** The class loader that the client uses for them. */
  private static ClassLoader loader() {
    ClassLoader ofThread = Thread.currentThread().getContextClassLoader();
    return ofThread == null ? PluginClasses.class.getClassLoader() : ofThread;
  }
}
