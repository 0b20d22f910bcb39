#!/bin/sh
# Grants the rights that a query in epoch scope (state, shuffles) needs besides those in acls-task-scope.sh.
# The values below are defaults: set environment variables of these names to replace them. Run the script as
# a user who may alter ACLs, with Kafka's bin folder on the PATH; COMMAND_CONFIG names a properties file if
# the brokers want a log-in.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-job}"
: "${DECISION_TOPIC:=__eoskafka_decisions}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} \
    --add --allow-principal "$PRINCIPAL" "$@"
}

# Only the first query of a cluster needs Create, and none does if you create the topic yourself.
acl --operation Create --topic "$DECISION_TOPIC"
acl --operation DescribeConfigs --operation Read --operation Write --topic "$DECISION_TOPIC"
# Without this right epoch scope is more cautious, as docs/brokers.md describes.
acl --operation DescribeConfigs --cluster
