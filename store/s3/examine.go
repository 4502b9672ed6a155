package s3

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"time"

	"github.com/electd/elect/driver"
)

// Examine implements [driver.Examiner]. It writes to the object that shows whether conditions count.
func (e *elector) Examine(ctx context.Context) ([]driver.Finding, error) {
	if _, err := e.object.Read(ctx); err != nil {
		return nil, err
	}
	conditions := driver.Finding{What: "conditional writes", Value: "work", Means: "a write whose condition is false was refused"}
	if err := e.object.conditional(ctx); err != nil {
		conditions.Value, conditions.Means = "not known", err.Error()
		if conditions.Wrong = driver.IsPermanent(lasting(err)); conditions.Wrong {
			conditions.Value = "do not work"
		}
	}
	skew := driver.Finding{What: "clock", Value: "right enough", Means: "the store takes the dates of requests"}
	if by := time.Duration(e.object.skew.Load()); by != 0 {
		skew.Value, skew.Means = "wrong by "+by.Round(time.Second).String(), "the store refuses such dates, so requests have its own time; leases do not depend on it"
	}
	return append(e.object.settings(ctx), conditions, skew, e.requests()), nil
}

// settings says what the store calls itself, and what becomes of old renewals.
func (o *object) settings(ctx context.Context) []driver.Finding {
	store := driver.Finding{What: "version", Value: "not told", Means: "S3 has none; elections need If-Match and If-None-Match on PUT, which AWS has since November 2024"}
	f := driver.Finding{What: "versioning of the bucket", Value: "not known", Means: "with it each renewal is kept as a version until a lifecycle rule deletes it"}
	a, err := o.do(ctx, http.MethodGet, "", "versioning=", nil, nil)
	if err == nil && a.server != "" {
		store.Value = clean(a.server, 60)
	}
	if err != nil || a.status != http.StatusOK {
		return []driver.Finding{store, f}
	}
	var v struct {
		Status string `xml:"Status"`
	}
	if xml.Unmarshal(a.body, &v) != nil {
		return []driver.Finding{store, f}
	}
	if f.Value = "off"; v.Status == "Enabled" {
		f.Value = "on"
		f.Means = "each renewal is kept as a version; want a lifecycle rule that deletes noncurrent versions after a day"
	} else {
		f.Means = "a renewal replaces the one before it"
	}
	return []driver.Finding{store, f}
}

// requests says what the election costs.
func (e *elector) requests() driver.Finding {
	perHour := func(every time.Duration) int { return int(time.Hour / every) }
	return driver.Finding{
		What:  "requests in an hour",
		Value: fmt.Sprintf("%d PUT of the leader, %d GET of each candidate", perHour(e.lease/4), perHour(e.poll)),
		Means: "without changes of leader; lease and poll of the URL make them fewer",
	}
}
