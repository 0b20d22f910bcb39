package testing;

import java.security.Provider;
import org.apache.kafka.common.security.auth.SecurityProviderCreator;

/** A provider of security algorithms that has none. */
public final class NoProvider implements SecurityProviderCreator {
  @Override
  public Provider getProvider() {
    return new Provider("testing", "1", "nothing") {};
  }
}
