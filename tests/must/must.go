// Package must ends a test at an error that it does not expect.
//
// Imported by: tests.
package must

// OK fails the test at once if err is not nil.
func OK(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
