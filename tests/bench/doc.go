// Command bench measures amberfs beside the plain directory on the same disk
// and beside the peers that the machine has, and prints one table of medians
// and ratios.
//
//	make bench                          all rows
//	make bench ROWS=capture,untar       some
//	go run ./tests/bench -list          what there is
//
// Each repetition runs a row's work once in every place, one after the other,
// so that what else the machine does hits all alike. Figures are medians over
// the repetitions; a ratio is to the plain directory of the same run, or, for
// rows that a plain directory cannot do, to what people use today instead.
//
// -o FILE appends the rows as JSON lines with the commit, the kernel and the
// machine; results/ keeps those worth keeping.
package main
