"""Which requests a query sends to its brokers, and in which order: `make requests`."""
