package testing;

import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.RowToColumnarExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec;
import scala.collection.immutable.List;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * For {@code spark.sql.extensions}: an operator that holds rows back before a stream's sink. By
 * {@code spark.testing.operator} column batches of thousands, as plug-ins for accelerators have
 * them, a sort, which Spark itself refuses for streams, or an operator of the plug-in's own.
 */
public final class HoldsRowsBack extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectColumnar(
        session -> new Last(session.sparkContext().conf().get("spark.testing.operator")));
    return BoxedUnit.UNIT;
  }

  private static final class Last extends ColumnarRule {
    private final String operator;

    Last(String operator) {
      this.operator = operator;
    }

    @Override
    public Rule<SparkPlan> postColumnarTransitions() {
      return new BeforeTheSink(operator);
    }
  }

  private static final class BeforeTheSink extends Rule<SparkPlan> {
    private final String operator;

    BeforeTheSink(String operator) {
      this.operator = operator;
    }

    @Override
    public SparkPlan apply(SparkPlan plan) {
      if (!(plan instanceof WriteToDataSourceV2Exec write)) {
        return plan;
      }
      SparkPlan rows = write.query();
      SparkPlan held =
          switch (operator) {
            case "sort" -> new SortExec(byValue(rows), false, rows, 0);
            case "columns" -> new ColumnarToRowExec(new RowToColumnarExec(rows));
            default -> new ColumnarToRowExec(new MadeUpColumns(new RowToColumnarExec(rows)));
          };
      return write.withNewChildren(Sequences.of(held));
    }

    private static List<SortOrder> byValue(SparkPlan rows) {
      Expression value = (Expression) rows.output().last();
      Ascending$ ascending = Ascending$.MODULE$;
      return Sequences.of(
          new SortOrder(value, ascending, ascending.defaultNullOrdering(), Sequences.of()));
    }
  }
}
