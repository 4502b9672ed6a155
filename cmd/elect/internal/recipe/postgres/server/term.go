package server

// Term is a row of elect.terms: which term made which timeline.
type Term struct {
	Token    uint64 `json:"token"`
	ID       string `json:"id"` // of the primary
	Timeline uint32 `json:"timeline"`
}
