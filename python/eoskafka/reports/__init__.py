"""What queries report: the numbers, their table, and an exporter's page. Needs no Spark."""
