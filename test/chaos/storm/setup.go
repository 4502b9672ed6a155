//go:build linux

package storm

import (
	"fmt"
	"slices"
	"time"
)

// Setup is the kind of election of a storm.
type Setup struct {
	Name      string
	Text      string
	File      bool // an election in a file: the kernel decides, and there is no network
	Profile   string
	Promise   time.Duration
	Heartbeat time.Duration
}

// Setups are all setups.
func Setups() []Setup {
	return []Setup{
		{Name: "peers-fast", Text: "3 or 5 voters, by the seed, and one more to add; promise 200 ms", Profile: "fast", Promise: 200 * time.Millisecond, Heartbeat: 25 * time.Millisecond},
		{Name: "peers-lan", Text: "3 or 5 voters, by the seed, and one more to add; promise 1 s", Profile: "lan", Promise: time.Second, Heartbeat: 100 * time.Millisecond},
		{Name: "file", Text: "5 candidates in an election in a file", File: true, Promise: 200 * time.Millisecond, Heartbeat: 25 * time.Millisecond},
	}
}

// setup returns the setup with that name.
func setup(name string) (Setup, error) {
	i := slices.IndexFunc(Setups(), func(s Setup) bool { return s.Name == name })
	if i < 0 {
		var names []string
		for _, s := range Setups() {
			names = append(names, s.Name)
		}
		return Setup{}, fmt.Errorf("storm: there is no setup %q; want one of %v", name, names)
	}
	return Setups()[i], nil
}

// Ability is something that not every computer, and not every run, can do, and that a fault may
// need.
type Ability string

// The abilities.
const (
	Namespaces Ability = "namespaces" // the network is one of namespaces, so packets can be lost
	Proxies    Ability = "proxies"    // the network is one of proxies, so bytes can be delayed
	FUSE       Ability = "fuse"       // disks are this project's file systems, with every fault
	Filling    Ability = "filling"    // disks can be full
	Clocks     Ability = "clocks"     // the programs were built to have clocks of their own
	Zones      Ability = "zones"      // time namespaces
	Quota      Ability = "quota"      // control groups that limit processors
	Next       Ability = "next"       // there is another version to upgrade to
)
