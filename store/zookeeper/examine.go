package zookeeper

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/electd/elect/driver"
)

// examine asks each server for its state, and looks at the queue.
func (s *store) examine(ctx context.Context) (found []driver.Finding, err error) {
	for _, server := range s.servers {
		found = append(found, s.judge(ctx, server))
	}
	queue, err := s.reader.line.look(ctx, s.path, true)
	if err != nil {
		return append(found, driver.Finding{What: "candidates", Value: "not read", Wrong: true, Means: "nobody can be elected: " + err.Error()}), nil
	}
	made := uint32(queue.stat.Cversion+queue.stat.NumChildren) / 2
	f := driver.Finding{What: "numbers used", Value: fmt.Sprint(made), Means: fmt.Sprintf("%d are left for candidacies", max(0, lastNumber-int64(made)))}
	if made >= 1<<30 {
		f.Wrong = true
		f.Means += "; then the queue has to be deleted, while nobody leads, and made anew"
	}
	found = append(found, f)
	candidates := s.candidates(queue.children)
	if others := len(queue.children) - len(candidates); others > 0 {
		found = append(found, driver.Finding{What: "other children", Value: fmt.Sprint(others), Wrong: true, Means: "they are no candidates, and are ignored; want a path of the election's own"})
	}
	mixed := 0
	for _, c := range candidates {
		if !s.layout.has(c.name) {
			mixed++
		}
	}
	if mixed > 0 {
		found = append(found, driver.Finding{What: "other layouts", Value: fmt.Sprint(mixed), Wrong: true, Means: "candidates of another library may not see those of the layout " + string(s.layout) + ", and lead beside them; want one layout in an election"})
	}
	return append(found, driver.Finding{
		What: "tickTime, maxClientCnxns", Value: "not told", Means: "each candidate has a connection of its own, and a process one more; a server allows 60 from one address by default",
	}), nil
}

// judge asks a server by the command srvr, which it answers by default.
func (s *store) judge(ctx context.Context, server string) driver.Finding {
	f := driver.Finding{What: "server " + server}
	if s.tls != nil {
		f.Value, f.Means = "not asked", "commands of four letters are not asked for with TLS"
		return f
	}
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", server)
	if err != nil {
		f.Value, f.Means, f.Wrong = "no answer", err.Error(), len(s.servers) == 1
		return f
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second)) // a connection that fails says so when it is read
	_, _ = io.WriteString(c, "srvr")
	text, _ := io.ReadAll(io.LimitReader(c, 4096))
	return told(f, string(text))
}

// told says what the answer of a server means.
func told(f driver.Finding, text string) driver.Finding {
	said := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		said[key] = value
	}
	version, _, _ := strings.Cut(said["Zookeeper version"], ",")
	version, _, _ = strings.Cut(version, "-")
	switch {
	case version == "" && strings.Contains(text, "whitelist"):
		f.Value, f.Means = "not told", "the server does not answer srvr (4lw.commands.whitelist)"
	case version == "":
		f.Value, f.Means, f.Wrong = "not serving", "it has no connection to a majority, or is no ZooKeeper", true
	default:
		f.Value, f.Means = fmt.Sprintf("version %s, %s", version, said["Mode"]), "latency in ms (min/avg/max): "+said["Latency min/avg/max"]
	}
	return f
}
