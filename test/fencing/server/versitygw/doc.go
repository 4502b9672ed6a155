// Package versitygw is the module of versitygw, a store of S3's protocol over a directory, as its makers build it. It
// has no code.
package versitygw
