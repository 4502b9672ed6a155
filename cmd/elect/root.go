package main

import (
	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const rootHelp = `elect keeps exactly one of your replicas at work.

  elect run -- ./scheduler    in two terminals: one runs it, the other stands by
  elect status scheduler      show the leader, since when it leads, its token
  elect top                   show all elections here, live
  elect resign scheduler      ask the leader to hand over

--election URL says where an election is held, and --name says which one it is:

  file:DIR                       in a directory of this machine
  peer://n1@HOST:PORT,n2@…       among a few machines
  postgres://… or mysql://…      in a database (elect install makes its table)
  etcd://HOST1,HOST2/PREFIX      in etcd
  redis://HOST:PORT/DB           in Redis or Valkey
  consul://HOST:PORT/PREFIX      in Consul
  kubernetes://NAMESPACE         in a Lease of Kubernetes
  zookeeper://HOST1,HOST2/PATH   in ZooKeeper
  nats://HOST1,HOST2/BUCKET      in a bucket of NATS JetStream
  s3://BUCKET/PREFIX             in S3, or a store of its protocol

The default is your own state directory on this machine, for root, too:
$XDG_STATE_HOME/elect or ~/.local/state/elect.

Data goes to stdout, everything else to stderr. Flags override environment variables
(ELECT_ELECTION, ELECT_NAME, …), and these override defaults.`

// newRoot builds the command line.
func newRoot(openers elect.Openers) *cobra.Command {
	root := cli.New("elect", "elect keeps exactly one of your replicas at work", rootHelp,
		newRun(openers), newAgent(openers), newStatus(openers), newTop(openers), newWatch(openers), newResign(openers), newTransfer(openers), newPause(openers), newResume(openers),
		newMembers(openers), newMember(openers), newGroup(openers), newHistory(openers), newForget(openers), newInstall(), newCerts(), newDoctor(openers),
		newFence(), newLease(), newRecipe(openers), newBench(openers), newDemo(),
		newJob(), newSweep(), newZombieClient(), newZombieStore(), newZombieWriter(), newStamp(), newNode(openers), newGroupNode(openers),
	)
	for _, verb := range [...]string{"sim", "check", "trace"} {
		root.AddCommand(&cobra.Command{
			Use: verb, Hidden: true, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return exit.Usagef("%s is a verb of the laboratory; want electlab %[1]s (go install github.com/electd/elect/lab/cmd/electlab)", verb)
			},
		})
	}
	return root
}

// variable is the name of the variable that stands for a flag.
func variable(flag string) string { return cli.Variable("elect", flag) }
