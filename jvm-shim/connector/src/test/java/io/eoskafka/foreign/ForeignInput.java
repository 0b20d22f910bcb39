package io.eoskafka.foreign;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Random;

/**
 * What others could have written where the connector reads: noise, and valid texts with faults in
 * them. {@code tests/fuzz/inputs.py} makes the same kinds for Python.
 */
public final class ForeignInput {
  private static final ObjectMapper JSON = new ObjectMapper();

  private static final String ALPHABET =
      "abcXYZ019-_.:,{}[]\"'\\/+ eE\0\t\n\r\u007f\u0660\u0663\u00e9\u2028\ufeff\ufffd\ud83d\ude00";

  /** Deeper than any reader goes, which must not end in an overflow of the stack. */
  private static final int DEEP = 20_000;

  private static final int MANY_DIGITS = 5_000;

  /** In the place of any value. */
  private static final List<String> VALUES =
      List.of(
          "null",
          "true",
          "false",
          "\"\"",
          "\"7\"",
          "\"\\ud800\"",
          "\"-1\"",
          "7.0",
          "7.5",
          "1e3",
          "1e999",
          "-0",
          "0",
          "1",
          "2",
          "-1",
          "2147483647",
          "2147483648",
          "999999999999999999",
          "1000000000000000000",
          "9223372036854775807",
          "9223372036854775808",
          "-9223372036854775809",
          "99999999999999999999",
          "9".repeat(MANY_DIGITS),
          "NaN",
          "-Infinity",
          "[]",
          "{}",
          "[{}]",
          "[null]",
          "{\"0\":{\"0\":0}}",
          "[".repeat(DEEP) + "]".repeat(DEEP),
          "{\"a\":".repeat(DEEP) + "1" + "}".repeat(DEEP));

  private ForeignInput() {}

  /** An element of a list. */
  public static <T> T any(Random random, List<T> of) {
    return of.get(random.nextInt(of.size()));
  }

  /** A number, more often near the ends of the range. */
  public static long number(Random random, long least, long most) {
    long some = random.nextInt(3);
    return switch (random.nextInt(6)) {
      case 0 -> Math.min(most, least + some);
      case 1 -> Math.max(least, most - some);
      default -> least + Long.remainderUnsigned(random.nextLong(), most - least + 1);
    };
  }

  /** 22 characters, as an identity has them. */
  public static String digest(Random random) {
    return text(random, "AZaz09-_", 22);
  }

  private static String text(Random random, String alphabet, int length) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < length; i++) {
      text.append(alphabet.charAt(random.nextInt(alphabet.length())));
    }
    return text.toString();
  }

  /** Any bytes, or characters that mean something somewhere. */
  public static String noise(Random random) {
    if (random.nextBoolean()) {
      byte[] bytes = new byte[random.nextInt(40)];
      random.nextBytes(bytes);
      return new String(bytes, StandardCharsets.UTF_8);
    }
    return asRead(text(random, ALPHABET, random.nextInt(40)));
  }

  /** Half a character does not come out of bytes. */
  private static String asRead(String text) {
    return new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8);
  }

  /** A text cut off, with characters changed, added, removed or repeated. */
  public static String damaged(Random random, String text) {
    int at = random.nextInt(text.length() + 1);
    int to = at + random.nextInt(text.length() - at + 1);
    String damaged =
        switch (random.nextInt(7)) {
          case 0 -> text.substring(0, at);
          case 1 -> text.substring(at);
          case 2 -> text.substring(0, at) + text.substring(to);
          case 3 -> text.substring(0, to) + text.substring(at);
          case 4 -> text + noise(random);
          case 5 -> text.substring(0, at) + text(random, ALPHABET, 1) + text.substring(at);
          default -> flipped(random, text);
        };
    return asRead(damaged);
  }

  private static String flipped(Random random, String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    if (bytes.length > 0) {
      bytes[random.nextInt(bytes.length)] ^= (byte) (1 << random.nextInt(8));
    }
    return new String(bytes, StandardCharsets.UTF_8);
  }

  /** A JSON text as it is, damaged, or with values removed, replaced, moved or repeated. */
  public static String damagedJson(Random random, String json) {
    switch (random.nextInt(10)) {
      case 0:
        return json;
      case 1:
        return noise(random);
      case 2, 3:
        return damaged(random, json);
      case 4:
        return any(random, VALUES);
      default:
        return damagedTree(random, json);
    }
  }

  private static String damagedTree(Random random, String json) {
    JsonNode root;
    try {
      root = JSON.readTree(json);
    } catch (JsonProcessingException e) {
      return damaged(random, json); // it has a fault already
    }
    if (!root.isContainerNode()) {
      return damaged(random, json);
    }
    for (int faults = 1 + random.nextInt(2); faults > 0; faults--) {
      damage(random, root);
    }
    return root.toString();
  }

  private static void damage(Random random, JsonNode root) {
    List<JsonNode> all = new ArrayList<>();
    collect(root, all);
    JsonNode into = any(random, all.stream().filter(JsonNode::isContainerNode).toList());
    JsonNode value =
        random.nextInt(3) == 0 ? any(random, all).deepCopy() : raw(any(random, VALUES));
    if (into instanceof ObjectNode object) {
      damage(random, object, value);
    } else if (into.isEmpty() || random.nextInt(4) == 0) {
      ((ArrayNode) into).add(value);
    } else if (random.nextBoolean()) {
      ((ArrayNode) into).remove(random.nextInt(into.size()));
    } else {
      ((ArrayNode) into).set(random.nextInt(into.size()), value);
    }
  }

  private static void damage(Random random, ObjectNode object, JsonNode value) {
    if (object.isEmpty()) {
      object.set("added", value);
      return;
    }
    List<String> names = new ArrayList<>();
    object.fieldNames().forEachRemaining(names::add);
    String name = any(random, names);
    switch (random.nextInt(6)) {
      case 0 -> object.remove(name);
      case 1 -> object.set(any(random, List.of("added", "007", "-1", "\u0663", "")), value);
      case 2 -> object.set(any(random, names), object.get(name));
      case 3 -> repeat(random, object, names, value);
      case 4 -> {
        if (object.get(name).isIntegralNumber()) {
          object.put(name, object.get(name).asLong() + random.nextInt(5) - 2);
        }
      }
      default -> object.set(name, value);
    }
  }

  /** Two members of one name. No tree has that, so the second one is part of another's value. */
  private static void repeat(Random random, ObjectNode object, List<String> names, JsonNode value) {
    String beside = any(random, names);
    String repeated = JSON.getNodeFactory().textNode(any(random, names)) + ":" + value;
    object.set(beside, raw(object.get(beside) + "," + repeated));
  }

  private static JsonNode raw(String json) {
    return JSON.getNodeFactory().rawValueNode(new RawValue(json));
  }

  private static void collect(JsonNode node, List<JsonNode> into) {
    into.add(node);
    for (Iterator<JsonNode> each = node.elements(); each.hasNext(); ) {
      collect(each.next(), into);
    }
  }
}
