package testing;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;

/** A plug-in of Kafka's client: the user's name by an option, and the password from a file. */
public final class FileCallbackHandler implements AuthenticateCallbackHandler {
  private String user;
  private Path passwordFile;

  @Override
  public void configure(
      Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> modules) {
    Map<String, ?> options = modules.get(0).getOptions();
    user = String.valueOf(options.get("user"));
    passwordFile = Path.of(String.valueOf(options.get("passwordFile")));
  }

  @Override
  public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
    for (Callback callback : callbacks) {
      if (callback instanceof NameCallback name) {
        name.setName(user);
      } else if (callback instanceof PasswordCallback password) {
        password.setPassword(Files.readString(passwordFile).trim().toCharArray());
      } else {
        throw new UnsupportedCallbackException(callback);
      }
    }
  }

  @Override
  public void close() {}
}
