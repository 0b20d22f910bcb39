package io.eoskafka.sink;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SinkOptions;
import java.io.Serializable;
import java.util.Map;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;

/**
 * The positions of the columns in a written row; -1 for a missing column. Columns and precedence
 * are those of the built-in connector: the option {@code topic} takes precedence over the column.
 *
 * @param decisionTopic to which no row may be written
 */
record OutputColumns(
    String topicOption,
    String decisionTopic,
    int topic,
    int key,
    boolean keyIsString,
    int value,
    boolean valueIsString,
    int headers,
    int partition)
    implements Serializable {

  /**
   * In the metadata of a column {@code topic}: the column sends some rows to a dead-letter topic.
   */
  private static final String DEAD_LETTERS = "eoskafka.dead-letters";

  /**
   * @throws EosKafkaException {@code EOSKAFKA_BAD_SCHEMA}
   */
  static OutputColumns of(StructType schema, SinkOptions options) {
    String topicOption = options.topic();
    int topic = find(schema, "topic");
    int key = find(schema, "key");
    int value = find(schema, "value");
    int headers = find(schema, "headers");
    int partition = find(schema, "partition");
    if (value < 0) {
      throw bad(schema, "it has no column 'value'");
    }
    if (topic < 0 && topicOption == null) {
      throw bad(schema, "it has no column 'topic' and no option 'topic' is set");
    }
    if (topic >= 0
        && topicOption != null
        && schema.apply(topic).metadata().contains(DEAD_LETTERS)) {
      throw bad(
          schema,
          "the option 'topic' would send dead letters to "
              + topicOption
              + " as well, because it wins over the column 'topic' of with_dead_letters");
    }
    requireText(schema, topic, "topic", false);
    requireText(schema, key, "key", true);
    requireText(schema, value, "value", true);
    if (partition >= 0 && !(schema.apply(partition).dataType() instanceof IntegerType)) {
      throw bad(schema, "column 'partition' must be int");
    }
    if (headers >= 0 && !isHeaders(schema.apply(headers).dataType())) {
      throw bad(schema, "column 'headers' must be array<struct<key:string,value:binary>>");
    }
    return new OutputColumns(
        topicOption,
        options.decisionTopic(),
        topicOption == null ? topic : -1,
        key,
        key >= 0 && schema.apply(key).dataType() instanceof StringType,
        value,
        schema.apply(value).dataType() instanceof StringType,
        headers,
        partition);
  }

  private static int find(StructType schema, String name) {
    String[] names = schema.fieldNames();
    for (int i = 0; i < names.length; i++) {
      if (names[i].equals(name)) {
        return i;
      }
    }
    return -1;
  }

  private static void requireText(StructType schema, int ordinal, String name, boolean binaryToo) {
    if (ordinal < 0) {
      return;
    }
    DataType type = schema.apply(ordinal).dataType();
    if (!(type instanceof StringType) && !(binaryToo && type instanceof BinaryType)) {
      throw bad(schema, "column '" + name + "' must be string" + (binaryToo ? " or binary" : ""));
    }
  }

  private static boolean isHeaders(DataType type) {
    return type instanceof ArrayType array
        && array.elementType() instanceof StructType struct
        && struct.length() == 2
        && struct.apply(0).name().equalsIgnoreCase("key")
        && struct.apply(0).dataType() instanceof StringType
        && struct.apply(1).name().equalsIgnoreCase("value")
        && struct.apply(1).dataType() instanceof BinaryType;
  }

  private static EosKafkaException bad(StructType schema, String problem) {
    return EosKafkaException.of(
        "EOSKAFKA_BAD_SCHEMA", Map.of("schema", schema.catalogString(), "problem", problem));
  }
}
