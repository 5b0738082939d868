// Package takeover has a mount's part of the takeover from a daemon that died: what the kernel was given,
// which requests it sends again, and which notices it may lack.
package takeover
