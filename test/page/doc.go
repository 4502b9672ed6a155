// Package page tries the laboratory's page in a real browser, Debian's Chromium. It has tests only.
//
// Each test has a browser of its own, with a server of its own in this process. The browser has that server as its proxy
// for every address, so that nothing reaches a network, and whatever the page asks for is seen. A browser that hangs
// fails its test after a minute or so.
package page
