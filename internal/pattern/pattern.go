// Package pattern has regular expressions that are compiled when they are first used:
// most commands use none of them.
package pattern

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
