package shell

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"zkd/jute"
	"zkd/jute/client/session"
	"zkd/jute/client/subtree"
)

func itoa(n int) string { return strconv.Itoa(n) }

// ttlMax is EphemeralType.TTL.maxValue, in milliseconds.
const ttlMax = 1<<40 - 1

// createMode is what the options of create ask for.
func (c *call) createMode() (mode jute.CreateMode, ttl time.Duration, err error) {
	e, s, container, t := c.has("e"), c.has("s"), c.has("c"), c.has("t")
	if container && (e || s) {
		return 0, 0, failed("-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.")
	}
	var millis int64
	if t {
		if millis, err = strconv.ParseInt(c.values["t"], 10, 64); err != nil {
			return 0, 0, failed("-t argument must be a long value")
		}
	}
	switch {
	case t && e:
		return 0, 0, failed("TTLs cannot be used with Ephemeral znodes")
	case t && container:
		return 0, 0, failed("TTLs cannot be used with Container znodes")
	case t && (millis <= 0 || millis > ttlMax):
		return 0, 0, failed("ttl must be positive and cannot be larger than: %d", ttlMax)
	}
	switch {
	case e && s:
		mode = jute.ModeEphemeralSequential
	case e:
		mode = jute.ModeEphemeral
	case s && t:
		mode = jute.ModePersistentSequentialTTL
	case s:
		mode = jute.ModePersistentSequential
	case container:
		mode = jute.ModeContainer
	case t:
		mode = jute.ModePersistentTTL
	}
	return mode, time.Duration(millis) * time.Millisecond, nil
}

func runCreate(c *call) error {
	mode, ttl, err := c.createMode()
	if err != nil {
		return err
	}
	path, node := c.args[1], session.NewNode{ACL: session.World(), Mode: mode, TTL: ttl}
	if len(c.args) > 2 {
		node.Data = []byte(c.args[2])
	}
	if len(c.args) > 3 {
		node.ACL = c.parseACL(c.args[3])
	}
	checked := path
	if mode.Sequential() {
		checked += "1" // the number, which a path may need to be one
	}
	if err := checkPath(checked); err != nil {
		return err
	}
	created, err := "", error(&session.Error{Code: jute.InvalidACL})
	if len(node.ACL) > 0 {
		created, err = c.session.Create(c.ctx, path, node)
	}
	switch code := session.CodeOf(err); code {
	case jute.EphemeralOnLocalSession:
		c.err.print("Unable to create ephemeral node on a local session\n")
	case jute.InvalidACL:
		asked := path
		if len(node.ACL) == 0 {
			asked = ""
		}
		c.err.print(keeperMessage(code, asked) + "\n")
	}
	if err != nil {
		return answered(err, "null")
	}
	if c.o.JSON {
		return c.emit(map[string]string{"path": created}, nil)
	}
	c.err.print("Created " + c.name(created) + "\n")
	return nil
}

// parseACL is AclParser.parse: what it cannot read it passes over, with a line on stderr.
func (c *call) parseACL(text string) []jute.ACL {
	var acl []jute.ACL
	for each := range strings.SplitSeq(text, ",") {
		first, last := strings.IndexByte(each, ':'), strings.LastIndexByte(each, ':')
		if first == last {
			c.err.print(c.name(each) + " does not have the form scheme:id:perm\n")
			continue
		}
		var perms jute.Perms
		for _, letter := range each[last+1:] {
			if subtree.PermsOf[letter] == 0 {
				c.err.print("Unknown perm type: " + c.name(string(letter)) + "\n")
			}
			perms |= subtree.PermsOf[letter]
		}
		acl = append(acl, jute.ACL{Perms: perms, ID: jute.ID{Scheme: each[:first], ID: each[first+1 : last]}})
	}
	return acl
}

func runSet(c *call) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	data := []byte(c.args[2])
	if c.has("b") {
		if data, err = base64.StdEncoding.DecodeString(c.args[2]); err != nil {
			return failed("-b wants data in base64: %v", err) // zkCli ends with a stack trace
		}
	}
	version, err := c.number("v", int64(jute.AnyVersion), 32)
	if err != nil {
		return err
	}
	stat, err := c.session.Set(c.ctx, path, data, jute.Version(version))
	if err != nil {
		return answered(err, "null")
	}
	return c.emit(nodeJSON{Path: path, Stat: newStatJSON(stat)}, func() { c.stats(stat) })
}

func runDelete(c *call) error {
	if len(c.args) > 2 {
		c.err.print("'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead.\n")
	}
	path, err := c.path()
	if err != nil {
		return err
	}
	version, err := c.number("v", int64(jute.AnyVersion), 32)
	if err != nil {
		return err
	}
	return answered(c.session.Delete(c.ctx, path, jute.Version(version)), "null")
}

// deleteBatch is how many znodes zkCli deletes in one multi.
const deleteBatch = 1000

func runDeleteAll(c *call) error {
	batch := deleteBatch
	if text, given := c.values["b"]; given {
		var err error
		if batch, err = strconv.Atoi(text); err != nil {
			return failed("-b argument must be an int value")
		}
	}
	path, err := c.path()
	if err != nil {
		return err
	}
	tree, err := c.breadthFirst(path)
	if err != nil {
		return answered(err, "null")
	}
	if batch <= 0 {
		for i := len(tree) - 1; i >= 0; i-- {
			if err := c.session.Delete(c.ctx, tree[i], jute.AnyVersion); err != nil {
				return answered(err, "null")
			}
		}
		return nil
	}
	for end := len(tree); end > 0; end = max(end-batch, 0) {
		var ops []session.Op
		for i := end - 1; i >= max(end-batch, 0); i-- {
			ops = append(ops, session.DeleteOp(tree[i], jute.AnyVersion))
		}
		if err := c.session.Multi(c.ctx, ops); err != nil {
			if session.CodeOf(err) == jute.OK {
				return err
			}
			c.err.print("Failed to delete some node(s) in the subtree!\n")
			return nil
		}
	}
	return nil
}

// breadthFirst is ZKUtil.listSubTreeBFS.
func (c *call) breadthFirst(path string) ([]string, error) {
	tree := []string{path}
	for i := 0; i < len(tree); i++ {
		children, _, err := c.session.Children(c.ctx, tree[i], false)
		if err != nil {
			return nil, err
		}
		for _, child := range children {
			tree = append(tree, jute.ChildPath(tree[i], child))
		}
	}
	return tree, nil
}

func runSetACL(c *call) error {
	path := c.args[1]
	acl := c.parseACL(c.args[2])
	version, err := c.number("v", int64(jute.AnyVersion), 32)
	if err != nil {
		return err
	}
	if err := checkPath(path); err != nil {
		return err
	}
	set := func(path string) (jute.Stat, error) {
		if len(acl) == 0 {
			return jute.Stat{}, &session.Error{Code: jute.InvalidACL}
		}
		return c.session.SetACL(c.ctx, path, acl, jute.Version(version))
	}
	if !c.has("R") {
		stat, err := set(path)
		if err != nil {
			return answered(err, "null")
		}
		return c.emit(nodeJSON{Path: path, Stat: newStatJSON(stat)}, func() { c.stats(stat) })
	}
	each := func(path string) error {
		_, err := set(path)
		if code := session.CodeOf(err); code != jute.OK {
			if len(acl) == 0 {
				path = ""
			}
			c.out.print(keeperMessage(code, c.name(path)))
			return nil
		}
		return err
	}
	if _, _, err := c.session.Get(c.ctx, path, false); err != nil {
		return answered(err, "null")
	}
	if err := each(path); err != nil {
		return err
	}
	return answered(c.visit(path, false, each), "null")
}
