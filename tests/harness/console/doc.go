// Package console runs the terminal sessions of the documentation and compares
// what they print with what the pages say.
//
// Imported by: tests.
//
// A page is Markdown. Its fenced blocks are run from top to bottom, in one bash:
//
//	```console     $ and a command line, > and its further lines, and then what
//	               it prints, with … for any text
//	```sh          command lines; what they print is not told
//
// A block whose first word after the language is `no-run` is left alone:
//
//	```sh no-run: a store on another machine
//
// What differs from run to run is compared by its form: see [Normal].
//
// A [Terminal] is a pseudo-terminal, and [Dialogue] what a person types in it.
package console
