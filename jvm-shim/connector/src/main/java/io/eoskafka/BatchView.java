package io.eoskafka;

import io.eoskafka.config.SourceOptions;
import io.eoskafka.source.EosKafkaScan;
import io.eoskafka.spark.Rows;
import io.eoskafka.spark.ScalaCollections;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.TableScan;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.immutable.Map;

/** Topics as a relation, for the parts of SQL that do not know of tables. */
final class BatchView extends BaseRelation implements TableScan {
  private final SQLContext context;
  private final Map<String, String> options;

  BatchView(SQLContext context, Map<String, String> options) {
    this.context = context;
    this.options = options;
  }

  @Override
  public SQLContext sqlContext() {
    return context;
  }

  @Override
  public StructType schema() {
    return EosKafkaScan.schema(
        SourceOptions.includeHeaders(new CaseInsensitiveStringMap(ScalaCollections.map(options))));
  }

  @Override
  public RDD<Row> buildScan() {
    return Rows.asUsersSee(
        context.sparkSession().read().format(EosKafkaTable.NAME).options(options).load());
  }
}
