// Package page serves the timeline as a web page, for one user alone.
//
// The package is a client of the daemon's HTTP API. It passes requests of the page below /api to the store's
// socket unchanged. It decides itself whether a file is a text or an image (file.go). Its only state is the
// session.
//
// # Protection
//
// The process runs as the user, who may also use the socket. page.go protects the page from:
//
//   - other users of the machine: the printed address has a token of 256 bits in its fragment. The page
//     exchanges the token, once, for a key, and sends the key in a header of every request. It uses no
//     cookie, because a browser sends cookies to every port of a host;
//   - other sites in the same browser: they cannot send the header, http.CrossOriginProtection refuses
//     their requests, and no GET changes anything;
//   - names that an attacker points at 127.0.0.1 (DNS rebinding): the Host header must be the random
//     name of this page;
//   - the contents of files: they are never served as HTML. Text is sent as JSON and shown as text, the
//     type of an image is detected from its first bytes, and the content security policy allows only the
//     scripts of the page.
//
// Without Options.Writable the page has no buttons, and the server refuses every request that could change
// something.
package page
