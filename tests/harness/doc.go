// Package harness runs amberfs the way its users do: a real binary, a real
// mount, a daemon in a process of its own. The whole-program tests are built
// on it.
//
// Imported by: tests.
//
// The binary is the one that the environment variable AMBERFS_TEST_BIN names,
// or else it is built once per test process; AMBERFS_TEST_RACE=1 builds it
// with the race detector. A test package calls [Run] from its TestMain, which
// builds the binary and, when the tests are over, fails them if a mount or a
// daemon is left.
//
//	func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }
//
//	func TestSomething(t *testing.T) {
//		m := harness.New(t)                // a fresh store, mounted
//		os.WriteFile(m.Path("f"), …)
//		os.Mkdir(m.Path(".snapshots", "v1"), 0o755)
//		m.Kill()                           // kill -9
//		m.Start()                          // and mounted again
//	}
//
// Mounts end with their test on every path: passed, failed, panicked. The
// daemon's log is printed when the test failed, and a data race or a panic in
// it fails the test.
//
// Nothing here relies on how fast the machine is: what takes time is polled
// for, up to [Timeout].
package harness
