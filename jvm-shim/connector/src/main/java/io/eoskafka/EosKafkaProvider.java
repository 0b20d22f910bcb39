package io.eoskafka;

import io.eoskafka.source.EosKafkaScan;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** {@code format("eoskafka")}. */
public final class EosKafkaProvider implements TableProvider, DataSourceRegister {
  public static final String NAME = "eoskafka";

  @Override
  public String shortName() {
    return NAME;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return EosKafkaScan.schema(options.getBoolean("includeHeaders", false));
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    Runtime.check();
    return new EosKafkaTable(schema);
  }
}
