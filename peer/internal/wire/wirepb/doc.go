// Package wirepb is the generated form of wire.proto. Only package wire uses
// it: what it decodes is not checked yet.
package wirepb
