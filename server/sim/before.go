package sim

import (
	"context"
	"log/slog"

	"zkd/server/instance"
)

// before is the life of a process of the version before, in a program that is built with its sources, too; nil in
// another one.
var before func(ctx context.Context, w instance.World, logger *slog.Logger) error

// HasBefore tells whether servers can be of the version before.
func HasBefore() bool { return before != nil }

// Install has the server be of the version before from its next start on, or of the present one.
func (s *Server) Install(older bool) {
	s.tell("gets the version before: %v", older)
	s.older = older
}

// Older tells whether the server is of the version before, if it runs, or will be.
func (s *Server) Older() bool { return s.older }
