package report

import "encoding/json"

// Counts are what has come about, as the admin command top has it. Of servers that do not tell something it is 0.
type Counts struct {
	Requests   int64 `json:"requests"`
	Failed     int64 `json:"failed"`
	BytesIn    int64 `json:"bytes_in"`
	BytesOut   int64 `json:"bytes_out"`
	WatchesSet int64 `json:"watches_set"`
	Notices    int64 `json:"notices"`
	Applied    int64 `json:"applied"`
	ApplyUs    int64 `json:"apply_us"`
	MeanUs     int64 `json:"mean_us"`
	P50Us      int64 `json:"p50_us"`
	P99Us      int64 `json:"p99_us"`
	MaxUs      int64 `json:"max_us"`
}

// Row is one operation, path or client.
type Row struct {
	Operation string `json:"operation,omitempty"`
	Path      string `json:"path,omitempty"`
	Session   string `json:"session,omitempty"`
	Address   string `json:"address,omitempty"`
	User      string `json:"user,omitempty"`
	// Server is the one that a session is on.
	Server string `json:"server,omitempty"`
	Counts
	MissedAtMost  int64   `json:"missed_at_most"`
	SamplingError int64   `json:"sampling_error"`
	PerSecond     float64 `json:"requests_per_second"`
	Seconds       float64 `json:"-"` // the longest window of the servers that it is of
	Untold        bool    `json:"-"` // some of the servers that it is of tell requests and latencies alone
}

// Slow is one of the slowest requests.
type Slow struct {
	AtMs      int64  `json:"at_ms"`
	Operation string `json:"operation"`
	Path      string `json:"path"`
	Failed    bool   `json:"failed"`
	TookUs    int64  `json:"took_us"`
	Bytes     int64  `json:"bytes"`
	Session   string `json:"session"`
	Address   string `json:"address"`
	User      string `json:"user"`
	Server    string `json:"server,omitempty"`
	PhasesUs  Phases `json:"phases_us"`
}

// Phases are where the time of a request went.
type Phases struct {
	Queue     int64 `json:"queue"`
	Turn      int64 `json:"turn"`
	Confirm   int64 `json:"confirm"`
	Log       int64 `json:"log"`
	Replicate int64 `json:"replicate"`
	Apply     int64 `json:"apply"`
	Answer    int64 `json:"answer"`
}

// State is what a server is and has now.
type State struct {
	ID          int64  `json:"id"`
	Serving     bool   `json:"serving"`
	State       string `json:"state"`
	UptimeMs    int64  `json:"uptime_ms"`
	Zxid        string `json:"zxid"`
	Connections int64  `json:"connections"`
	Outstanding int64  `json:"outstanding_requests"`
	Watches     int64  `json:"watches"`
	Znodes      int64  `json:"znodes"`
}

// Lists are the rows of each kind.
type Lists struct {
	Operations []Row  `json:"operations"`
	Subtrees   []Row  `json:"subtrees"`
	Znodes     []Row  `json:"znodes"`
	Sessions   []Row  `json:"sessions"`
	Addresses  []Row  `json:"addresses"`
	Users      []Row  `json:"users"`
	Slow       []Slow `json:"slow_requests"`
}

// Answer is what a server says.
type Answer struct {
	Seconds      float64 `json:"seconds"`
	SampledOneIn int64   `json:"sampled_one_in"`
	Server       State   `json:"server"`
	Total        Counts  `json:"total"`
	Lists

	Error *string `json:"error"`
}

// readAnswer reads what the admin command top has answered.
func readAnswer(body []byte) (*Answer, error) {
	a := &Answer{}
	if err := json.Unmarshal(body, a); err != nil {
		return nil, err
	}
	return a, nil
}
