#!/bin/sh
# Says who leads, and each change: follow.sh URL NAME
curl -fsSN "$1/v1/elections/$2/watch" | while IFS= read -r line; do
	case $line in
	data:*'"leader":null'* | data:*'"stale":true'*) echo nobody ;;
	data:*) echo "$line" | sed -E 's/.*"leader":\{"id":"([^"]*)","token":"([0-9]+)".*/\1 \2/' ;;
	esac
done
