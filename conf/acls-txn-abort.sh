#!/bin/sh
# Grants the rights that `eoskafka txn abort` and `eoskafka txn resolve` need. The values below are
# defaults: set environment variables of these names to replace them. Run the script as a user who may alter
# ACLs, with Kafka's bin folder on the PATH; COMMAND_CONFIG names a properties file if the brokers want a
# log-in.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-operator}"
: "${TRANSACTIONAL_ID_PREFIX:=eoskafka}" "${DECISION_TOPIC:=__eoskafka_decisions}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} \
    --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Write --transactional-id "$TRANSACTIONAL_ID_PREFIX" --resource-pattern-type prefixed
# Only transactions of queries in epoch scope and of batch jobs need these.
acl --operation DescribeConfigs --operation Read --operation Write --topic "$DECISION_TOPIC"
