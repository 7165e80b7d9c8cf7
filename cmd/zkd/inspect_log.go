package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"zkd/jute"
	"zkd/quorum"
	"zkd/storage/entry"
	"zkd/storage/inspect"
	"zkd/storage/raftlog"
)

// entryJSON is one entry of the raft log for scripts.
type entryJSON struct {
	Index     uint64         `json:"index"`
	Term      uint64         `json:"term"`
	Kind      string         `json:"kind"` // proposals or membership
	Bytes     int            `json:"bytes"`
	Proposals []proposalJSON `json:"proposals"`
}

// proposalJSON is one request in an entry.
type proposalJSON struct {
	Op         string          `json:"op"`
	Session    string          `json:"session"`
	Xid        int32           `json:"xid"`
	Time       time.Time       `json:"time"`
	Bytes      int             `json:"bytes"`
	Identities []string        `json:"identities,omitempty"`
	Reference  string          `json:"identities_reference,omitempty"`
	Operations []operationJSON `json:"operations"`
}

// operationJSON is what a request asks for.
type operationJSON struct {
	Op         string `json:"op"`
	Path       string `json:"path,omitempty"`
	DataBytes  int    `json:"data_bytes"`
	Unreadable bool   `json:"unreadable,omitempty"`
}

// newInspectLogCommand returns the command that lists log entries.
func newInspectLogCommand() *cobra.Command {
	var (
		f        inspectFlags
		from, to uint64
		limit    int
	)
	cmd := &cobra.Command{
		Use:   "log DIR",
		Short: "List the entries of the raft log: session, operation, path, sizes",
		Long: `List the entries of the raft log, decoded. An entry holds many requests. Without --from it begins so
far before the end that --limit entries are shown. Data is not shown, only its size; of identities the scheme and the
user are. Entries behind the committed one may never have taken effect.`,
		Args: required("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return usageError{errors.New("--limit is at least 1")}
			}
			entries := []entryJSON{}
			err := f.withLog(args[0], func(log *raftlog.LogInspection) (err error) {
				entries, err = readEntries(log, from, to, limit)
				return err
			})
			if err != nil {
				return err
			}
			return f.output.write(cmd.OutOrStdout(), entries, entriesText(entries))
		},
	}
	f.addTo(cmd)
	cmd.Flags().Uint64Var(&from, "from", 0, "the `index` of the first entry")
	cmd.Flags().Uint64Var(&to, "to", 0, "the `index` of the last entry (default: that of the log)")
	cmd.Flags().IntVar(&limit, "limit", 100, "how many entries to show at most")
	return cmd
}

// readEntries reads and decodes entries.
func readEntries(log *raftlog.LogInspection, from, to uint64, limit int) ([]entryJSON, error) {
	if to == 0 || to > log.LastIndex() {
		to = log.LastIndex()
	}
	if from == 0 && to >= uint64(limit) {
		from = to - uint64(limit) + 1
	}
	from = max(from, log.FirstIndex())
	shown := []entryJSON{}
	for from <= to && len(shown) < limit {
		entries, err := log.Entries(nil, from, to+1, 1<<20)
		if err != nil {
			return shown, err
		}
		for i := range entries {
			if len(shown) == limit {
				break
			}
			one, err := readEntry(&entries[i])
			if err != nil {
				return shown, fmt.Errorf("entry %d: %w", entries[i].Index, err)
			}
			shown = append(shown, one)
		}
		from += uint64(len(entries))
	}
	return shown, nil
}

// readEntry decodes one entry.
func readEntry(e *raftlog.LogEntry) (entryJSON, error) {
	shown := entryJSON{Index: e.Index, Term: e.Term, Kind: quorum.EntryKind(e.Kind), Bytes: len(e.Data),
		Proposals: []proposalJSON{}}
	data, err := quorum.EntryProposals(e.Kind, e.Data)
	if err != nil || len(data) == 0 {
		return shown, err
	}
	reader, err := entry.NewReader(data)
	if err != nil {
		return shown, err
	}
	var p entry.Proposal
	for reader.Next(&p) {
		one := proposalJSON{Op: opName(p.Op), Session: hexText(p.Session), Xid: int32(p.Xid),
			Time: time.UnixMilli(int64(p.Time)).UTC(), Bytes: len(p.Body), Operations: []operationJSON{}}
		one.identify(&p)
		for _, o := range inspect.Operations(&p) {
			one.Operations = append(one.Operations, operationJSON{opName(o.Op), o.Path, o.DataBytes, o.Unreadable})
		}
		shown.Proposals = append(shown.Proposals, one)
	}
	return shown, reader.Err()
}

// identify shows who the client is, without the digests of passwords. A list and the requests that refer to it have the
// same reference.
func (one *proposalJSON) identify(p *entry.Proposal) {
	ids, reference := p.Identities, p.Reference
	if list := entry.IdentityList(p.Body); p.Op == entry.OpSetIdentities {
		if set, err := list.Decode(); err == nil {
			ids, reference = set, list.Reference()
		}
	}
	for _, id := range ids {
		user, _, _ := strings.Cut(id.ID, ":")
		one.Identities = append(one.Identities, strings.Clone(id.Scheme+":"+user))
	}
	if reference != 0 {
		one.Reference = fmt.Sprintf("%016x", uint64(reference))
	}
}

// opName names an operation; those of zkd's own have no name in the protocol.
func opName(op jute.Op) string {
	switch op {
	case entry.OpReattachSession:
		return "reattachSession"
	case entry.OpFoundEnsemble:
		return "foundEnsemble"
	case entry.OpLoadBegin:
		return "restoreBegin"
	case entry.OpLoadChunk:
		return "restoreChunk"
	case entry.OpLoadCommit:
		return "restoreCommit"
	case entry.OpLoadAbort:
		return "restoreAbort"
	case entry.OpRaiseLevel:
		return "raiseLevel"
	case entry.OpCompareState:
		return "compareState"
	case entry.OpCountQuota:
		return "countQuota"
	case entry.OpSetIdentities:
		return "setIdentities"
	default:
		return op.String()
	}
}

// entriesText writes entries for people: a line for each operation.
func entriesText(entries []entryJSON) func(io.Writer) error {
	return func(w io.Writer) error {
		var b strings.Builder
		for i := range entries {
			e := &entries[i]
			fmt.Fprintf(&b, "entry %d, term %d, %s, %d bytes, %s\n", e.Index, e.Term, e.Kind, e.Bytes,
				plural(len(e.Proposals), "request"))
			for j := range e.Proposals {
				p := &e.Proposals[j]
				for k, o := range p.Operations {
					if k == 0 {
						fmt.Fprintf(&b, "  %s  %s  %s", p.Time.Format("2006-01-02T15:04:05.000Z"), p.Session, o.Op)
					} else {
						fmt.Fprintf(&b, "    %s", o.Op)
					}
					if o.Path != "" {
						fmt.Fprintf(&b, "  %q  %d bytes", o.Path, o.DataBytes)
					}
					if o.Unreadable {
						b.WriteString("  unreadable")
					}
					b.WriteByte('\n')
				}
			}
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
}
