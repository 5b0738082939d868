package tree

// SameFile reports whether two inodes, of whatever states, are alike in type,
// contents and permissions. Times are not compared.
func SameFile(src *Source, a, b *Inode) (bool, error) {
	w, err := compare(src, a, b)
	return w&^(Mtime|Links) == 0, err
}
