package testing;

import java.util.List;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.RowToColumnarExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * For {@code spark.sql.extensions}: rows go to a stream's sink by way of column batches of
 * thousands, as plug-ins for accelerators have it.
 */
public final class Columnar extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectColumnar(session -> new Last());
    return BoxedUnit.UNIT;
  }

  private static final class Last extends ColumnarRule {
    @Override
    public Rule<SparkPlan> postColumnarTransitions() {
      return new BeforeTheSink();
    }
  }

  private static final class BeforeTheSink extends Rule<SparkPlan> {
    @Override
    public SparkPlan apply(SparkPlan plan) {
      if (!(plan instanceof WriteToDataSourceV2Exec write)) {
        return plan;
      }
      SparkPlan columns = new ColumnarToRowExec(new RowToColumnarExec(write.query()));
      return write.withNewChildren(CollectionConverters.asScala(List.of(columns)).toSeq());
    }
  }
}
