package io.eoskafka.wire;

import java.lang.reflect.Field;

/** Reads values from objects of Kafka's client that have no method for them. */
final class PrivateField {
  private PrivateField() {}

  /**
   * The value of a field that the object's own class declares.
   *
   * @throws IllegalStateException if the class has no such field
   */
  static Object read(Object owner, String name) {
    try {
      Field field = owner.getClass().getDeclaredField(name);
      field.setAccessible(true);
      return field.get(owner);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("this kafka-clients has no " + name + " in " + owner, e);
    }
  }
}
