package testing;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.List;

/** An operator over column batches, such as a plug-in for an accelerator brings along. */
public final class MadeUpColumns extends SparkPlan {
  private static final long serialVersionUID = 1L;

  private final SparkPlan child;

  public MadeUpColumns(SparkPlan child) {
    this.child = child;
  }

  @Override
  public boolean supportsColumnar() {
    return true;
  }

  @Override
  public RDD<ColumnarBatch> doExecuteColumnar() {
    return child.executeColumnar();
  }

  @Override
  public RDD<InternalRow> doExecute() {
    throw new UnsupportedOperationException("It has column batches");
  }

  @Override
  public List<Attribute> output() {
    return child.output().toList();
  }

  @Override
  public List<SparkPlan> children() {
    return Sequences.of(child);
  }

  /** Scala 2.12 has the other one. */
  public SparkPlan withNewChildrenInternal(scala.collection.IndexedSeq<SparkPlan> children) {
    return new MadeUpColumns(children.head());
  }

  /** Scala 2.13 has this one. */
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new MadeUpColumns(children.head());
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int index) {
    return child;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof MadeUpColumns;
  }
}
