// Package protocols puts the machines that run in production into the world of
// package sim: one [sim.Protocol] for each, made from the configuration that a
// schedule carries.
//
// That configuration is the machine's own in JSON, over the machine's defaults, with one field
// beside it: "each" maps a participant's id to what is different at that participant. Durations are
// in nanoseconds. What the world decides itself (the participants, and the dialect of a queue) is
// refused, as is every field that the machine does not have.
//
// All functions may be called by any number of goroutines.
package protocols

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/blazingmq"
	"github.com/electd/elect/internal/protocol/bully"
	"github.com/electd/elect/internal/protocol/lease"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/internal/protocol/ring"
	"github.com/electd/elect/lab/sim"
)

// All returns the protocols, each time anew, so that the caller may change them. The naive ones are not among them.
func All() []*sim.Protocol { return made(kinds()) }

// Naive returns locks in common use that are broken, by which nobody should elect a leader: see package naive. They are
// here to be seen breaking.
func Naive() []*sim.Protocol { return made(naives()) }

func made(kinds []kind) (all []*sim.Protocol) {
	for _, k := range kinds {
		all = append(all, k.protocol(""))
	}
	return all
}

// ByName returns the protocol of that name, one of those that All or Naive returns.
func ByName(name string) (*sim.Protocol, bool) {
	for _, k := range append(kinds(), naives()...) {
		if k.name == name {
			return k.protocol(""), true
		}
	}
	return nil, false
}

// kind is one row of the list. mutant is the rule that is switched off, empty
// but in builds with the tag mutants.
type kind struct {
	name     string
	protocol func(mutant string) *sim.Protocol
}

func kinds() []kind {
	return []kind{
		{quorum.Name, quorumProtocol},
		{lease.Name, leaseProtocol},
		{queueEtcd, etcdProtocol},
		{queueZooKeeper, zookeeperProtocol},
		{raftPlain, raftProtocol},
		{raftPrevote, raftPrevoteProtocol},
		{raftCheckquorum, raftCheckquorumProtocol},
		{blazingmq.Name, blazingmqProtocol},
		{blazingmqSticky, blazingmqStickyProtocol},
		{blazingmqNaive, blazingmqNaiveProtocol},
		{ring.Name, ringProtocol},
		{ring.NameChangRoberts, changRobertsProtocol},
		{bully.Name, bullyProtocol},
	}
}

// decode reads a schedule's configuration of one participant into config, which
// has the defaults. id is empty for what is common to all.
func decode(raw json.RawMessage, id protocol.NodeID, config any) error {
	common, each, err := split(raw)
	if err != nil {
		return err
	}
	if err := strict(common, config); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if own := each[id]; id != "" && own != nil {
		if err := strict(own, config); err != nil {
			return fmt.Errorf("config: each: %s: %w", id, err)
		}
	}
	return nil
}

// split separates the common configuration from what is particular to each participant.
func split(raw json.RawMessage) (common json.RawMessage, each map[protocol.NodeID]json.RawMessage, err error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage("{}"), nil, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, nil, fmt.Errorf("config: %w; want an object with the machine's settings", err)
	}
	if own, ok := fields["each"]; ok {
		if err := json.Unmarshal(own, &each); err != nil {
			return nil, nil, fmt.Errorf("config: each: %w; want an object of settings by participant, such as {\"n1\": {…}}", err)
		}
		delete(fields, "each")
	}
	for _, f := range fixed {
		if err := refuse(fields, f.name, f.why); err != nil {
			return nil, nil, err
		}
		for id, own := range each {
			var fields map[string]json.RawMessage
			if json.Unmarshal(own, &fields) == nil {
				if err := refuse(fields, f.name, f.why); err != nil {
					return nil, nil, fmt.Errorf("each: %s: %w", id, err)
				}
			}
		}
	}
	common, err = json.Marshal(fields)
	return common, each, err
}

// fixed is what the world decides.
var fixed = [...]struct{ name, why string }{
	{"self", "the schedule's number of nodes decides the participants"},
	{"membership", "the schedule's number of nodes decides the participants"},
	{"members", "the schedule's number of nodes decides the participants"},
	{"dialect", "the protocol's name says which store it is over"},
}

func refuse(fields map[string]json.RawMessage, name, why string) error {
	if _, ok := fields[name]; ok {
		return fmt.Errorf("config: %s: %s; leave it out", name, why)
	}
	return nil
}

// strict decodes exactly one value and knows each of its fields.
func strict(raw json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the settings; want one object")
	}
	return nil
}
