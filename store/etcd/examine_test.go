package etcd

import (
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/electd/elect/driver"
)

// TestFindings: what a member's answer means, and when it is wrong.
func TestFindings(t *testing.T) {
	for _, c := range []struct {
		version string
		leader  uint64
		errors  []string
		fixed   bool
		wrong   bool
		means   string
	}{
		{"3.6.1", 1, nil, false, false, "servers_fixed=on is possible"},
		{"3.6.1", 1, nil, true, false, "servers_fixed=on is possible"},
		{"3.5.12", 1, nil, false, false, "leave servers_fixed off"},
		{"3.5.12", 1, nil, true, true, "want 3.4.31"},
		{"3.6.1", 0, nil, false, true, "no leader of etcd"},
		{"3.6.1", 1, []string{"memberID:1 alarm:NOSPACE"}, false, true, "NOSPACE"},
	} {
		s := &store{fixed: c.fixed}
		r := clientv3.StatusResponse(pb.StatusResponse{Version: c.version, Leader: c.leader, Errors: c.errors})
		f := s.judge(driver.Finding{What: "member one"}, &r)
		if f.Wrong != c.wrong || !strings.Contains(f.Means, c.means) || f.Value != "version "+c.version {
			t.Errorf("%+v is %+v", c, f)
		}
	}
}
