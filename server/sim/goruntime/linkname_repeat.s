//go:build zkd_repeat

// An assembly file lets Go take functions without a body.
