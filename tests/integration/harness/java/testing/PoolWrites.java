package testing;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import scala.concurrent.ExecutionContext;

/** Batch writes on threads of pools, which inherit the local properties of who has created them. */
public final class PoolWrites {
  private static final ExecutorService FIXED = Executors.newFixedThreadPool(1);

  private PoolWrites() {}

  public static void write(Dataset<Row> rows, Map<String, String> options, String pool)
      throws InterruptedException, ExecutionException {
    Executor executor = pool.equals("fixed") ? FIXED : ExecutionContext.global();
    CompletableFuture.runAsync(
            () -> rows.write().format("eoskafka").mode("append").options(options).save(), executor)
        .get();
  }
}
