#!/bin/sh
# Grants the rights that `eoskafka txn list`, `txn describe` and `txn find-hanging` need. Set the variables
# below, and run the script as a user who may alter ACLs.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-operator}"
: "${OUTPUT:=payments-clean}" "${TRANSACTIONAL_ID_PREFIX:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Describe --transactional-id "$TRANSACTIONAL_ID_PREFIX" --resource-pattern-type prefixed
# It says which brokers must have answered before a list of transactions is complete.
acl --operation Describe --topic __transaction_state
acl --operation Read --topic "$OUTPUT"
