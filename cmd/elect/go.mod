module github.com/electd/elect/cmd/elect

go 1.26.0

require (
	github.com/electd/elect v0.0.0
	github.com/electd/elect/electprom v0.0.0
	github.com/electd/elect/internal/cli v0.0.0
	github.com/electd/elect/peer v0.0.0
	github.com/electd/elect/store/consul v0.0.0
	github.com/electd/elect/store/etcd v0.0.0
	github.com/electd/elect/store/kubernetes v0.0.0
	github.com/electd/elect/store/nats v0.0.0
	github.com/electd/elect/store/redis v0.0.0
	github.com/electd/elect/store/s3 v0.0.0
	github.com/electd/elect/store/zookeeper v0.0.0
	github.com/lib/pq v1.12.3
	github.com/prometheus/client_golang v1.25.0
	github.com/rogpeppe/go-internal v1.16.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	go.etcd.io/etcd/client/v3 v3.7.3
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/sys v0.49.0
	golang.org/x/term v0.47.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/aws/aws-sdk-go-v2 v1.48.0 // indirect
	github.com/aws/smithy-go v1.28.9 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.7.0 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.29.0 // indirect
	github.com/klauspost/compress v1.20.1 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/nats-io/nats.go v1.55.0 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	go.etcd.io/etcd/api/v3 v3.7.3 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.7.3 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.27.1 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260803160001-6ac0973c030d // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260803160001-6ac0973c030d // indirect
	google.golang.org/grpc v1.83.2 // indirect
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/electd/elect/fence/fenceredis v0.0.0
	github.com/go-sql-driver/mysql v1.10.1
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/redis/go-redis/v9 v9.23.0
	golang.org/x/tools v0.51.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/electd/elect => ../..

replace github.com/electd/elect/internal/cli => ../../internal/cli

replace github.com/electd/elect/electprom => ../../electprom

replace github.com/electd/elect/peer => ../../peer

replace github.com/electd/elect/fence/fenceredis => ../../fence/fenceredis

replace github.com/electd/elect/store/consul => ../../store/consul

replace github.com/electd/elect/store/etcd => ../../store/etcd

replace github.com/electd/elect/store/redis => ../../store/redis

replace github.com/electd/elect/store/kubernetes => ../../store/kubernetes

replace github.com/electd/elect/store/zookeeper => ../../store/zookeeper

replace github.com/electd/elect/store/nats => ../../store/nats

replace github.com/electd/elect/store/s3 => ../../store/s3
