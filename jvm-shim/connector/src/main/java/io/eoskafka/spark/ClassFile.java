package io.eoskafka.spark;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;

/**
 * What a class file declares, and what it refers to (The Java Virtual Machine Specification,
 * chapter 4). It is read without loading the class, so a reference to a class that this Spark does
 * not have does no harm.
 *
 * @param name with slashes, like all names here
 * @param superName null for Object and modules
 * @param methods the declared methods, by name and descriptor, with their access flags
 * @param fields the declared fields, in the same form
 * @param uses what it refers to; not determined for Spark's own classes, which would take too long
 */
record ClassFile(
    String name,
    int access,
    String superName,
    List<String> interfaces,
    Map<String, Integer> methods,
    Set<String> fields,
    Supplier<Uses> uses) {

  static final int ABSTRACT = 0x0400;
  static final int PUBLIC = 0x0001;
  static final int STATIC = 0x0008;
  static final int PRIVATE = 0x0002;
  static final int INTERFACE = 0x0200;

  private static final int MAGIC = 0xCAFEBABE;

  /**
   * What a class refers to.
   *
   * @param classes all classes that it names; for an array, its element class
   * @param references the fields and methods of other classes that its code uses
   */
  record Uses(Set<String> classes, Set<Reference> references) {}

  /** A member of another class. */
  record Reference(String owner, String name, String descriptor, boolean isField) {
    String member() {
      return name + descriptor;
    }

    @Override
    public String toString() {
      return owner.replace('/', '.') + "." + name + (isField ? "" : descriptor);
    }
  }

  Set<String> classes() {
    return uses.get().classes();
  }

  Set<Reference> references() {
    return uses.get().references();
  }

  boolean isAbstract() {
    return (access & ABSTRACT) != 0;
  }

  boolean isInterface() {
    return (access & INTERFACE) != 0;
  }

  /** The superclass, if there is one, and the interfaces. */
  List<String> parents() {
    List<String> parents = new ArrayList<>(interfaces);
    if (superName != null) {
      parents.add(0, superName);
    }
    return parents;
  }

  static ClassFile of(byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      return read(in);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static ClassFile read(DataInputStream in) throws IOException {
    if (in.readInt() != MAGIC) {
      throw new IOException("not a class file");
    }
    in.readInt();
    Pool pool = Pool.read(in);
    int access = in.readUnsignedShort();
    String name = pool.className(in.readUnsignedShort());
    int superIndex = in.readUnsignedShort();
    String superName = superIndex == 0 ? null : pool.className(superIndex);
    List<String> interfaces = new ArrayList<>();
    for (int left = in.readUnsignedShort(); left > 0; left--) {
      interfaces.add(pool.className(in.readUnsignedShort()));
    }
    Set<String> fields = members(in, pool).keySet();
    Map<String, Integer> methods = members(in, pool);
    return new ClassFile(
        name,
        access,
        superName,
        interfaces,
        methods,
        fields,
        () -> new Uses(pool.classes(), pool.references()));
  }

  /** By name and descriptor; attributes are skipped. */
  private static Map<String, Integer> members(DataInputStream in, Pool pool) throws IOException {
    Map<String, Integer> members = new LinkedHashMap<>();
    for (int left = in.readUnsignedShort(); left > 0; left--) {
      int access = in.readUnsignedShort();
      String name = pool.text(in.readUnsignedShort());
      members.put(name + pool.text(in.readUnsignedShort()), access);
      for (int attributes = in.readUnsignedShort(); attributes > 0; attributes--) {
        in.readUnsignedShort();
        in.skipNBytes(in.readInt());
      }
    }
    return members;
  }

  /**
   * The constant pool.
   *
   * @param texts at their index, else null
   * @param tags the kind of each constant
   * @param pairs the two indexes that a constant holds, the second one often 0
   */
  private record Pool(String[] texts, int[] tags, int[][] pairs) {
    private static final int UTF8 = 1;
    private static final int INTEGER = 3;
    private static final int FLOAT = 4;
    private static final int LONG = 5;
    private static final int DOUBLE = 6;
    private static final int CLASS = 7;
    private static final int STRING = 8;
    private static final int FIELD = 9;
    private static final int METHOD = 10;
    private static final int INTERFACE_METHOD = 11;
    private static final int NAME_AND_TYPE = 12;
    private static final int METHOD_HANDLE = 15;
    private static final int METHOD_TYPE = 16;
    private static final int DYNAMIC = 17;
    private static final int INVOKE_DYNAMIC = 18;
    private static final int MODULE = 19;
    private static final int PACKAGE = 20;

    static Pool read(DataInputStream in) throws IOException {
      int size = in.readUnsignedShort();
      Pool pool = new Pool(new String[size], new int[size], new int[size][2]);
      for (int i = 1; i < size; i++) {
        int tag = in.readUnsignedByte();
        pool.tags[i] = tag;
        switch (tag) {
          case UTF8 -> pool.texts[i] = in.readUTF();
          case INTEGER, FLOAT -> in.readInt();
          case LONG, DOUBLE -> {
            in.readLong();
            // It takes two entries.
            i++;
          }
          case CLASS, STRING, METHOD_TYPE, MODULE, PACKAGE ->
              pool.pairs[i][0] = in.readUnsignedShort();
          case FIELD, METHOD, INTERFACE_METHOD, NAME_AND_TYPE, DYNAMIC, INVOKE_DYNAMIC -> {
            pool.pairs[i][0] = in.readUnsignedShort();
            pool.pairs[i][1] = in.readUnsignedShort();
          }
          case METHOD_HANDLE -> {
            in.readUnsignedByte();
            pool.pairs[i][0] = in.readUnsignedShort();
          }
          default -> throw new IOException("unknown constant " + tag);
        }
      }
      return pool;
    }

    String text(int index) {
      return texts[index];
    }

    String className(int index) {
      return texts[pairs[index][0]];
    }

    /** Without primitive types. */
    Set<String> classes() {
      Set<String> classes = new LinkedHashSet<>();
      for (int i = 1; i < tags.length; i++) {
        if (tags[i] == CLASS) {
          String name = className(i);
          String element = name.substring(name.lastIndexOf('[') + 1);
          if (element.equals(name)) {
            classes.add(name);
          } else if (element.startsWith("L")) {
            classes.add(element.substring(1, element.length() - 1));
          }
        }
      }
      return classes;
    }

    /** An array's own methods are Object's. */
    Set<Reference> references() {
      Set<Reference> references = new LinkedHashSet<>();
      for (int i = 1; i < tags.length; i++) {
        if (tags[i] == FIELD || tags[i] == METHOD || tags[i] == INTERFACE_METHOD) {
          String owner = className(pairs[i][0]);
          int[] member = pairs[pairs[i][1]];
          if (!owner.startsWith("[")) {
            references.add(
                new Reference(owner, texts[member[0]], texts[member[1]], tags[i] == FIELD));
          }
        }
      }
      return references;
    }
  }
}
