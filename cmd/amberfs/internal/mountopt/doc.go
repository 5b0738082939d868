// Package mountopt reads what follows -o: amberfs's own options, and the words
// that mount(8) and fstab(5) pass to every file system. An unknown word is
// refused by name, so that a misspelt option never looks accepted.
package mountopt
