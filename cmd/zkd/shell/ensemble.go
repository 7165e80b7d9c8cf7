package shell

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"zkd/conf"
	"zkd/jute"
	"zkd/jute/client/session"
)

func runConfig(c *call) error {
	data, stat, err := c.session.Config(c.ctx, c.has("w"))
	if err != nil {
		return answered(err, "null")
	}
	if data == nil {
		data = []byte("null")
	}
	text := javaText(data)
	return c.emit(map[string]any{"config": text, "clients": clientsOf(text), "stat": newStatJSON(stat)}, func() {
		if c.has("c") {
			c.Shell.line(c.shown(clientsOf(text)))
		} else {
			c.Shell.line(c.shown(text))
		}
		c.stats(stat)
	})
}

// clientsOf is ConfigUtils.getClientConfigStr, with the servers in the order of their numbers: Java's is that of a hash
// table.
func clientsOf(config string) string {
	version, servers := "", []conf.Property{}
	found, _ := conf.ParseProperties([]byte(config)) // what cannot be read names no server
	for _, p := range found {
		if p.Key == "version" {
			version = p.Value
		}
		if strings.HasPrefix(p.Key, "server.") {
			servers = append(servers, p)
		}
	}
	number := func(p conf.Property) int64 {
		n, _ := strconv.ParseInt(strings.TrimPrefix(p.Key, "server."), 10, 64) // others first
		return n
	}
	sort.SliceStable(servers, func(i, j int) bool { return number(servers[i]) < number(servers[j]) })
	var addresses []string
	for _, p := range servers {
		_, client, ok := strings.Cut(p.Value, ";")
		client, _, _ = strings.Cut(strings.TrimSpace(client), "|")
		if ok && !strings.Contains(client, ":") {
			client = "0.0.0.0:" + client
		}
		addresses = append(addresses, client)
	}
	return version + " " + strings.Join(addresses, ",")
}

func runReconfig(c *call) error {
	has := c.has
	if !has("file") && !has("members") && !has("add") && !has("remove") {
		return c.command.usageError()
	}
	version := int64(-1)
	if text, given := c.values["v"]; given {
		var err error
		if version, err = strconv.ParseInt(text, 16, 64); err != nil {
			return failed("-v must be followed by a long (configuration version)")
		}
	}
	if (has("file") || has("members")) && (has("add") || has("remove")) {
		return failed("Can't use -file or -members together with -add or -remove (mixing incremental and " +
			"non-incremental modes is not allowed)")
	}
	if has("file") && has("members") {
		return failed("Can't use -file and -members together (conflicting non-incremental modes)")
	}
	members := strings.ToLower(c.values["members"])
	if has("file") {
		var err error
		if members, err = membersOf(c.values["file"]); err != nil {
			return failed("Error processing %s%v", c.values["file"], err)
		}
	}
	config, stat, err := c.session.Reconfig(c.ctx, strings.ToLower(c.values["add"]),
		strings.ToLower(c.values["remove"]), members, version)
	if err != nil {
		return answered(err, "")
	}
	return c.emit(map[string]any{"config": javaText(config), "stat": newStatJSON(stat)}, func() {
		c.Shell.line("Committed new configuration:\n" + c.shown(javaText(config)))
		c.stats(stat)
	})
}

// membersOf reads the members of a file; the server looks at them closely.
func membersOf(name string) (string, error) {
	text, err := os.ReadFile(name) //nolint:gosec // the user names it
	if why := (*fs.PathError)(nil); errors.As(err, &why) {
		reason := why.Err.Error()
		return "", errors.New(name + " (" + strings.ToUpper(reason[:1]) + reason[1:] + ")")
	}
	if err != nil {
		return "", err
	}
	found, err := conf.ParseProperties(text)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, p := range found {
		key, value := strings.TrimSpace(p.Key), strings.TrimSpace(p.Value)
		known := strings.HasPrefix(key, "server.") || strings.HasPrefix(key, "group") ||
			strings.HasPrefix(key, "weight") || key == "version"
		if !known {
			return "", errors.New("Unrecognised parameter: " + key) //nolint:revive,staticcheck // as ZooKeeper says it
		}
		lines = append(lines, key+"="+value)
	}
	return strings.Join(lines, "\n"), nil
}

// syncWithin is SyncCommand.SYNC_TIMEOUT.
const syncWithin = 30 * time.Second

func runSync(c *call) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ctx, syncWithin)
	defer cancel()
	err = c.session.Sync(ctx, path)
	code := session.CodeOf(err)
	if err != nil && code == jute.OK {
		return err
	}
	return c.emit(map[string]any{"path": path, "ok": err == nil}, func() {
		if err == nil {
			c.Shell.line("Sync is OK")
		} else {
			c.Shell.line("Sync has failed. rc=" + itoa(int(code)))
		}
	})
}

func runAddWatch(c *call) error {
	if len(c.args) != 2 {
		return c.command.usageError()
	}
	mode := jute.WatchPersistentRecursive
	if text, given := c.values["m"]; given {
		switch strings.ToUpper(text) {
		case "PERSISTENT":
			mode = jute.WatchPersistent
		case "PERSISTENT_RECURSIVE":
		default:
			return c.command.usageError()
		}
	}
	path, err := c.path()
	if err != nil {
		return err
	}
	return answered(c.session.AddWatch(c.ctx, path, mode), "null")
}

func runRemoveWatches(c *call) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	kind := jute.WatcherAny
	for _, o := range []struct {
		name string
		kind jute.WatcherType
	}{{"c", jute.WatcherChildren}, {"d", jute.WatcherData}, {"p", jute.WatcherPersistent},
		{"r", jute.WatcherPersistentRecursive}} {
		if c.has(o.name) {
			kind = o.kind
			break
		}
	}
	return answered(c.session.RemoveWatches(c.ctx, path, kind, c.has("l")), "null")
}
