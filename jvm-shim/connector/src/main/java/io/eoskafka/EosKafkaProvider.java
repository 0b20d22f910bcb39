package io.eoskafka;

import io.eoskafka.config.SinkOptions;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.sink.BatchWrite;
import io.eoskafka.source.EosKafkaScan;
import io.eoskafka.spark.ScalaCollections;
import io.eoskafka.spark.SparkCheck;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** {@code format("eoskafka")}, and in SQL {@code CREATE TEMPORARY VIEW … USING eoskafka}. */
public final class EosKafkaProvider
    implements TableProvider, RelationProvider, CreatableRelationProvider, DataSourceRegister {
  @Override
  public String shortName() {
    return EosKafkaTable.NAME;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return EosKafkaScan.schema(SourceOptions.includeHeaders(options));
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    SparkCheck.check();
    return new EosKafkaTable(schema, properties);
  }

  /** A SQL view: each read of it is a batch query. */
  @Override
  public BaseRelation createRelation(
      SQLContext context, scala.collection.immutable.Map<String, String> options) {
    SparkCheck.check();
    return new BatchView(context, options);
  }

  /**
   * Spark calls this for a DataFrame's write, in any save mode; a table takes {@code INSERT INTO}.
   */
  @Override
  public BaseRelation createRelation(
      SQLContext context,
      SaveMode mode,
      scala.collection.immutable.Map<String, String> options,
      Dataset<Row> rows) {
    SparkCheck.check();
    BatchWrite.run(
        rows, mode, SinkOptions.parse(new CaseInsensitiveStringMap(ScalaCollections.map(options))));
    return new BaseRelation() {
      @Override
      public SQLContext sqlContext() {
        return context;
      }

      @Override
      public StructType schema() {
        throw new UnsupportedOperationException("what was written is not read back");
      }
    };
  }
}
