package io.eoskafka.foreign;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/**
 * Inputs, and what the connector makes of them, in the file that the system property {@code
 * eoskafka.corpus} names, if it is set: {@code python -m fuzz --corpus} then asks Python for the
 * same. A line is a JSON list of a reader's name, an input, and what was read.
 */
public final class Corpus {
  private static final ObjectMapper JSON =
      new ObjectMapper(JsonFactory.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build());

  private static final int OF_EACH = Integer.getInteger("eoskafka.corpus.size", 20_000);
  private static final Map<String, Integer> SIZES = new HashMap<>();
  private static final BufferedWriter FILE = open();

  private Corpus() {}

  private static BufferedWriter open() {
    String name = System.getProperty("eoskafka.corpus", "");
    try {
      return name.isEmpty() ? null : Files.newBufferedWriter(Path.of(name));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * @param input anything that is JSON
   * @param read the same for what Python has to make of it
   */
  public static void add(String reader, Object input, Object read) {
    if (FILE == null || SIZES.merge(reader, 1, Integer::sum) > OF_EACH) {
      return;
    }
    try {
      FILE.write(JSON.writeValueAsString(new Object[] {reader, input, read}));
      FILE.newLine();
      FILE.flush();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
