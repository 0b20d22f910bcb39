package io.eoskafka.identity;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Base64;

/**
 * Who owns a group's offsets: one source of one query. It is kept in the checkpoint and stays the
 * same in every run. So a moved checkpoint keeps it, and a copy of the query with another
 * checkpoint has a different one.
 *
 * @param group {@code kafka.group.id}
 * @param instanceId the driver's {@code group.instance.id}: a second driver takes it over, and the
 *     broker then refuses commits of the first
 * @param checkpointId made from the first checkpoint path and the source's index
 * @param isShared whether the group's partitions move from driver to driver ({@code
 *     ownership=shared}): then its offsets belong to the group, whichever driver has committed them
 */
public record Identity(String group, String instanceId, String checkpointId, boolean isShared)
    implements Serializable {

  /** Matches the results of {@link #digest}; a regular expression for Java, RE2 and Python. */
  public static final String DIGEST_PATTERN = "[A-Za-z0-9_-]{22}";

  /**
   * @param group the group the user named, or null for one derived from the checkpoint
   * @param groupIdPrefix the prefix of a derived group id
   * @param sourcePath the source's folder in the checkpoint, {@code <checkpoint>/sources/<index>}
   */
  public static Identity of(
      String group, String groupIdPrefix, String sourcePath, boolean isShared) {
    String checkpointId = digest(sourcePath);
    return new Identity(
        group != null ? group : groupIdPrefix + "-" + checkpointId,
        "eoskafka-" + checkpointId,
        checkpointId,
        isShared);
  }

  /** The owner of its offsets, in 22 characters, for stamps. */
  public String id() {
    return isShared ? sharedId() : exclusiveId();
  }

  /** The part of its transactional ids between the group and the slot; each driver has its own. */
  public String producersId() {
    return isShared ? sharedId() + "-" + checkpointId : exclusiveId();
  }

  /** The id in the stamps of this group's drivers with {@code ownership=shared}. */
  public String sharedId() {
    return digest("shared:" + group);
  }

  /** The id in the stamps of this checkpoint's driver with {@code ownership=exclusive}. */
  public String exclusiveId() {
    // Length prefixes: ("a", "bc") and ("ab", "c") must differ.
    return digest(
        group.length() + ":" + group + instanceId.length() + ":" + instanceId + checkpointId);
  }

  /** 128 bits of SHA-256 in base64url: 22 characters. */
  public static String digest(String text) {
    try {
      byte[] hash =
          MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      return Base64.getUrlEncoder().withoutPadding().encodeToString(Arrays.copyOf(hash, 16));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }
}
