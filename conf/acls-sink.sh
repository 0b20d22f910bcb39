#!/bin/sh
# Grants the rights of a batch job that writes to Kafka, and of a query whose source is not eoskafka. A
# batch job that also reads from Kafka needs Read on that topic as well. The values below are defaults: set
# environment variables of these names to replace them. Run the script as a user who may alter ACLs, with
# Kafka's bin folder on the PATH; COMMAND_CONFIG names a properties file if the brokers want a log-in.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-job}"
: "${OUTPUT:=payments-clean}" "${TRANSACTIONAL_ID_PREFIX:=eoskafka}"
: "${DECISION_TOPIC:=__eoskafka_decisions}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} \
    --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Write --topic "$OUTPUT"
acl --operation Write --transactional-id "$TRANSACTIONAL_ID_PREFIX" --resource-pattern-type prefixed
# Only the first query of a cluster needs Create, and none does if you create the topic yourself.
acl --operation Create --topic "$DECISION_TOPIC"
acl --operation DescribeConfigs --operation Read --operation Write --topic "$DECISION_TOPIC"
# Without this right epoch scope is more cautious, as docs/brokers.md describes.
acl --operation DescribeConfigs --cluster
