package target

import "context"

// FetchWithout is Fetch without its pauses.
func FetchWithout(ctx context.Context, try func(ctx context.Context, attempt int) error) error {
	return fetch(ctx, 0, try)
}

// Unusable says why a tool cannot be used, "" if it can.
func Unusable(t Tool) string { return t.unusable() }
