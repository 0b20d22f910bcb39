"""A client of Spark Connect: `python connect_client.py WHAT SPEC` prints its outcome as JSON.

`foreach-batch`: a query that writes each batch in its function; `foreach-batch-sql`: with a
statement `INSERT INTO`. `stream-and-job`: a query that
writes to Kafka, and a batch job in the same session while it runs.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.dataframe import DataFrame


def main() -> None:
    """Do what the arguments say."""
    what, spec = sys.argv[1], json.loads(sys.argv[2])
    spark = SparkSession.builder.remote(spec["url"]).getOrCreate()
    rows = spark.readStream.format("eoskafka").options(**spec["source"]).load()
    values = rows.selectExpr("key", "cast(value as string) value")
    error = ""
    try:
        {
            "foreach-batch": foreach_batch,
            "foreach-batch-sql": foreach_batch,
            "stream-and-job": stream_and_job,
        }[what](spark, values, {**spec, "sql": what.endswith("sql")})
    except PySparkException as failure:
        error = str(failure)
    print(json.dumps({"error": error}))


def foreach_batch(_: Any, values: Any, spec: dict[str, Any]) -> None:
    """The function runs in a process of the server's, as another client."""
    sink, is_sql = spec["sink"], spec["sql"]
    listed = ", ".join(f"`{option}` '{value}'" for option, value in sink.items())

    def write(batch: DataFrame, _: int) -> None:
        if is_sql:
            session = batch.sparkSession
            batch.createOrReplaceTempView("batch")
            session.sql(f"CREATE TEMPORARY VIEW sink USING eoskafka OPTIONS ({listed})").collect()
            session.sql("INSERT INTO sink SELECT key, value FROM batch").collect()
            return
        batch.write.format("eoskafka").mode("append").options(**sink).save()

    query = (
        values.writeStream.foreachBatch(write)
        .option("checkpointLocation", spec["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def stream_and_job(spark: Any, values: Any, spec: dict[str, Any]) -> None:
    """The job's rows have nothing to do with the query."""
    query = (
        values.writeStream.format("eoskafka")
        .options(**spec["sink"])
        .option("checkpointLocation", spec["checkpoint"])
        .trigger(processingTime="0 seconds")
        .start()
    )
    job = spark.range(spec["rows"]).selectExpr("cast(id as string) value")
    job.write.format("eoskafka").mode("append").options(**spec["job"]).save()
    while query.isActive and not query.lastProgress:
        query.awaitTermination(1)
    query.processAllAvailable()
    query.stop()


if __name__ == "__main__":
    # The function is pickled by reference to this module otherwise, which the server has not.
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules["__main__"])  # type: ignore[no-untyped-call]
    main()
