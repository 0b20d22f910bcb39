package io.eoskafka.config;

import com.fasterxml.jackson.databind.node.ObjectNode;

/** What the Jackson of each Spark version can do: the oldest is 2.15, of Spark 3.5. */
public final class Json {
  private Json() {}

  /** The object that a field has, which is added if it is not there. */
  public static ObjectNode objectIn(ObjectNode root, String field) {
    return root.get(field) instanceof ObjectNode there ? there : root.putObject(field);
  }
}
