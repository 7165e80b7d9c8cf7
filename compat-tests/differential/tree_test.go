package differential_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"zkd/jute"
)

// end compares what the script left: it reads the tree under the script's root into the transcript, closes the
// sessions and removes the tree.
func (r *runner) end() error {
	if err := r.admin.within(answerWithin); err != nil {
		return err
	}
	var all []string
	for level := []string{r.enc.root}; len(level) > 0; {
		all = append(all, level...)
		next, err := r.readLevel(level)
		if err != nil {
			return err
		}
		level = next
	}
	r.closeSessions()
	slices.Reverse(all)
	var deletes []line
	for _, path := range all {
		deletes = append(deletes, line{verb: "delete", args: []string{quote(path)}})
	}
	deletes = append(deletes, line{verb: "close"})
	if err := r.send(r.admin, deletes); err != nil {
		return err
	}
	for _, answer := range r.receive(r.admin, "") {
		if !strings.Contains(answer, "err=ok") && !strings.Contains(answer, "err=noNode") {
			r.steps = append(r.steps, step{nil, []string{"clean up: " + answer}})
		}
	}
	return nil
}

// readLevel reads nodes into the transcript and returns the paths of their children.
func (r *runner) readLevel(paths []string) ([]string, error) {
	var lines []line
	for _, path := range paths {
		for _, verb := range []string{"getData", "getACL", "getChildren2"} {
			lines = append(lines, line{verb: verb, args: []string{quote(path)}})
		}
	}
	if err := r.send(r.admin, lines); err != nil {
		return nil, err
	}
	var children []string
	for i := range lines {
		payload, err := r.admin.read()
		if err != nil {
			return nil, err
		}
		text, header := r.render.frame(opOf(lines[i]), payload)
		r.steps = append(r.steps, step{lines[i : i+1], []string{text}})
		if lines[i].verb == "getChildren2" && header.Err == jute.OK {
			children = append(children, childrenOf(paths[i/3], payload)...)
		}
	}
	r.admin.owed = nil
	return children, nil
}

// childrenOf returns the paths that a reply to getChildren2 names, in order.
func childrenOf(parent string, payload []byte) []string {
	f := &fields{rest: payload[16:]}
	var paths []string
	for range f.count() {
		name := f.take(int(f.int()))
		paths = append(paths, parent+"/"+string(name))
	}
	slices.Sort(paths)
	return paths
}

// closeSessions closes every session of the script, attaching to those whose connection is gone.
func (r *runner) closeSessions() {
	for _, c := range r.conns { // the order does not matter: nothing of this is compared
		if c.id == 0 {
			continue
		}
		if c.gone {
			again, err := dial(r.addr, answerWithin)
			if err != nil {
				continue
			}
			req := connectRequest{timeout: 30000, session: c.id, passwd: c.passwd, readOnly: "0"}
			if _, err = again.tcp.Write(req.frame()); err == nil {
				_, err = again.read()
			}
			if err != nil {
				again.close()
				continue
			}
			c = again
		}
		_ = c.within(answerWithin) // fails only where the read fails
		c.owed = nil
		if err := r.send(c, []line{{verb: "close"}}); err == nil {
			r.receive(c, "")
		}
		c.close()
	}
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
