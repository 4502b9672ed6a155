// Command elect runs one program once among many candidates, and shows and
// changes who leads: see `elect help`.
//
// This package only connects others. Each verb has a file of its own here, which reads the command line and writes
// the output; the packages below internal do the work. A verb runs alone in its process. An error becomes one line on
// stderr and an exit code of package exit.
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/marks"
	"github.com/electd/elect/file"
	"github.com/electd/elect/group"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/peer"
	"github.com/electd/elect/store/consul"
	"github.com/electd/elect/store/etcd"
	"github.com/electd/elect/store/kubernetes"
	"github.com/electd/elect/store/nats"
	"github.com/electd/elect/store/redis"
	"github.com/electd/elect/store/s3"
	"github.com/electd/elect/store/zookeeper"
)

func main() {
	supervise.KeeperMain(witness) // it does not return in a keeper, which must not run any of the code below
	marks.QuietRedis()
	os.Exit(cli.Run(newRoot(withGroups(elect.Openers{
		"file": file.Open, peerScheme: openPeer,
		"postgres": marks.OpenElection, "postgresql": marks.OpenElection, "mysql": marks.OpenElection,
		"consul": consul.Open, "etcd": etcd.Open, "kubernetes": kubernetes.Open,
		"redis": redis.Open, "rediss": redis.Open, "redis+unix": redis.Open,
		"zookeeper": zookeeper.Open, "zk": zookeeper.Open,
		"nats": nats.Open, "s3": s3.Open,
	})), os.Args[1:]))
}

// witness is that of the back end whose testament it gets: those of stores name the scheme of their URL, those of
// groups another one.
func witness(ctx context.Context, testament []byte) (speak func(context.Context) error, err error) {
	var of struct {
		Scheme string `json:"scheme"`
	}
	_ = json.Unmarshal(testament, &of) // what is malformed is refused below
	switch of.Scheme {
	case "group":
		return group.Witness(group.WitnessConfig{Configure: groupCerts, Election: witness, OpenStream: peer.OpenStream})(ctx, testament)
	case "consul":
		return consul.Witness(ctx, testament)
	case "etcd":
		return etcd.Witness(ctx, testament)
	case "redis", "rediss", "redis+unix":
		return redis.Witness(ctx, testament)
	case "kubernetes":
		return kubernetes.Witness(ctx, testament)
	case "zookeeper", "zk":
		return zookeeper.Witness(ctx, testament)
	case "nats":
		return nats.Witness(ctx, testament)
	case "s3":
		return s3.Witness(ctx, testament)
	case "postgres", "postgresql", "mysql":
		return marks.Witness(of.Scheme)(ctx, testament)
	}
	return peer.Witness(ctx, testament)
}
