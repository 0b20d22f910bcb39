import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import org.apache.kafka.tools.consumer.ConsoleConsumer;
import org.apache.kafka.tools.consumer.ConsoleConsumerOptions;

/**
 * {@code kafka-console-consumer.sh}, started again whenever it ends, with the arguments and the
 * lines of {@code Stranger}. It ends when the broker refuses it, and says why in its log only.
 */
public final class Console {
  private static final PrintStream out = System.out;

  public static void main(String[] arguments) throws Exception {
    System.setOut(new PrintStream(new Lines(), true));
    String[] console = {
      "--bootstrap-server", arguments[0], "--topic", arguments[1], "--group", arguments[2],
      "--from-beginning"
    };
    while (true) {
      ConsoleConsumer.run(new ConsoleConsumerOptions(console));
      out.println("refused ConsoleConsumer");
    }
  }

  /**
   * Counts the records. Each is printed in a line that begins with its value, {@code v7}; lines of the
   * log, which come here too, begin otherwise.
   */
  private static final class Lines extends OutputStream {
    private final ByteArrayOutputStream line = new ByteArrayOutputStream();
    private long count;

    @Override
    public void write(int character) {
      if (character != '\n') {
        line.write(character);
        return;
      }
      if (line.toString().startsWith("v")) {
        out.println("records " + ++count);
      } else {
        System.err.println(line);
      }
      line.reset();
    }
  }
}
