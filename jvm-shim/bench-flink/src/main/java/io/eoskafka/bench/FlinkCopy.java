package io.eoskafka.bench;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.CoreOptions;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Flink with its Kafka connector, from topic to topic, exactly-once: the sink commits its
 * transactions once a checkpoint is complete. Source and sink are one chain of operators that hands
 * on the objects themselves, so no record is serialized between them. A run begins when its first
 * records come, and ends with its job: Flink takes a last checkpoint at the input's end, and the
 * job ends after the transactions of this checkpoint are committed.
 */
final class FlinkCopy implements PeerProgram.Peer {
  /** As the Java loop commits, so that few checkpoints cost time. */
  private static final Duration COPY_INTERVAL = Duration.ofSeconds(10);

  /** The sink's default is an hour, which brokers with their own defaults refuse. */
  private static final Duration TRANSACTION_TIMEOUT = Duration.ofMinutes(15);

  private static final long START_S = 60;
  private static final long STOP_S = 60;
  private static final long LOOK_MS = 20;

  private final PeerProgram.Clients clients;
  private final MiniCluster cluster;

  private FlinkCopy(PeerProgram.Clients clients, MiniCluster cluster) {
    this.clients = clients;
    this.cluster = cluster;
  }

  /** The arguments are those of {@link PeerProgram}. */
  public static void main(String[] arguments) throws Exception {
    MiniClusterConfiguration configuration =
        new MiniClusterConfiguration.Builder()
            .setNumTaskManagers(1)
            .setNumSlotsPerTaskManager(PeerProgram.THREADS)
            .withRandomPorts()
            .build();
    PeerProgram.Clients clients = PeerProgram.Clients.read(arguments[1], Path.of(arguments[2]));
    MiniCluster cluster = new MiniCluster(configuration);
    try {
      cluster.start();
      PeerProgram.serve(new FlinkCopy(clients, cluster));
    } finally {
      cluster.close();
    }
  }

  @Override
  public long run(String input, String output, String name) throws Exception {
    FirstRecords.Moment first = new FirstRecords.Moment();
    FirstFlinkRecords.moment = first;
    JobGraph job =
        job(
            source(input, name).setBounded(OffsetsInitializer.latest()),
            output,
            name,
            COPY_INTERVAL);
    cluster.submitJob(job).get();
    end(job.getJobID());
    return System.nanoTime() - first.await();
  }

  @Override
  public AutoCloseable follow(String input, String output, String name, Duration commitInterval)
      throws Exception {
    JobGraph job = job(source(input, name), output, name, commitInterval);
    cluster.submitJob(job).get();
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_S);
    while (!isRunning(job.getJobID())) {
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException("Flink's job does not run after " + START_S + " s");
      }
      Thread.sleep(LOOK_MS);
    }
    return () -> {
      // Stopped otherwise, it would leave out the commit of a checkpoint that is complete.
      Path folder = Files.createTempDirectory("eoskafka-bench-flink");
      cluster
          .stopWithSavepoint(
              job.getJobID(), folder.toUri().toString(), false, SavepointFormatType.DEFAULT)
          .get(STOP_S, TimeUnit.SECONDS);
      end(job.getJobID());
    };
  }

  /** Waits for the job's end; fails if the job has. */
  private void end(JobID job) throws Exception {
    cluster.requestJobResult(job).get().toJobExecutionResult(FlinkCopy.class.getClassLoader());
  }

  private boolean isRunning(JobID job) throws Exception {
    if (cluster.getJobStatus(job).get().isTerminalState()) {
      end(job);
    }
    for (AccessExecutionVertex vertex :
        cluster.getExecutionGraph(job).get().getAllExecutionVertices()) {
      if (vertex.getExecutionState() != ExecutionState.RUNNING) {
        return false;
      }
    }
    return true;
  }

  private KafkaSourceBuilder<ConsumerRecord<byte[], byte[]>> source(String input, String name) {
    return KafkaSource.<ConsumerRecord<byte[], byte[]>>builder()
        .setProperties(properties(clients.consumer()))
        .setBootstrapServers(clients.servers())
        .setTopics(input)
        .setGroupId(name)
        .setStartingOffsets(OffsetsInitializer.earliest())
        .setDeserializer(new AsItIs())
        .setProperty(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed")
        .setProperty(ConsumerConfig.INTERCEPTOR_CLASSES_CONFIG, FirstFlinkRecords.class.getName());
  }

  private JobGraph job(
      KafkaSourceBuilder<ConsumerRecord<byte[], byte[]>> source,
      String output,
      String name,
      Duration interval) {
    KafkaRecordSerializationSchema<ConsumerRecord<byte[], byte[]>> toOutput =
        (record, context, timestamp) -> new ProducerRecord<>(output, record.key(), record.value());
    KafkaSink<ConsumerRecord<byte[], byte[]>> sink =
        KafkaSink.<ConsumerRecord<byte[], byte[]>>builder()
            .setKafkaProducerConfig(properties(clients.producer()))
            .setBootstrapServers(clients.servers())
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(name)
            .setProperty(
                ProducerConfig.TRANSACTION_TIMEOUT_CONFIG,
                String.valueOf(TRANSACTION_TIMEOUT.toMillis()))
            .setRecordSerializer(toOutput)
            .build();
    Configuration settings = new Configuration();
    settings.set(CoreOptions.DEFAULT_PARALLELISM, PeerProgram.THREADS);
    settings.set(PipelineOptions.OBJECT_REUSE, true);
    settings.set(
        CheckpointingOptions.CHECKPOINTING_CONSISTENCY_MODE, CheckpointingMode.EXACTLY_ONCE);
    settings.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, interval);
    // A failure ends the benchmark, instead of being retried for ever.
    settings.set(RestartStrategyOptions.RESTART_STRATEGY, "none");
    StreamExecutionEnvironment environment = new StreamExecutionEnvironment(settings);
    environment.fromSource(source.build(), WatermarkStrategy.noWatermarks(), "source").sinkTo(sink);
    JobGraph job = environment.getStreamGraph().getJobGraph();
    if (job.getNumberOfVertices() != 1) {
      throw new IllegalStateException("source and sink are not one chain, but " + job);
    }
    return job;
  }

  private static Properties properties(Map<String, Object> settings) {
    Properties properties = new Properties();
    properties.putAll(settings);
    return properties;
  }

  /** Hands on the record that the consumer has made. */
  private static final class AsItIs
      implements KafkaRecordDeserializationSchema<ConsumerRecord<byte[], byte[]>> {
    @Override
    public void deserialize(
        ConsumerRecord<byte[], byte[]> record, Collector<ConsumerRecord<byte[], byte[]>> out) {
      out.collect(record);
    }

    @Override
    public TypeInformation<ConsumerRecord<byte[], byte[]>> getProducedType() {
      return TypeInformation.of(new TypeHint<>() {});
    }
  }
}
