package io.eoskafka.config;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.time.Duration;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.MetadataRecoveryStrategy;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.security.oauthbearer.ClientJwtValidator;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The {@code kafka.*} options of one side and the client configurations made from them. It may hold
 * passwords, so {@link #toString} prints no values.
 */
public final class ClientSettings implements Serializable {
  private static final long serialVersionUID = 1L;

  /**
   * The package of the Kafka client as users write it and as it is called in this jar. The shaded
   * jar relocates it, and with it every string constant that looks like its name: hence the join.
   */
  private static final String PUBLIC_PACKAGE = String.join(".", "org", "apache", "kafka") + ".";

  private static final String ACTUAL_PACKAGE =
      KafkaProducer.class
          .getName()
          .substring(0, KafkaProducer.class.getName().indexOf("clients.producer"));

  private static final Pattern NAMES_CLASSES =
      Pattern.compile("(class|classes|reporters|providers|jaas\\.config)$");

  private static final Pattern NAMES_PLUGINS =
      Pattern.compile("(class|classes|reporters|security\\.providers)$");

  private static final String PROVIDERS = AbstractConfig.CONFIG_PROVIDERS_CONFIG + ".";

  /** Types that are not checked: secrets, and values that the client turns into classes. */
  private static final Set<ConfigDef.Type> UNCHECKED =
      Set.of(ConfigDef.Type.CLASS, ConfigDef.Type.LIST, ConfigDef.Type.PASSWORD);

  /** The names of all clients' settings: a user may give the same ones to source and sink. */
  private static final Set<String> NAMES =
      Stream.of(
              ConsumerConfig.configNames(),
              ProducerConfig.configNames(),
              AdminClientConfig.configNames())
          .flatMap(Set::stream)
          .collect(Collectors.toUnmodifiableSet());

  private static final int CLOSING_MS = 5_000;

  private static final JsonNode DEFAULTS = Spec.read("clients.json");
  private static final int LINGER_MS = ofProducer(ProducerConfig.LINGER_MS_CONFIG);
  private static final int BATCH_BYTES = ofProducer(ProducerConfig.BATCH_SIZE_CONFIG);
  private static final int BUFFER_BYTES = ofProducer(ProducerConfig.BUFFER_MEMORY_CONFIG);
  private static final int LEAST_BATCH_BYTES = 4_096;

  /** Kafka's default. */
  private static final long REBALANCE_MS = 300_000;

  private static final long REBALANCE_MARGIN_MS = 60_000;

  /** For topics that rows name, topics that do not exist yet, or if the number is not known. */
  private static final int UNKNOWN_PARTITIONS = 128;

  static {
    // The client reads its system properties (sasl.oauthbearer.allowed.urls) by names that were
    // relocated with it; users set them by Kafka's names.
    Properties properties = System.getProperties();
    for (String name : properties.stringPropertyNames()) {
      if (name.startsWith(PUBLIC_PACKAGE)) {
        String actual = ACTUAL_PACKAGE + name.substring(PUBLIC_PACKAGE.length());
        properties.putIfAbsent(actual, properties.getProperty(name, ""));
      }
    }
  }

  private final TreeMap<String, String> given = new TreeMap<>();

  /** 0 if not known; only a hint, so equals ignores it. */
  private int outputPartitions;

  /**
   * @param options the options of a source or sink as Spark passes them; keys in any case
   */
  ClientSettings(Map<String, String> options) {
    options.forEach(
        (key, value) -> {
          String name = key.toLowerCase(Locale.ROOT);
          if (name.startsWith("kafka.") && !name.equals("kafka.group.id")) {
            String setting = name.substring("kafka.".length());
            given.put(
                setting,
                NAMES_CLASSES.matcher(setting).find()
                    ? value.replace(PUBLIC_PACKAGE, ACTUAL_PACKAGE)
                    : value);
          }
        });
    if (OAuthBearerLoginModule.OAUTHBEARER_MECHANISM.equals(given.get(SaslConfigs.SASL_MECHANISM))
        && !given.containsKey(SaslConfigs.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL)) {
      // Kafka's default does the same on a client, but its class refers to jose4j, which Spark does
      // not have.
      given.putIfAbsent(
          SaslConfigs.SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS, ClientJwtValidator.class.getName());
    }
  }

  private ClientSettings(TreeMap<String, String> given) {
    this.given.putAll(given);
  }

  /**
   * The same for producers whose records go to this number of partitions.
   *
   * @param number 0 if it is not known
   */
  public ClientSettings forPartitions(int number) {
    ClientSettings other = new ClientSettings(given);
    other.outputPartitions = number;
    return other;
  }

  /** The same for records that must be readable by clients without any codec. */
  public ClientSettings uncompressed() {
    ClientSettings other = forPartitions(outputPartitions);
    other.given.put(ProducerConfig.COMPRESSION_TYPE_CONFIG, "none");
    return other;
  }

  /**
   * Checks names and values as far as the client defines them. A name that the client does not know
   * may belong to a plug-in, unless it is close to one that it knows.
   *
   * @param client the definitions of its consumer or producer
   * @throws EosKafkaException {@code EOSKAFKA_UNKNOWN_OPTION}, {@code EOSKAFKA_OPTION_INVALID},
   *     {@code EOSKAFKA_DELEGATION_TOKENS}, {@code EOSKAFKA_PLUGIN_NEEDS_THIN_JAR}
   */
  void check(String side, ConfigDef client) {
    DelegationTokens.refuse(given);
    Map<String, ConfigDef.ConfigKey> known = new TreeMap<>(client.configKeys());
    AdminClientConfig.configDef().configKeys().forEach(known::putIfAbsent);
    given.forEach(
        (name, value) -> {
          ConfigDef.ConfigKey key = known.get(name);
          if (NAMES_PLUGINS.matcher(name).find()) {
            PluginClasses.refuseUnfit("kafka." + name, value, PUBLIC_PACKAGE, ACTUAL_PACKAGE);
          }
          if (key == null && !NAMES.contains(name)) {
            OptionTable.refuseNearly(side, name, NAMES);
          } else if (key != null && !value.contains("${") && !UNCHECKED.contains(key.type)) {
            check(key, value);
          }
        });
  }

  private static void check(ConfigDef.ConfigKey key, String value) {
    try {
      Object parsed = ConfigDef.parseType(key.name, value, key.type);
      if (key.validator != null) {
        key.validator.ensureValid(key.name, parsed);
      }
    } catch (ConfigException e) {
      String why = e.getMessage().replaceFirst(".* for configuration [^:]*(: )?", "");
      throw EosKafkaException.of(
          "EOSKAFKA_OPTION_INVALID",
          Map.of(
              "option", "kafka." + key.name,
              "value", value,
              "expected",
                  "a value that Kafka's client accepts" + (why.isEmpty() ? "" : " (" + why + ")")));
    }
  }

  public String bootstrapServers() {
    return given.get(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG);
  }

  /** The value a user gave for a client setting, or null. */
  public String given(String name) {
    return given.get(name);
  }

  /** A new copy of the defaults in {@code spec/clients.json}. */
  private static Map<String, Object> defaults(String client) {
    Map<String, Object> config = new HashMap<>();
    DEFAULTS.get(client).properties().forEach(e -> config.put(e.getKey(), e.getValue().asText()));
    return config;
  }

  private static int ofProducer(String setting) {
    return DEFAULTS.get("producer").get(setting).asInt();
  }

  /** For the data path: assigned partitions, no group, large polls. */
  public Map<String, Object> dataConsumer(String clientId) {
    Map<String, Object> config = defaults("consumer");
    config.putAll(given);
    // It is in no group. Without this protocol, Kafka's consumer refuses a setting for the brokers'
    // assignor.
    config.remove(ConsumerConfig.GROUP_PROTOCOL_CONFIG);
    config.remove(ConsumerConfig.GROUP_REMOTE_ASSIGNOR_CONFIG);
    bytesConsumer(config, named(clientId));
    return config;
  }

  /**
   * With the user's client id as a prefix, for quotas and audits. Members of a group get no prefix.
   */
  private String named(String clientId) {
    String given = given(CommonClientConfigs.CLIENT_ID_CONFIG);
    return given == null ? clientId : given + "-" + clientId;
  }

  /** For the driver's membership with {@code ownership=exclusive}. */
  public Map<String, Object> exclusiveMember(String clientId, String group, String instanceId) {
    Map<String, Object> config = member(Map.of(), clientId, group, instanceId);
    // The driver polls between batches only, however long one takes; the heartbeat thread keeps
    // the session.
    config.put(ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG, Integer.MAX_VALUE);
    return config;
  }

  /** The same with {@code ownership=shared}. */
  public Map<String, Object> sharedMember(String clientId, String group, String instanceId) {
    if ("consumer".equals(given(ConsumerConfig.GROUP_PROTOCOL_CONFIG))) {
      // With KIP-848 the broker sets the timeouts of session and heartbeat. A static member could
      // not come back before its session has expired.
      return member(Map.of(), clientId, group, null);
    }
    Map<String, Object> config =
        member(
            Map.of(
                // A partition that moves waits for two heartbeats; Kafka's default is 3 s.
                ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG,
                500,
                // The group's leader assigns new partitions when it sees them; the default is five
                // minutes.
                ConsumerConfig.METADATA_MAX_AGE_CONFIG,
                10_000),
            clientId,
            group,
            instanceId);
    // A rebalance waits this long for the members. A static member that misses it stays a member
    // until its session expires, without what it was assigned: the session must be shorter than the
    // wait.
    long session = number(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 45_000);
    config.put(
        ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG,
        (int) Math.min(Integer.MAX_VALUE, Math.max(REBALANCE_MS, session + REBALANCE_MARGIN_MS)));
    return config;
  }

  /** It joins and sends heartbeats, it never fetches. */
  private Map<String, Object> member(
      Map<String, Object> defaults, String clientId, String group, String instanceId) {
    Map<String, Object> config = new HashMap<>(defaults);
    config.putAll(given);
    bytesConsumer(config, clientId);
    config.put(ConsumerConfig.GROUP_ID_CONFIG, group);
    if (instanceId != null) {
      config.put(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, instanceId);
    }
    config.putIfAbsent(ConsumerConfig.GROUP_PROTOCOL_CONFIG, "classic");
    config.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_uncommitted");
    return config;
  }

  private static void bytesConsumer(Map<String, Object> config, String clientId) {
    config.put(ConsumerConfig.CLIENT_ID_CONFIG, clientId);
    // A request for a deleted topic must not create it again.
    config.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
    config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
    // A position without an offset is an error, never a guess.
    config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
    config.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
    config.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
  }

  public Map<String, Object> producer(String transactionalId, int transactionTimeoutMs) {
    Map<String, Object> config = defaults("producer");
    config.put(ProducerConfig.LINGER_MS_CONFIG, lingerMs());
    config.put(ProducerConfig.BATCH_SIZE_CONFIG, batchBytes());
    config.putAll(given);
    config.put(ProducerConfig.CLIENT_ID_CONFIG, named(transactionalId));
    config.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, transactionalId);
    config.put(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, transactionTimeoutMs);
    config.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true);
    config.put(ProducerConfig.ACKS_CONFIG, "all");
    config.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
    config.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
    return config;
  }

  /**
   * One open batch for each partition must take at most half of the buffer. If the buffer is full,
   * every batch is sent with the few records that it has, which is several times slower.
   */
  private int batchBytes() {
    long buffer = number(ProducerConfig.BUFFER_MEMORY_CONFIG, BUFFER_BYTES);
    int partitions = outputPartitions == 0 ? UNKNOWN_PARTITIONS : outputPartitions;
    long share = Math.max(LEAST_BATCH_BYTES, buffer / 2 / partitions);
    long request = number(ProducerConfig.MAX_REQUEST_SIZE_CONFIG, BATCH_BYTES);
    return (int) Math.min(Math.min(buffer, request), Math.min(BATCH_BYTES, share));
  }

  /** How long batches may fill within the delivery timeout that the user has set. */
  private long lingerMs() {
    long delivery = number(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, Long.MAX_VALUE);
    long request = number(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, 30_000);
    return Math.max(0, Math.min(LINGER_MS, delivery - request));
  }

  /** A setting's number. If it is not a number, the fallback; the client checks it later. */
  private long number(String setting, long fallback) {
    try {
      return Long.parseLong(given.getOrDefault(setting, "").trim());
    } catch (NumberFormatException e) {
      return fallback;
    }
  }

  /** The session timeout of the classic protocol; that of the consumer protocol is the broker's. */
  public OptionalLong sessionTimeoutMs() {
    return "consumer".equals(given(ConsumerConfig.GROUP_PROTOCOL_CONFIG))
        ? OptionalLong.empty()
        : OptionalLong.of(number(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 45_000));
  }

  /** How long a producer's calls may wait. */
  public Duration maxBlock() {
    return Duration.ofMillis(number(ProducerConfig.MAX_BLOCK_MS_CONFIG, 60_000));
  }

  /** How long calls to a cluster may take. */
  public Duration apiTimeout() {
    return Duration.ofMillis(number(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, 60_000));
  }

  public Map<String, Object> admin(String clientId) {
    Map<String, Object> config = new HashMap<>();
    // A stable fetch waits for transaction markers, which take some tens of milliseconds.
    config.put(AdminClientConfig.RETRY_BACKOFF_MS_CONFIG, 20);
    config.put(AdminClientConfig.RETRY_BACKOFF_MAX_MS_CONFIG, 250);
    // Its thread looks for requests past request.timeout.ms only when something else wakes it:
    // without this a call to a broker that hangs takes default.api.timeout.ms and is not tried on
    // another one (seen on kafka-clients 4.3.1).
    config.put(AdminClientConfig.METADATA_MAX_AGE_CONFIG, 5_000);
    // With Kafka's default, rebootstrap, an admin client whose brokers are all gone for longer than
    // that starts again from its first addresses each time its thread goes round, without any
    // pause, and logs it: a core is busy and the disk fills (seen on kafka-clients 4.3.1).
    config.put(
        AdminClientConfig.METADATA_RECOVERY_STRATEGY_CONFIG, MetadataRecoveryStrategy.NONE.name);
    given.forEach(
        (key, value) -> {
          // The class and settings of a provider are not settings of the client, but it reads them.
          if (AdminClientConfig.configNames().contains(key) || key.startsWith(PROVIDERS)) {
            config.put(key, value);
          }
        });
    config.put(AdminClientConfig.CLIENT_ID_CONFIG, named(clientId));
    return config;
  }

  /**
   * The same for the cleanup at the end of a query: stopping it must not wait long for brokers that
   * do not answer.
   */
  public ClientSettings closing() {
    ClientSettings other = forPartitions(outputPartitions);
    other.given.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, Integer.toString(CLOSING_MS / 2));
    other.given.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, Integer.toString(CLOSING_MS));
    return other;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ClientSettings that && given.equals(that.given);
  }

  @Override
  public int hashCode() {
    return given.hashCode();
  }

  @Override
  public String toString() {
    return "ClientSettings" + given.keySet();
  }
}
