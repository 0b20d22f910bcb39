#!/bin/sh
# Grants the rights that a batch job needs that writes to Kafka, and so does a query whose source is not
# eoskafka. A batch job that also reads from Kafka needs Read on that topic as well. Set the variables below, and
# run the script as a user who may alter ACLs.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-job}"
: "${OUTPUT:=payments-clean}" "${TRANSACTIONAL_ID_PREFIX:=eoskafka}"
: "${DECISION_TOPIC:=__eoskafka_decisions}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Write --topic "$OUTPUT"
acl --operation Write --transactional-id "$TRANSACTIONAL_ID_PREFIX" --resource-pattern-type prefixed
# Only the first query of a cluster needs Create, and none does if you create the topic yourself.
acl --operation Create --topic "$DECISION_TOPIC"
acl --operation DescribeConfigs --operation Read --operation Write --topic "$DECISION_TOPIC"
# Without this right epoch scope is more cautious, as docs/brokers.md describes.
acl --operation DescribeConfigs --cluster
