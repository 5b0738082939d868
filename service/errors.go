package service

import "github.com/amberfs/amberfs/internal/fail"

// Explain gives an error of the packages below its kind.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	return fail.Of(err)
}
