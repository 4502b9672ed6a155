package demo

import (
	"fmt"
	"os"
	"time"

	"github.com/electd/elect/agent/lease"
	"github.com/electd/elect/fence"
)

// beat is how often the job writes a line.
const beat = 10 * time.Millisecond

// Job is the work that must run once at a time: it appends a line to the log at path at each beat, until it is
// killed, and shows its token with each. It asks for no permission: elect ensures that one job runs at a time.
func Job(path string) error {
	token, err := fence.ParseToken(os.Getenv("ELECT_TOKEN"))
	if err != nil {
		return fmt.Errorf("ELECT_TOKEN: %w; this is the job of elect demo, and nothing by itself", err)
	}
	log, err := openGuard(path)
	if err != nil {
		return err
	}
	defer log.close()
	if page := os.Getenv(lease.Env); page != "" { // for who looks on
		if err := os.WriteFile(leaseFile(path, os.Getenv("ELECT_ID")), []byte(page), 0o600); err != nil {
			return err
		}
	}
	l := line{Token: token, ID: os.Getenv("ELECT_ID"), PID: os.Getpid()}
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		l.Number++
		if err := log.append(l); err != nil {
			return err
		}
		<-tick.C
	}
}
