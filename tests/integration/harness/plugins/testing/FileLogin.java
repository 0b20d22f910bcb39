package testing;

import java.util.Map;
import javax.security.auth.Subject;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.spi.LoginModule;

/** A log-in module of a user's own, which leaves everything to {@link FileCallbackHandler}. */
public final class FileLogin implements LoginModule {
  @Override
  public void initialize(
      Subject subject, CallbackHandler handler, Map<String, ?> shared, Map<String, ?> options) {
    subject.getPublicCredentials().add(options.get("user"));
  }

  @Override
  public boolean login() {
    return true;
  }

  @Override
  public boolean commit() {
    return true;
  }

  @Override
  public boolean abort() {
    return false;
  }

  @Override
  public boolean logout() {
    return true;
  }
}
