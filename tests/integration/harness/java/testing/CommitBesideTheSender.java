package testing;

import io.eoskafka.config.SinkOptions;
import io.eoskafka.shaded.kafka.clients.producer.KafkaProducer;
import io.eoskafka.shaded.kafka.clients.producer.ProducerRecord;
import io.eoskafka.transaction.TransactionalProducer;
import java.lang.reflect.Field;
import java.util.HashSet;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Writes records in one transaction, and holds the thread that sends them at the worst moment: it
 * has seen nothing unsent, and not yet taken its next request, while the last record and the commit
 * come.
 *
 * <p>Arguments: servers, topic, and how many records have arrived before the last one.
 */
public final class CommitBesideTheSender {
  private static final int TIMEOUT_MS = 60_000;

  private CommitBesideTheSender() {}

  public static void main(String[] arguments) throws Exception {
    String servers = arguments[0];
    String topic = arguments[1];
    int before = Integer.parseInt(arguments[2]);
    SinkOptions options =
        SinkOptions.parse(
            new CaseInsensitiveStringMap(Map.of("kafka.bootstrap.servers", servers)));
    TransactionalProducer producer =
        TransactionalProducer.init("id-" + topic, options.client(), TIMEOUT_MS);
    KafkaProducer<?, ?> client = (KafkaProducer<?, ?>) field(producer, "producer");
    // Asking for the topic would need the sender later.
    client.partitionsFor(topic);
    producer.begin();
    for (int i = 0; i < before; i++) {
      producer.send(record(topic, i));
    }
    producer.flush();
    Sender sender = Sender.hold(field(client, "transactionManager"), client);
    producer.send(record(topic, before));
    sender.goOnOnceWaiting(Thread.currentThread());
    producer.commit();
    producer.close();
  }

  private static ProducerRecord<byte[], byte[]> record(String topic, int number) {
    return new ProducerRecord<>(topic, 0, null, Integer.toString(number).getBytes());
  }

  private static Object field(Object of, String name) throws ReflectiveOperationException {
    return declared(of, name).get(of);
  }

  private static Field declared(Object of, String name) throws ReflectiveOperationException {
    Field field = of.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  /**
   * In place of what the client's manager of transactions asks first when its sender wants the next
   * request. It gives the manager's lock up while it holds the sender.
   */
  private static final class Sender extends HashSet<Object> {
    private final Object manager;
    private final CountDownLatch held = new CountDownLatch(1);
    private boolean goesOn;

    private Sender(Object manager) {
      this.manager = manager;
    }

    static Sender hold(Object manager, KafkaProducer<?, ?> client) throws Exception {
      Sender sender = new Sender(manager);
      declared(manager, "newPartitionsInTransaction").set(manager, sender);
      client.flush(); // wakes it, and has nothing to wait for
      sender.held.await();
      return sender;
    }

    @Override
    public boolean isEmpty() {
      boolean isSender = Thread.currentThread().getName().startsWith("kafka-producer-network");
      synchronized (manager) {
        if (isSender) {
          held.countDown();
        }
        while (isSender && !goesOn) {
          try {
            manager.wait();
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
        }
      }
      return super.isEmpty();
    }

    /** Once a thread waits for what only the sender can bring. */
    void goOnOnceWaiting(Thread caller) {
      Thread opener =
          new Thread(
              () -> {
                while (caller.getState() != Thread.State.WAITING
                    && caller.getState() != Thread.State.TIMED_WAITING) {
                  Thread.onSpinWait();
                }
                synchronized (manager) {
                  goesOn = true;
                  manager.notifyAll();
                }
              });
      opener.setDaemon(true);
      opener.start();
    }
  }
}
