package target

import "context"

// FetchWithout is Fetch without its pauses.
func FetchWithout(ctx context.Context, try func(ctx context.Context, attempt int) error) error {
	return fetch(ctx, 0, try)
}
