#!/bin/sh
# Grants the rights that a query in epoch scope (state, shuffles) needs besides those in acls-task-scope.sh.
# Set the variables below, and run the script as a user who may alter ACLs.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-job}"
: "${DECISION_TOPIC:=__eoskafka_decisions}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" --add --allow-principal "$PRINCIPAL" "$@"
}

# Only the first query of a cluster needs Create, and none does if you create the topic yourself.
acl --operation Create --topic "$DECISION_TOPIC"
acl --operation DescribeConfigs --operation Read --operation Write --topic "$DECISION_TOPIC"
# Without this right epoch scope is more cautious, as docs/brokers.md describes.
acl --operation DescribeConfigs --cluster
