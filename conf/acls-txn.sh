#!/bin/sh
# Grants the rights that `eoskafka txn list`, `txn describe` and `txn find-hanging` need. The values below
# are defaults: set environment variables of these names to replace them. Run the script as a user who may
# alter ACLs, with Kafka's bin folder on the PATH; COMMAND_CONFIG names a properties file if the brokers
# want a log-in.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-operator}"
: "${OUTPUT:=payments-clean}" "${TRANSACTIONAL_ID_PREFIX:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} \
    --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Describe --transactional-id "$TRANSACTIONAL_ID_PREFIX" --resource-pattern-type prefixed
# The leaders of this topic must all have answered before a list of transactions is complete.
acl --operation Describe --topic __transaction_state
acl --operation Read --topic "$OUTPUT"
