package alerts

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// scale is what all times of the rules are divided by, and the interval of scrapes, so that the test takes minutes.
const scale = 30

// interval is that of scrapes and of the evaluation of rules: 15 s of the shipped rules' tests.
const interval = 15 * time.Second / scale

// times are the places of a file of rules that have a time: for, and the ranges and offsets of expressions.
var times = regexp.MustCompile(`(?m)(^ +for: |\[| offset )(\w+)(\]|$)`)

// hastened returns rules with all of their times divided by scale.
func hastened(rules string) (text string, err error) {
	text = times.ReplaceAllStringFunc(rules, func(found string) string {
		parts := times.FindStringSubmatch(found)
		long, failed := time.ParseDuration(parts[2])
		if failed != nil {
			err = failed
		}
		return fmt.Sprintf("%s%dms%s", parts[1], (long / scale).Milliseconds(), parts[3])
	})
	return text, err
}

// shipped returns the rules that users get, those of elections and those of groups as one file.
func shipped(t *testing.T) string {
	t.Helper()
	elections, err := os.ReadFile("../../../deploy/prometheus/elect.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadFile("../../../deploy/prometheus/group.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(groups), "groups:\n")
	if !found {
		t.Fatal("the rules of groups have lost their form")
	}
	return string(elections) + rest
}

// TestOnlyTimesDiffer: the rules of the test are those that are shipped, but for times, each of which is shorter by
// the same factor.
func TestOnlyTimesDiffer(t *testing.T) {
	before := shipped(t)
	after, err := hastened(before)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	if len(was) != len(is) {
		t.Fatalf("%d lines became %d", len(was), len(is))
	}
	span := regexp.MustCompile(`\b\d+(ms|[smhd])\b`)
	changed := 0
	for i := range was {
		if was[i] == is[i] {
			if span.MatchString(was[i]) {
				t.Errorf("line %d keeps its time: %s", i+1, was[i])
			}
			continue
		}
		if a, b := span.ReplaceAllString(was[i], "T"), span.ReplaceAllString(is[i], "T"); a != b {
			t.Errorf("line %d: more than a time has changed:\n%s\n%s", i+1, was[i], is[i])
		}
		from, to := span.FindAllString(was[i], -1), span.FindAllString(is[i], -1)
		for j := range min(len(from), len(to)) {
			long, _ := time.ParseDuration(from[j])
			if short, err := time.ParseDuration(to[j]); err != nil || short*scale != long {
				t.Errorf("line %d: %s became %s; want a %dth", i+1, from[j], to[j], scale)
			}
			changed++
		}
	}
	if changed < 9 {
		t.Errorf("%d times were changed; the rules or this test have lost their form", changed)
	}
}
