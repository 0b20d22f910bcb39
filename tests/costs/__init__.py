"""What exactly-once costs the brokers."""
