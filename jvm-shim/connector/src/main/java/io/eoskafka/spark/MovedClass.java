package io.eoskafka.spark;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * A Spark streaming class that Spark 4.1 has moved to another package. It is found by its name in
 * the running version, and used through an interface of this package that lists the needed methods
 * ({@link #view}).
 *
 * @param <T> the interface
 */
final class MovedClass<T> {
  static final MovedClass<StreamRun> STREAM_EXECUTION =
      new MovedClass<>("runtime.", "StreamExecution", StreamRun.class)
          .withStatic("QUERY_ID_KEY", String.class);
  static final MovedClass<StreamRun.Batch> EXECUTION_CONTEXT =
      new MovedClass<>("runtime.", "StreamExecutionContext", StreamRun.Batch.class)
          .onlyIn(SparkVersion::hasBatchContext);
  static final MovedClass<StreamRun.WithContext> RUN_WITH_CONTEXT =
      new MovedClass<>("runtime.", "StreamExecution", StreamRun.WithContext.class)
          .onlyIn(SparkVersion::hasBatchContext);
  static final MovedClass<StreamRun.WithoutContext> RUN_WITHOUT_CONTEXT =
      new MovedClass<>("runtime.", "StreamExecution", StreamRun.WithoutContext.class)
          .onlyIn(version -> !version.hasBatchContext());
  static final MovedClass<None> MICRO_BATCH_EXECUTION =
      new MovedClass<>("runtime.", "MicroBatchExecution", None.class)
          .withStatic("BATCH_ID_KEY", String.class);
  static final MovedClass<None> STATEFUL_OPERATOR =
      new MovedClass<>("operators.stateful.", "StatefulOperator", None.class);
  static final MovedClass<CheckpointFileSystem> CHECKPOINT_FILE_MANAGER =
      new MovedClass<>("checkpointing.", "CheckpointFileManager", CheckpointFileSystem.class)
          .withStatic("create", Object.class, Path.class, Configuration.class);
  static final MovedClass<CheckpointFileSystem.Cancellable> CANCELLABLE_STREAM =
      new MovedClass<>(
          "checkpointing.",
          "CheckpointFileManager$CancellableFSDataOutputStream",
          CheckpointFileSystem.Cancellable.class);

  private static final List<MovedClass<?>> ALL =
      List.of(
          STREAM_EXECUTION,
          EXECUTION_CONTEXT,
          RUN_WITH_CONTEXT,
          RUN_WITHOUT_CONTEXT,
          MICRO_BATCH_EXECUTION,
          STATEFUL_OPERATOR,
          CHECKPOINT_FILE_MANAGER,
          CANCELLABLE_STREAM);

  private static final String STREAMING = "org.apache.spark.sql.execution.streaming.";

  /** For a class of which only the type, or a static method, is needed. */
  interface None {}

  /**
   * A method that must exist.
   *
   * @param result its return type, or a supertype of it
   */
  record Needed(String name, Class<?> result, List<Class<?>> parameters, boolean isStatic) {}

  private final String since41;
  private final String name;
  private final Class<T> view;
  private final List<Needed> needed = new ArrayList<>();
  private Predicate<SparkVersion> isIn = version -> true;

  /** The class in the running Spark; null until it is needed. */
  private volatile Class<?> type;

  private MovedClass(String since41, String name, Class<T> view) {
    this.since41 = since41;
    this.name = name;
    this.view = view;
    for (Method method : view.getMethods()) {
      if (Modifier.isStatic(method.getModifiers())) {
        continue;
      }
      needed.add(
          new Needed(
              method.getName(),
              method.getReturnType(),
              List.of(method.getParameterTypes()),
              false));
    }
  }

  private MovedClass<T> withStatic(String method, Class<?> result, Class<?>... parameters) {
    needed.add(new Needed(method, result, List.of(parameters), true));
    return this;
  }

  private MovedClass<T> onlyIn(Predicate<SparkVersion> versions) {
    isIn = versions;
    return this;
  }

  /** The classes that the connector uses in a version. */
  static List<MovedClass<?>> in(SparkVersion version) {
    return ALL.stream().<MovedClass<?>>filter(each -> each.isIn.test(version)).toList();
  }

  /** The full name of the class in a version. */
  String nameIn(SparkVersion version) {
    return STREAMING + (version.isAtLeast(4, 1) ? since41 : "") + name;
  }

  List<Needed> needed() {
    return List.copyOf(needed);
  }

  Class<?> type() {
    if (type == null) {
      try {
        type = Class.forName(nameIn(SparkVersion.running()));
      } catch (ClassNotFoundException e) {
        throw new NoClassDefFoundError(e.getMessage());
      }
    }
    return type;
  }

  /** An object of the class, as the interface; null for null. */
  T view(Object target) {
    if (target == null) {
      return null;
    }
    return view.cast(
        Proxy.newProxyInstance(
            view.getClassLoader(), new Class<?>[] {view}, new View(type(), target)));
  }

  /** The object behind a view. */
  static Object target(Object view) {
    return ((View) Proxy.getInvocationHandler(view)).target;
  }

  private record View(Class<?> type, Object target) implements InvocationHandler {
    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
      return call(type.getMethod(method.getName(), method.getParameterTypes()), target, arguments);
    }
  }

  /** Calls a static method of the class. */
  Object callStatic(String method, Object... arguments) throws Throwable {
    for (Needed each : needed) {
      if (each.isStatic() && each.name().equals(method)) {
        return call(
            type().getMethod(method, each.parameters().toArray(Class<?>[]::new)), null, arguments);
      }
    }
    throw new IllegalArgumentException(method);
  }

  /** A text that a static method without parameters returns. */
  String constant(String method) {
    try {
      return (String) callStatic(method);
    } catch (Throwable e) {
      throw new IllegalStateException(nameIn(SparkVersion.running()) + "." + method, e);
    }
  }

  private static Object call(Method method, Object target, Object[] arguments) throws Throwable {
    try {
      return method.invoke(target, arguments);
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }
}
