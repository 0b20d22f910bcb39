#!/bin/sh
# Grants the rights of a batch job that writes to Kafka, and of a query whose source is not eoskafka. A
# batch job that also reads from Kafka needs Read on that topic as well. To override the defaults below, set
# environment variables with these names. Run the script as a user who may alter ACLs, with Kafka's bin
# folder on the PATH. If the brokers require authentication, set COMMAND_CONFIG to a client properties file.
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
# Only the first query on a cluster needs Create. If you create the topic yourself, no query needs it.
acl --operation Create --topic "$DECISION_TOPIC"
acl --operation DescribeConfigs --operation Read --operation Write --topic "$DECISION_TOPIC"
# Without this right, epoch scope makes cautious assumptions about the brokers (docs/brokers.md).
acl --operation DescribeConfigs --cluster
