#!/bin/sh
# Grants the rights that `eoskafka txn list`, `txn describe` and `txn find-hanging` need. To override the
# defaults below, set environment variables with these names. Run the script as a user who may alter ACLs,
# with Kafka's bin folder on the PATH. If the brokers require authentication, set COMMAND_CONFIG to a client
# properties file.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-operator}"
: "${OUTPUT:=payments-clean}" "${TRANSACTIONAL_ID_PREFIX:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} \
    --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Describe --transactional-id "$TRANSACTIONAL_ID_PREFIX" --resource-pattern-type prefixed
# A list of transactions is complete only if all partition leaders of this topic have answered.
acl --operation Describe --topic __transaction_state
acl --operation Read --topic "$OUTPUT"
