#!/bin/sh
# Points a Service at the pod of the leader, and then becomes its job:
#
#	elect run … -- follow-leader.sh SERVICE COMMAND [ARG…]
#
# The selector of the Service is set to the name of this pod, which a StatefulSet has as a label on each of its pods. So
# one write of one object moves all traffic. A label that moves from pod to pod would need two writes, between which two
# pods or none have it, and the right to change any pod.
#
# The write is fenced. The annotation elect.example/token is the mark: it holds the token of the leader that has written
# last. The API server refuses a write if the Service has changed since this script read it (resourceVersion). So an
# older leader that wakes up between its read and its write cannot take the Service back.
#
# It needs curl, POD_NAME, and a service account that may get and patch this Service. If the API server does not answer
# for 10 s it ends with 1, and so gives leadership back: another node may reach it.
set -eu

[ $# -ge 2 ] || { echo "follow-leader.sh: want SERVICE COMMAND [ARG…]" >&2; exit 64; }
service=$1
shift
: "${ELECT_TOKEN:?run this under elect run}" "${POD_NAME:?want the name of this pod}"
account=${SERVICE_ACCOUNT:-/var/run/secrets/kubernetes.io/serviceaccount}
host=$KUBERNETES_SERVICE_HOST
case $host in *:*) host="[$host]" ;; esac
url=https://$host:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/$(cat "$account/namespace")/services/$service

# request prints the body of the answer. It ends with 22 if that is an error. The token comes by stdin, because all
# processes of the machine can read arguments.
request() {
	printf 'header = "Authorization: Bearer %s"\n' "$(cat "$account/token")" |
		curl --config - --silent --show-error --fail --max-time 5 --cacert "$account/ca.crt" "$@" "$url"
}

# value finds the value of a key in the metadata that the API server has sent, pretty-printed or not.
value() { printf '%s\n' "$metadata" | sed -n 's|.*"'"$1"'": *"\([0-9A-Za-z]*\)".*|\1|p'; }

claim() {
	metadata=$(request --header 'Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1') || return 1
	version=$(value resourceVersion)
	mark=$(value elect.example/token)
	[ -n "$version" ] || { echo "follow-leader.sh: the answer of the API server has no resourceVersion" >&2; return 1; }
	if [ "${mark:-0}" -gt "$ELECT_TOKEN" ]; then
		echo "follow-leader.sh: a later leader, with token $mark, has the Service $service; this one has $ELECT_TOKEN" >&2
		exit 1
	fi
	request --request PATCH --header 'Content-Type: application/merge-patch+json' --output /dev/null --data '{
		"metadata": {"resourceVersion": "'"$version"'", "annotations": {"elect.example/token": "'"$ELECT_TOKEN"'"}},
		"spec": {"selector": {"statefulset.kubernetes.io/pod-name": "'"$POD_NAME"'"}}}'
}

end=$(($(date +%s) + 10))
until claim; do
	if [ "$(date +%s)" -ge "$end" ]; then
		echo "follow-leader.sh: the Service $service could not be changed for 10 s" >&2
		exit 1
	fi
	sleep 0.2
done
exec "$@"
