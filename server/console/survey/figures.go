package survey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"zkd/jute/client"
)

// Figures are what mntr says, by its names without zk_.
type Figures map[string]string

// Int is a figure as a whole number.
func (f Figures) Int(name string) (int64, bool) {
	n, err := strconv.ParseInt(f[name], 10, 64)
	return n, err == nil
}

// Float is a figure as a number.
func (f Figures) Float(name string) (float64, bool) {
	n, err := strconv.ParseFloat(f[name], 64)
	return n, err == nil
}

// Keyed are the figures of a set, which have the key before the name, by key.
func (f Figures) Keyed(name string) map[string]float64 {
	found := map[string]float64{}
	for figure, text := range f { // any order
		if key, ok := strings.CutSuffix(figure, "_"+name); ok {
			if n, err := strconv.ParseFloat(text, 64); err == nil {
				found[key] = n
			}
		}
	}
	return found
}

// Errors of servers that are asked.
var (
	errNotListed = errors.New("not on the whitelist")
	errNoAnswer  = errors.New("it closed the connection without an answer: it is full, starting, or wants TLS")
	// errNotServing: this line is what the servers say.
	errNotServing = errors.New("it is up, but does not serve: it has no leader, or is not a member")
)

// Word asks for a four-letter word, and says in words what is wrong.
func Word(ctx context.Context, dial client.DialFunc, addr, name string) (string, error) {
	answer, err := client.Ask(ctx, dial, addr, name)
	switch {
	case err != nil && answer == "":
		return "", plain(err)
	case strings.Contains(answer, name+" is not executed because it is not in the whitelist"):
		return "", errNotListed
	case strings.HasPrefix(answer, "This ZooKeeper instance is not currently serving requests"):
		if _, why, ok := strings.Cut(strings.TrimSpace(answer), "\n"); ok {
			return "", fmt.Errorf("%w; %s", errNotServing, why)
		}
		return "", errNotServing
	case answer == "":
		return "", errNoAnswer
	}
	return answer, nil
}

// plain words the usual failures of a connection in a few words.
func plain(err error) error {
	var timeout net.Error
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("no answer")
	case errors.As(err, &op) && op.Err != nil:
		return op.Err
	}
	return err
}

// Asker asks servers for their figures. Dial is needed.
type Asker struct {
	Dial client.DialFunc
	// AdminPort is where the servers have their admin servers, and AdminURL the path of the commands; 0: not known.
	AdminPort int
	AdminURL  string
}

// Figures asks a server: for mntr, at its admin server if that is not allowed, and for srvr if there is none. limited
// says that it was the last.
func (a *Asker) Figures(ctx context.Context, addr string) (f Figures, limited bool, err error) {
	text, err := Word(ctx, a.Dial, addr, "mntr")
	if err == nil {
		return parseMntr(text), false, nil
	}
	if !errors.Is(err, errNotListed) {
		return nil, false, err
	}
	if a.AdminPort != 0 {
		if f, err := a.monitor(ctx, addr); err == nil {
			return f, false, nil
		}
	}
	if text, err = Word(ctx, a.Dial, addr, "srvr"); err != nil {
		return nil, false, err
	}
	return parseSrvr(text), true, nil
}

// parseMntr reads lines "zk_name	value".
func parseMntr(text string) Figures {
	f := Figures{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			f[strings.TrimPrefix(name, "zk_")] = value
		}
	}
	return f
}

// srvrNames are mntr's names for what srvr says.
var srvrNames = map[string]string{
	"Zookeeper version": "version", "Received": "packets_received", "Sent": "packets_sent",
	"Connections": "num_alive_connections", "Outstanding": "outstanding_requests", "Node count": "znode_count",
	"Mode": "server_state",
}

// parseSrvr reads what srvr says (org.apache.zookeeper.server.command.StatCommand).
func parseSrvr(text string) Figures {
	f := Figures{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if name := srvrNames[key]; name != "" {
			f[name] = value
		}
		switch key {
		case "Latency min/avg/max":
			if parts := strings.Split(value, "/"); len(parts) == 3 {
				f["min_latency"], f["avg_latency"], f["max_latency"] = parts[0], parts[1], parts[2]
			}
		case "Zxid":
			if zxid, err := strconv.ParseInt(value, 0, 64); err == nil {
				f[zxidFigure] = strconv.FormatInt(zxid, 10)
			}
		}
	}
	return f
}

// zxidFigure is zkd's figure of its last zxid; others say it in srvr.
const zxidFigure = "zkd_zxid"

// answerMax bounds what an admin server is answered by; a guess.
const answerMax = 4 << 20

// monitor asks an admin server.
func (a *Asker) monitor(ctx context.Context, addr string) (Figures, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true} // one request: nothing is left open
	url := "http://" + net.JoinHostPort(host, strconv.Itoa(a.AdminPort)) + "/" + strings.Trim(a.AdminURL, "/") +
		"/monitor"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := (&http.Client{Transport: transport, CheckRedirect: noRedirect}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // read only
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return parseMonitor(io.LimitReader(response.Body, answerMax))
}

// parseMonitor reads the object that the command monitor answers.
func parseMonitor(r io.Reader) (Figures, error) {
	values := map[string]any{}
	d := json.NewDecoder(r)
	d.UseNumber()
	if err := d.Decode(&values); err != nil {
		return nil, err
	}
	if reason, _ := values["error"].(string); reason != "" {
		return nil, errors.New(reason)
	}
	f := Figures{}
	for name, value := range values { // any order
		switch value := value.(type) {
		case string:
			f[name] = value
		case json.Number:
			f[name] = value.String()
		}
	}
	if len(f) == 0 || f["server_state"] == "" {
		return nil, errors.New("no figures")
	}
	return f, nil
}

// NotServing is the error of a server that is up and does not serve; why may be "".
func NotServing(why string) error {
	if why == "" {
		return errNotServing
	}
	return fmt.Errorf("%w; %s", errNotServing, why)
}
