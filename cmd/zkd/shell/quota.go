package shell

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"zkd/jute"
	"zkd/jute/client/session"
)

// Where quotas are (org.apache.zookeeper.Quotas).
const (
	procRoot   = "/zookeeper"
	quotaRoot  = "/zookeeper/quota"
	limitsNode = "zookeeper_limits"
	statsNode  = "zookeeper_stats"
)

// The keys of a StatsTrack.
const (
	trackCount, trackCountHard = "count", "countHardLimit"
	trackBytes, trackBytesHard = "bytes", "byteHardLimit"
)

// track is a StatsTrack: the limits of a quota, or what is used of it.
type track map[string]int64

// parseTrack reads one. zkCli ends with a stack trace on what is none.
func parseTrack(data []byte) (track, error) {
	t := track{}
	for _, pair := range strings.FieldsFunc(string(data), func(r rune) bool { return r == ',' || r == ';' }) {
		parts := strings.Split(pair, "=")
		if len(parts) < 2 {
			return nil, failed("the quota's znode holds %q, which is none", escaped(string(data), false))
		}
		n, err := strconv.ParseInt(parts[1], 10, 64)
		if parts[1] == "" {
			n, err = -1, nil
		}
		if err != nil {
			return nil, failed("the quota's znode holds %q, which is none", escaped(string(data), false))
		}
		t[parts[0]] = n
	}
	return t, nil
}

// get is -1 for a key that is not there.
func (t track) get(key string) int64 {
	if n, ok := t[key]; ok {
		return n
	}
	return -1
}

// String is StatsTrack.toString.
func (t track) String() string {
	text := fmt.Sprintf("count=%d,bytes=%d", t.get(trackCount), t.get(trackBytes))
	mark := "="
	for _, key := range slices.Sorted(maps.Keys(t)) {
		if key != trackCount && key != trackBytes {
			text += fmt.Sprintf("%s;%s=%d", mark, key, t[key])
			mark = ""
		}
	}
	return text
}

func (c *call) readTrack(path string) (track, error) {
	data, _, err := c.session.Get(c.ctx, path, false)
	if err != nil {
		return nil, err
	}
	return parseTrack(data)
}

func runListQuota(c *call) error {
	path := c.args[1]
	limits := quotaRoot + path + "/" + limitsNode
	c.err.print("absolute path is " + c.name(limits) + "\n")
	c.err.flush()
	if err := checkPath(limits); err != nil {
		return err
	}
	limit, err := c.readTrack(limits)
	var used track
	if err == nil {
		used, err = c.readTrack(quotaRoot + path + "/" + statsNode)
	}
	if session.CodeOf(err) == jute.NoNode {
		c.err.print("quota for " + c.name(path) + " does not exist.\n")
		return nil
	}
	if err != nil {
		return answered(err, "null")
	}
	return c.emit(map[string]any{"path": path, "limits": limit, "used": used}, func() {
		c.Shell.line("Output quota for " + c.name(path) + " " + limit.String())
		c.Shell.line("Output stat for " + c.name(path) + " " + used.String())
	})
}

// quotaOptions are the options of quotas and the keys that they set.
var quotaOptions = []struct {
	name, key string
	count     bool // of znodes, more than 0; else of bytes
}{{"n", trackCount, true}, {"b", trackBytes, false}, {"N", trackCountHard, true}, {"B", trackBytesHard, false}}

// askedQuota is what the options of setquota ask for; nil if that is wrong, which is told.
func (c *call) askedQuota() track {
	asked := track{trackCount: -1, trackBytes: -1, trackCountHard: -1, trackBytesHard: -1}
	for _, o := range quotaOptions {
		text, given := c.values[o.name]
		if !given {
			continue
		}
		bits := 64
		if o.count {
			bits = 32
		}
		n, err := strconv.ParseInt(text, 10, bits)
		problem := ""
		switch {
		case err != nil:
			problem = "NumberFormatException happens when parsing the option value"
		case o.count && n <= 0:
			problem = "the num quota must be greater than zero"
		case !o.count && n < 0:
			problem = "the bytes quota must be greater than or equal to zero"
		}
		if problem != "" {
			c.err.print(problem + "\n")
			return nil
		}
		asked[o.key] = n
	}
	return asked
}

func runSetQuota(c *call) error {
	path := c.args[1]
	if strings.HasPrefix(path, quotaRoot) {
		c.err.print("cannot set a quota under the path: " + quotaRoot + "\n")
		return nil
	}
	asked := c.askedQuota()
	if asked == nil {
		return nil
	}
	if err := checkPath(path); err != nil {
		return err
	}
	if _, err := c.session.Exists(c.ctx, path, false); session.CodeOf(err) == jute.NoNode {
		return failed("%s does not exist.", path)
	} else if err != nil {
		return answered(err, "null")
	}
	if err := c.noQuotaBelow(path); err != nil {
		return answered(err, "null")
	}
	if err := c.noQuotaAbove(path); err != nil {
		return answered(err, "null")
	}
	return answered(c.putQuota(path, asked), "null")
}

// noQuotaBelow is SetQuotaCommand.checkIfChildQuota.
func (c *call) noQuotaBelow(path string) error {
	root := quotaRoot + path
	if checkPath(root) != nil { // of the path "/"
		return checkPath(root)
	}
	look := func(below string) error {
		children, _, err := c.session.Children(c.ctx, below, false)
		if session.CodeOf(err) == jute.NoNode {
			return nil
		}
		if below != root && slices.Contains(children, limitsNode) {
			return failed("%s has a child %s which has a quota", path, strings.TrimPrefix(below, quotaRoot))
		}
		return err
	}
	if _, _, err := c.session.Get(c.ctx, root, false); session.CodeOf(err) == jute.NoNode {
		return nil
	} else if err != nil {
		return err
	}
	if err := look(root); err != nil {
		return err
	}
	return c.visit(root, false, look)
}

// noQuotaAbove is SetQuotaCommand.checkIfParentQuota.
func (c *call) noQuotaAbove(path string) error {
	names := strings.Split(path, "/")
	above := quotaRoot
	for _, name := range names[1:max(len(names)-1, 1)] {
		above += "/" + name
		children, _, err := c.session.Children(c.ctx, above, false)
		switch {
		case session.CodeOf(err) == jute.NoNode || err == nil && len(children) == 0:
			return nil
		case err != nil:
			return err
		case slices.Contains(children, limitsNode):
			return failed("%s has a parent %s which has a quota", path, strings.TrimPrefix(above, quotaRoot))
		}
	}
	return nil
}

// putQuota writes the limits, and what is above them.
func (c *call) putQuota(path string, asked track) error {
	make := func(path string, data []byte) error {
		_, err := c.session.Create(c.ctx, path, session.NewNode{Data: data, ACL: session.World()})
		return err
	}
	above := ""
	for name := range strings.SplitSeq(strings.TrimPrefix(quotaRoot+strings.TrimSuffix(path, "/"), "/"), "/") {
		above += "/" + name
		if _, err := c.session.Exists(c.ctx, above, false); session.CodeOf(err) != jute.NoNode {
			continue
		}
		if err := make(above, nil); err != nil && session.CodeOf(err) != jute.NodeExists {
			return err
		}
	}
	limits, stats := above+"/"+limitsNode, above+"/"+statsNode
	if _, err := c.session.Exists(c.ctx, limits, false); session.CodeOf(err) == jute.NoNode {
		if err := make(limits, []byte(asked.String())); err != nil {
			return err
		}
		if err := make(stats, []byte(track{trackCount: 0, trackBytes: 0}.String())); err != nil {
			return err
		}
		return c.warnOfUsed(limits, stats)
	}
	limit, err := c.readTrack(limits)
	if err != nil {
		return err
	}
	for key, n := range asked { // order: they are different keys
		if n > -1 {
			limit[key] = n
		}
	}
	used, err := c.readTrack(stats)
	if err != nil {
		return err
	}
	c.compareUsed(limit, used)
	_, err = c.session.Set(c.ctx, limits, []byte(limit.String()), jute.AnyVersion)
	return err
}

func (c *call) warnOfUsed(limits, stats string) error {
	limit, err := c.readTrack(limits)
	if err != nil {
		return err
	}
	used, err := c.readTrack(stats)
	if err == nil {
		c.compareUsed(limit, used)
	}
	return err
}

// compareUsed is SetQuotaCommand.checkQuota.
func (c *call) compareUsed(limit, used track) {
	below := func(key, hard, of string) bool {
		less := func(key string) bool { return limit.get(key) > -1 && limit.get(key) < used.get(of) }
		return less(key) || less(hard)
	}
	if below(trackCount, trackCountHard, trackCount) {
		c.Shell.line("[Warning]: the count quota you create is less than the existing count:" +
			strconv.FormatInt(used.get(trackCount), 10))
	}
	if below(trackBytes, trackBytesHard, trackBytes) {
		c.Shell.line("[Warning]: the bytes quota you create is less than the existing bytes:" +
			strconv.FormatInt(used.get(trackBytes), 10))
	}
}

func runDelQuota(c *call) error {
	path := c.args[1]
	above := quotaRoot + path
	limits := above + "/" + limitsNode
	if err := checkPath(limits); err != nil {
		return err
	}
	if _, err := c.session.Exists(c.ctx, limits, false); session.CodeOf(err) == jute.NoNode {
		c.Shell.line("Quota does not exist for " + c.name(path))
		return nil
	}
	err := c.dropQuota(above, limits)
	if session.CodeOf(err) == jute.NoNode {
		c.err.print("quota for " + c.name(path) + " does not exist.\n")
		return nil
	}
	return answered(err, "null")
}

// dropQuota takes the limits away that the options name, or the quota.
func (c *call) dropQuota(above, limits string) error {
	limit, err := c.readTrack(limits)
	if err != nil {
		return err
	}
	if len(c.values) > 0 {
		for _, o := range quotaOptions {
			if c.has(o.name) {
				limit[o.key] = -1
			}
		}
		_, err := c.session.Set(c.ctx, limits, []byte(limit.String()), jute.AnyVersion)
		return err
	}
	children, _, err := c.session.Children(c.ctx, above, false)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := c.session.Delete(c.ctx, above+"/"+child, jute.AnyVersion); err != nil {
			return err
		}
	}
	return c.trimQuotas(c.ctx, above)
}

// trimQuotas deletes what is empty above a quota that was taken away.
func (c *call) trimQuotas(ctx context.Context, path string) error {
	for path != quotaRoot {
		children, _, err := c.session.Children(ctx, path, false)
		if err != nil || len(children) > 0 {
			return err
		}
		if err := c.session.Delete(ctx, path, jute.AnyVersion); err != nil {
			return err
		}
		path = jute.ParentPath(path)
	}
	return nil
}
