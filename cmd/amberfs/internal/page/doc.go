// Package page serves the timeline as a web page, for one user alone.
//
// It is a client of the daemon's HTTP API and nothing more: what the page asks
// below /api goes to the store's socket as it is. Which bytes are a text, and which an
// image, is decided here (file.go). There is no state but the session.
//
// # Who may use it
//
// The process runs as the user, who could use the socket as well. Other users are kept
// out (page.go):
//
//   - another user of the machine, by the session: the address that is printed
//     has a token of 256 bits in its fragment, which the page exchanges, once,
//     for a key that it sends in a header of every request. There is no cookie:
//     a browser sends cookies to every port of a host;
//   - another site in the same browser, as it cannot send that header, by
//     http.CrossOriginProtection, and as no GET changes anything;
//   - a name that an attacker points at 127.0.0.1 (DNS rebinding), by the Host
//     header, which must be a loopback name;
//   - the contents of files, by never being served as HTML: text travels as JSON
//     and is shown as text, images have the type that their first bytes say, and
//     the content security policy allows scripts from here only.
//
// Without Options.Write the page has no buttons, and every request that could
// change something is refused.
package page
