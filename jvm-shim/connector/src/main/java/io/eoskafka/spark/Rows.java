package io.eoskafka.spark;

import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;

/** The rows of a batch query as an RDD. */
public final class Rows {
  private Rows() {}

  /** The rows as users see them. */
  public static RDD<Row> asUsersSee(Dataset<Row> rows) {
    return rows.rdd();
  }

  /** The rows as Spark's operators represent them. */
  public static JavaRDD<InternalRow> asOperatorsHave(Dataset<Row> rows) {
    return rows.queryExecution().toRdd().toJavaRDD();
  }
}
