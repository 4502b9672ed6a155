module github.com/electd/elect/test/fencing

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/aws/aws-sdk-go-v2 v1.48.0
	github.com/coder/websocket v1.8.15
	github.com/electd/elect v0.0.0
	github.com/electd/elect/fence/fenceetcd v0.0.0
	github.com/electd/elect/fence/fencegrpc v0.0.0
	github.com/electd/elect/fence/fenceredis v0.0.0
	github.com/electd/elect/peer v0.0.0
	github.com/electd/elect/store/consul v0.0.0
	github.com/electd/elect/store/etcd v0.0.0
	github.com/electd/elect/store/kubernetes v0.0.0
	github.com/electd/elect/store/nats v0.0.0
	github.com/electd/elect/store/redis v0.0.0
	github.com/electd/elect/store/s3 v0.0.0
	github.com/electd/elect/store/zookeeper v0.0.0
	github.com/electd/elect/test/chaos v0.0.0
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/go-sql-driver/mysql v1.10.1
	github.com/go-zookeeper/zk v1.0.4
	github.com/jackc/pgx/v5 v5.12.0
	github.com/mattn/go-sqlite3 v1.14.53
	github.com/nats-io/nats.go v1.55.0
	github.com/redis/go-redis/v9 v9.23.0
	go.etcd.io/etcd/api/v3 v3.7.3
	go.etcd.io/etcd/client/v3 v3.7.3
	go.uber.org/zap v1.27.1
	golang.org/x/sys v0.49.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	golang.org/x/sync v0.24.0 // indirect
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/aws/smithy-go v1.28.9 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.7.0 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.29.0 // indirect
	github.com/hanwen/go-fuse/v2 v2.12.1 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/klauspost/compress v1.20.0 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.7.3 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)

replace (
	github.com/electd/elect => ../..
	github.com/electd/elect/fence/fenceetcd => ../../fence/fenceetcd
	github.com/electd/elect/fence/fencegrpc => ../../fence/fencegrpc
	github.com/electd/elect/fence/fenceredis => ../../fence/fenceredis
	github.com/electd/elect/peer => ../../peer
	github.com/electd/elect/store/consul => ../../store/consul
	github.com/electd/elect/store/etcd => ../../store/etcd
	github.com/electd/elect/store/kubernetes => ../../store/kubernetes
	github.com/electd/elect/store/nats => ../../store/nats
	github.com/electd/elect/store/redis => ../../store/redis
	github.com/electd/elect/store/s3 => ../../store/s3
	github.com/electd/elect/store/zookeeper => ../../store/zookeeper
	github.com/electd/elect/test/chaos => ../chaos
)
