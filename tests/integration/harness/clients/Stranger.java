import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A consumer with Kafka's defaults, as somebody writes it who does not know whose the group is.
 *
 * <p>Arguments: servers, topic, group, and further settings as {@code name=value}. It says in one
 * line each what it is given ({@code partitions 2}), how many records it has read so far ({@code
 * records 500}), and what the broker refuses ({@code refused ClassName}), after which it tries again.
 */
public final class Stranger {
  public static void main(String[] arguments) {
    Map<String, Object> config = new HashMap<>();
    config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    config.put(ConsumerConfig.GROUP_ID_CONFIG, arguments[2]);
    config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    config.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
    config.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
    for (String setting : List.of(arguments).subList(3, arguments.length)) {
      String[] parts = setting.split("=", 2);
      config.put(parts[0], parts[1]);
    }
    long read = 0;
    int given = -1;
    while (true) {
      try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config)) {
        consumer.subscribe(List.of(arguments[1]));
        while (true) {
          ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
          if (consumer.assignment().size() != given) {
            given = consumer.assignment().size();
            System.out.println("partitions " + given);
          }
          if (!records.isEmpty()) {
            read += records.count();
            System.out.println("records " + read);
          }
        }
      } catch (RuntimeException e) {
        System.out.println("refused " + e.getClass().getSimpleName());
      }
    }
  }
}
