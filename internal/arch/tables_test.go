package arch_test

// house is what the rules are held against: the tables that grow with the
// repository. Every line says why, and a line that nothing needs any more is
// itself a finding.
type house struct {
	directions   []direction
	requirements []requirement
	state        []exception // of the rule on state
	sleeps       []exception // of the rule on sleeping in tests
	words        []exception // of the rule on words
	exported     []surface
	apart        []exception // modules that go.work does not use
}

// surface is how many exported names a public package has, and one word for what they are.
type surface struct {
	at    string
	names int
	why   string
}

// direction says what the packages in one place may import.
type direction struct {
	// at is a package ("fence") or a package and all beneath it ("store/...").
	// The longest match counts. "." is the root package.
	at string

	// may lists what its code may import of this repository, in the form of at;
	// tests lists what its tests may import beside that. Packages beneath the
	// same "..." may always import each other.
	may, tests []string

	// others says which code of other people it may import; whether a module
	// may be required at all is a question of requirements.
	others others

	why string
}

type others string

const (
	nothing others = "the standard library only"
	system  others = "the standard library and golang.org/x/sys"
	listed  others = "what its go.mod requires"
)

// requirement is one module that a go.mod requires directly.
type requirement struct {
	module string // the requiring module's directory
	needs  string // the path of the required module
	why    string
}

// exception is one place that a rule does not hold for.
type exception struct {
	at  string
	why string
}

// repository is the house that we live in.
var repository = house{
	directions: []direction{
		{
			at: "fence", others: nothing,
			why: "a leaf: a server that only checks tokens must not get an elector along with them",
		},
		{
			at: "fence/...", may: []string{"fence", "internal/localfs", "internal/place"}, tests: []string{"internal/..."}, others: listed,
			why: "a guard stands at the resource, where nobody campaigns",
		},
		{
			at: "driver", may: []string{"fence"}, others: nothing,
			why: "the contract that every back end implements; what it imports, all of them import",
		},
		{
			at: "driver/electtest", may: []string{"driver", "fence", "internal/clock"}, tests: []string{"store/memory"}, others: nothing,
			why: "the conformance suite sees a back end as its contract and as nothing more",
		},
		{
			at: "internal/storetest", may: []string{"internal/protocol"}, others: nothing,
			why: "what the machines rely on at a store, as cases that simulated and real stores run",
		},
		{
			at: "internal/protocol/...", tests: []string{"internal/golden", "internal/classictest", "internal/long", "internal/race"}, others: nothing,
			why: "pure state machines with types of their own: the same bytes are simulated, checked and shipped",
		},
		{
			at: "lab/sim/...", may: []string{"internal/protocol/...", "fence"}, tests: []string{"internal/storetest", "internal/golden", "internal/long", "internal/race", "internal/flight", "internal/place"}, others: nothing,
			why: "a driver of the machines; it must not see how production drives them. Its tests have runs recorded as nodes record theirs",
		},
		{
			at: "lab/sim/compare/...", may: []string{"lab/sim/...", "internal/protocol/...", "fence", "internal/plot"}, tests: []string{"internal/golden", "internal/long", "internal/race"}, others: nothing,
			why: "it runs protocols side by side, and draws what came of them",
		},
		{
			at: "lab/sim/count/...", may: []string{"lab/sim/...", "internal/protocol/...", "fence", "internal/plot"}, tests: []string{"internal/golden", "internal/race"}, others: nothing,
			why: "it counts messages, and draws how they grow",
		},
		{
			at: "lab/sim/picture/...", may: []string{"lab/sim/...", "internal/protocol/...", "fence", "internal/plot"}, tests: []string{"internal/golden", "internal/race"}, others: nothing,
			why: "it draws traces",
		},
		{
			at: "lab/sim/group/...", may: []string{"lab/sim", "lab/sim/protocols", "internal/protocol/...", "group/placement"}, tests: []string{"internal/golden", "internal/long", "internal/race"}, others: nothing,
			why: "a coordinator's placement and election are those of production, which are pure",
		},
		{
			at: "lab/sim/teeth/...", may: []string{"lab/sim/...", "lab/check/...", "internal/protocol/...", "fence", "internal/mutation"}, tests: []string{"internal/long", "internal/race"}, others: nothing,
			why: "it hunts mutants with both drivers of the machines, and writes one table",
		},
		{
			at: "lab/page/...", may: []string{"lab/play", "internal/place", "internal/webpage"}, tests: []string{"internal/long"}, others: nothing,
			why: "files for a browser, and what compiles and serves them; it knows the machines by one call",
		},
		{
			at: "lab/page/build", others: listed,
			why: "it bundles the page's sources, and knows nothing of what they do",
		},
		{
			at: "lab/check/...", may: []string{"internal/protocol/...", "fence"}, tests: []string{"internal/harness", "internal/long", "internal/race"}, others: nothing,
			why: "a driver of the machines; it must not see how production drives them",
		},
		{
			at: ".", may: []string{"driver", "fence", "internal/..."}, tests: []string{"adapter", "store/memory", "driver/electtest", "file"}, others: system,
			why: "what users import brings no back end along: they list the openers they want",
		},
		{
			at: "internal/...", may: []string{"fence"}, others: system,
			why: "small tools that everything above protocol may share, and that know nothing of elections",
		},
		{
			at: "internal/runtime", may: []string{"driver", "fence", "internal/protocol", "internal/clock", "internal/mutation"}, tests: []string{"internal/mutation/teeth"}, others: nothing,
			why: "it drives any machine, and knows none of them",
		},
		{
			at: "internal/classictest", may: []string{"internal/protocol", "internal/golden"}, others: nothing,
			why: "a world for the tests of machines, and the stories told of it",
		},
		{
			at: "internal/flight", may: []string{"internal/protocol/...", "internal/place"}, others: nothing,
			why: "it records what a runtime has a machine do, and knows no runtime",
		},
		{
			at: "internal/cli/...", may: []string{"internal/..."}, others: listed,
			why: "what commands have in common; it knows neither the elections of the one nor the worlds of the other",
		},
		{
			at: "internal/arch", tests: []string{"internal/race"}, others: nothing,
			why: "it reads the code and must not depend on what it judges, but for a constant of the build",
		},
		{
			at: "file/...", may: []string{"driver", "fence", "internal/..."}, tests: []string{".", "driver/electtest", "store/memory"}, others: system,
			why: "a back end knows the contract, not the portable layer above it nor the other back ends",
		},
		{
			at: "peer/...", may: []string{"driver", "fence", "internal/protocol/...", "internal/..."}, tests: []string{".", "driver/electtest"}, others: listed,
			why: "a back end knows the contract, not the portable layer above it nor the other back ends",
		},
		{
			at: "peer/examples/...", may: []string{".", "driver", "fence/...", "peer", "agent/..."}, tests: []string{"internal/harness"}, others: listed,
			why: "an example can do what a user's program can; it lives in the module of its back end",
		},
		{
			at: "store/...", may: []string{"driver", "fence", "internal/protocol/...", "internal/...", "store/internal/..."}, tests: []string{".", "driver/electtest"}, others: listed,
			why: "a back end knows the contract, not the portable layer above it nor the other back ends",
		},
		{
			at: "group/...", may: []string{".", "driver", "fence", "internal/...", "internal/protocol/..."}, tests: []string{"store/memory", "driver/electtest", "file", "agent/supervise"}, others: nothing,
			why: "a back end of named elections, and shards, over any other election: it sees that as a program does",
		},
		{
			at: "group/placement", tests: []string{"internal/long", "internal/race"}, others: nothing,
			why: "who should hold which key, as a function of what it is told; a program can have one of its own",
		},
		{
			at: "electhttp", may: []string{".", "driver", "group"}, tests: []string{"store/memory"}, others: nothing,
			why: "a face of an election, for any program; it sees what a program sees",
		},
		{
			at: "deploy", tests: []string{"internal/harness", "internal/long"}, others: nothing,
			why: "its tests read files, and run programs of the system",
		},
		{
			at: "agent/...", may: []string{".", "driver", "fence", "internal/..."}, tests: []string{"file", "store/memory"}, others: listed,
			why: "it serves whatever election it is handed: cmd/elect lists the back ends",
		},
		{
			at: "agent/supervise", may: []string{"driver", "agent/supervise/internal/...", "internal/clock", "internal/leasepage", "internal/mutation", "internal/proc"}, tests: []string{".", "agent/lease", "internal/harness", "internal/long", "internal/spawn", "internal/terminal"}, others: system,
			why: "it runs and kills processes by a deadline; of elections it knows the mandate, which has the deadline, and that is all",
		},
		{
			at: "agent/supervise/internal/...", may: []string{"agent/supervise/internal/keeper", "internal/clock", "internal/leasepage", "internal/mutation", "internal/proc"}, others: system,
			why: "the keeper begins before what its program imports is initialized, so it imports little",
		},
		{
			at: "adapter/...", may: []string{".", "driver", "internal/protocol", "store/kubernetes"}, tests: []string{"store/memory"}, others: listed,
			why: "it stands between another project's interface and an election, and decides nothing",
		},
		{
			at: "adapter", may: []string{"."}, tests: []string{"store/memory", "internal/long"}, others: nothing,
			why: "as adapter/..., for interfaces that need nobody's code",
		},
		{
			at: "electprom", may: []string{".", "driver", "group"}, tests: []string{"store/memory", "group/placement", "internal/harness"}, others: listed,
			why: "it counts what any program can see of an election",
		},
		{
			at: "deploy/grafana", others: nothing,
			why: "it writes one file, and nothing imports it",
		},
		{
			at: "lab/...", may: []string{"internal/protocol/...", "internal/cli/...", "fence", "internal/..."}, others: listed,
			why: "it shows simulated worlds, never a real one",
		},
		{
			at: "examples/...", may: []string{".", "driver", "fence/...", "file", "group/...", "peer", "store/...", "agent/...", "adapter"}, others: listed,
			why: "an example can do what a user's program can, so it imports nothing internal",
		},
		{
			at: "test/...", may: []string{".", "driver", "electhttp", "fence/...", "group/...", "internal/protocol/...", "file", "peer", "peer/certs", "agent/...", "internal/..."}, others: listed,
			why: "it runs finished programs as users do, some of them with the library in them, and replays what they recorded through the machines",
		},
		{
			at: "test/fencing/leases", may: []string{
				".", "driver/...", "fence/...", "store/...", "internal/protocol", "internal/...", "test/fencing/server", "test/fencing/zombie", "file", "peer", "peer/certs",
				"group", "agent/supervise", "test/chaos/judge", "test/chaos/lives", "test/chaos/register", "test/chaos/skew",
			}, others: listed,
			why: "a back end's proof, which needs the servers and the frozen processes that the guards' proofs have, and the judge of real processes",
		},
		{
			at: "cmd/...", may: []string{
				".", "electhttp", "electprom", "driver/...", "fence/...", "internal/protocol/...", "internal/cli/...", "file/...", "group/...", "peer/...", "store/...", "agent/...", "internal/...",
			}, others: listed,
			why: "wiring: the one place that knows all of the product, and that nothing imports; nothing of the product imports the laboratory",
		},
	},
	apart: []exception{
		{at: "adapter/controllerruntime", why: "it compiles client-go, which is minutes of a processor on a fresh machine; make adapters tests it, TestModulesApart checks its types"},
		{at: "adapter/leaderelection", why: "as adapter/controllerruntime"},
	},
	requirements: []requirement{
		{module: ".", needs: "golang.org/x/sys", why: "system calls that package syscall lacks: CLOCK_BOOTTIME, open file description locks, prctl"},
		{module: "peer", needs: "google.golang.org/protobuf", why: "the frames between peers"},
		{module: "peer", needs: "golang.org/x/sys", why: "fdatasync, flock, what the kernel knows of a connection"},
		{module: "cmd/elect", needs: "golang.org/x/term", why: "demo and top draw on a terminal and read single keys"},
		{module: "internal/cli", needs: "github.com/spf13/cobra", why: "verbs, flags, help and completion of both commands"},
		{module: "internal/cli", needs: "github.com/spf13/pflag", why: "cobra's flags: values with a syntax of their own (times, formats)"},
		{module: "internal/cli", needs: "github.com/rogpeppe/go-internal", why: "tests: testscript runs a command as a shell would"},
		{module: "internal/cli", needs: "golang.org/x/sys", why: "tests: the names of signals"},
		{module: "lab", needs: "github.com/spf13/cobra", why: "the verbs of electlab"},
		{module: "lab", needs: "github.com/rogpeppe/go-internal", why: "tests: testscript runs electlab as a shell would"},
		{module: "lab/page/build", needs: "github.com/evanw/esbuild", why: "bundles and minifies the page, so that nobody needs Node"},
		{module: "test/page", needs: "github.com/chromedp/cdproto", why: "tests: commands of Chromium that chromedp has no action for"},
		{module: "test/page", needs: "github.com/chromedp/chromedp", why: "tests: drives a real browser"},
		{module: "cmd/elect", needs: "github.com/spf13/cobra", why: "the verbs of elect"},
		{module: "cmd/elect", needs: "github.com/spf13/pflag", why: "cobra's flags: values with a syntax of their own (times, sizes, formats)"},
		{module: "cmd/elect", needs: "go.yaml.in/yaml/v3", why: "the configuration of elect agent, with the line and column of each field; tests: reads what -o yaml writes, and the files of deploy"},
		{module: "cmd/elect", needs: "golang.org/x/sys", why: "terminals, the clock that the benchmark stamps with, CPU accounting"},
		{module: "cmd/elect", needs: "go.etcd.io/etcd/client/v3", why: "elections of etcd's client beside those of elect bench group"},
		{module: "cmd/elect", needs: "github.com/rogpeppe/go-internal", why: "tests: testscript runs the command as a shell would"},
		{module: "test/chaos", needs: "github.com/anishathalye/porcupine", why: "histories of clients are checked for linearizability"},
		{module: "test/chaos", needs: "github.com/hanwen/go-fuse/v2", why: "disks that are slow, fail, and lose what was not synced"},
		{module: "test/chaos", needs: "github.com/lib/pq", why: "clients of a PostgreSQL whose primary fails over"},
		{module: "test/chaos", needs: "github.com/redis/go-redis/v9", why: "a client that finds its master by Sentinel's protocol"},
		{module: "test/chaos", needs: "golang.org/x/sys", why: "mounts, signals by process descriptor, mapped files, clocks"},
		{module: "test/fencing", needs: "github.com/anishathalye/porcupine", why: "histories of guarded writes are checked for linearizability"},
		{module: "test/fencing", needs: "github.com/go-sql-driver/mysql", why: "tests: leaders that write to a real MariaDB"},
		{module: "test/fencing", needs: "github.com/jackc/pgx/v5", why: "tests: leaders that write to a real PostgreSQL"},
		{module: "test/fencing", needs: "github.com/coder/websocket", why: "streams of leaders that a proxy has to cut"},
		{module: "test/fencing", needs: "go.etcd.io/etcd/api/v3", why: "tests: the errors of a real etcd"},
		{module: "test/fencing", needs: "go.etcd.io/etcd/client/v3", why: "tests: leaders that write to a real etcd, and lead there"},
		{module: "test/fencing", needs: "go.uber.org/zap", why: "tests: keeps etcd's client silent; its zero logger is not"},
		{module: "test/fencing", needs: "google.golang.org/grpc", why: "tests: a guarded server, and each step of the connections to it"},
		{module: "test/fencing", needs: "google.golang.org/protobuf", why: "tests: the messages of a guarded server"},
		{module: "test/fencing", needs: "github.com/aws/aws-sdk-go-v2", why: "tests: the credentials of elections in a real store of S3's protocol"},
		{module: "test/fencing", needs: "github.com/nats-io/nats.go", why: "tests: buckets of a real NATS, right and wrong ones"},
		{module: "test/fencing/server/etcd", needs: "go.etcd.io/etcd/server/v3", why: "tests: the server itself, in a module of its own"},
		{module: "fence/fenceetcd", needs: "go.etcd.io/etcd/api/v3", why: "the answers and errors of etcd"},
		{module: "fence/fenceetcd", needs: "go.etcd.io/etcd/client/v3", why: "transactions and elections"},
		{module: "fence/fenceetcd", needs: "google.golang.org/grpc", why: "the codes of etcd's errors"},
		{module: "store/etcd", needs: "go.etcd.io/etcd/api/v3", why: "the errors of etcd, and its stream of renewals"},
		{module: "store/etcd", needs: "go.etcd.io/etcd/client/v3", why: "the client of the store; a program can hand in its own"},
		{module: "store/etcd", needs: "go.uber.org/zap", why: "keeps etcd's client silent; its zero logger is not"},
		{module: "store/nats", needs: "github.com/nats-io/nats.go", why: "the client of the store; a program can hand in its own connection"},
		{module: "store/s3", needs: "github.com/aws/aws-sdk-go-v2", why: "signatures of requests, and the form of credentials; the client of the SDK has 11 modules"},
		{module: "store/etcd", needs: "google.golang.org/grpc", why: "the name that the certificates of servers are checked against, which etcd's client does not pass on; why there is no connection"},
		{module: "store/redis", needs: "github.com/redis/go-redis/v9", why: "the client of the store; a program can hand in its own"},
		{module: "store/kubernetes", needs: "go.yaml.in/yaml/v3", why: "the kubeconfig"},
		{module: "store/zookeeper", needs: "github.com/go-zookeeper/zk", why: "the client of the store"},
		{module: "test/fencing", needs: "github.com/go-zookeeper/zk", why: "tests: changes a real ZooKeeper by hand"},
		{module: "fence/fencegrpc", needs: "google.golang.org/genproto/googleapis/rpc", why: "ErrorInfo, the detail of a refusal"},
		{module: "fence/fencegrpc", needs: "google.golang.org/grpc", why: "what it guards"},
		{module: "fence/fencegrpc", needs: "google.golang.org/protobuf", why: "the messages of the service that takes claims"},
		{module: "test/fencing", needs: "github.com/mattn/go-sqlite3", why: "tests: leaders that write to SQLite; the library itself, and nothing else beneath it"},
		{module: "test/fencing", needs: "golang.org/x/sys", why: "stops a process at one step, reads a clock that all processes share"},
		{module: "fence/fenceredis", needs: "github.com/redis/go-redis/v9", why: "the client whose keys it guards"},
		{module: "test/fencing", needs: "github.com/redis/go-redis/v9", why: "asks a server whether it is up, and does what is shown to be unsafe"},
		{module: "adapter/controllerruntime", needs: "github.com/go-logr/logr", why: "tests: keeps a manager silent"},
		{module: "adapter/controllerruntime", needs: "k8s.io/client-go", why: "tests: a manager's connection"},
		{module: "adapter/controllerruntime", needs: "sigs.k8s.io/controller-runtime", why: "what it adapts"},
		{module: "adapter/leaderelection", needs: "github.com/go-logr/logr", why: "the log lines of client-go's programs, as slog"},
		{module: "adapter/leaderelection", needs: "k8s.io/api", why: "the Lease that events are about"},
		{module: "adapter/leaderelection", needs: "k8s.io/apimachinery", why: "as k8s.io/api"},
		{module: "adapter/leaderelection", needs: "k8s.io/client-go", why: "what it adapts"},
		{module: "adapter/leaderelection", needs: "k8s.io/klog/v2", why: "where client-go's programs log to"},
		{module: "examples/gocron", needs: "github.com/go-co-op/gocron/v2", why: "the scheduler that it shows"},
		{module: "examples/partitions", needs: "github.com/jackc/pgx/v5", why: "the driver of the database that it keeps its records in"},
		{module: "test/fencing", needs: "github.com/go-redsync/redsync/v4", why: "tests: Redlock as people use it, which is shown to be unsafe"},
		{module: "examples/exactlyonce", needs: "github.com/jackc/pgx/v5", why: "the driver of the database that it keeps its runs in"},
		{module: "cmd/elect", needs: "github.com/lib/pq", why: "the marks of elect fence in PostgreSQL; with pgx the command is 3.5 MB longer"},
		{module: "cmd/elect", needs: "github.com/go-sql-driver/mysql", why: "the marks of elect fence in MySQL and MariaDB"},
		{module: "cmd/elect", needs: "github.com/redis/go-redis/v9", why: "the marks of elect fence in Redis"},
		{module: "cmd/elect", needs: "github.com/prometheus/client_golang", why: "the registry and the encoding of /metrics"},
		{module: "electprom", needs: "github.com/prometheus/client_golang", why: "the collector that it is, and the histograms"},
	},
	exported: []surface{
		{at: ".", names: 119, why: "entry; the metadata of the next candidacy; health, losses, and work that gives way; the term of an event; campaigns called off; what a back end measures; its streams, testaments of terms, and what else it offers"},
		{at: "adapter", names: 5, why: "callbacks that ask who leads"},
		{at: "adapter/controllerruntime", names: 3, why: "manager"},
		{at: "adapter/leaderelection", names: 24, why: "the names of client-go's leaderelection; the term"},
		{at: "agent/lease", names: 8, why: "readers of lease pages"},
		{at: "agent/supervise", names: 100, why: "keeper; virtual addresses; limits and lease pages of commands; hooks; network guard of commands, and of what a program starts"},
		{at: "driver", names: 157, why: "contract, timers of leases that are shared, and why work has ended; measurements of peers, of voters by their leader, and of requests to stores; durations; probes for doctor; streams between participants"},
		{at: "driver/electtest", names: 25, why: "conformance"},
		{at: "electhttp", names: 75, why: "tenure; HTTP of one election, of several in one process, and of the keys of a group; by which names it is called; why a participant stands aside; a client; what elect run tells its service manager"},
		{at: "electprom", names: 12, why: "metrics of an election, and of a member of a group"},
		{at: "fence", names: 98, why: "tokens"},
		{at: "fence/fenceetcd", names: 32, why: "guard"},
		{at: "fence/fencefile", names: 21, why: "guard"},
		{at: "fence/fencegrpc", names: 22, why: "guard"},
		{at: "fence/fencehttp", names: 46, why: "guard"},
		{at: "fence/fenceredis", names: 24, why: "guard"},
		{at: "fence/fencesql", names: 37, why: "guard"},
		{at: "file", names: 19, why: "backend"},
		{at: "group", names: 144, why: "members, shards, a back end of named elections, and one that only asks; status, pins, plans, counts, slack, measurements and events; a client that only asks; what a witness is told"},
		{at: "group/placement", names: 71, why: "the planner of a group's keys, what one of a program's own implements, and the causes of moves"},
		{at: "peer", names: 196, why: "backend; measurements; the status of one node; streams"},
		{at: "peer/certs", names: 51, why: "certificates"},
		{at: "store/consul", names: 19, why: "backend; flight record; refusals"},
		{at: "store/etcd", names: 15, why: "backend; flight record; refusals"},
		{at: "store/kubernetes", names: 12, why: "backend; flight record; refusals"},
		{at: "store/nats", names: 18, why: "backend; flight record; refusals"},
		{at: "store/s3", names: 26, why: "backend; flight record; refusals, and what the store answers"},
		{at: "store/memory", names: 24, why: "backend"},
		{at: "store/redis", names: 15, why: "backend; flight record; refusals"},
		{at: "store/zookeeper", names: 22, why: "backend; layouts of other libraries; flight record; refusals"},
		{at: "store/sqlstore", names: 30, why: "backend; flight record"},
	},
	state: []exception{
		{at: "internal/harness.given", why: "tests of a process that run at the same time must not be given the same port"},
		{at: "internal/clock.start", why: "the zero of Go's clock on that of the kernel, or of the clock where there is no CLOCK_BOOTTIME; set once before main, never written again"},
		{at: "internal/clock.page", why: "which clocks a process has is a fact of the process; in builds with the tag chaos only, read once"},
		{at: "internal/mutation.chosen", why: "what the environment chooses for the process; in builds with the tag mutants only, read once"},
		{at: "agent/supervise.keepers", why: "who is a keeper is a fact of the process: orphans are told from keepers by it"},
		{at: "agent/supervise.keeperReady", why: "whether main called KeeperMain, which is about the process"},
		{at: "store/consul.clients", why: "as peer.hosts: elections with one URL share a client, and are opened by independent calls"},
		{at: "store/zookeeper.readers", why: "as peer.hosts: elections with one URL share a connection for observers, and are opened by independent calls"},
		{at: "store/etcd.clients", why: "as peer.hosts: elections with one URL share a client, and are opened by independent calls"},
		{at: "store/nats.links", why: "as peer.hosts: elections with one URL share a connection, and are opened by independent calls"},
		{at: "store/etcd.groups", why: "as peer.hosts: elections that share a client share a stream of renewals"},
		{at: "store/redis.clients", why: "as peer.hosts: elections with one URL share a client, and are opened by independent calls"},
		{at: "store/redis.listeners", why: "as peer.hosts: elections that share a client share a connection that listens"},
		{at: "store/kubernetes.apis", why: "as peer.hosts: elections with one cluster share connections and its throttling, and are opened by independent calls"},
		{at: "peer.hosts", why: "the listening addresses of a process are its own, and a second election is opened by the same call as the first one, with nothing that they share"},
	},
	sleeps: []exception{
		{at: "agent/supervise/family_linux_test.go:settle", why: "members that still live must have the time to say so"},
		{at: "agent/supervise/family_linux_test.go:kill", why: "lets the fork chains reach their full speed; a shorter time only makes the case easier"},
		{at: "agent/supervise/family_linux_test.go:testVictims", why: "the lock must stay held until shortly before the deadline, which has to come"},
		{at: "agent/supervise/late_linux_test.go:late", why: "looks again at what nothing tells of; a family that ends too early is told from one that takes long"},
		{at: "agent/supervise/parts_test.go:parent", why: "looks again at what nothing tells of; the test that started it has a deadline"},
		{at: "agent/supervise/parts_test.go:strike", why: "looks again at what nothing tells of; the test that started it has a deadline"},
		{at: "agent/supervise/witness_linux_test.go:TestWitness", why: "nothing tells that a witness has tried; a shorter time only lets a defect pass"},
		{at: "agent/supervise/terminal_linux_test.go:TestTerminalFromTheBackground", why: "asks a shell again and again, with a deadline"},
		{at: "test/chaos/address/client_test.go:ask", why: "asks every millisecond, as the client that it is; the test that started it ends it"},
		{at: "test/chaos/address/rig_test.go:look", why: "looks at machines as often as it can, without taking a processor; the test ends it"},
		{at: "test/chaos/address/rig_test.go:holder", why: "asks a diary again and again, with a deadline"},
		{at: "test/chaos/address/address_test.go:disturb", why: "what a machine that stands by must not do is looked for over a span, which has to pass"},
		{at: "lab/sim/flight_test.go:Step", why: "in a synctest bubble of the test that calls it"},
		{at: "fence/fencehttp/model_test.go:Read", why: "a client that is slow, in a synctest bubble of the test that calls it"},
		{at: "fence/fencehttp/model_test.go:playProxy", why: "in a synctest bubble of the test that calls it"},
		{at: "fence/fencehttp/settle_test.go:playSettle", why: "in a synctest bubble of the test that calls it"},
		{at: "cmd/elect/internal/recipe/redis/fake_test.go:pass", why: "in a synctest bubble of the test that calls it"},
		{at: "fence/guard_test.go:Raise", why: "a slow disk, in a synctest bubble of the test that calls it"},
		{at: "fence/model_test.go:Raise", why: "a slow disk, in a synctest bubble of the test that calls it"},
		{at: "fence/model_test.go:play", why: "in a synctest bubble of the test that calls it"},
		{at: "file/campaign_test.go:TestIdleWaiterCostsNothing", why: "CPU use is measured over a span, which has to pass"},
		{at: "file/observe_test.go:TestObserveCostsNothing", why: "CPU use is measured over a span, which has to pass"},
	},
	words: []exception{
		{at: "README.md", why: "the fleet of machines that the ladder's third rung is for"},
		{at: "agent/supervise", why: "comments of its tests that are still to be mended"},
	},
}
