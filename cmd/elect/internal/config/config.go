// Package config reads the configurations of elect agent and of recipes, in YAML, and describes them as JSON schemas.
//
// The types below are the one description of the agent's: [Read] fills them, and [Schema] is made of them; for recipes
// these are [ReadInto] and [SchemaOf]. An error names the file, the line, the column and the field, and what would be
// right; Read returns all that it finds. It decides nothing that needs more than the text: whether a URL can be opened,
// or a command be found, is for the caller, who reports it by [Document.Errorf] at the place of the field.
//
// A File is not changed after Read, so any number of goroutines may read it.
package config

import "time"

// Agent is a whole configuration.
type Agent struct {
	ID        string     `key:"id" doc:"This candidate's id in all elections that name none. Default: the host's name."`
	State     string     `key:"state" doc:"Directory in which the agent keeps what it must know after a crash. Default: elect-agent in the user's state directory."`
	Watchdog  *Watchdog  `key:"watchdog" doc:"Watchdog device that resets this machine if an activated term cannot be ended in time."`
	HTTP      HTTP       `key:"http" doc:"The HTTP server of all elections."`
	Elections []Election `key:"elections" required:"true" doc:"The elections in which this process is a candidate. Their names differ."`
}

// Watchdog is a watchdog device.
type Watchdog struct {
	Device  string        `key:"device" required:"true" doc:"Its path, such as /dev/watchdog. A path that is no device gets the same bytes, to try it."`
	Timeout time.Duration `key:"timeout" required:"true" doc:"Time without feeding after which the machine is reset, in whole seconds, and less than four fifths of the leases."`
}

// HTTP is the server.
type HTTP struct {
	Listen    string `key:"listen" required:"true" doc:"HOST:PORT on loopback, unix:PATH, or with cert and key any address."`
	TokenFile string `key:"token-file" doc:"File with the bearer token of clients that may change something."`
	Cert      string `key:"cert" doc:"File with the certificate, in PEM."`
	Key       string `key:"key" doc:"File with its key."`
}

// Election is one election. Without a command it leads for its hooks, or for those that ask who leads.
type Election struct {
	Name         string            `key:"name" required:"true" doc:"The name of the election."`
	Election     string            `key:"election" doc:"URL of its place, as for elect run --election. Default: file: in the user's state directory."`
	ID           string            `key:"id" doc:"This candidate's id, which no other has. Default: that of the agent."`
	Command      []string          `key:"command" doc:"The command that runs while, and only while, this candidate leads, and its arguments."`
	Restart      string            `key:"restart" enum:"always,on-failure" doc:"When to stand again after the command has ended. Default: always."`
	Grace        time.Duration     `key:"grace" doc:"Time between SIGTERM and SIGKILL. Default: 10s."`
	Drain        time.Duration     `key:"drain" doc:"How long before the end of a lease that is not renewed the work is told. Default: a fifth of the lease."`
	Contain      string            `key:"contain" enum:"auto,sweep,cgroup,pid" doc:"How the command is held together, as for elect run --contain. Default: auto."`
	Limits       []string          `key:"limits" doc:"Limits of the command, NAME=VALUE, as for elect run --limit."`
	Guard        string            `key:"guard" enum:"network,network-optional" doc:"As elect run --guard."`
	GuardAllow   []string          `key:"guard-allow" doc:"As elect run --guard-allow."`
	Address      []string          `key:"address" doc:"Addresses that this machine has while it leads, ADDRESS/BITS@INTERFACE, as elect run --address. They come after the hook activate, and go before the hook cut."`
	NonExclusive bool              `key:"non-exclusive" doc:"The work begins before leadership is proven exclusive: its token fences all that it does. As elect run --exclusive=false. It contradicts address, guard, stonith and the hooks fence, activate and demote."`
	Environment  map[string]string `key:"environment" doc:"Further variables of the command and the hooks."`
	WaitReady    time.Duration     `key:"wait-ready" doc:"Time within which the command must say READY=1, as for elect run --wait-ready."`
	Watchdog     time.Duration     `key:"watchdog" doc:"Time after which a command that has not said WATCHDOG=1 is ill, as for elect run --watchdog."`
	Losses       int               `key:"losses" max:"1000" doc:"After how many losses of leadership within losses-window this candidate rests while another leads, as for elect run --losses. Default: 0, they do not count."`
	LossesWindow time.Duration     `key:"losses-window" doc:"The time in which losses count. Default: 10m."`
	Rest         time.Duration     `key:"rest" doc:"How long this candidate first rests after it has given leadership back, or lost it too often; it doubles each further time. Default: 1m."`
	LongestRest  time.Duration     `key:"longest-rest" doc:"The greatest time of a rest. Default: 16m."`
	Tenure       time.Duration     `key:"tenure" doc:"How long a new leader refuses to resign or hand over: to transfer, to HTTP requests without now, and among peers to a greater priority. Default: none, and among peers ten promises against a greater priority."`
	Transfer     *Transfer         `key:"transfer" doc:"A time at which this candidate hands over, if it leads. Among peers, and in groups."`
	Stonith      *Stonith          `key:"stonith" doc:"Before the hook fence: switches off the machine of the previous leader, if that is another candidate. If it fails, leadership is given back."`
	Hooks        Hooks             `key:"hooks" doc:"Commands at the steps of a term."`
}

// Transfer is a time of day at which a leader hands over.
type Transfer struct {
	At   string   `key:"at" required:"true" pattern:"^([01][0-9]|2[0-3]):[0-5][0-9]$" want:"a time of day such as 02:30" doc:"The time of day, HH:MM."`
	Days []string `key:"days" enum:"mon,tue,wed,thu,fri,sat,sun" doc:"The days of the week. Default: all."`
	Zone string   `key:"zone" doc:"The time zone, such as Europe/Berlin. Default: UTC."`
	To   string   `key:"to" doc:"The id of the next leader. Default: the best candidate."`
}

// Stonith switches off the previous leader's machine by a fence agent: a program that reads its options from stdin.
type Stonith struct {
	Agent   string                       `key:"agent" required:"true" doc:"The fence agent, such as /usr/sbin/fence_ipmilan."`
	Action  string                       `key:"action" enum:"off,reboot" doc:"What it does to the machine. Default: off."`
	Options map[string]string            `key:"options" doc:"Options for all machines, by their names."`
	Nodes   map[string]map[string]string `key:"nodes" required:"true" doc:"Options for the machine of each candidate, by its id. Among peers all other voters are there."`
	Unless  string                       `key:"unless" doc:"Text for sh -c. After exit code 0 the machine is left alone: it is sure that the previous leader has demoted."`
	Limit   time.Duration                `key:"limit" doc:"Time after which the fence agent is killed, and has failed. Default: 1m."`
	Retries int                          `key:"retries" max:"100" doc:"How often it runs again at once after a failure. Default: 0."`
}

// Hooks are commands for sh -c.
type Hooks struct {
	Gate      Gate `key:"gate" doc:"May this candidate stand? Exit code 0 if it can do the work. It runs again and again, as elect run --health-command."`
	Fence     Hook `key:"fence" doc:"After the victory and before anything else: it makes sure that the previous leader does nothing more. If it fails, leadership is given back. Default limit: 1m."`
	Activate  Hook `key:"activate" doc:"Before the command starts. If it fails, the hook demote runs and leadership is given back. Default limit: 30s."`
	OnElected Hook `key:"on-elected" doc:"When this leader is active; nothing waits for it. Default limit: 30s."`
	Cut       Hook `key:"cut" doc:"First of all after leadership has ended: it takes traffic away. Default limit: 5s, and a third of what is left of the lease."`
	Demote    Hook `key:"demote" doc:"When the command is dead: it undoes activate, before the lease ends. Until it has succeeded this candidate does not stand. Default limit: 30s."`
	OnLost    Hook `key:"on-lost" doc:"After that; nothing waits for it. Default limit: 30s."`
}

// Hook is a command at a step of a term. It is a mapping, or the text of run alone.
type Hook struct {
	Run     string        `key:"run" required:"true" short:"true" doc:"Text for sh -c."`
	Limit   time.Duration `key:"limit" doc:"Time after which it and all that it has started are killed, and it has failed."`
	Retries int           `key:"retries" max:"100" doc:"How often it runs again at once after a failure. Default: 0."`
}

// Gate is a command that runs again and again.
type Gate struct {
	Run        string        `key:"run" required:"true" short:"true" doc:"Text for sh -c."`
	Every      time.Duration `key:"every" doc:"Time between two runs. Default: 5s."`
	Limit      time.Duration `key:"limit" doc:"Time after which it is killed, and has failed. Default: 5s."`
	Failures   int           `key:"failures" max:"1000" doc:"Failures in a row by which this candidate is ill. Default: 3; the first run of all decides alone."`
	Successes  int           `key:"successes" max:"1000" doc:"Successes in a row by which it is well again. Default: 2."`
	WhenAllIll string        `key:"when-all-ill" enum:"lead,none" doc:"What an ill candidate does if nobody leads. Default: lead, after some time."`
}
