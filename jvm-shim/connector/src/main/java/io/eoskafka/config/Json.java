package io.eoskafka.config;

import com.fasterxml.jackson.databind.node.ObjectNode;

/** Uses only what the Jackson of each Spark version has; the oldest is 2.15, in Spark 3.5. */
public final class Json {
  private Json() {}

  /** The object in a field, which is added if it is missing. */
  public static ObjectNode objectIn(ObjectNode root, String field) {
    return root.get(field) instanceof ObjectNode there ? there : root.putObject(field);
  }
}
